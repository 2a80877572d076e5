"""Running experiments: what is not recorded yet, several problems at a time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from isoweave._parallel import resolve_n_jobs
from isoweave.experiments._catalog import EXPERIMENTS
from isoweave.experiments._clock import Clock, Progress
from isoweave.experiments._group import ProblemMissingError, Source, run_group
from isoweave.experiments._records import Records
from isoweave.experiments._spec import DataHome, Record, Scale
from isoweave.experiments._tasks import Task

# Tasks that are done, or the reason why none of the group can be.
_Outcome: TypeAlias = tuple[Sequence[Task], list[Record] | str]
# Experiment, row, seed, methods and scale: enough for another process to find the tasks.
_Address: TypeAlias = tuple[str, str, int, tuple[str, ...], Scale]


def run_experiments(
    tasks: Sequence[Task],
    records: Records,
    *,
    data_home: DataHome = None,
    fetch: bool = False,
    maps_folder: Path | None = None,
    n_jobs: int | None = 1,
    progress: Callable[[Progress], None] | None = None,
) -> list[str]:
    """Run what is not recorded yet.

    Parameters
    ----------
    tasks : sequence of Task
        See :func:`plan_tasks`.
    records : Records
        Added to as runs finish, so that an interrupted run can be taken up again.
    data_home : path, optional
        The data folder; the environment variable ``ISOWEAVE_DATA`` by default.
    fetch : bool
        Fetch images that are not there from OpenML, through scikit-learn.
    maps_folder : pathlib.Path, optional
        Where maps to be drawn are kept.
    n_jobs : int or None
        Problems solved at a time, each in a process of its own (1: in this one); None and -1 take all cores.
        Every method runs on one thread, so that processor times compare.
    progress : callable, optional
        Called before every task (with several processes, after every problem) and at the end.

    Returns
    -------
    list of str
        What was skipped and why: data that are not there or cannot be read. A method that fails is recorded
        with its error.
    """
    workers = resolve_n_jobs(n_jobs)
    clock = Clock(tasks, records, workers)
    report = progress or (lambda _: None)
    source = Source(data_home, fetch, maps_folder)
    pending = [task for task in tasks if not records.is_done(task.key)]
    groups = [
        list(found)
        for _, found in groupby(pending, lambda task: (task.experiment.name, task.row.name, task.seed))
    ]
    workers = min(workers, len(groups))
    outcomes = (
        _in_processes(groups, source, workers, lambda label: report(clock.now(label)))
        if workers > 1
        else _in_turn(groups, source, lambda label: report(clock.now(label)))
    )
    reasons: dict[tuple[str, str], str] = {}
    for group, outcome in outcomes:
        if isinstance(outcome, str):
            reasons.setdefault((group[0].experiment.name, group[0].row.name), outcome)
            clock.drop(group)
            continue
        for task, record in zip(group, outcome, strict=True):
            records.add(record)
            clock.finish(task, record)
    report(clock.now(""))
    return list(reasons.values())


def _in_turn(
    groups: Sequence[list[Task]], source: Source, report: Callable[[str], None]
) -> Iterator[_Outcome]:
    """In this process; every task is handed over as soon as it is done."""
    missing: dict[tuple[str, str], str] = {}
    for group in groups:
        row = (group[0].experiment.name, group[0].row.name)
        try:
            if row in missing:
                raise ProblemMissingError(missing[row])
            for task, record in run_group(group, source, report):
                yield [task], [record]
        except ProblemMissingError as error:
            missing[row] = str(error)
            yield group, str(error)


def _in_processes(
    groups: Sequence[list[Task]], source: Source, workers: int, report: Callable[[str], None]
) -> Iterator[_Outcome]:
    """Each group in one of several processes, as they finish."""
    # A forked child of a process that has threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures: dict[Future[list[Record] | str], list[Task]] = {
            pool.submit(_run_elsewhere, _address(group), source): group for group in groups
        }
        report(f"{len(groups)} problems in {workers} processes")
        try:
            for future in as_completed(futures):
                group = futures[future]
                yield group, future.result()
                report(f"{group[0].experiment.name} {group[0].row.title}, seed {group[0].seed} done")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _address(group: Sequence[Task]) -> _Address:
    first = group[0]
    if EXPERIMENTS.get(first.experiment.name) is not first.experiment:
        raise ValueError(f"experiment {first.experiment.name!r} is not in the catalogue: use n_jobs=1.")
    methods = tuple(task.method for task in group)
    return first.experiment.name, first.row.name, first.seed, methods, first.scale


def _run_elsewhere(address: _Address, source: Source) -> list[Record] | str:
    """Worker: the records of a group, or why there are none."""
    name, row_name, seed, methods, scale = address
    experiment = EXPERIMENTS[name]
    row = next(row for row in experiment.rows if row.name == row_name)
    group = [Task(experiment, row, seed, method, scale) for method in methods]
    try:
        return [record for _, record in run_group(group, source, lambda _: None)]
    except ProblemMissingError as error:
        return str(error)
