"""Running experiments: plan, load, embed, score, record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from isoweave._typing import FloatArray
from isoweave.datasets import DatasetMissingError
from isoweave.experiments._catalog import EXPERIMENTS
from isoweave.experiments._methods import METHODS, choose_methods, run_method, warm_up
from isoweave.experiments._records import Key, Records, fingerprint, versions
from isoweave.experiments._spec import FULL, DataHome, Experiment, Problem, Record, Request, Row, Scale
from isoweave.metrics import evaluate, global_stress, kendall, pearson, spearman


@dataclass(frozen=True, eq=False)
class Task:
    """One method on one problem."""

    experiment: Experiment
    row: Row
    seed: int
    method: str
    scale: Scale

    @property
    def key(self) -> Key:
        return self.experiment.name, self.row.name, self.seed, self.method, self.scale.name

    @property
    def label(self) -> str:
        return f"{self.experiment.name} {self.row.title}, seed {self.seed}, {self.method}"


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes
    ----------
    done, total : int
        Tasks.
    label : str
        What is running now; empty at the end.
    seconds_left : float or None
        From what tasks of the same kind took; None before the first one.
    """

    done: int
    total: int
    label: str
    seconds_left: float | None


def plan_tasks(
    names: Sequence[str], methods: Sequence[str] | None = None, scale: Scale = FULL
) -> tuple[list[Task], list[str]]:
    """Everything the named experiments consist of, and what cannot run because a package is missing.

    Parameters
    ----------
    names : sequence of str
        Experiments; "all" stands for every one.
    methods : sequence of str, optional
        In place of those each experiment runs by default.
    scale : Scale
    """
    unknown = [name for name in names if name not in EXPERIMENTS and name != "all"]
    if unknown:
        raise ValueError(f"unknown experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)} and all.")
    chosen = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    tasks, skipped = [], []
    for experiment in (EXPERIMENTS[name] for name in chosen):
        usable, missing = choose_methods(methods, experiment.methods)
        skipped += [f"{experiment.name}, {name}: {reason}" for name, reason in missing.items()]
        for row in experiment.rows_for(scale):
            allowed = [name for name in usable if row.methods is None or methods or name in row.methods]
            for number, seed in enumerate(experiment.seeds_for(row, scale)):
                tasks += [
                    Task(experiment, row, seed, name, scale)
                    for name in allowed
                    if (METHODS[name].n_seeds or number + 1) > number
                ]
    return tasks, skipped


