"""Memory, time and solver of a fit, predicted before it is made.

Both are closed formulas in the numbers of vertices n, stored edges m (two per undirected edge) and dimensions N, the
squares of the degrees, the frames and the Cholesky factor, which is counted. In those of memory 8, 4 and 1 are
float64, int32 and bool. ``benchmarks/forecast.py`` compares them with fits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from isoweave._memory import MemoryLimit, resident_bytes, resolve_limit, show_bytes
from isoweave._parallel import resolve_n_jobs
from isoweave.geometry import resolve_frame_size
from isoweave.geometry._local_mds import ALL_FRAME_LIMIT, HUB_LIMIT
from isoweave.graph import (
    NeighborGraph,
    choose_knn_search,
    connected_components,
    graph_from_matrix,
    local_order,
    renumber,
    subgraph,
)
from isoweave.linalg._auto import choose_for
from isoweave.linalg._base import MAX_FILL, Laplacian
from isoweave.linalg._cholesky import analyse
from isoweave.linalg._ordering import MAX_FILL_RATIO
from isoweave.optimise._coarse import THINNING
from isoweave.optimise._starts import LOW_DIMENSION, N_LANDMARKS, SYNCHRONISED_LIMIT

if TYPE_CHECKING:
    from isoweave.embedding import EmbeddingOptions

# Above this many vertices a ball of half as many is counted instead, unless it fills in faster than surfaces do.
_COUNTED = 50_000
_FILL_OF_SURFACES = 8.0
# What every fit adds beside its arrays: small pieces, stacks and heaps of the threads, and, for the first
# fit of a process, compiled code. Freed arrays of up to 32 MB are not always of use to the next.
_ALLOWANCE, _PER_THREAD, _FIRST_FIT = 8e6, 2e6, 60e6
_FRAGMENTS, _MOST_FRAGMENTS = 0.15, 40e6
# Steps of the optimiser (4 to 20 as a rule) and of the paper's recursion.
_STEPS, _RECURSION_STEPS = 10, 300
# Seconds that a stage takes however small the component is.
_OVERHEAD = {"frames": 0.0006, "solver": 0.0015, "start": 0.005, "optimise": 0.003, "result": 0.0002}


@dataclass(frozen=True)
class StageEstimate:
    """One stage of a fit: its processor seconds, and how much its peak adds to the process before the fit."""

    name: str
    growth_bytes: int
    cpu_seconds: float


@dataclass(frozen=True)
class ResourceEstimate:
    """What a fit will need.

    Attributes
    ----------
    n_vertices, n_edges : int
        Of the graph given; every undirected edge counts once.
    peak_bytes : int
        Largest resident memory of the whole process: what it has now and ``growth_bytes``.
    growth_bytes : int
        What the fit adds at its peak.
    seconds, cpu_seconds : float
        Time to wait, and processor time of all threads. Rough: a factor of two either way.
    solver, solver_reason : str
        Of the Poisson problems of the largest component.
    stages : tuple of StageEstimate
        In order.
    limit_bytes : int or None
        Most memory the process may have; None: no limit.
    limit_source : str
    """

    n_vertices: int
    n_edges: int
    peak_bytes: int
    growth_bytes: int
    seconds: float
    cpu_seconds: float
    solver: str
    solver_reason: str
    stages: tuple[StageEstimate, ...]
    limit_bytes: int | None
    limit_source: str

    @property
    def fits(self) -> bool:
        """Whether the peak stays under the limit."""
        return self.limit_bytes is None or self.peak_bytes <= self.limit_bytes

    @property
    def fullest(self) -> StageEstimate:
        """The stage in which memory peaks."""
        return max(self.stages, key=lambda stage: stage.growth_bytes)


def estimate_resources(
    graph: Any,
    n_components: int = 2,
    *,
    asymmetry: str = "error",
    n_jobs: int | None = None,
    **options: Any,
) -> ResourceEstimate:
    """Predict memory, time and solver of :func:`embed_graph` without embedding.

    Parameters
    ----------
    graph : sparse matrix of shape (n, n) or NeighborGraph
        As given to :func:`embed_graph`. For a matrix the graph made from it is counted too.
    n_components : int
    asymmetry : str
    n_jobs : int or None
        Threads of the fit.
    **options
        Of :func:`embed_graph`; ``memory_limit`` is what ``limit_bytes`` and ``fits`` refer to. Anchors and
        refinement are not counted.

    Returns
    -------
    ResourceEstimate

    Notes
    -----
    Takes a few percent of the time of the fit. Memory is meant to be right to -5 and +25 %; docs/forecast.md
    has predicted and measured peaks. The first fit of a process also loads compiled code, which is added where
    it has not happened yet; compiling it, once after installation, takes about 20 s and 170 MB more.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> ring = sp.diags_array([1.0, 2.0], offsets=[1, 2], shape=(1000, 1000))
    >>> estimate = estimate_resources(ring, n_components=2)
    >>> estimate.solver, estimate.growth_bytes < 200e6
    ('direct', True)
    """
    from isoweave.embedding import resolve_options

    resident = resident_bytes()
    resolved = resolve_options(n_components, **options)
    checked = graph_from_matrix(graph, asymmetry=asymmetry)
    fit = _look(checked, resolved, resolve_n_jobs(n_jobs))
    fit = replace(fit, from_matrix=not isinstance(graph, NeighborGraph))
    growths, cpu, limit = _growths(fit), _cpu_seconds(fit), resolve_limit(resolved.memory_limit)
    return ResourceEstimate(
        n_vertices=checked.n_vertices,
        n_edges=checked.n_edges,
        peak_bytes=resident + max(growths.values()),
        growth_bytes=max(growths.values()),
        seconds=_wall_seconds(cpu, fit.largest.n_threads),
        cpu_seconds=sum(cpu.values()),
        solver=fit.largest.solver,
        solver_reason=fit.reason,
        stages=tuple(StageEstimate(stage, size, cpu.get(stage, 0.0)) for stage, size in growths.items()),
        limit_bytes=None if math.isinf(limit.bytes) else int(limit.bytes),
        limit_source=limit.source,
    )


def expected_seconds(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> float:
    """Time to wait for a fit, to a factor of two."""
    return _wall_seconds(_cpu_seconds(_look(graph, options, n_threads)), n_threads)


def check_memory(graph: NeighborGraph, options: EmbeddingOptions, n_jobs: int | None) -> None:
    """Refuse a fit that would need more than ``options.memory_limit``.

    The largest factor that a solver would make settles most fits in no time; it is counted near the limit only.
    """
    limit = resolve_limit(options.memory_limit)
    if math.isinf(limit.bytes) or graph.n_edges == 0:
        return
    n_threads, resident = resolve_n_jobs(n_jobs), resident_bytes()
    if resident + _growth(_bound(graph, options, n_threads)) <= limit.bytes:
        return
    fit = _look(graph, options, n_threads)
    if resident + _growth(fit) > limit.bytes:
        raise MemoryError(_refusal(fit, resident, limit))


def check_search_memory(n: int, d: int, k: int, limit: float | None, n_jobs: int | None = None) -> None:
    """Refuse a search for the k nearest of n points of d features that would exceed ``limit`` (bytes, or None)."""
    resolved, resident = resolve_limit(limit), resident_bytes()
    # Distances of up to 256 points to all, by every thread.
    blocks = 0 if choose_knn_search(n, d) == "tree" else 4.0 * n * min(256, max(8, 2**25 // max(n, 1)))
    growth = 24.0 * n * d + max(80.0 * n * k, resolve_n_jobs(n_jobs) * blocks + 12.0 * n * k) + _ALLOWANCE
    if resident + growth > resolved.bytes:
        raise MemoryError(
            f"The search for {k} neighbours of {n:,} points of {d:,} features would need {show_bytes(resident + growth)} "
            f"of memory, {show_bytes(resident)} of which the process has already; the limit is "
            f"{show_bytes(resolved.bytes)} ({resolved.source}). Lower n_neighbors, reduce the features (PCA) or take "
            "fewer points; or raise memory_limit ('none' switches this check off)."
        )


# --- The sizes that the formulas see


@dataclass(frozen=True)
class _Part:
    """A connected graph to be embedded.

    ``squares`` is the sum of squared degrees; a ``frame`` of 0 is the second-order neighbourhood, ``typical`` the
    root mean square of its vertices; ``entries`` are those of the Laplacian and ``fill`` those of its factor, used
    or not; ``factor`` and ``workspace`` are bytes.
    """

    n: int
    m: float
    squares: float
    largest_degree: int
    frame: int
    typical: float
    entries: float
    fill: float
    factor: float
    workspace: float
    solver: str
    n_threads: int
    options: EmbeddingOptions

    @property
    def is_direct(self) -> bool:
        return self.solver in ("direct", "cholmod")

    @property
    def coarse_entries(self) -> float:
        """Of the multigrid hierarchy; around the hubs of scale-free graphs coarse matrices are full."""
        return (self.n / 7) ** 2 if self.squares * self.n > 2 * self.m**2 else 0.5 * self.entries

    @property
    def start(self) -> str:
        """The start that is taken; "both" are those of landmarks and synchronised."""
        start, c = self.options.start, self.options.n_components
        if not isinstance(start, str):
            return "given"
        if start != "auto" or c > LOW_DIMENSION:
            return start if start != "auto" else "landmark"
        return "coarse" if self.n * c > SYNCHRONISED_LIMIT else "both"

    def with_fill(self, fill: float) -> _Part:
        """With the factor that is typical of so many entries."""
        full = self.n * (self.n + 1) / 2
        fill = min(fill, full)
        factor = 8.2 * fill + 10 * self.entries + 40 * self.n
        return replace(self, fill=fill, factor=factor, workspace=min(4 + 100 * fill / full, 40) * fill)


@dataclass(frozen=True)
class _Fit:
    """A graph; its largest component, and groups of others of about the same size."""

    n: int
    m: int
    squares: float
    largest: _Part
    others: tuple[tuple[int, _Part], ...]
    reason: str
    from_matrix: bool = False


def _look(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> _Fit:
    """Sizes of a fit; the factor of the largest component is counted if it may be made."""
    n_parts, labels = connected_components(graph)
    part = graph if n_parts == 1 else subgraph(graph, np.flatnonzero(labels == 0))
    largest, reason = _with_solver(_part(part, options, n_threads), part)
    others = []
    if options.components != "largest":
        sizes, edges = np.bincount(labels)[1:], np.bincount(labels, weights=graph.degrees)[1:]
        group = np.round(4 * np.log2(sizes))
        for g in np.unique(group[sizes > 1]):
            n, m = sizes[group == g], edges[group == g]
            others.append((len(n), _smaller(largest, int(n.mean()), float(m.mean()))))
    squares = float(np.sum(graph.degrees.astype(np.float64) ** 2))
    return _Fit(graph.n_vertices, len(graph.indices), squares, largest, tuple(others), reason)


def _bound(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> _Fit:
    """Sizes that a fit will not exceed, without a look at the factor."""
    part = _part(graph, options, n_threads)
    n, entries = part.n, part.entries
    if options.inner_product == "paper":
        entries = min(part.squares + entries, float(n) ** 2)
    fill = min(n * (n + 1) / 2, float(MAX_FILL), MAX_FILL_RATIO * entries if options.solver == "auto" else math.inf)
    fill = max(fill, min(n, 3000) ** 2 / 2)
    solver = "direct" if options.solver == "auto" else options.solver
    part = replace(part, entries=entries, fill=fill, factor=13 * fill, workspace=40 * fill, solver=solver)
    # As one of several parts, which is a copy of its piece of the graph.
    return _Fit(n, len(graph.indices), part.squares, part, ((0, part),), "")


def _part(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> _Part:
    n, m = graph.n_vertices, len(graph.indices)
    degrees = graph.degrees.astype(np.float64)
    size = resolve_frame_size(graph, options.frame_size, options.n_components)
    if size > 0:
        frames = np.maximum(np.minimum(degrees, max(size, HUB_LIMIT)), size)
    else:
        rows = np.linspace(0, n - 1, min(n, 400)).astype(np.int64)
        frames = np.minimum(np.diff((_pattern(graph)[rows] @ _pattern(graph)).indptr), ALL_FRAME_LIMIT)
    squares, most = float(np.sum(degrees**2)), int(degrees.max(initial=0.0))
    typical = float(np.sqrt(np.mean(frames.astype(np.float64) ** 2)))
    part = _Part(n, m, squares, most, size, typical, n + m, 0, 0, 0, options.solver, n_threads, options)
    # Where it is not counted: of surfaces, or of solids if there are three dimensions.
    return part.with_fill((n + m) * (4.0 if options.n_components <= 2 else max(0.45 * n ** (1 / 3), 4.0)))


def _with_solver(part: _Part, graph: NeighborGraph) -> tuple[_Part, str]:
    """The solver the fit will choose, the size of its factor, and the reason."""
    paper = part.options.inner_product == "paper"
    is_asked = part.solver not in ("auto", "direct", "cholmod")
    if is_asked and not paper and part.n * part.options.n_components > SYNCHRONISED_LIMIT:
        return part, "asked for"
    if part.n > _COUNTED and not paper:
        ball = _counted(part, _ball(graph), paper)
        # On surfaces the ratio of fill grows with the logarithm.
        ratio = ball.fill / ball.entries * (math.log2(part.n) - 5) / (math.log2(_COUNTED / 2) - 5)
        fill = ratio * part.entries
        if ratio <= _FILL_OF_SURFACES and fill <= 0.5 * MAX_FILL:
            part = replace(part.with_fill(fill), workspace=ball.workspace * fill / ball.fill)
            ...
    # As the fit does it: minimum degree is faster on a local numbering, and breaks its ties by it.
    order = local_order(graph)
