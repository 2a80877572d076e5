"""Two tables of docs/choices.md: what the shortcut filter drops, and where each start leads on flat outlines.

Run by choices.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from cases import Records, mark, markdown_table, mean
from isoweave import embed_graph
from isoweave._parallel import ThreadTeam
from isoweave.datasets import swiss_roll
from isoweave.graph import drop_shortcuts, knn_graph
from isoweave.metrics import procrustes_error

FILTER_SEEDS = tuple(range(31, 46))
NOISES = (0.0, 0.3, 0.6)
NEIGHBORS = (6, 8, 10, 12, 16, 20, 24)
OUTLINES = ("ring", "C", "frame", "maze")
OUTLINE_SEEDS = (31, 32, 33)
OUTLINE_NEIGHBORS = (7, 10)
# Names of the columns; the last but one is the default with a smaller tolerance.
STARTS = ("landmark", "synchronized", "coarse", "auto", "auto, tol 0.003", "truth")


def run_filter(records: Records, n_seeds: int) -> None:
    """Count shortcuts, and what the filter does to them, on swiss rolls of 1,500 points."""
    for noise in NOISES:
        for k in NEIGHBORS:
            row = _filter_row(noise, k)
            for seed in FILTER_SEEDS[:n_seeds]:
                if (row, seed, "filter") not in records:
                    records.add(row, seed, "filter", _count(noise, k, seed))


def _filter_row(noise: float, k: int) -> str:
    return f"filter noise={noise:g} k={k}"


def _count(noise: float, k: int, seed: int) -> dict[str, float]:
    roll = swiss_roll(noise=noise, random_state=seed)
    truth = roll.truth
    assert truth is not None
    graph = knn_graph(roll.data, k, n_jobs=1)
    ends = np.column_stack([graph.sources, graph.indices])
    once = ends[:, 0] < ends[:, 1]
    ends, lengths = ends[once], graph.lengths[once]
    # Between sheets the true distance is 49 and more, within a sheet that of the edge up to noise.
    wrong = np.linalg.norm(truth[ends[:, 0]] - truth[ends[:, 1]], axis=1) > 4.0 * lengths + 2.0
    _, pairs = drop_shortcuts(graph, team=ThreadTeam(1))
    n = graph.n_vertices
    dropped = np.isin(ends[:, 0] * n + ends[:, 1], pairs[:, 0].astype(int) * n + pairs[:, 1])
    return {
        "shortcuts": int(wrong.sum()),
        "missed": int((wrong & ~dropped).sum()),
        "good_dropped": int((dropped & ~wrong).sum()),
        "edges": len(ends),
    }


def filter_section(records: Records) -> Iterator[str]:
    """The table of the filter."""
    cells = []
    for noise in NOISES:
        for k in NEIGHBORS:
            found = records.of(_filter_row(noise, k), "filter")
            if found:
                total = {
                    c: round(mean(found, c) * len(found)) for c in ("shortcuts", "missed", "good_dropped")
                }
                clean = sum(int(str(r["missed"])) == 0 for r in found)
                cells.append(
                    (mark(f"{noise:g}", found), str(k), *map(str, total.values()), f"{clean} of {len(found)}")
                )
    if cells:
        yield "## Shortcut filter"
        yield ""
        yield "Swiss rolls of 1,500 points, noise in units of the coordinates (sheets are 6.3 apart); edges"
        yield "summed over the seeds. An edge counts as a shortcut if the true distance of its ends is more"
        yield "than four times its length and 2."
        yield ""
        head = ("noise", "k", "shortcuts", "missed", "good edges dropped", "seeds with none missed")
        yield from markdown_table(head, cells)


def outline_points(kind: str, seed: int, n: int = 1500) -> np.ndarray:
    """Points uniform in a flat region through which straight lines cannot always go."""
    points = np.random.default_rng(seed).uniform(-1.0, 1.0, size=(8 * n, 2))
    x, y = points.T
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    inside = {
        "ring": (radius < 1.0) & (radius > 0.6),
        "C": (radius < 1.0) & (radius > 0.7) & (np.abs(angle) < 2.6),
        "frame": np.maximum(np.abs(x), np.abs(y)) > 0.5,
        "maze": ~((np.abs(y - 0.33) < 0.08) & (x < 0.7)) & ~((np.abs(y + 0.33) < 0.08) & (x > -0.7)),
    }[kind]
    return points[inside][:n]


def run_outlines(records: Records, n_seeds: int) -> None:
    """Embed outlines from every start."""
    for kind in OUTLINES:
        for k in OUTLINE_NEIGHBORS:
            for seed in OUTLINE_SEEDS[:n_seeds]:
                for start in STARTS:
                    if (f"{kind} {k}", seed, start) not in records:
                        records.add(f"{kind} {k}", seed, start, _embed_outline(kind, k, seed, start))


def _embed_outline(kind: str, k: int, seed: int, start: str) -> dict[str, float]:
    points = outline_points(kind, seed)
    matrix = knn_graph(points, k, n_jobs=1).to_matrix()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The graph has .* connected components")
        options: dict[str, Any] = {"start": points if start == "truth" else start}
        if start == "auto, tol 0.003":
            options = {"tol": 0.003}
        result = embed_graph(matrix, 2, **options, n_jobs=1)
    error = procrustes_error(points, result.coordinates)
    return {"relative_energy": result.relative_energy, "procrustes_error": error, "steps": result.n_iter}


def outline_section(records: Records) -> Iterator[str]:
    """The table of the outlines."""
    cells = []
    for kind in OUTLINES:
        for k in OUTLINE_NEIGHBORS:
            line = []
            for start in STARTS:
                found = records.of(f"{kind} {k}", start)
                if found:
                    energy, error = mean(found, "relative_energy"), mean(found, "procrustes_error")
                    line.append(mark(f"{1e3 * energy:.1f} / {error:.1e}", found))
            if line:
                cells.append((kind, str(k), *line))
    if cells:
        yield "## Starts on flat outlines"
        yield ""
        yield "1,500 points uniform in a ring, a C-shaped strip, a square frame and a square with two walls:"
        yield "flat, but shortest paths bend around the gaps. Relative energy times 1,000 / procrustes error;"
        yield "means over the seeds. The last column starts at the truth, the best a start can hope for."
        yield ""
        yield from markdown_table(("outline", "k", *STARTS), cells)