def run_experiments(
    tasks: Sequence[Task],
    records: Records,
    *,
    data_home: DataHome = None,
    fetch: bool = False,
    maps_folder: Path | None = None,
    n_jobs: int = 1,
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
    n_jobs : int
        Threads of every method.
    progress : callable, optional
        Called before every task and at the end.

    Returns
    -------
    list of str
        What was skipped and why: data that are not there or cannot be read. A method that fails is recorded
        with its error.
    """
    clock = _Clock(tasks, records)
    report = progress or (lambda _: None)
    skipped: list[str] = []
    missing: set[tuple[str, str]] = set()
    warm: set[tuple[str, int]] = set()
    pending = [task for task in tasks if not records.is_done(task.key)]
    for (name, row_name, seed), group in groupby(pending, lambda t: (t.experiment.name, t.row.name, t.seed)):
        same = list(group)
        if (name, row_name) in missing:
            clock.drop(same)
            continue
        first = same[0]
        report(clock.now(f"{name} {first.row.title}, seed {seed}, loading"))
        try:
            problem = first.row.load(Request(seed, first.scale.n_samples, data_home, fetch))
        except (DatasetMissingError, ValueError, OSError) as error:
            said = "" if isinstance(error, DatasetMissingError) else "could not be loaded: "
            skipped.append(f"{name}, {first.row.title}: {said}{error}")
            missing.add((name, row_name))
            clock.drop(same)
            continue
        keep_map = maps_folder is not None and first.experiment.draw_maps and seed == first.row.seeds[0]
        for task in same:
            report(clock.now(task.label))
            kind = (task.method, problem.n_components)
            record, embedding = _run_task(task, problem, n_jobs, is_cold=kind not in warm)
            warm.add(kind)
            records.add(record)
            clock.finish(task, record)
            if keep_map and embedding is not None:
                assert maps_folder is not None
                _write_map(maps_folder, task, problem, embedding)
    report(clock.now(""))
    return skipped


def score(problem: Problem, embedding: FloatArray) -> dict[str, float]:
    """All metrics of :mod:`isoweave.metrics` that the problem allows."""
    scores = evaluate(
        problem.clean_graph or problem.graph,
        embedding,
        n_neighbors=problem.n_neighbors,
        labels=problem.labels,
        truth=problem.truth,
        parameters=problem.parameters,
        n_jobs=1,
    )
    if problem.distances is not None:
        measures = {
            "global_stress": global_stress,
            "pearson": pearson,
            "spearman": spearman,
            "kendall": kendall,
        }
        scores |= {name: measure(problem.distances, embedding) for name, measure in measures.items()}
    return scores


def _run_task(
    task: Task, problem: Problem, n_jobs: int, *, is_cold: bool
) -> tuple[Record, FloatArray | None]:
    record: Record = {
        "experiment": task.experiment.name,
        "row": task.row.name,
        "seed": task.seed,
        "method": task.method,
        "scale": task.scale.name,
        "n_vertices": problem.graph.n_vertices,
        "n_edges": problem.graph.n_edges,
        "n_neighbors": problem.n_neighbors,
        "n_components": problem.n_components,
        "note": problem.note,
        "error": None,
        "code": fingerprint(task.method),
        "versions": versions(),
    }
    try:
        if is_cold:
            warm_up(task.method, problem.n_components)
        done = run_method(
            task.method,
            problem.graph,
            problem.n_components,
            n_neighbors=problem.n_neighbors,
            seed=task.seed,
            n_jobs=n_jobs,
            paper_steps=task.scale.paper_steps,
        )
        scores = score(problem, done.embedding)
    # Whatever a method or the library behind it raises is its result here, not the end of a long run.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return {**record, "error": reason[:500], "scores": {}}, None
    record |= {
        "status": done.status,
        "steps": done.steps,
        "dropped_edges": done.dropped_edges,
        "seconds": done.seconds,
        "cpu_seconds": done.cpu_seconds,
        "n_jobs": n_jobs,
        "scores": {k: float(v) for k, v in scores.items() if k not in ("n_neighbors", "n_rows")},
    }
    return record, done.embedding


def map_path(folder: Path, key: Key) -> Path:
    """File of a map that is drawn."""
    experiment, row, _, method, scale = key
    return folder / f"{experiment}-{row}-{method}-{scale}.npz"


def _write_map(folder: Path, task: Task, problem: Problem, embedding: FloatArray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    color = np.zeros(len(embedding)) if problem.color is None else problem.color
    np.savez_compressed(map_path(folder, task.key), embedding=embedding.astype(np.float32), color=color)


class _Clock:
    """Time left, from what the same method took on the same row, or on any."""

    def __init__(self, tasks: Sequence[Task], records: Records) -> None:
        self._left = {task.key: task for task in tasks if not records.is_done(task.key)}
        self._total = len(tasks)
        self._seconds: dict[tuple[str, str, str], list[float]] = {}
        for record in records:
            self._note(record)

    def _note(self, record: Record) -> None:
        if record["error"] is None:
            kind = (record["experiment"], record["row"], record["method"])
            self._seconds.setdefault(kind, []).append(float(record["seconds"]))

    def finish(self, task: Task, record: Record) -> None:
        self._left.pop(task.key)
        self._note(record)

    def drop(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self._left.pop(task.key)

    def now(self, label: str) -> Progress:
        return Progress(self._total - len(self._left), self._total, label, self._forecast())

    def _forecast(self) -> float | None:
        if not self._seconds:
            return None
        by_method: dict[str, list[float]] = {}
        for (_, _, method), seconds in self._seconds.items():
            by_method.setdefault(method, []).extend(seconds)
        anything = float(np.mean([second for seconds in by_method.values() for second in seconds]))
        return sum(self._guess(task, by_method, anything) for task in self._left.values())

    def _guess(self, task: Task, by_method: dict[str, list[float]], anything: float) -> float:
        for found in self._known(task, by_method):
            if found:
                return float(np.mean(found))
        return anything

    def _known(self, task: Task, by_method: dict[str, list[float]]) -> Iterator[list[float]]:
        yield self._seconds.get((task.experiment.name, task.row.name, task.method), [])
        yield by_method.get(task.method, [])
