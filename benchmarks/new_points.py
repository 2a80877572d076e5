"""New points and growing maps: how good, how fast; writes the tables of docs/new_points.md.

    python benchmarks/new_points.py --rows swiss10 torus --seeds 2   # prints only
    python benchmarks/new_points.py --write                          # everything, into docs/new_points.md
    python benchmarks/new_points.py --write-only                     # the tables from the records there are

15 % of every data set are held out, the rest is fitted, and the held out points are placed. Beside them stand
the points of that fit themselves, the held out points in a fit of all points, and Isomap and UMAP (extra
``baselines``) on the same split. Real data are read from the folder that ISOWEAVE_DATA names and left out
without it. One thread throughout. Finished cases are kept in build/benchmarks/new_points.jsonl until it is
deleted.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.manifold import Isomap
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from cases import RECORDS, ROOT, ROWS, Row, markdown_table
from isoweave import IsometricEmbedding, datasets
from isoweave.datasets import Dataset
from isoweave.geometry import rigid_motion

HELD_OUT = 0.15
PAGE = ROOT / "docs" / "new_points.md"
FILE = RECORDS / "new_points.jsonl"
NAMES = ("swiss10", "scurve", "torus", "difficult", "mnist", "faces")
TABLE = {
    **ROWS,
    "scurve": replace(
        ROWS["swiss10"],
        name="scurve",
        title="S-curve, k = 10",
        load=lambda seed: datasets.s_curve(1500, random_state=seed),
    ),
    # One data set: the seed decides which points are held out.
    "faces": replace(ROWS["faces"], seeds=tuple(range(1, 6))),
}
METHODS = {
    "placed": "isoweave, placed",
    "rest": "isoweave, points of that fit",
    "fit": "isoweave, fit of all",
    "isomap": "Isomap.transform",
    "umap": "UMAP.transform",
}
COLUMNS = {
    "kept": "neighbours kept",
    "edges": "edge error",
    "position": "position error",
    "parameters": "parameter error",
    "accuracy": "accuracy",
    "microseconds": "µs per point",
}
GROWTH = {
    "steps": "steps",
    "fresh_steps": "steps, fresh",
    "seconds": "seconds",
    "fresh_seconds": "seconds, fresh",
    "energy": "energy / fresh",
    "moved": "moved",
}

Split = tuple[np.ndarray, np.ndarray]


def split(n: int, seed: int) -> Split:
    """Points of the fit, and those held out."""
    order = np.random.default_rng(seed + 10_000).permutation(n)
    return np.sort(order[int(HELD_OUT * n) :]), order[: int(HELD_OUT * n)]


def _placed(row: Row, X: np.ndarray, parts: Split) -> tuple[np.ndarray, np.ndarray, float]:
    old, new = parts
    model = IsometricEmbedding(row.n_components, n_neighbors=row.n_neighbors, n_jobs=1).fit(X[old])
    return model.embedding_, *_timed(model.transform, X[new])


def _rest(row: Row, X: np.ndarray, parts: Split) -> tuple[np.ndarray, np.ndarray, float]:
    model = IsometricEmbedding(row.n_components, n_neighbors=row.n_neighbors, n_jobs=1).fit(X[parts[0]])
    return model.embedding_, model.embedding_, float("nan")


def _fit(row: Row, X: np.ndarray, parts: Split) -> tuple[np.ndarray, np.ndarray, float]:
    model = IsometricEmbedding(row.n_components, n_neighbors=row.n_neighbors, n_jobs=1).fit(X)
    return model.embedding_[parts[0]], model.embedding_[parts[1]], float("nan")


def _isomap(row: Row, X: np.ndarray, parts: Split) -> tuple[np.ndarray, np.ndarray, float]:
    model = Isomap(n_components=row.n_components, n_neighbors=row.n_neighbors).fit(X[parts[0]])
    return model.embedding_, *_timed(model.transform, X[parts[1]])


def _umap(row: Row, X: np.ndarray, parts: Split) -> tuple[np.ndarray, np.ndarray, float]:
    from umap import UMAP

    model = UMAP(n_components=row.n_components, n_neighbors=row.n_neighbors, random_state=7, n_jobs=1)
    model.fit(X[parts[0]])
    return model.embedding_, *_timed(model.transform, X[parts[1]])


def _timed(transform: Callable[[np.ndarray], np.ndarray], new: np.ndarray) -> tuple[np.ndarray, float]:
    """Coordinates, and processor time per point of a second call: compiling and indexing are done once."""
    places = transform(new)
    start = time.process_time()
    transform(new)
    return places, (time.process_time() - start) / len(new) * 1e6


RUNS: dict[str, Any] = {"placed": _placed, "rest": _rest, "fit": _fit, "isomap": _isomap, "umap": _umap}


def _nearest(points: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances and numbers of the k nearest points; a point is no neighbour of itself."""
    search = NearestNeighbors(n_neighbors=k).fit(points)
    distances, nearest = search.kneighbors(None if queries is points else queries)
    return distances, nearest


