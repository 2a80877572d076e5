"""Running experiments: what is not recorded yet, several problems at a time; records as JSON lines."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import platform
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from functools import cache, lru_cache, partial
from importlib import metadata
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

import isoweave
from isoweave._files import append_text, atomic_write, write_arrays
from isoweave._parallel import resolve_n_jobs
from isoweave._typing import FloatArray
from isoweave.datasets import DatasetMissingError
from isoweave.embed import embed_graph
from isoweave.experiments import _problems as catalog
from isoweave.experiments._problems import EXPERIMENTS, METHODS, OPTIONS, DataProblem, Request, Scale
from isoweave.experiments.baselines import BASELINES, available_baselines, run_baseline
from isoweave.graph import NeighborGraph, knn_graph
from isoweave.metrics import evaluate

if TYPE_CHECKING:
    import pandas as pd

RunRecord: TypeAlias = dict[str, Any]

# What makes a run; the scale by its name.
KEYS = ("experiment", "row", "seed", "method", "scale")
# Columns of every frame and CSV file; metrics follow.
COLUMNS = (
    *(*KEYS, "n_vertices", "n_edges", "n_neighbors", "n_components"),
    *("status", "steps", "dropped_edges", "seconds", "cpu_seconds", "note", "error"),
)
_TEXTS = ("experiment", "row", "method", "scale", "status", "note", "error")
_WHOLE = ("seed", "n_vertices", "n_edges", "n_neighbors", "n_components", "steps", "dropped_edges")

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "umap-learn", "pymde")
# Rooms and files that every record depends on, and rooms that none does.
_DATA = {"metrics", "datasets", "graph", "engines"}
_PROBLEMS = {"_problems.py", "baselines.py"}
_OUTER = {"cli", "diagnostics", "experiments", "interop", "io", "persist", "place", "plot", "report"}


class Task(NamedTuple):
    """One method on one problem, by names that mean the same in every process."""

    experiment: str
    row: str
    seed: int
    method: str
    scale: Scale

    @property
    def key(self) -> tuple[Any, ...]:
        return *self[:4], self.scale.name

    @property
    def setting(self) -> catalog.Setting:
        return next(row for row in EXPERIMENTS[self.experiment].rows if row.name == self.row)

    @property
    def label(self) -> str:
        return f"{self.experiment} {self.setting.title}, seed {self.seed}"


def plan_tasks(
    names: Sequence[str], methods: Sequence[str] | None = None, scale: Scale = catalog.FULL
) -> tuple[list[Task], list[str]]:
    """What the named experiments consist of, by their own methods or these, and what cannot run and why."""
    for kind, known, asked in (("experiment", [*EXPERIMENTS, "all"], names), ("method", METHODS, methods)):
        for name in asked or ():
            if name not in known:
                raise ValueError(f"unknown {kind} {name!r}; choose from {', '.join(known)}.")
    tasks, skipped = [], []
    every_one = [name for name in EXPERIMENTS if name != "demo"]
    installed = (*OPTIONS, *available_baselines())
    for name in every_one if "all" in names else dict.fromkeys(names):
        experiment = EXPERIMENTS[name]
        wanted = methods or [method for method in METHODS if method not in experiment.without]
        for method in (method for method in wanted if method not in installed):
            needed = BASELINES[method]
            reason = f"{needed.package} is not installed: pip install 'isoweave[{needed.extra}]'"
            skipped.append(f"{name}, {method}: {reason}")
        for row in experiment.rows_for(scale):
            usable = [m for m in wanted if m in installed and (methods or m not in row.without)]
            most = catalog.SLOW | row.fewer_seeds
            for at, seed in enumerate(row.seeds[: scale.n_seeds]):
                allowed = (method for method in usable if at < most.get(method, len(row.seeds)))
                tasks += [Task(name, row.name, seed, method, scale) for method in allowed]
    return tasks, skipped


def run_experiments(
    tasks: Sequence[Task],
    records: Records,
    *,
    data_home: str | Path | None = None,
    fetch: bool = False,
    maps_folder: Path | None = None,
    n_jobs: int | None = 1,
    progress: Callable[[int, int, str, float | None], None] | None = None,
) -> list[str]:
    """Run what is not recorded yet, and return what was skipped and why: data that cannot be read.

    A method that fails is recorded with its error. Records are added as runs finish, so that an interrupted
    run can be taken up again; maps to be drawn are kept in ``maps_folder``. ``n_jobs`` problems are solved at
    a time, each in a process of its own; every method runs on one thread, so that processor times compare.
    ``progress`` is called before every task (with several processes, after every problem) and at the end:
    tasks done, all tasks, what runs now ("" at the end), seconds left (None before the first is done).
    """
    left = [task for task in tasks if records.get(task.key, {"error": "not run"})["error"] is not None]
    groups = [list(found) for _, found in groupby(left, lambda task: task[:3])]
    workers = min(resolve_n_jobs(n_jobs), len(groups))
    work = partial(_run_tasks, data_home=data_home, fetch=fetch, maps_folder=maps_folder)
    started, n_done = time.monotonic(), 0
    reasons: dict[tuple[str, str], str] = {}

    def report(label: str) -> None:
        if progress is not None:
            n_left = len(left) - n_done
            seconds = (time.monotonic() - started) / n_done * n_left if n_done else None
            progress(len(tasks) - n_left, len(tasks), label, seconds)

    def keep(chunk: list[Task], outcome: list[RunRecord] | str) -> None:
        nonlocal n_done
        n_done += len(chunk)
        if isinstance(outcome, str):
            reasons.setdefault(chunk[0][:2], outcome)
        else:
            for record in outcome:
                records.add(record)

    if workers <= 1:
        # Every record is kept as soon as it is made.
        for task in left:
            report(f"{task.label}, {task.method}")
            keep([task], work([task]))
        _load.cache_clear()
    else:
        # A forked child of a process that has threads may hang.
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            futures = {pool.submit(work, group): group for group in groups}
            report(f"{len(groups)} problems in {workers} processes")
            try:
                for future in as_completed(futures):
                    keep(futures[future], future.result())
                    report(f"{futures[future][0].label} done")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    report("")
    return list(reasons.values())


def _run_tasks(
    tasks: list[Task], data_home: str | Path | None, fetch: bool, maps_folder: Path | None
) -> list[RunRecord] | str:
    """Records of tasks of one experiment, row and seed, or why there are none."""
    first = tasks[0]
    problem = _load(*first[:3], first.scale, data_home, fetch)
    if isinstance(problem, str):
        return problem
    is_drawn = EXPERIMENTS[first.experiment].draw_maps and first.seed == first.setting.seeds[0]
    records = []
    for task in tasks:
        record, embedding = _run_task(task, problem)
        records.append(record)
        if is_drawn and maps_folder is not None and embedding is not None:
            color = np.zeros(len(embedding)) if problem.color is None else problem.color
            maps_folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(map_path(maps_folder, task)) as file:
                arrays = {"embedding": embedding.astype(np.float32), "color": color}
                write_arrays(file, arrays, zipfile.ZIP_DEFLATED)
    return records


def map_path(folder: Path, task: Task) -> Path:
    return folder / f"{task.experiment}-{task.row}-{task.method}-{task.scale.name}.npz"


@lru_cache(maxsize=1)
def _load(
    experiment: str, row: str, seed: int, scale: Scale, data_home: str | Path | None, fetch: bool
) -> DataProblem | str:
    """A problem, made once for all methods; or why it cannot be made."""
    setting = Task(experiment, row, seed, "", scale).setting
    try:
        return setting.load(Request(seed, scale.n_samples, data_home, fetch))
    except (DatasetMissingError, ValueError, OSError) as error:
        said = "" if isinstance(error, DatasetMissingError) else "could not be loaded: "
        return f"{experiment}, {setting.title}: {said}{error}"


def score(problem: DataProblem, embedding: FloatArray) -> dict[str, float]:
    """The metrics that tables and figures show; those by rank, which take most of the time, are not."""
    known: Any = {"labels": problem.labels, "truth": problem.truth, "parameters": problem.parameters}
    known |= {"geodesics": problem.reference, "n_neighbors": problem.n_neighbors}
    scores = evaluate(problem.scored_graph, embedding, ranks=False, n_jobs=1, **known)
    return {name: float(value) for name, value in scores.items() if name not in ("n_neighbors", "n_rows")}


def _run_task(task: Task, problem: DataProblem) -> tuple[RunRecord, FloatArray | None]:
    n, k = problem.n_components, problem.n_neighbors
    record: RunRecord = {**task._asdict(), "scale": task.scale.name, "note": problem.note, "error": None}
    record |= {"n_vertices": problem.graph.n_vertices, "n_edges": problem.graph.n_edges}
    record |= {"n_neighbors": k, "n_components": n}
    record |= {"code": fingerprint(task.method in BASELINES), "versions": versions()}
    try:
        warm_up(task.method, n)
        embedding, told = run_method(task.method, problem.graph, n, k, task.seed, task.scale.paper_steps)
        scores = score(problem, embedding)
    # Whatever a method or the library behind it raises is its result here, not the end of a long run.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return {**record, "error": reason[:500], "scores": {}}, None
    return record | told | {"n_jobs": 1, "scores": scores}, embedding


def run_method(
    name: str, graph: NeighborGraph, n_components: int, k: int, seed: int, paper_steps: int | None = None
) -> tuple[FloatArray, dict[str, Any]]:
    """Embed a graph on one thread: the embedding, and what it took, the making of the graph not counted."""
    told: dict[str, Any] = {"status": "done", "steps": None, "dropped_edges": None}
    wall, cpu = time.perf_counter(), time.process_time()
    if name in BASELINES:
        embedding = run_baseline(name, graph, n_components, n_neighbors=k, random_state=seed, n_jobs=1)
    else:
        options = dict(OPTIONS[name])
        if name == "paper" and paper_steps is not None:
            options["max_iter"] = paper_steps
        with warnings.catch_warnings(), threadpool_limits(1):
            # The paper's recursion may well run to its limit; the record says so.
            warnings.simplefilter("ignore")
            result = embed_graph(graph.to_matrix(), n_components, n_jobs=1, random_state=seed, **options)
        embedding = result.coordinates
        told |= {"status": result.status, "steps": result.n_iter, "dropped_edges": len(result.dropped_edges)}
    return embedding, told | {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}


@cache
def warm_up(name: str, n_components: int) -> None:
    """Embed a little data, once in a process, so that no clock runs while numba compiles."""
    if name in OPTIONS or name == "umap":
        k = n_components + 4
        points = np.random.default_rng(7).normal(size=(40 + 6 * n_components, n_components))
        run_method(name, knn_graph(points, k, n_jobs=1), n_components, k, seed=7, paper_steps=2)


class Records(dict[tuple[Any, ...], RunRecord]):
    """Runs of one output folder by their keys, kept in a file of JSON lines.

    A record is used only if the code it depends on is unchanged (see :func:`fingerprint`); failed runs are
    tried again. A line that was cut short by a crash is ignored.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        if find_spec("pandas") is None or find_spec("jinja2") is None:  # now, not after hours of work
            raise ImportError("Experiments need pandas and jinja2: pip install 'isoweave[experiments]'.")
        self._path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        # Whatever a crash left of the last line is closed first.
        self._before = "" if not text or text.endswith("\n") else "\n"
        for line in text.splitlines():
            with suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                if record["code"] == fingerprint(record["method"] in BASELINES):
                    self[tuple(record[name] for name in KEYS)] = record

    def add(self, record: RunRecord) -> None:
        """Keep a record, in memory and on disk."""
        # JSON has no numbers that are not finite.
        kept = json.loads(json.dumps(record), parse_constant=lambda _: None)
        self[tuple(record[name] for name in KEYS)] = kept
        self._path.parent.mkdir(parents=True, exist_ok=True)
        append_text(self._path, f"{self._before}{json.dumps(kept)}\n")
        self._before = ""


