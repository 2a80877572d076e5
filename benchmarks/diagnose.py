"""How often the verdicts of ``isoweave.diagnose`` are right, and what they cost.

    python benchmarks/diagnose.py verdicts --seeds 10            # the table of docs/diagnose.md
    python benchmarks/diagnose.py cost --sizes 10000 100000      # CPU seconds of fit and diagnosis
    python benchmarks/diagnose.py verdicts --seeds 3 --only torus sphere

Every row draws fresh data per seed, embeds them with the defaults, and asks for a diagnosis before (graph
alone) and after. A verdict is right if the wanted code is there and no other code contradicts it, uncertain
if the diagnosis says so, otherwise wrong.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave import Diagnosis, diagnose, embed_graph
from isoweave.datasets import difficult, flat_torus, klein_bottle, s_curve, sphere, swiss_roll
from isoweave.graph import NeighborGraph, graph_from_matrix, knn_graph

SHAPES = {"closed", "curved", "non_orientable"}
ALARMS = {
    *SHAPES,
    "components",
    "dimension_too_low",
    "distorted",
    "graph_too_sparse",
    "poor_minimum",
    "shortcuts_left",
}
FLAT = {"flat", "isometric", "approximate"}
# Noise of half the distance between points: neighbourhoods do have a third direction.
NOISE = frozenset({"dimension_too_low", "distorted"})


@dataclass(frozen=True)
class Case:
    """Data, the dimension to embed them in, and the verdict that is right."""

    name: str
    make: Callable[[int, int], NeighborGraph]
    n_components: int
    wanted: str
    sizes: tuple[int, ...] = (1500,)
    options: dict[str, Any] | None = None
    allowed: frozenset[str] = frozenset()


def points(draw: Callable[[np.random.Generator, int], Any], k: int) -> Callable[[int, int], NeighborGraph]:
    """The kNN graph of points drawn with a generator."""
    return lambda seed, n: knn_graph(np.asarray(draw(np.random.default_rng(seed), n)), k)


def dataset(function: Callable[..., Any], k: int, **options: Any) -> Callable[[int, int], NeighborGraph]:
    """The kNN graph of a data set of the package."""
    return lambda seed, n: knn_graph(function(n, random_state=seed, **options).data, k)


def cap(degrees: float) -> Callable[[np.random.Generator, int], Any]:
    """Part of the unit sphere within an angle of the pole."""

    def draw(rng: np.random.Generator, n: int) -> Any:
        z, angle = rng.uniform(np.cos(np.radians(degrees)), 1.0, n), rng.uniform(0.0, 2.0 * np.pi, n)
        r = np.sqrt(1.0 - z * z)
        return np.column_stack((r * np.cos(angle), r * np.sin(angle), z))

    return draw


def cylinder(rng: np.random.Generator, n: int) -> Any:
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    return np.column_stack((np.cos(angle), np.sin(angle), rng.uniform(0.0, 4.0, n)))


def moebius(rng: np.random.Generator, n: int) -> Any:
    u, v = rng.uniform(0.0, 2.0 * np.pi, n), rng.uniform(-0.5, 0.5, n)
    r = 2.0 + v * np.cos(u / 2.0)
    return np.column_stack((r * np.cos(u), r * np.sin(u), v * np.sin(u / 2.0)))


def annulus(rng: np.random.Generator, n: int) -> Any:
    r, angle = np.sqrt(rng.uniform(0.36, 1.0, n)), rng.uniform(0.0, 2.0 * np.pi, n)
    return np.column_stack((r * np.cos(angle), r * np.sin(angle)))


def circle(rng: np.random.Generator, n: int) -> Any:
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    return np.column_stack((np.cos(angle), np.sin(angle)))


def two_rolls(seed: int, n: int) -> NeighborGraph:
    first = swiss_roll(n // 2, random_state=seed).data
    second = swiss_roll(n - n // 2, random_state=seed + 500).data
    return knn_graph(np.vstack((first, second + np.array([200.0, 0.0, 0.0]))), 10)


def planted(seed: int, n: int) -> NeighborGraph:
    """A swiss roll with 20 edges of ordinary length between random vertices."""
    matrix = knn_graph(swiss_roll(n, random_state=seed).data, 10).to_matrix().tocoo()
    rng = np.random.default_rng(seed)
    i = rng.choice(n, 40, replace=False)
    lengths = np.median(matrix.data) * rng.uniform(0.5, 1.5, 20)
    rows = np.concatenate((matrix.row, i[:20]))
    columns = np.concatenate((matrix.col, i[20:]))
    return graph_from_matrix(
        sp.coo_array((np.concatenate((matrix.data, lengths)), (rows, columns)), shape=(n, n)), asymmetry="min"
    )


def tree(seed: int, n: int) -> NeighborGraph:
    rng = np.random.default_rng(seed)
    child = np.arange(1, n)
    parent = (rng.random(n - 1) * child).astype(int)
    return graph_from_matrix(sp.coo_array((rng.uniform(0.5, 1.5, n - 1), (child, parent)), shape=(n, n)))


def path(seed: int, n: int) -> NeighborGraph:
    rng = np.random.default_rng(seed)
    ends = (np.arange(n - 1), np.arange(1, n))
    return graph_from_matrix(sp.coo_array((rng.uniform(0.5, 1.5, n - 1), ends), shape=(n, n)))


def grid(seed: int, n: int) -> NeighborGraph:
    """Square cells without diagonals, edges of slightly random length."""
    side = round(np.sqrt(n))
    number = np.arange(side * side).reshape(side, side)
    rows = np.concatenate((number[:, :-1].ravel(), number[:-1].ravel()))
    columns = np.concatenate((number[:, 1:].ravel(), number[1:].ravel()))
    lengths = np.random.default_rng(seed).uniform(0.95, 1.05, len(rows))
    return graph_from_matrix(sp.coo_array((lengths, (rows, columns)), shape=(side * side, side * side)))


def cube(d: int) -> Callable[[np.random.Generator, int], Any]:
    return lambda rng, n: rng.uniform(size=(n, d))


CASES = (
    Case("swiss roll, k = 10", dataset(swiss_roll, 10), 2, "flat"),
    Case("swiss roll, k = 6", dataset(swiss_roll, 6), 2, "flat"),
    Case("swiss roll, k = 20 (shortcuts)", dataset(swiss_roll, 20), 2, "flat"),
    Case("swiss roll, noise 0.3", dataset(swiss_roll, 10, noise=0.3), 2, "flat"),
    Case("swiss roll, noise 0.6", dataset(swiss_roll, 10, noise=0.6), 2, "flat", allowed=NOISE),
    Case("S-curve", dataset(s_curve, 10), 2, "flat"),
    Case("annulus in the plane", points(annulus, 10), 2, "flat"),
    Case("square", points(cube(2), 10), 2, "flat", (200,)),
    Case("cube, N = 3", points(cube(3), 10), 3, "flat"),
    Case("swiss roll, N = 3", dataset(swiss_roll, 10), 3, "flat"),
    Case("cap of 40 degrees", points(cap(40.0), 10), 2, "flat"),
    Case("hemisphere", points(cap(90.0), 10), 2, "curved", (500, 1500)),
    Case("sphere", dataset(sphere, 10), 2, "curved", (500, 1500)),
    Case("sphere, N = 3", dataset(sphere, 10), 3, "curved"),
    Case("cylinder", points(cylinder, 10), 2, "closed", (500, 1500)),
    Case("flat torus", dataset(flat_torus, 10), 2, "closed", (500, 1500)),
    Case("flat torus, N = 4", dataset(flat_torus, 10), 4, "closed"),
    Case("circle, N = 1", points(circle, 6), 1, "closed", (300,)),
    Case("Möbius strip", points(moebius, 10), 2, "non_orientable", (500, 1500)),
    Case("Klein bottle, k = 8", dataset(klein_bottle, 8), 2, "non_orientable"),
    Case("5-D set", dataset(difficult, 14), 2, "dimension_too_low", (500,)),
    Case("cube of 5 dimensions", points(cube(5), 12), 2, "dimension_too_low", (500,)),
    Case("path", path, 2, "graph_too_sparse", (500,)),
    Case("tree", tree, 2, "graph_too_sparse", (500,)),
    Case("grid without diagonals", grid, 2, "graph_too_sparse", (900,)),
    Case("two swiss rolls", two_rolls, 2, "components"),
    Case("20 planted shortcuts", planted, 2, "shortcuts_left"),
    Case(
        "roll, start='identity'",
        dataset(swiss_roll, 10),
        2,
        "poor_minimum",
        (1500,),
        {"start": "identity", "global_weight": 0},
    ),
)


def outcome(case: Case, found: Diagnosis) -> str:
    """One of "right", "uncertain", "wrong"."""
    loud = {v.code for v in found.verdicts if v.severity != "info"} - case.allowed
    codes = set(found.codes)
    wanted = case.wanted
    if found.map is None and wanted == "poor_minimum":
        wanted = "flat"
    if wanted == "flat":
        if loud & ALARMS:
            return "wrong"
        return "right" if codes & (FLAT | case.allowed) else "uncertain"
    if wanted in codes and not (codes & SHAPES) - {wanted}:
        return "right"
    return "uncertain" if "uncertain" in codes and not loud & ALARMS else "wrong"


def run_case(case: Case, n: int, seeds: range) -> tuple[Counter[str], Counter[str], list[str]]:
    """Outcomes before and after, and what was said where it was wrong."""
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    remarks = []
    for seed in seeds:
        graph = case.make(seed, n)
        found = diagnose(graph, n_components=case.n_components, n_jobs=1)
        before[outcome(case, found)] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = embed_graph(graph.to_matrix(), case.n_components, n_jobs=1, **(case.options or {}))
        solved = diagnose(result, n_jobs=1)
        after[outcome(case, solved)] += 1
        for label, said in (("before", found), ("after", solved)):
            if outcome(case, said) != "right":
                remarks.append(f"  {case.name}, n = {n}, seed {seed}, {label}: {', '.join(said.codes)}")
    return before, after, remarks


def verdicts(n_seeds: int, first: int, only: list[str], size: int | None) -> None:
    """Print the table."""
    print("| data | n | N | right verdict | before: right / uncertain / wrong | after |")
    print("|---|---|---|---|---|---|")
    remarks: list[str] = []
    for case in CASES:
        if only and not any(word in case.name for word in only):
            continue
        for n in case.sizes if size is None else (size,):
            before, after, said = run_case(case, n, range(first, first + n_seeds))
            remarks += said
            counts = [
                " / ".join(str(c[key]) for key in ("right", "uncertain", "wrong")) for c in (before, after)
            ]
            row = (case.name, f"{n:,}", str(case.n_components), f"`{case.wanted}`", *counts)
            print(f"| {' | '.join(row)} |", flush=True)
    print("\n".join(("", *remarks)))


def cost(sizes: list[int]) -> None:
    """Print CPU seconds of the fit and of the diagnosis after it."""
    print("| n | fit, CPU s | diagnosis after, CPU s | before, CPU s |")
    print("|---|---|---|---|")
    diagnose(
        embed_graph(knn_graph(swiss_roll(3000, random_state=1).data, 10).to_matrix(), n_jobs=1), n_jobs=1
    )
    for n in sizes:
        graph = knn_graph(swiss_roll(n, random_state=5).data, 10)
        matrix = graph.to_matrix()
        spent = []
        started = time.process_time()
        result = embed_graph(matrix, n_jobs=1)
        spent.append(time.process_time() - started)
        for what in (result, graph):
            started = time.process_time()
            diagnose(what, n_jobs=1)
            spent.append(time.process_time() - started)
        print(f"| {n:,} | {spent[0]:.1f} | {spent[1]:.1f} | {spent[2]:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    table = commands.add_parser("verdicts")
    table.add_argument("--seeds", type=int, default=10)
    table.add_argument("--first", type=int, default=900, help="first seed")
    table.add_argument("--only", nargs="*", default=[])
    table.add_argument("--size", type=int, default=None, help="instead of the sizes of the rows")
    prices = commands.add_parser("cost")
    prices.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    given = parser.parse_args()
    if given.command == "cost":
        cost(given.sizes)
    else:
        verdicts(given.seeds, given.first, given.only, given.size)


if __name__ == "__main__":
    main()
