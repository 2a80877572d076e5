"""Running experiments: what is not recorded yet, several problems at a time."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

import numpy as np

from isoweave._files import atomic_write
from isoweave._parallel import resolve_n_jobs
from isoweave._typing import FloatArray
from isoweave.datasets import DatasetMissingError
from isoweave.experiments._catalog import EXPERIMENTS
from isoweave.experiments._methods import METHODS, choose_methods, run_method, warm_up
from isoweave.experiments._records import Key, Records, RunRecord, fingerprint, versions
from isoweave.experiments._spec import FULL, DataHome, DataProblem, Request, Scale, Setting
from isoweave.metrics import GeodesicRows, evaluate, geodesic_rows

# Methods and dimensions this process has compiled for.
_warm: set[tuple[str, int]] = set()


@dataclass(frozen=True)
class Task:
    """One method on one problem, by names that mean the same in every process."""

    experiment: str
    row: str
    seed: int
    method: str
    scale: Scale

    @property
    def key(self) -> Key:
        return self.experiment, self.row, self.seed, self.method, self.scale.name

    @property
    def setting(self) -> Setting:
        return next(row for row in EXPERIMENTS[self.experiment].rows if row.name == self.row)

    @property
    def problem_label(self) -> str:
        return f"{self.experiment} {self.setting.title}, seed {self.seed}"


# Tasks that are done, or the reason why none of the group can be.
_Outcome: TypeAlias = tuple[Sequence[Task], list[RunRecord] | str]


@dataclass(frozen=True)
class RunProgress:
    """How many tasks are done, what is running now (empty at the end), and how long the rest will take.

    The time is that of tasks of the same kind; None before the first one is done.
    """

    done: int
    total: int
    label: str
    seconds_left: float | None


@dataclass(frozen=True)
class DataSource:
    """Where problems come from and maps go to; see :func:`run_experiments`."""

    data_home: DataHome = None
    fetch: bool = False
    maps_folder: Path | None = None


class ProblemMissingError(Exception):
    """The problem of a group cannot be made; the text says why."""


def plan_tasks(
    names: Sequence[str], methods: Sequence[str] | None = None, scale: Scale = FULL
) -> tuple[list[Task], list[str]]:
    """Everything the named experiments ("all": every one) consist of, and what cannot run and why.

    Other methods than those an experiment runs by default can be asked for.
    """
    unknown = [name for name in names if name not in EXPERIMENTS and name != "all"]
    if unknown:
        raise ValueError(f"unknown experiment {unknown[0]!r}; choose from {', '.join(EXPERIMENTS)} and all.")
    chosen = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    tasks, skipped = [], []
    for experiment in (EXPERIMENTS[name] for name in chosen):
        usable, missing = choose_methods(methods, experiment.methods)
        skipped += [f"{experiment.name}, {name}: {reason}" for name, reason in missing.items()]
        for row in experiment.rows_for(scale):
            allowed = [name for name in usable if row.methods is None or methods or name in row.methods]
            for number, seed in enumerate(row.seeds[: scale.n_seeds]):
                tasks += [
                    Task(experiment.name, row.name, seed, name, scale)
                    for name in allowed
                    if number < row.fewer_seeds.get(name, METHODS[name].n_seeds or len(row.seeds))
                ]
    return tasks, skipped


def run_experiments(
    tasks: Sequence[Task],
    records: Records,
    *,
    data_home: DataHome = None,
    fetch: bool = False,
    maps_folder: Path | None = None,
    n_jobs: int | None = 1,
    progress: Callable[[RunProgress], None] | None = None,
) -> list[str]:
    """Run what is not recorded yet.

    Parameters
    ----------
    tasks : sequence of Task
        See :func:`plan_tasks`.
    records : Records
        Added to as runs finish, so that an interrupted run can be taken up again.
    data_home, fetch
        As in :func:`isoweave.datasets.load_mnist`.
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
    clock = _Clock(tasks, records, resolve_n_jobs(n_jobs))
    source = DataSource(data_home, fetch, maps_folder)
    pending = list(clock.left.values())
    groups = [list(found) for _, found in groupby(pending, lambda task: task.key[:3])]
    workers = min(clock.n_jobs, len(groups))

    def report(label: str) -> None:
        if progress is not None:
            progress(clock.now(label))

    outcomes = (
        _in_processes(groups, source, workers, report) if workers > 1 else _in_turn(groups, source, report)
    )
    reasons: dict[tuple[str, str], str] = {}
    for group, outcome in outcomes:
        for task in group:
            clock.left.pop(task.key)
        if isinstance(outcome, str):
            reasons.setdefault(group[0].key[:2], outcome)
            continue
        for record in outcome:
            records.add(record)
            clock.note(record)
    report("")
    return list(reasons.values())


class _Clock:
    """Tasks left, and their time, from what the same method took on the same row, or on any."""

    def __init__(self, tasks: Sequence[Task], records: Records, n_jobs: int) -> None:
        self.n_jobs = n_jobs
        self.left = {task.key: task for task in tasks if not records.is_done(task.key)}
        self._total = len(tasks)
        self._seconds: dict[tuple[str, ...], list[float]] = {}
        for record in records:
            self.note(record)

    def note(self, record: RunRecord) -> None:
        if record["error"] is None:
            for kind in self._kinds(record["experiment"], record["row"], record["method"]):
                self._seconds.setdefault(kind, []).append(record["seconds"])

    @staticmethod
    def _kinds(experiment: str, row: str, method: str) -> tuple[tuple[str, ...], ...]:
        """From the most to the least alike."""
        return (experiment, row, method), (method,), ()

    def now(self, label: str) -> RunProgress:
        means = {kind: float(np.mean(seconds)) for kind, seconds in self._seconds.items()}
        left = None
        if means:
            kinds = [self._kinds(task.experiment, task.row, task.method) for task in self.left.values()]
            left = sum(next(means[kind] for kind in alike if kind in means) for alike in kinds) / self.n_jobs
        return RunProgress(self._total - len(self.left), self._total, label, left)


