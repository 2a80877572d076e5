"""One problem and the methods that solve it: load, embed, score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isoweave._files import atomic_write
from isoweave._typing import FloatArray
from isoweave.datasets import DatasetMissingError
from isoweave.experiments._methods import run_method, warm_up
from isoweave.experiments._records import Key, fingerprint, versions
from isoweave.experiments._spec import DataHome, Problem, Record, Request
from isoweave.experiments._tasks import Task
from isoweave.metrics import GeodesicRows, evaluate, geodesic_rows
from isoweave.metrics._inputs import as_geodesics

# Methods and dimensions this process has compiled for.
_warm: set[tuple[str, int]] = set()


class ProblemMissingError(Exception):
    """The problem of a group cannot be made; the text says why."""


@dataclass(frozen=True)
class Source:
    """Where problems come from and maps go to.

    Attributes
    ----------
    data_home : path or None
        The data folder; the environment variable ``ISOWEAVE_DATA`` by default.
    fetch : bool
        Fetch images that are not there from OpenML.
    maps_folder : pathlib.Path or None
        Where maps to be drawn are kept.
    """

    data_home: DataHome = None
    fetch: bool = False
    maps_folder: Path | None = None


def run_group(
    tasks: Sequence[Task], source: Source, report: Callable[[str], None]
) -> Iterator[tuple[Task, Record]]:
    """Run tasks of one experiment, row and seed, each on one thread.

    ``report`` is told what is done next. Raises ProblemMissingError where the data are not there or cannot
    be read; a method that fails is recorded with its error.
    """
    first = tasks[0]
    name = first.experiment.name
    report(f"{name} {first.row.title}, seed {first.seed}, loading")
    try:
        problem = first.row.load(Request(first.seed, first.scale.n_samples, source.data_home, source.fetch))
    except (DatasetMissingError, ValueError, OSError) as error:
        said = "" if isinstance(error, DatasetMissingError) else "could not be loaded: "
        raise ProblemMissingError(f"{name}, {first.row.title}: {said}{error}") from error
    folder = source.maps_folder if first.experiment.draw_maps and first.seed == first.row.seeds[0] else None
    reference = reference_distances(problem)
    for task in tasks:
        report(task.label)
        record, embedding = _run_task(task, problem, reference)
        if folder is not None and embedding is not None:
            _write_map(folder, task, problem, embedding)
        yield task, record


def reference_distances(problem: Problem) -> GeodesicRows:
    """What global scores are against: shortest paths, unless the problem brings true distances."""
    if problem.distances is not None:
        return as_geodesics(problem.distances)
    return geodesic_rows(problem.clean_graph or problem.graph)


def score(problem: Problem, embedding: FloatArray, reference: GeodesicRows) -> dict[str, float]:
    """The metrics that tables and figures show; the same values as :func:`isoweave.metrics.evaluate`.

    The reference, from :func:`reference_distances`, is made once for all methods, and measures by rank that
    nothing shows are left out: together they took most of the time.
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
    return {name: value for name, value in scores.items() if name not in ("n_neighbors", "n_rows")}


def _run_task(task: Task, problem: Problem, reference: GeodesicRows) -> tuple[Record, FloatArray | None]:
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
        kind = (task.method, problem.n_components)
        if kind not in _warm:
            warm_up(*kind)
            _warm.add(kind)
        done = run_method(
            task.method,
            problem.graph,
            problem.n_components,
            n_neighbors=problem.n_neighbors,
            seed=task.seed,
            n_jobs=1,
            paper_steps=task.scale.paper_steps,
        )
        scores = score(problem, done.embedding, reference)
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
        "n_jobs": 1,
        "scores": {name: float(value) for name, value in scores.items()},
    }
    return record, done.embedding


def map_path(folder: Path, key: Key) -> Path:
    """File of a map that is drawn."""
    experiment, row, _, method, scale = key
    return folder / f"{experiment}-{row}-{method}-{scale}.npz"


def _write_map(folder: Path, task: Task, problem: Problem, embedding: FloatArray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    color = np.zeros(len(embedding)) if problem.color is None else problem.color
    with atomic_write(map_path(folder, task.key)) as file:
        np.savez_compressed(file, embedding=embedding.astype(np.float32), color=color)
