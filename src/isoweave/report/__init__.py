"""One self-contained interactive page about a map; plotly and jinja2 are the extra ``report``."""

from isoweave.report._page import check_report, write_report

__all__ = ["check_report", "write_report"]
