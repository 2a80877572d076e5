"""The table: 89 small graphs, and for each what must come out for N = 1, 2, 3, 7, 13."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from adversarial_graphs import (
    SMALLEST,
    barbell,
    binary_tree,
    bipartite,
    caterpillar,
    circulant,
    complete,
    cycle,
    disjoint,
    euclidean,
    grid,
    hubs,
    hypercube,
    icosahedron,
    ladder,
    lollipop,
    multipartite,
    path,
    petersen,
    plane,
    random_regular,
    random_tree,
    ring_of_cliques,
    scaled,
    sphere,
    spider,
    star,
    torus_grid,
    wheel,
    with_edges,
    with_isolated,
    with_lengths,
    with_twins,
)

DIMENSIONS = (1, 2, 3, 7, 13)
ALL = DIMENSIONS
PLANE_AND_UP = (2, 3, 7, 13)


@dataclass(frozen=True)
class Case:
    """One graph of the table.

    Attributes
    ----------
    make : callable
        Returns the sparse matrix.
    points : int
        Distinct points of the largest component: N of that many or more is refused.
    parts : int
        Connected components; more than one are announced by a warning.
    exact : tuple of int
        N for which theory promises that all edges keep their lengths.
    halved : tuple of int
        N for which some edges may come out at half their length; the others keep theirs.
    regular : tuple of int
        N for which all edges must come out equally long, by symmetry.
    misfit : dict
        N to the largest relative energy allowed.
    error : (type, pattern) or None
        What every N raises.
    settings : dict
        Further arguments.
    """

    make: Callable[[], Any]
    points: int
    parts: int = 1
    exact: tuple[int, ...] = ()
    halved: tuple[int, ...] = ()
    regular: tuple[int, ...] = ()
    misfit: dict[int, float] = field(default_factory=dict)
    error: tuple[type[Exception], str] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


def refused(make, pattern, error=ValueError, **settings):
    return Case(make, 0, error=(error, pattern), settings=settings)


def normal(n, dimension, seed):
    return np.random.default_rng(seed).normal(size=(n, dimension))


def random_lengths(n, seed):
    return np.random.default_rng(seed).uniform(0.01, 10.0, size=n)


TOO_FEW = "at least 2 vertices, got shape"
TOO_WIDE = r"distances span from .* to .*, a ratio over 1e\+70"
OVERFLOW = r"extends beyond the largest number"

CASES: dict[str, Case] = {
    # Hardly any vertices.
    "no vertex": refused(lambda: sp.coo_array((0, 0)), TOO_FEW),
    "one vertex": refused(lambda: sp.coo_array((1, 1)), TOO_FEW),
    "two vertices": Case(lambda: path(2), 2, exact=ALL),
    "two vertices, no edge": Case(lambda: sp.coo_array((2, 2)), 1, parts=2),
    "two duplicates": Case(lambda: path(2, 0.0), 1, exact=ALL),
    "three in a row": Case(lambda: path(3), 3, exact=ALL),
    "triangle": Case(lambda: cycle(3), 3, exact=(2,)),
    "a duplicate and one more": Case(lambda: path(3, [0.0, 1.0]), 2, exact=ALL),
    # Paths and trees: the rows of every frame fit together along the edges in two dimensions and more.
    "path": Case(lambda: path(30, np.linspace(1.0, 2.0, 29)), 30, exact=ALL),
    "path growing 24 orders": Case(lambda: path(30, np.logspace(-12, 12, 29)), 30, exact=ALL),
    # Equal rays: the Gram matrix at the centre of a star of m rays has one eigenvalue m - 1 times over, and
    # rounding of LAPACK chooses the axes among its eigenvectors. On a line, a ray whose entry is zero has no
    # direction at the centre, but one at its leaf: half its length is the best compromise.
    "star": Case(lambda: star(16), 16, exact=PLANE_AND_UP, halved=(1,)),
    "star of unequal rays": Case(lambda: star(16, np.linspace(1.0, 3.0, 15)), 16, exact=ALL),
    "star beyond the hub limit": Case(lambda: star(160), 160, exact=PLANE_AND_UP, halved=(1,)),
    "binary tree": Case(lambda: binary_tree(4), 31, exact=PLANE_AND_UP),
    "random tree": Case(lambda: random_tree(30, 7), 30, exact=PLANE_AND_UP),
    # Equal branches leave frames of few dimensions without some directions, hence not below seven.
    "caterpillar": Case(lambda: caterpillar(8, 3), 32, exact=(7, 13)),
    "spider": Case(lambda: spider(5, 6), 31, exact=(7, 13)),
    # Cycles.
    "square": Case(lambda: cycle(4), 4, regular=(2, 3)),
    "pentagon": Case(lambda: cycle(5), 5, regular=(2, 3)),
    "cycle of 17": Case(lambda: cycle(17), 17, regular=(2,), misfit={2: 0.05, 13: 0.05}),
    "cycle of 40": Case(lambda: cycle(40), 40, regular=(2,), misfit={2: 0.01, 13: 0.01}),
    "long cycle with a chord": Case(
        lambda: with_edges(cycle(90), [(0, 45, 1.0)]), 90, misfit={2: 0.01, 7: 0.01}
    ),
    # Grids.
    "grid": Case(lambda: grid(6, 7), 42, misfit={2: 0.1}),
    "grid with diagonals": Case(lambda: grid(6, 7, reach=1.5), 42, misfit={2: 0.01}),
    "grid up to distance 3": Case(lambda: grid(7, 7, reach=3.0), 49, misfit={2: 0.001}),
    "grid of cubes": Case(lambda: grid(4, 4, 4), 64, misfit={3: 0.2}),
    "grid of cubes with diagonals": Case(lambda: grid(4, 4, 4, reach=1.8), 64, misfit={3: 0.01}),
    "ladder": Case(lambda: ladder(12), 24, misfit={2: 0.01}),
    "long thin grid": Case(lambda: grid(2, 40), 80, misfit={2: 0.01}),
    "closed ladder": Case(lambda: ladder(12, closed=True), 24, misfit={3: 0.05}),
    "Möbius ladder": Case(lambda: ladder(12, twisted=True, closed=True), 24, misfit={7: 0.06}),
    "torus": Case(lambda: torus_grid(7, 9), 63, misfit={7: 0.1}),
    # Complete graphs: exact where the points are points of R^N.
    "complete, of a line": Case(lambda: euclidean(np.cumsum(random_lengths(15, 3))), 15, exact=ALL),
    "complete, of a line in the plane": Case(
        lambda: euclidean(np.c_[np.arange(15.0), 2.0 * np.arange(15.0)]), 15, exact=ALL
    ),
    "complete, of space": Case(lambda: euclidean(normal(20, 3, 5)), 20, exact=(3, 7, 13)),
    "complete, of a thin sheet": Case(
        lambda: euclidean(normal(20, 2, 5) * np.array([1.0, 1e-4])), 20, exact=(2, 3, 7, 13)
    ),
    "regular simplex": Case(lambda: complete(14), 14, exact=(13,)),
    "complete, lengths 1 and 100": Case(lambda: complete(15, [1.0, 100.0]), 15),
    # Clusters and hubs.
    "barbell": Case(lambda: barbell(8, 4), 19, misfit={13: 0.01}),
    "two cliques, one bridge": Case(lambda: barbell(10, 1), 20),
    "ring of cliques": Case(lambda: ring_of_cliques(5, 5), 25),
    "lollipop": Case(lambda: lollipop(9, 8), 17, misfit={13: 0.01}),
    "wheel": Case(lambda: wheel(14), 14),
    "hub of degree n - 1": Case(lambda: hubs(180, 1, 17), 180, misfit={2: 0.01}),
    "three hubs of degree n - 1": Case(lambda: hubs(180, 3, 17), 180, misfit={2: 0.01}),
    # Graphs with many symmetries.
    "hypercube of 16": Case(lambda: hypercube(4), 16),
    "hypercube of 64": Case(lambda: hypercube(6), 64, misfit={7: 0.05}),
    "Petersen": Case(lambda: petersen(), 10),
    "icosahedron": Case(lambda: icosahedron(), 12, regular=(3,), misfit={3: 0.05}),
    "bipartite": Case(lambda: bipartite(5, 9), 14),
    "multipartite": Case(lambda: multipartite(5, 3), 15),
    "circulant": Case(lambda: circulant(31, (1, 4, 9)), 31),
    "random regular": Case(lambda: random_regular(40, 4, 11), 40),
    "sphere": Case(lambda: sphere(80, 6), 80, misfit={3: 0.05}),
    # Parts.
    "isolated vertices": Case(lambda: with_isolated(cycle(16), 3), 16, parts=4),
    "two equal parts": Case(lambda: disjoint(cycle(16), cycle(16)), 16, parts=2),
    "no edges": Case(lambda: sp.coo_array((6, 6)), 1, parts=6),
    "parts of all sizes": Case(
        lambda: disjoint(path(2), plane(40, 6, 19), sp.coo_array((1, 1)), complete(3, 1e-9)), 40, parts=4
    ),
    "parts, one allowed": refused(
        lambda: disjoint(cycle(16), cycle(16)), "2 connected components", components="error"
    ),
    "the largest part only": Case(
        lambda: disjoint(cycle(15), cycle(16)), 16, parts=2, settings={"components": "largest"}
    ),
    # Duplicates.
    "all duplicates": Case(lambda: complete(5, 0.0), 1, exact=ALL),
    "chain of duplicates": Case(lambda: path(9, 0.0), 1, exact=ALL),
    "some duplicates": Case(lambda: with_twins(plane(40, 6, 19), [0, 3, 3, 7]), 40, misfit={2: 0.1}),
    "duplicates in chains": Case(lambda: path(20, [0.0, 0.0, 0.0, 1.0]), 5, exact=ALL),
    # Lengths at the ends of the number range.
    "denormal lengths": Case(lambda: cycle(20, [SMALLEST, 1e-322, 4e-323]), 20, misfit={2: 0.01}),
    "smallest number everywhere": Case(lambda: complete(14, SMALLEST), 14),
    "lengths near 1e-300": Case(lambda: scaled(plane(40, 6, 19), 1e-300), 40, misfit={2: 0.1}),
    "lengths near 1e300": Case(lambda: scaled(plane(40, 6, 19), 1e300), 40, misfit={2: 0.1}),
    "largest lengths, small map": Case(lambda: complete(14, 1.7e308), 14),
    "largest lengths, long map": refused(lambda: path(16, 1.7e308), OVERFLOW),
    "ratio 1e16": Case(lambda: with_lengths(plane(40, 6, 19), np.logspace(-8, 8, 7)), 40),
    "ratio 1e60": Case(lambda: with_lengths(plane(40, 6, 19), np.logspace(-30, 30, 7)), 40),
    "ratio 1e60 along a path": Case(lambda: path(20, np.logspace(-30, 30, 19)), 20, exact=ALL),
    "ratio just under 1e70": Case(lambda: with_lengths(grid(5, 5), [1e-35, 1e34]), 25),
    "ratio just over 1e70": refused(lambda: with_lengths(grid(5, 5), [1e-35, 1.2e35]), TOO_WIDE),
    "denormal to 1e300": refused(lambda: with_lengths(grid(5, 5), [SMALLEST, 1e300]), TOO_WIDE),
    "one edge of 1e-60": Case(lambda: with_edges(grid(5, 5, reach=1.5), [(0, 24, 1e-60)]), 25),
    "one edge of 1e60": Case(lambda: with_edges(grid(5, 5, reach=1.5), [(0, 24, 1e60)]), 25),
    # Lengths no metric has.
    "triangle 1, 1, 5": Case(lambda: cycle(3, [1.0, 1.0, 5.0]), 3),
    "edge longer than the path around": Case(lambda: with_edges(grid(5, 5, reach=1.5), [(0, 24, 50.0)]), 25),
    "random lengths": Case(lambda: with_lengths(random_regular(40, 6, 23), random_lengths(120, 29)), 40),
    # What is stored and how.
    "integers": Case(lambda: sp.csr_array(grid(6, 7).astype(np.int64)), 42, misfit={2: 0.1}),
    "stored zeros on the diagonal": Case(
        lambda: with_edges(grid(6, 7), [(i, i, 0.0) for i in range(42)]), 42, misfit={2: 0.1}
    ),
    "a loop of length 2": refused(
        lambda: with_edges(grid(6, 7), [(4, 4, 2.0)]), r"Diagonal entry \(4, 4\) is 2; .* must be zero"
    ),
    "two lengths for one edge": refused(
        lambda: with_edges(grid(6, 7), [(1, 0, 3.0)]),
        r"disagree: entry \(0, 1\) = 1.0 and entry \(1, 0\) = 3.0",
    ),
    "two lengths, the mean": Case(
        lambda: with_edges(grid(6, 7), [(1, 0, 3.0)]), 42, settings={"asymmetry": "mean"}
    ),
    "NaN": refused(lambda: with_edges(grid(6, 7), [(0, 9, np.nan)]), r"Entry \(0, 9\) is nan: NaN distances"),
    "infinite": refused(
        lambda: with_edges(grid(6, 7), [(0, 9, np.inf)]), r"Entry \(0, 9\) is inf: infinite distances"
    ),
    "negative": refused(
        lambda: with_edges(grid(6, 7), [(0, 9, -1.0)]), r"Entry \(0, 9\) is -1.0: negative distances"
    ),
}
