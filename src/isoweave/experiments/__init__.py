"""The paper's experiments: a catalogue, its runs, records as JSON lines, tables, figures and a page."""

from isoweave.experiments._figures import draw_experiment, save_png
from isoweave.experiments._problems import EXPERIMENTS, FULL, METHODS, QUICK, Request, Scale
from isoweave.experiments._run import (
    Records,
    RunProgress,
    plan_tasks,
    read_runs,
    run_experiments,
    runs_frame,
    versions,
    without_nan,
)
from isoweave.experiments._tables import compare, count_wins, summary_markdown, write_page, write_tables

__all__ = [
    "EXPERIMENTS",
    "FULL",
    "METHODS",
    "QUICK",
    "Records",
    "Request",
    "RunProgress",
    "Scale",
    "compare",
    "count_wins",
    "draw_experiment",
    "plan_tasks",
    "read_runs",
    "run_experiments",
    "runs_frame",
    "save_png",
    "summary_markdown",
    "versions",
    "without_nan",
    "write_page",
    "write_tables",
]
