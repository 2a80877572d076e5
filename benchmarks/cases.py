"""The data sets of docs/choices.md, how a map of them is scored, and a cache of finished cases.

Of ``choices.py``; see there for the commands. Others take a data set or a table from here.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.manifold import Isomap

import isoweave
from isoweave import datasets
from isoweave.datasets import Dataset
from isoweave.graph import NeighborGraph, knn_graph
from isoweave.metrics import (
    GeodesicRows,
    geodesic_rows,
    global_stress,
    label_scores,
    local_distance,
    neighborhood_scores,
    parameter_error,
    pearson,
    procrustes_error,
)

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "build" / "benchmarks"

# Of the synthetic data; choices.py, where settings are compared, has others.
SEEDS = tuple(range(501, 516))
N_GROUPS = 10

_SCORING = ("metrics", "datasets")
ENGINE = (".", "energy", "engines", "geometry", "graph", "linalg", "optimise")

Record = dict[str, object]


@dataclass(frozen=True)
class Row:
    """One data set with its graph.

    Attributes
    ----------
    name, title : str
    n_neighbors, n_components : int
    load : callable
        Data set of a seed.
    seeds : tuple of int
        One seed for data that are not random.
    short_circuited : bool
        The graph has shortcuts: geodesics of the graph are no reference, the true distances are.
    needs_folder : bool
        Read from the data folder.
    """

    name: str
    title: str
    n_neighbors: int
    n_components: int
    load: Callable[[int], Dataset]
    seeds: tuple[int, ...] = SEEDS
    short_circuited: bool = False
    needs_folder: bool = False


def _mnist_group(group: int) -> Dataset:
    """One of ten disjoint groups of 1,000 test images."""
    whole = datasets.load_mnist("test")
    members = np.random.default_rng(7).permutation(whole.n_samples)[group * 1000 : (group + 1) * 1000]
    assert whole.labels is not None
    return replace(whole, data=whole.data[members], labels=whole.labels[members])


def _swiss(k: int) -> Row:
    return Row(
        f"swiss{k}",
        f"Swiss roll, k = {k}",
        k,
        2,
        lambda seed: datasets.swiss_roll(random_state=seed),
        short_circuited=k >= 16,
    )


ROWS = {
    row.name: row
    for row in (
        _swiss(10),
        _swiss(6),
        _swiss(16),
        _swiss(20),
        Row("klein", "Klein bottle, k = 8", 8, 3, lambda s: datasets.klein_bottle(random_state=s)),
        Row("torus", "Flat torus, k = 10", 10, 3, lambda s: datasets.flat_torus(random_state=s)),
        Row(
            "difficult",
            '"Difficult" 5-D set, k = 14',
            14,
            5,
            lambda s: datasets.difficult(random_state=s),
        ),
        Row(
            "mnist",
            "MNIST test images, groups of 1,000, k = 13",
            13,
            13,
            _mnist_group,
            tuple(range(N_GROUPS)),
            needs_folder=True,
        ),
        Row(
            "tcga",
            "TCGA, 11 cohorts (22 classes), k = 20",
            20,
            20,
            lambda _: datasets.load_tcga(),
            (0,),
            needs_folder=True,
        ),
        Row("faces", "Isomap faces, k = 8", 8, 3, lambda _: datasets.load_faces(), (0,), needs_folder=True),
    )
}


@dataclass(frozen=True, eq=False)
class Case:
    """A data set of one seed, with everything maps of it are compared with."""

    row: Row
    seed: int
    dataset: Dataset
    graph: NeighborGraph
    reference: GeodesicRows | np.ndarray
    parameters: np.ndarray | None


def load_case(row: Row, seed: int) -> Case:
    """Data, graph of nearest neighbours, and distances between all pairs."""
    data = row.load(seed)
    graph = knn_graph(data.data, row.n_neighbors, n_jobs=1)
    if row.short_circuited:
        assert data.truth is not None
        reference: GeodesicRows | np.ndarray = cdist(data.truth, data.truth)
    else:
        reference = geodesic_rows(graph)
    # As in the paper, the bottle is compared with Isomap's map of it.
    parameters = isomap(data, row) if row.name == "klein" else data.parameters
    return Case(row, seed, data, graph, reference, parameters)


def isomap(data: Dataset, row: Row) -> np.ndarray:
    """scikit-learn's Isomap of the same features with the same k."""
    model = Isomap(n_neighbors=row.n_neighbors, n_components=row.n_components)
    return np.asarray(model.fit_transform(data.data))


def score(case: Case, embedding: np.ndarray) -> dict[str, float]:
    """The columns of the tables."""
    k = case.row.n_neighbors
    scores = {
        "f1": neighborhood_scores(case.graph, embedding, n_neighbors=k).f1,
        "local_distance": local_distance(case.graph, embedding),
        "pearson": pearson(case.reference, embedding),
        "global_stress": global_stress(case.reference, embedding),
    }
    if case.dataset.truth is not None:
        scores["procrustes_error"] = procrustes_error(case.dataset.truth, embedding)
    elif case.parameters is not None:
        scores["parameter_error"] = parameter_error(case.parameters, embedding)
    if case.dataset.labels is not None:
        scores["accuracy"] = label_scores(case.dataset.labels, embedding, n_neighbors=k).accuracy
    return scores