def runs_frame(records: Iterable[RunRecord]) -> pd.DataFrame:
    """A line per run, in order of seeds: fixed columns, then every metric that any run has."""
    import pandas as pd

    lines = [{name: record.get(name) for name in COLUMNS} | record["scores"] for record in records]
    return _typed(pd.DataFrame(lines, columns=None if lines else COLUMNS))


def read_runs(paths: Iterable[Path]) -> pd.DataFrame:
    """The runs of CSV files written by :func:`write_tables`, whose tables can be made again from them."""
    import pandas as pd

    # As text: pandas before 3 reads numbers that may differ in the last bit from those written.
    return _typed(pd.concat([pd.read_csv(path, dtype=str) for path in paths], ignore_index=True))


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    numbers = [name for name in frame if name not in _TEXTS]
    frame = frame.astype(dict.fromkeys(numbers, float)).astype(dict.fromkeys(_WHOLE, "Int64"))
    # The copy puts columns of one type side by side, where rows are taken faster.
    return frame.fillna({"note": ""}).sort_values("seed", kind="stable", ignore_index=True).copy()


def select(runs: pd.DataFrame, experiment: str, scale: str, row: str | None = None) -> pd.DataFrame:
    """Runs of an experiment, or of one of its rows."""
    keep = (runs["experiment"] == experiment) & (runs["scale"] == scale)
    return runs[keep if row is None else keep & (runs["row"] == row)]


@cache
def versions() -> dict[str, str]:
    """Of Python, this package and those the numbers depend on."""
    found = {"python": platform.python_version(), "isoweave": isoweave.__version__}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@cache
def fingerprint(is_baseline: bool) -> str:
    """Hash of the code that records depend on: data, metrics, baselines, and for our methods the engine."""
    package = Path(isoweave.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0]
        is_ours = not is_baseline and room not in _OUTER
        if room in _DATA or is_ours or (room == "experiments" and path.name in _PROBLEMS):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
