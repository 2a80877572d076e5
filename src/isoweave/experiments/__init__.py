"""The paper's experiments: a spec, its runs, records as JSON lines, tables, figures and a page."""

from isoweave.experiments._catalog import EXPERIMENTS
from isoweave.experiments._figures import draw_experiment, save_png
from isoweave.experiments._methods import METHODS, Method, choose_methods
from isoweave.experiments._page import write_page
from isoweave.experiments._records import Records, read_runs, runs_frame, versions, without_nan
from isoweave.experiments._run import RunProgress, Task, plan_tasks, run_experiments
from isoweave.experiments._spec import FULL, QUICK, DataProblem, Experiment, Request, Scale, Setting
from isoweave.experiments._tables import Comparison, compare, count_wins, summary_markdown, write_tables

__all__ = [
    "EXPERIMENTS",
    "FULL",
    "METHODS",
    "QUICK",
    "Comparison",
    "DataProblem",
    "Experiment",
    "Method",
    "Records",
    "Request",
    "RunProgress",
    "Scale",
    "Setting",
    "Task",
    "choose_methods",
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