def score(
    row: Row, data: Dataset, parts: Split, fitted: np.ndarray, placed: np.ndarray, *, scaled: bool
) -> dict[str, float]:
    """The columns of the table; ``scaled`` maps have distances in the data's unit."""
    old, new = parts
    k = row.n_neighbors
    X = data.data[old]
    lengths, nearest = _nearest(X, X if new is old else data.data[new], k)
    in_map = _nearest(fitted, placed, k)
    shared = [len(set(a) & set(b)) / k for a, b in zip(in_map[1], nearest, strict=True)]
    result = {"kept": float(np.mean(shared))}
    if scaled:
        found = np.linalg.norm(placed[:, None] - fitted[nearest], axis=2)
        result["edges"] = float(np.mean(np.abs(found - lengths) / lengths))
    if data.truth is not None:
        if scaled:
            q, t = rigid_motion(fitted, data.truth[old])
            off = np.linalg.norm(placed @ q + t - data.truth[new], axis=1)
            result["position"] = float(np.sqrt(np.mean(off**2)) / np.median(lengths))
    elif data.parameters is not None and row.name != "torus":
        # Angles of a torus are no function of its map.
        basis = np.column_stack([fitted, np.ones(len(old))])
        affine = np.linalg.lstsq(basis, data.parameters[old], rcond=None)[0]
        off = np.column_stack([placed, np.ones(len(new))]) @ affine - data.parameters[new]
        spread = data.parameters[new] - data.parameters[new].mean(axis=0)
        result["parameters"] = float(np.sum(off**2) / np.sum(spread**2))
    if data.labels is not None:
        votes = data.labels[old][in_map[1]][:, :, None] == np.unique(data.labels)
        winners = np.argmax(np.sum(votes / in_map[0][:, :, None], axis=1), axis=1)
        result["accuracy"] = float(np.mean(np.unique(data.labels)[winners] == data.labels[new]))
    return result


def grow(row: Row, X: np.ndarray, seed: int) -> dict[str, float]:
    """A tenth of the points added to the map of the others, against a fit of all."""
    order = np.random.default_rng(seed + 20_000).permutation(len(X))
    X = X[order]
    n = int(0.9 * len(X))
    make = IsometricEmbedding(row.n_components, n_neighbors=row.n_neighbors, n_jobs=1)
    model = make.fit(X[:n])
    before = model.embedding_
    start = time.process_time()
    model.add_samples(X[n:])
    seconds = time.process_time() - start
    fresh = IsometricEmbedding(row.n_components, n_neighbors=row.n_neighbors, n_jobs=1)
    start = time.process_time()
    fresh.fit(X)
    moved = np.sqrt(np.mean(np.sum((model.embedding_[:n] - before) ** 2, axis=1)))
    return {
        "steps": model.n_iter_,
        "fresh_steps": fresh.n_iter_,
        "seconds": seconds,
        "fresh_seconds": time.process_time() - start,
        "energy": model.energy_ / fresh.energy_,
        "moved": float(moved / np.median(model.graph_.data)),
    }


def run(names: list[str], n_seeds: int, methods: list[str]) -> None:
    """All cases that are not in the file yet."""
    done = {(r["row"], r["seed"], r["method"]) for r in _records()}
    FILE.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        row = TABLE[name]
        for seed in row.seeds[:n_seeds]:
            wanted = [m for m in (*methods, "grow") if (name, seed, m) not in done]
            if not wanted:
                continue
            try:
                data = row.load(seed)
            except datasets.DatasetMissingError as error:
                print(f"{name}: left out, {error}")
                break
            data = replace(data, data=np.asarray(data.data, dtype=np.float64))
            parts = split(len(data.data), seed)
            for method in wanted:
                if method == "grow":
                    values = grow(row, data.data, seed)
                else:
                    fitted, placed, cost = RUNS[method](row, data.data, parts)
                    whom = (parts[0], parts[0]) if method == "rest" else parts
                    values = score(row, data, whom, fitted, placed, scaled=method != "umap")
                    values["microseconds"] = cost
                with FILE.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"row": name, "seed": seed, "method": method, **values}) + "\n")
                print(name, seed, method, {key: round(value, 4) for key, value in values.items()}, flush=True)


def _records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []


def _mean(records: list[dict[str, Any]], row: str, method: str, column: str) -> float:
    found = [r[column] for r in records if (r["row"], r["method"]) == (row, method) and column in r]
    return float(np.mean(found)) if found else float("nan")


def _cell(value: float, column: str) -> str:
    if np.isnan(value):
        return ""
    if column in ("microseconds", "steps", "fresh_steps"):
        return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
    return f"{value:.2f}" if column in ("position", "seconds", "fresh_seconds", "moved") else f"{value:.3f}"


def tables() -> dict[str, str]:
    """Both tables as Markdown, from the records."""
    records = _records()
    placing, growing = [], []
    for name in NAMES:
        n_seeds = len({r["seed"] for r in records if r["row"] == name and r["method"] == "placed"})
        for method, label in METHODS.items():
            if any((r["row"], r["method"]) == (name, method) for r in records):
                cells = [_cell(_mean(records, name, method, c), c) for c in COLUMNS]
                title = f"{TABLE[name].title}, N = {TABLE[name].n_components} ({n_seeds})"
                placing.append([title if method == "placed" else "", label, *cells])
        if any((r["row"], r["method"]) == (name, "grow") for r in records):
            growing.append([TABLE[name].title, *(_cell(_mean(records, name, "grow", c), c) for c in GROWTH)])
    return {
        "placing": "\n".join(markdown_table(["data (seeds)", "", *COLUMNS.values()], placing)),
        "growing": "\n".join(markdown_table(["data", *GROWTH.values()], growing)),
    }


def write(found: dict[str, str]) -> None:
    """Put the tables between their marks on the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in found.items():
        head, rest = text.split(f"<!-- {name} -->\n", 1)
        tail = rest.split("<!-- end -->", 1)[1]
        text = f"{head}<!-- {name} -->\n{table}\n<!-- end -->{tail}"
    PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5, help="how many of each row")
    parser.add_argument("--write", action="store_true", help="write docs/new_points.md")
    parser.add_argument("--write-only", action="store_true", help="run nothing")
    options = parser.parse_args()
    if not options.write_only:
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            run(options.rows, options.seeds, options.methods)
    found = tables()
    if options.write or options.write_only:
        write(found)
    print("\n\n".join(found.values()))


if __name__ == "__main__":
    main()
