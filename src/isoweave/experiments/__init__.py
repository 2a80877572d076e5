"""The paper's experiments: a catalogue, its runs, records as JSON lines, tables, figures and a page."""

from isoweave.experiments._figures import (
    aligned as aligned,
    draw_experiment as draw_experiment,
    save_png as save_png,
)
from isoweave.experiments._problems import (
    EXPERIMENTS as EXPERIMENTS,
    FULL as FULL,
    METHODS as METHODS,
    QUICK as QUICK,
    Request as Request,
    Scale as Scale,
)
from isoweave.experiments._run import (
    Records as Records,
    plan_tasks as plan_tasks,
    read_runs as read_runs,
    run_experiments as run_experiments,
    runs_frame as runs_frame,
    versions as versions,
)
from isoweave.experiments._tables import (
    compare as compare,
    count_wins as count_wins,
    summary_markdown as summary_markdown,
    write_page as write_page,
    write_tables as write_tables,
)
