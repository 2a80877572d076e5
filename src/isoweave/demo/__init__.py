"""A demonstration: two data sets, this package against scikit-learn's Isomap."""

from isoweave.demo._cases import DemoCase, DemoResult, compile_kernels, demo_cases, run_case
from isoweave.demo._page import COLUMNS, draw_case, table_rows, write_page

__all__ = [
    "COLUMNS",
    "DemoCase",
    "DemoResult",
    "compile_kernels",
    "demo_cases",
    "draw_case",
    "run_case",
    "table_rows",
    "write_page",
]