def select_rows(names: Sequence[str] | None) -> list[Row]:
    """Rows asked for, in the order of the tables; without names, all whose data are there."""
    unknown = [name for name in names or () if name not in ROWS]
    if unknown:
        raise SystemExit(f"unknown row {unknown[0]!r}; there are {', '.join(ROWS)}")
    return [row for row in ROWS.values() if (row.name in names if names else _is_available(row))]


def _is_available(row: Row) -> bool:
    if not row.needs_folder:
        return True
    try:
        row.load(row.seeds[0])
    except datasets.DatasetMissingError:
        print(f"{row.name}: left out, {datasets.DATA_VARIABLE} names no folder that holds it")
        return False
    return True


class Records:
    """Finished cases in a file of JSON lines, the newest of each.

    A case counts as done if the code has not changed since: the fingerprint is a hash of the package's syntax
    trees without comments and docstrings, so that a reworded docstring does not cost a rerun. Records of
    other code are still shown until they are replaced, and marked.
    """

    def __init__(self, path: Path, *, any_code: bool = False) -> None:
        self._path = path
        self._any_code = any_code
        self._lines: dict[tuple[str, int, str], Record] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for record in map(json.loads, lines):
            self._lines[record["row"], record["seed"], record["method"]] = record

    def __contains__(self, key: tuple[str, int, str]) -> bool:
        return key in self._lines and (self._any_code or not is_stale(self._lines[key]))

    def add(self, row: str, seed: int, method: str, values: dict[str, float]) -> None:
        record: Record = {"row": row, "seed": seed, "method": method}
        record |= {"code": fingerprint(method != "isomap"), **values}
        self._lines[row, seed, method] = record
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def of(self, row: str, method: str) -> list[Record]:
        """Records of one row and method, in order of the seeds."""
        found = [r for (a, _, b), r in self._lines.items() if (a, b) == (row, method)]
        return sorted(found, key=lambda r: int(str(r["seed"])))


STALE = "† measured with an earlier version of the code."


def is_stale(record: Record) -> bool:
    """Whether the code a record depends on has changed since."""
    return record["code"] != fingerprint(record["method"] != "isomap")


def mark(label: str, records: Iterable[Record]) -> str:
    """The label, with a dagger if any of its records is of other code."""
    return f"{label} †" if any(map(is_stale, records)) else label


def fingerprint(engine: bool = True) -> str:
    """Hash of the code a record depends on: metrics and data sets, and the engine unless it is Isomap's."""
    return hash_folders(*_SCORING, *(ENGINE if engine else ()))


@cache
def hash_folders(*folders: str) -> str:
    """Hash of parts of the package, comments and docstrings left out."""
    package = Path(isoweave.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(p for folder in folders for p in (package / folder).glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and _is_text(body[0]):
                body[0] = ast.Pass()
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:16]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def mean(records: Iterable[Record], column: str) -> float:
    """Mean of a column over the records that have it; NaN if none has."""
    values = [float(str(r[column])) for r in records if column in r]
    return float(np.mean(values)) if values else float("nan")


def standard_error(records: Sequence[Record], column: str) -> float:
    """Of the mean of a column."""
    values = [float(str(r[column])) for r in records if column in r]
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def show(value: float, column: str) -> str:
    """A cell: errors of rigid motions span decades, counts are counts, the rest has three digits."""
    if np.isnan(value):
        return ""
    if column == "procrustes_error":
        return f"{value:.1e}"
    if column in ("steps", "seconds"):
        return f"{value:.1f}" if value < 10 else f"{value:.0f}"
    return f"{value:.3f}"


def page_parser(doc: str, n_seeds: int) -> argparse.ArgumentParser:
    """The options of choices.py."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two seeds; prints the page, writes nothing")
    parser.add_argument("--rows", nargs="+", help="rows to run; all by default")
    parser.add_argument("--seeds", type=int, default=n_seeds, help="how many seeds of every row")
    parser.add_argument("--write-only", action="store_true", help="run nothing")
    parser.add_argument("--any-code", action="store_true", help="do not rerun because the code has changed")
    return parser


def keep(records: Records, row: str, seed: int, method: str, values: dict[str, float]) -> None:
    """Add a finished case to the records, and say so."""
    records.add(row, seed, method, values)
    shown = " ".join(f"{name}={value:.4g}" for name, value in values.items())
    print(f"{row} {seed} {method}: {shown}", flush=True)


def publish(page: str, text: str, *, quick: bool) -> None:
    """Write a page of docs, or print it."""
    if quick:
        print(text)
    else:
        (ROOT / "docs" / page).write_text(text, encoding="utf-8")