def _in_turn(
    groups: Sequence[list[Task]], source: DataSource, report: Callable[[str], None]
) -> Iterator[_Outcome]:
    """In this process; every task is handed over as soon as it is done."""
    missing: dict[tuple[str, str], str] = {}
    for group in groups:
        row = group[0].key[:2]
        try:
            if row in missing:
                raise ProblemMissingError(missing[row])
            for task, record in _run_group(group, source, report):
                yield [task], [record]
        except ProblemMissingError as error:
            missing[row] = str(error)
            yield group, str(error)


def _in_processes(
    groups: Sequence[list[Task]], source: DataSource, workers: int, report: Callable[[str], None]
) -> Iterator[_Outcome]:
    """Each group in one of several processes, as they finish."""
    # A forked child of a process that has threads may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures: dict[Future[list[RunRecord] | str], list[Task]] = {
            pool.submit(_run_elsewhere, group, source): group for group in groups
        }
        report(f"{len(groups)} problems in {workers} processes")
        try:
            for future in as_completed(futures):
                group = futures[future]
                yield group, future.result()
                report(f"{group[0].problem_label} done")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_elsewhere(group: list[Task], source: DataSource) -> list[RunRecord] | str:
    """Worker: the records of a group, or why there are none."""
    try:
        return [record for _, record in _run_group(group, source, lambda _: None)]
    except ProblemMissingError as error:
        return str(error)


def _run_group(
    tasks: Sequence[Task], source: DataSource, report: Callable[[str], None]
) -> Iterator[tuple[Task, RunRecord]]:
    """Run tasks of one experiment, row and seed, each on one thread; ``report`` is told what is done next."""
    first = tasks[0]
    row = first.setting
    report(f"{first.problem_label}, loading")
    try:
        problem = row.load(Request(first.seed, first.scale.n_samples, source.data_home, source.fetch))
    except (DatasetMissingError, ValueError, OSError) as error:
        said = "" if isinstance(error, DatasetMissingError) else "could not be loaded: "
        raise ProblemMissingError(f"{first.experiment}, {row.title}: {said}{error}") from error
    is_drawn = EXPERIMENTS[first.experiment].draw_maps and first.seed == row.seeds[0]
    reference = reference_distances(problem)
    for task in tasks:
        report(f"{task.problem_label}, {task.method}")
        record, embedding = _run_task(task, problem, reference)
        if is_drawn and source.maps_folder is not None and embedding is not None:
            color = np.zeros(len(embedding)) if problem.color is None else problem.color
            source.maps_folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(map_path(source.maps_folder, *task.key)) as file:
                np.savez_compressed(file, embedding=embedding.astype(np.float32), color=color)
        yield task, record


def map_path(folder: Path, experiment: str, row: str, seed: int, method: str, scale: str) -> Path:
    """File of a map that is drawn: of the row's first seed."""
    return folder / f"{experiment}-{row}-{method}-{scale}.npz"


def reference_distances(problem: DataProblem) -> GeodesicRows | FloatArray:
    """What global scores are against: shortest paths, unless the problem brings true distances."""
    if problem.distances is not None:
        return problem.distances
    return geodesic_rows(problem.clean_graph or problem.graph)


def score(
    problem: DataProblem, embedding: FloatArray, reference: GeodesicRows | FloatArray
) -> dict[str, float]:
    """The metrics that tables and figures show.

    The reference is made once for all methods, and measures by rank that nothing shows are left out: together
    they took most of the time.
    """
    scores = evaluate(
        problem.clean_graph or problem.graph,
        embedding,
        n_neighbors=problem.n_neighbors,
        labels=problem.labels,
        truth=problem.truth,
        parameters=problem.parameters,
        geodesics=reference,
        ranks=False,
        n_jobs=1,
    )
    return {name: float(value) for name, value in scores.items() if name not in ("n_neighbors", "n_rows")}


def _run_task(
    task: Task, problem: DataProblem, reference: GeodesicRows | FloatArray
) -> tuple[RunRecord, FloatArray | None]:
    n, k = problem.n_components, problem.n_neighbors
    record: RunRecord = {
        "experiment": task.experiment,
        "row": task.row,
        "seed": task.seed,
        "method": task.method,
        "scale": task.scale.name,
        "n_vertices": problem.graph.n_vertices,
        "n_edges": problem.graph.n_edges,
        "n_neighbors": k,
        "n_components": n,
        "note": problem.note,
        "error": None,
        "code": fingerprint(task.method),
        "versions": versions(),
    }
    try:
        if (task.method, n) not in _warm:
            warm_up(task.method, n)
            _warm.add((task.method, n))
        steps = task.scale.paper_steps
        embedding, told = run_method(
            task.method, problem.graph, n, n_neighbors=k, seed=task.seed, paper_steps=steps
        )
        scores = score(problem, embedding, reference)
    # Whatever a method or the library behind it raises is its result here, not the end of a long run.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return {**record, "error": reason[:500], "scores": {}}, None
    return record | told | {"n_jobs": 1, "scores": scores}, embedding
