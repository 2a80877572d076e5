"""The paper's experiments: a spec, its runs, records as JSON lines, tables, figures and a page."""

from isoweave.experiments._catalog import EXPERIMENTS
from isoweave.experiments._clock import Progress
from isoweave.experiments._csv import add_csv
from isoweave.experiments._figures import draw_experiment
from isoweave.experiments._methods import METHODS, Method, choose_methods
from isoweave.experiments._page import write_page
from isoweave.experiments._records import Records
from isoweave.experiments._run import run_experiments
from isoweave.experiments._spec import FULL, QUICK, Experiment, Problem, Request, Row, Scale
from isoweave.experiments._summary import Comparison, compare, count_wins, summary_markdown
from isoweave.experiments._tables import write_tables
from isoweave.experiments._tasks import plan_tasks

__all__ = [
    "EXPERIMENTS",
    "FULL",
    "METHODS",
    "QUICK",
    "Comparison",
    "Experiment",
    "Method",
    "Problem",
    "Progress",
    "Records",
    "Request",
    "Row",
    "Scale",
    "add_csv",
    "choose_methods",
    "compare",
    "count_wins",
    "draw_experiment",
    "plan_tasks",
    "run_experiments",
    "summary_markdown",
    "write_page",
    "write_tables",
]
