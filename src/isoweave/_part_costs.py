"""What one connected component costs: the formulas of :mod:`isoweave.forecast`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from isoweave._typing import AnyArray, FloatArray
from isoweave.geometry import ALL_FRAME_LIMIT, HUB_LIMIT, resolve_frame_size
from isoweave.graph import NeighborGraph, local_order, renumber
from isoweave.linalg import MAX_FILL, SMALL_FACTOR, choose_solver, hub_limit, prepare_laplacian
from isoweave.optimise import (
    DENSE_DEGREE,
    EXTRA,
    LOW_DIMENSION,
    MANY_NUMBERS,
    N_LANDMARKS,
    SYNCHRONIZED_LIMIT,
    THINNING,
    n_far_landmarks,
)
from isoweave.options import EmbeddingOptions

# Steps of the optimiser (4 to 20 as a rule), of the paper's recursion, and of lifting.
_STEPS, _RECURSION_STEPS, _LIFTED_STEPS = 10, 300, 200
# Mean square over squared mean of degrees: 1.1 at most where neighbours were searched, 2 if scale-free.
_UNEVEN = 1.5
# Components of up to so many vertices, one of several, have a formula of their own: refining and long
# distances are most of the work there. Seconds of one that is embedded together with others and of one alone,
# however small; of a pair of vertices near each other; and in how many such pairs a vertex is at most.
SMALL = 512
_TOGETHER, _ALONE, _PAIR, _NEAR = 0.00012, 0.008, 6e-6, 50


@dataclass(frozen=True)
class PartSizes:
    """A connected graph to be embedded.

    ``frame`` is the root mean square of f, ``entries`` are those of the Laplacian, ``fill`` those of its
    Cholesky factor, used or not; ``tied`` are dense graphs whose lengths are mostly equal, such as hop
    counts, ``is_uneven`` those of very different degrees even without their hubs.
    """

    n: int
    m: float
    frame: float
    entries: float
    solver: str
    n_threads: int
    options: EmbeddingOptions
    fill: float = 0.0
    reason: str = "asked for"
    tied: bool = False
    is_uneven: bool = False

    @property
    def steps(self) -> int:
        """Of the optimiser."""
        steps = _RECURSION_STEPS if self.options.optimizer == "alternating" else _STEPS
        return min(steps, self.options.max_iter)

    def with_fill(self, fill: float) -> PartSizes:
        """With a factor of so many entries, or a full one."""
        return replace(self, fill=min(fill, self.n * (self.n + 1) / 2))

    def with_edges(self, m: float) -> PartSizes:
        """One of the same kind with fewer edges."""
        share = (self.n + m) / (self.n + self.m)
        return replace(self, m=m, entries=share * self.entries).with_fill(share * self.fill)

    @property
    def start(self) -> str:
        """The start that is taken; "both" are those of landmarks and synchronized."""
        start, c = self.options.start, self.options.n_components
        if not isinstance(start, str) or start != "auto":
            return start if isinstance(start, str) else "given"
        return "landmark" if c > LOW_DIMENSION else "coarse" if self.n * c > SYNCHRONIZED_LIMIT else "both"

    @property
    def coarse_entries(self) -> float:
        """Of multigrid's coarse matrices, which are half full where degrees are uneven."""
        return (self.n / 14) ** 2 if self.is_uneven else 2.0 * self.n

    @property
    def companion(self) -> tuple[int, float, float]:
        """Vertices, edges and fill of the synchronized start of this graph, or of the last of its samples."""
        n, c, coarse = self.n, self.options.n_components, self.start == "coarse"
        ratio, degree = self.fill / max(self.entries, 1.0), max(20, min(1.8 * self.m / n, 40), 2 * c)
        if not coarse and self.m <= DENSE_DEGREE * n:
            # The companion keeps the graph's own edges.
            degree = max(degree, self.m / n)
        # Two vertices are sampled no further.
        while coarse and n > 2 and (n == self.n or n * c > SYNCHRONIZED_LIMIT):
            # Samples have 14 neighbours. Fill over entries of graphs and their samples: 3.7 and 3.1 on
            # 200,000 points of a swiss roll, 3.4 and 3.6 on a sphere, 21 and 7 in a cube, 87 and 15 if
            # scale-free.
            n, degree, ratio = max(n // THINNING, 2), 28, 1.9 * math.sqrt(ratio)
        m = n * min(1.15 * degree, n - 1)
        return n, m, min(1.1 * ratio * (n + m), n * (n + 1) / 2)


def squares_of(graph: NeighborGraph) -> float:
    return float(np.sum(graph.degrees.astype(np.float64) ** 2))


def part_sizes(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> PartSizes:
    """A connected graph before its factor is counted: as a surface has it, or in three dimensions a solid."""
    n, m, c = graph.n_vertices, len(graph.indices), options.n_components
    # In the paper's product vertices that see a common one are coupled.
    entries = min(squares_of(graph), float(n) ** 2) if options.inner_product == "paper" else float(n + m)
    size = resolve_frame_size(graph.degrees, options.frame_size, c)
    frames = np.maximum(np.minimum(graph.degrees, max(size, HUB_LIMIT)), size)
    if size == 0:
        # Second-order neighbourhoods, of some vertices.
        pattern = _pattern(graph)
        rows = np.linspace(0, n - 1, min(n, 400)).astype(np.int64)
        frames = np.minimum(np.diff((pattern[rows] @ pattern).indptr), ALL_FRAME_LIMIT)
    tied = size >= HUB_LIMIT and 100 * len(np.unique(graph.lengths)) < m
    # Vertices at equal distances are taken together, up to another frame of them.
    typical = min(float(np.sqrt((1 + tied) * np.mean(frames.astype(np.float64) ** 2))), n - 1.0)
    solver = options.solver
    if solver == "auto":
        solver = "direct" if n <= SMALL_FACTOR else "amg"
    rows = graph.degrees[graph.degrees <= hub_limit(graph.indptr)].astype(np.float64)
    uneven = bool(np.mean(rows**2) > _UNEVEN * np.mean(rows) ** 2)
    part = PartSizes(n, m, typical, entries, solver, n_threads, options, tied=tied, is_uneven=uneven)
    return part.with_fill(entries * (4.0 if c <= 2 else max(0.45 * n ** (1 / 3), 4.0)))


def with_solver(part: PartSizes, graph: NeighborGraph) -> PartSizes:
    """With the solver the fit will choose and the size of its factor, counted."""
    paper, is_open = part.options.inner_product == "paper", part.options.solver == "auto"
    # A synchronized start makes a factor whatever the solver is.
    is_made = part.solver == "direct" or part.start in ("both", "synchronized", "lifted")
    if not (is_made or is_open or paper):
        return part
    # As the fit does it: minimum degree is faster on a local numbering, and breaks its ties by it.
    order = local_order(graph)
    pattern = _pattern(graph if order is None else renumber(graph, order))
    laplacian = prepare_laplacian(csgraph.laplacian(pattern @ pattern if paper else pattern))
    part = replace(part, entries=float(len(laplacian.data)))
    if is_open:
        choice = choose_solver(laplacian)
        part = replace(part, solver=choice.solver, reason=choice.reason)
    if not is_made:
        return part
    plan = laplacian.elimination()
    if part.solver == "direct" and plan.fill > MAX_FILL:
        reason = f"its Cholesky factor has more than {MAX_FILL:,} entries"
        part = replace(part, solver="jacobi", reason=reason)
    return part.with_fill(plan.fill)


def _pattern(graph: NeighborGraph) -> sp.csr_array:
    shape = (graph.n_vertices, graph.n_vertices)
    return sp.csr_array((np.ones(len(graph.indices)), graph.indices, graph.indptr), shape=shape)


def bytes_by_stage(s: PartSizes) -> dict[str, float]:
    """Bytes alive at the peak of every stage of a connected graph."""
    n, m, c, entries, threads = s.n, s.m, s.options.n_components, s.entries, s.n_threads
    paper, block = s.options.inner_product == "paper", 8 * n * c
    # Rows and weights; dense matrices of every thread while it scales a neighbourhood.
    kept = 8 * m * c + m + block + 16 * n + (8 * m * c if paper else 8 * m)
    scratch = threads * (20 * n + 140 * min(s.frame, n) ** 2)
    peaks = {"frames": kept + max(4 * m + block + 16 * n + scratch, 8 * m * c + 9 * m)}
    # The matrix, beside it the checked copy that solvers read.
    matrix, checked = 12 * entries + 4 * n, 12 * entries + 24 * n
    making = 50 * entries - checked + 40 * m * c * paper
    if s.solver == "direct":
        making = 58 * entries
        # Rows and values of its factor; the matrix in the order of elimination.
        method, building = 12 * s.fill + 16 * n, 20 * entries + 60 * n
    elif s.solver == "amg":
        # Prolongations of about 3.5 entries a vertex, both ways.
        method, building = 100 * n + 12 * s.coarse_entries, 60 * n + 8 * s.coarse_entries
    else:
        method, building = (6 * entries + 180 * n,) * 2 if s.solver == "ic" else (8.0 * n, 0.0)
    peaks["solver"] = kept + matrix + checked + max(making, method + building)
    kept += checked + method
    peaks["start"] = kept + _start_bytes(s)
    # Coordinates, gradients and what a solve needs; ten steps are remembered with three blocks each, half
    # as large where there are many numbers. At the end alignments and stretch.
    remembered = 0.0 if s.options.optimizer == "alternating" else 3.0 * min(10, s.options.max_iter)
    remembered *= 0.5 if n * c > MANY_NUMBERS else 1.0
    blocks = remembered + 3 * c + 11
    solve = max(8 * m * c, block * (7 if s.solver == "direct" else 13 if s.solver == "amg" else 11))
    peaks["optimise"] = kept + max(block * blocks + solve, block * (7 * c + 6))
    if s.options.global_weight != "auto" and s.options.global_weight > 1.0:
        # Many landmarks: their geodesics, a copy to turn them around, and products.
        peaks["optimise"] += 24 * n * n_far_landmarks(n, c, s.options.global_weight)
    if s.options.scale == "geodesics":
        peaks["optimise"] = max(peaks["optimise"], kept + block * (c + 2) + _landmark_bytes(s))
    return peaks


def _start_bytes(s: PartSizes) -> float:
    n, m, c = s.n, s.m, s.options.n_components
    if s.start in ("given", "landmark"):
        return _landmark_bytes(s) if s.start == "landmark" else 0.0
    if s.start == "identity":
        # Every edge gets the alignment of its source.
        return 8 * m * c * c + 24 * m * c + 8 * n * c * c
    if s.start == "lifted":
        # A matrix with a block per edge, its copies and its factor.
        return (c + max(EXTRA)) ** 2 * (80 * (m + n) + 12 * s.fill)
    # Frames of the companion graph; SuperLU holds a row number and a value per entry of both factors.
    vertices, edges, fill = s.companion
    synchronized = edges * (40 + 8 * c + 32 * c * c) + 24 * fill * c * c + 8 * vertices * c * (c + 1)
    if s.start != "coarse":
        return max(synchronized, _landmark_bytes(s))
    # Up to 8,192 balls of 336 vertices at once; the sample is embedded as the graph was.
    balls = 24 * min(8192, n / THINNING) * min(336, n) + s.n_threads * 20 * n + 35 * n
    sample = n * (100 + 34 * math.sqrt(s.fill / max(s.entries, 1.0)) + 60 * c + 3 * c * c)
    return max(12 * m + 40 * n, 108 * n + max(balls, synchronized, sample))


def _landmark_bytes(s: PartSizes) -> float:
    # Distances, their squares and a scaled copy of those.
    return 24 * s.n * min(max(N_LANDMARKS, 2 * s.options.n_components + 2), s.n)


def time_by_stage(s: PartSizes) -> dict[str, float]:
    """Nanoseconds of one connected component by stage."""
    n, m, c = s.n, s.m, s.options.n_components
    frames = _frames_time(n, m, s.frame, c, s.tied)
    if s.options.inner_product == "paper":
        # Convex hulls.
        frames += n * 6e4 * 3.0 ** (min(c, 7) - 2)
    if s.solver == "direct":
        factoring = 300 * s.entries + 10 * s.fill + 0.4 * s.fill**2 / n
        solve = 2 * s.fill * ((c + 1) // 2) + 100 * n * c
    elif s.solver == "amg":
        factoring = 180 * s.entries + 20 * s.coarse_entries
        solve = c * (15 * s.entries + 3 * s.coarse_entries + 60 * n)
    else:
        factoring = 1000 * s.entries * (s.solver == "ic")
        solve = (8 if s.solver == "jacobi" else 30) * c * (1.5 * s.entries + 10 * n)
    optimise = (s.steps + 1) * (4e5 + m * (10 + 5 * c * c) + 10 * n * c**3 + solve)
    start = 0.0
    if s.start in ("both", "landmark"):
        again = min(s.steps, _STEPS) / s.steps * optimise * (s.start == "both")
        start = min(max(N_LANDMARKS, 2 * c + 2), n) * (250 * n + 10 * m) + again
    elif s.start == "lifted":
        start = (
            _LIFTED_STEPS * ((c + max(EXTRA)) * s.fill**2 / n + (c + max(EXTRA)) ** 2 * 60 * (m + n))
            + 1e6 * n
        )
    elif s.start == "coarse":
        # The sample has two edges per vertex of the graph.
        start = n * (7000 + 500 * c) + _frames_time(n / THINNING, 2 * n, 22, c)
    if s.start in ("both", "coarse", "synchronized"):
        vertices, edges, fill = s.companion
        start += _frames_time(vertices, edges, 1.4 * edges / vertices, c)
        start += edges * (900 + 150 * c * c) + 3 * fill**2 / vertices
        if m > DENSE_DEGREE * n:
            # Eigenvalues with a small gap or none: many sweeps of the inverse iteration, with a full factor.
            start += 60 * 1.6 * (c + 3) * c * c * (2 * fill + 2 * edges)
    return {
        "frames": frames,
        "solver": 130 * s.entries + factoring,
        "start": start,
        "optimise": optimise + n * (600 + 150 * c * c),
    }


def small_seconds(n: AnyArray, m: AnyArray, c: int, is_together: AnyArray) -> FloatArray:
    """Processor seconds of small components of n vertices and m stored edges, where there are several.

    Those of few neighbours, such as trees, take longer: frames do not tell their shape, long distances do.
    """
    # In more than three dimensions only the landmarks' start is made.
    wide = min(c, LOW_DIMENSION) / 2
    unknown = np.clip(1.0 - (m / n - c) / 4, 0.0, 1.0) ** 2 * wide**2
    pairs = _PAIR * n * np.minimum(n, _NEAR) * wide
    together = _TOGETHER + 0.8 * pairs * (1 + unknown)
    return np.where(is_together, together, _ALONE + pairs * (1 + 4 * unknown))


def _frames_time(n: float, m: float, f: float, c: int, tied: bool = False) -> float:
    """Shortest paths, Gram matrix and eigenvectors of neighbourhoods of f vertices."""
    # Two directions of a surface stand out, and a few sweeps find them; where nothing does, all are in vain,
    # and the whole matrix is decomposed after all. From four dimensions on it is made tridiagonal.
    sweeps = 5 * c if c > 3 and not tied else 4 * (c + 2) + (170 if tied else 5 if c <= 2 else 45)
    return n * (8000 + f * f * (18 + min(m / n, 2 * f) + (sweeps if 3 * (c + 2) < f else 70)))
