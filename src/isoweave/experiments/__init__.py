"""The paper's experiments: a catalogue, its runs, records as JSON lines, tables, figures and a page."""

from isoweave.experiments._figures import draw_experiment as draw_experiment
from isoweave.experiments._figures import save_png as save_png
from isoweave.experiments._problems import EXPERIMENTS as EXPERIMENTS
from isoweave.experiments._problems import FULL as FULL
from isoweave.experiments._problems import METHODS as METHODS
from isoweave.experiments._problems import QUICK as QUICK
from isoweave.experiments._problems import Request as Request
from isoweave.experiments._problems import Scale as Scale
from isoweave.experiments._run import Records as Records
from isoweave.experiments._run import RunProgress as RunProgress
from isoweave.experiments._run import plan_tasks as plan_tasks
from isoweave.experiments._run import read_runs as read_runs
from isoweave.experiments._run import run_experiments as run_experiments
from isoweave.experiments._run import runs_frame as runs_frame
from isoweave.experiments._run import versions as versions
from isoweave.experiments._run import without_nan as without_nan
from isoweave.experiments._tables import compare as compare
from isoweave.experiments._tables import count_wins as count_wins
from isoweave.experiments._tables import summary_markdown as summary_markdown
from isoweave.experiments._tables import write_page as write_page
from isoweave.experiments._tables import write_tables as write_tables
