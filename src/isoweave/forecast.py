"""Memory, time and solver of a fit, predicted before it is made; what would not fit is refused.

By closed formulas: n is vertices, m stored edges (two per undirected edge), c dimensions, f the vertices of a
frame. Bytes are those of the arrays that stages make; nanoseconds were measured on a server of the 2020s.
``benchmarks/forecast.py`` compares both with fits.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from isoweave._memory import MemoryLimit, resident_bytes, resolve_limit, show_bytes
from isoweave._parallel import resolve_n_jobs
from isoweave.geometry import ALL_FRAME_LIMIT, HUB_LIMIT, resolve_frame_size
from isoweave.graph import (
    TREE_DIMENSIONS,
    NeighborGraph,
    block_rows,
    connected_components,
    graph_from_matrix,
    join_along,
    local_order,
    renumber,
    subgraph,
)
from isoweave.linalg import MAX_FILL, MAX_FILL_RATIO, analyse, choose_solver, prepare_laplacian
from isoweave.optimise import AT_ONCE, DENSE_DEGREE, LOW_DIMENSION, N_LANDMARKS, SYNCHRONIZED_LIMIT, THINNING
from isoweave.options import EmbeddingOptions, FitOptions, documented, resolve_options

# What every fit adds beside its arrays: small pieces, stacks and heaps of the threads, and, for the first
# fit of a process, compiled code. Freed arrays of up to 32 MB are not always of use to the next.
_ALLOWANCE, _PER_THREAD, _FIRST_FIT = 8_000_000, 2e6, 60e6
_FRAGMENTS, _MOST_FRAGMENTS = 0.15, 40e6
# Steps of the optimiser (4 to 20 as a rule) and of the paper's recursion.
_STEPS, _RECURSION_STEPS = 10, 300
# Seconds that a stage takes however small the component is.
_OVERHEAD = {"frames": 0.0006, "solver": 0.0007, "start": 0.004, "optimise": 0.0025}
# Bytes of a component's result beside its arrays.
_RESULT = 4000
# What is left of the overhead where small components are embedded together.
_TOGETHER = 0.05
# Up to here the factor is counted for the time left too, for which nobody wants to wait.
_COUNTED = 50_000
_DIRECT = ("direct", "cholmod")


@dataclass(frozen=True)
class StageEstimate:
    """One stage of a fit: its processor seconds, and how much its peak adds to the process before the fit."""

    name: str
    growth_bytes: int
    cpu_seconds: float


@dataclass(frozen=True)
class ResourceEstimate:
    """What a fit will need.

    ``peak_bytes`` is the largest resident memory of the whole process: what it uses now and ``growth_bytes``,
    which the fit adds. ``seconds`` of wall time and ``cpu_seconds`` of all threads are accurate to a factor
    of two. ``solver`` is that of the largest component's Poisson problems. ``limit_bytes`` is None where
    there is no limit. Every undirected edge counts once in ``n_edges``.
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


@documented(FitOptions)
def estimate_resources(graph: Any, n_components: int = 2, **options: Any) -> ResourceEstimate:
    """Predict memory, time and solver of :func:`embed_graph` without embedding.

    Takes up to an eighth of the time of the fit. Memory is meant to be accurate to -5 and +25 %
    (docs/forecast.md compares it with measured peaks). The compiled code that a first fit loads
    is counted; compiling it, once after installation, is not: about 20 s and 170 MB more.

    Parameters
    ----------
    graph : sparse matrix of shape (n, n) or NeighborGraph
        As given to :func:`embed_graph`. For a matrix the graph made from it is counted too.
    n_components, **options
        Of :func:`embed_graph`; ``memory_limit`` is what ``limit_bytes`` and ``fits`` refer to. Anchors and
        refinement are not counted.
    """
    resident = resident_bytes()
    resolved = resolve_options(n_components, **options)
    checked = graph_from_matrix(graph, asymmetry=resolved.asymmetry)
    fit = fit_sizes(checked, resolved, resolve_n_jobs(resolved.n_jobs))
    fit = replace(fit, from_matrix=not isinstance(graph, NeighborGraph))
    growths, cpu, limit = fit.growths(), fit.cpu_seconds(), resolve_limit(resolved.memory_limit)
    return ResourceEstimate(
        n_vertices=checked.n_vertices,
        n_edges=checked.n_edges,
        peak_bytes=resident + fit.growth,
        growth_bytes=fit.growth,
        seconds=fit.wall_seconds(),
        cpu_seconds=sum(cpu.values()),
        solver=fit.largest.solver,
        solver_reason=fit.largest.reason,
        stages=tuple(StageEstimate(stage, size, cpu.get(stage, 0.0)) for stage, size in growths.items()),
        limit_bytes=None if math.isinf(limit.bytes) else int(limit.bytes),
        limit_source=limit.source,
    )


def expected_seconds(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> float:
    """Time to wait for a fit, to a factor of two."""
    return fit_sizes(graph, options, n_threads, _COUNTED).wall_seconds()


def check_memory(graph: NeighborGraph, options: EmbeddingOptions, n_jobs: int | None) -> None:
    """Refuse a fit that would need more than ``options.memory_limit``; the factor is counted only near it."""
    limit, n_threads, resident = resolve_limit(options.memory_limit), resolve_n_jobs(n_jobs), resident_bytes()
    if math.isinf(limit.bytes) or graph.n_edges == 0:
        return
    if resident + _bound(fit_sizes(graph, options, n_threads, counted=0)).growth <= limit.bytes:
        return
    fit = fit_sizes(graph, options, n_threads)
    if resident + fit.growth > limit.bytes:
        growths = fit.growths()
        what = f"The fit would need {{}} of memory in its stage {max(growths, key=lambda s: growths[s])!r}"
        raise MemoryError(_refusal(what, fit.growth, resident, limit, _cures(fit, resident, limit)))


def check_search_memory(n: int, d: int, k: int, limit: float | None, n_jobs: int | None = None) -> None:
    """Refuse a search for the k nearest of n points with d features that would exceed ``limit`` bytes."""
    resolved, resident = resolve_limit(limit), resident_bytes()
    # Distances of up to 256 points to all others, by every thread.
    blocks = 0 if d <= TREE_DIMENSIONS else 4 * n * block_rows(n)
    growth = 24 * n * d + max(80 * n * k, resolve_n_jobs(n_jobs) * blocks + 12 * n * k) + _ALLOWANCE
    if resident + growth > resolved.bytes:
        what = f"The search for {k} neighbours of {n:,} points with {d:,} features would need {{}} of memory"
        cures = "Lower n_neighbors, or the number of features (PCA) or points. "
        raise MemoryError(_refusal(what, growth, resident, resolved, cures))


def _refusal(what: str, growth: int, resident: int, limit: MemoryLimit, cures: str) -> str:
    peak, now, most = map(show_bytes, (resident + growth, resident, limit.bytes))
    return (
        f"{what.format(peak)}, {now} of which the process has already; the limit is {most} ({limit.source}). "
        f"{cures}Or raise memory_limit ('none' switches this check off)."
    )


def _cures(fit: FitSizes, resident: int, limit: MemoryLimit) -> str:
    """The settings that would lower the peak, and by how much; ``resident`` is what the process has."""
    part, options = fit.largest, fit.largest.options
    c = options.n_components
    fewer, size = max(c - 1 if c <= 4 else c // 2, 1), max(round(part.m / part.n), c + 1)
    # What a user would write, and what the fit is then.
    settings = {
        "solver='jacobi'": replace(part, solver="jacobi", options=replace(options, solver="jacobi")),
        "solver='amg'": replace(part, solver="amg", options=replace(options, solver="amg")),
        "a graph with half the edges (n_neighbors)": _smaller(part, part.n, part.m / 2),
        f"n_components={fewer}": replace(part, options=replace(options, n_components=fewer)),
        "start='landmark'": replace(part, options=replace(options, start="landmark")),
        f"frame_size={size}": replace(part, frame=float(size)),
        "n_jobs=1": replace(part, n_threads=1),
    }
    useful = []
    for name, other in settings.items():
        growth = replace(fit, largest=other, m=int(fit.m * other.m / part.m)).growth
        if growth <= 0.98 * fit.growth:
            enough = ", enough" if resident + growth <= limit.bytes else ""
            useful.append((growth, f"{name} saves {show_bytes(fit.growth - growth)}{enough}"))
    return f"To lower it: {'; '.join(text for _, text in sorted(useful))}. " if useful else ""


@dataclass(frozen=True)
class PartSizes:
    """A connected graph to be embedded.

    ``squares`` is the sum of squared degrees, ``frame`` the root mean square of f, ``entries`` are those of
    the Laplacian, ``fill`` those of its Cholesky factor, used or not; ``factor`` and ``workspace`` are bytes;
    ``tied`` are dense graphs whose lengths are mostly equal, such as hop counts.
    """

    n: int
    m: float
    squares: float
    frame: float
    entries: float
    solver: str
    n_threads: int
    options: EmbeddingOptions
    fill: float = 0.0
    factor: float = 0.0
    workspace: float = 0.0
    reason: str = "asked for"
    tied: bool = False

    def with_fill(self, fill: float) -> PartSizes:
        """With the factor that is typical of so many entries."""
        full = self.n * (self.n + 1) / 2
        fill = min(fill, full)
        factor = 8.2 * fill + 10 * self.entries + 40 * self.n
        return replace(self, fill=fill, factor=factor, workspace=min(4 + 100 * fill / full, 40) * fill)

    @property
    def is_counted(self) -> bool:
        """Whether the fit counts the factor."""
        return self.solver in _DIRECT or self.options.solver == "auto"

    @property
    def start(self) -> str:
        """The start that is taken; "both" are those of landmarks and synchronized."""
        start, c = self.options.start, self.options.n_components
        if not isinstance(start, str):
            return "given"
        if start != "auto":
            return start
        return "landmark" if c > LOW_DIMENSION else "coarse" if self.n * c > SYNCHRONIZED_LIMIT else "both"

    @property
    def coarse_entries(self) -> float:
        """Of multigrid's hierarchy: around the hubs of scale-free graphs coarse matrices are full."""
        return (self.n / 7) ** 2 if self.squares * self.n > 2 * self.m**2 else 0.5 * self.entries

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


@dataclass(frozen=True)
class FitSizes:
    """A graph, its largest component, and how many others have edges; by size they take as long."""

    n: int
    m: int
    squares: float
    largest: PartSizes
    n_others: int = 0
    n_small: int = 0  #: Of these, embedded together.
    in_small: int = 0  #: Vertices of those.
    from_matrix: bool = False

    @property
    def growth(self) -> int:
        """How much larger the process is at the peak of the fit."""
        return max(self.growths().values())

    def growths(self) -> dict[str, int]:
        """How much larger the process is at the peak of every stage, in order."""
        n, m, part, c = self.n, self.m, self.largest, self.largest.options.n_components
        fixed = _ALLOWANCE + _PER_THREAD * part.n_threads
        fixed += 0 if "isoweave.engines.local_mds" in sys.modules else _FIRST_FIT
        kept = 12.0 * m + 4 * n if self.from_matrix else 0.0
        # Lengths in their unit, the numbering, the graph in it; then sources and reverse edges.
        peaks = {"graph": kept + 33 * m + 12 * n}
        kept += 20 * m + 12 * n
        if part.options.drop_shortcuts:
            kept += 8 * m + 4 * n
            peaks["shortcuts"] = kept + 45 * m
        kept += 24 * n
        if self.n_others:
            # A copy of the component.
            peaks["graph"] = max(peaks["graph"], kept + 20 * part.m + 9 * m)
            kept += 20 * part.m + 4 * part.n
        peaks |= {stage: kept + size for stage, size in _part_bytes(part).items()}
        if self.n_small:
            # Many at once, of about the same size.
            at_once = min(AT_ONCE * part.n_threads, self.n_small) * self.in_small / self.n_small / part.n
            for stage, size in _part_bytes(part).items():
                peaks[stage] = max(peaks[stage], kept + at_once * size)
        # Coordinates, stretch and alignments: of the parts, of all vertices, of the graph given.
        kept += _RESULT * self.n_others
        peaks["optimise"] = max(peaks["optimise"], kept + 24 * n * c * (c + 2))
        spread = {name: size + min(_FRAGMENTS * size, _MOST_FRAGMENTS) for name, size in peaks.items()}
        return {name: int(size + fixed) for name, size in spread.items()}

    def cpu_seconds(self) -> dict[str, float]:
        """Processor seconds by stage."""
        seconds = {"graph": 1e-9 * (90 * self.m + 300 * self.n)}
        if self.largest.options.drop_shortcuts:
            seconds["shortcuts"] = 1e-9 * (22 * self.squares + 40 * self.m)
        share = (self.n + self.m) / (self.largest.n + self.largest.m) if self.n_others else 1.0
        for stage, time in _part_time(self.largest).items():
            n_alone = 1 + self.n_others - (1 - _TOGETHER) * self.n_small
            seconds[stage] = share * 1e-9 * time + n_alone * _OVERHEAD[stage]
        return seconds

    def wall_seconds(self) -> float:
        """Seconds to wait if every thread has a core; they share filter, frames and small components."""
        n_threads, small = self.largest.n_threads, self.in_small / max(self.n, 1)
        total = 0.0
        for stage, seconds in self.cpu_seconds().items():
            shared = 1.0 if stage in ("shortcuts", "frames") else small if stage in _OVERHEAD else 0.0
            total += seconds * (shared / n_threads + 1.0 - shared)
        return total


def fit_sizes(
    graph: NeighborGraph, options: EmbeddingOptions, n_threads: int, counted: float = math.inf
) -> FitSizes:
    """Sizes of a fit; the factor of the largest component is counted up to so many vertices."""
    if options.along_graph is not None and graph.n_edges:
        graph = join_along(graph, options.along_graph)
    n_parts, labels = connected_components(graph)
    connected = graph if n_parts == 1 else subgraph(graph, np.flatnonzero(labels == 0))
    largest = _part(connected, options, n_threads)
    if largest.n <= counted:
        largest = _with_factor(largest, connected)
    squares = float(np.sum(graph.degrees.astype(np.float64) ** 2))
    sizes = np.empty(0) if options.components == "largest" else np.bincount(labels)[1:]
    sizes = sizes[sizes > 1]
    small = sizes[sizes <= (N_LANDMARKS if options.is_ordinary else 0)]
    counts = (len(sizes), len(small), int(small.sum()))
    return FitSizes(graph.n_vertices, len(graph.indices), squares, largest, *counts)


def _part(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> PartSizes:
    """A connected graph before its factor is counted: as a surface has it, or in three dimensions a solid."""
    n, m, c = graph.n_vertices, len(graph.indices), options.n_components
    degrees = graph.degrees.astype(np.float64)
    squares, entries = float(np.sum(degrees**2)), float(n + m)
    size = resolve_frame_size(graph.degrees, options.frame_size, c)
    frames = np.maximum(np.minimum(degrees, max(size, HUB_LIMIT)), size)
    if size == 0:
        # Second-order neighbourhoods, of some vertices.
        pattern = _pattern(graph)
        rows = np.linspace(0, n - 1, min(n, 400)).astype(np.int64)
        frames = np.minimum(np.diff((pattern[rows] @ pattern).indptr), ALL_FRAME_LIMIT).astype(np.float64)
    if options.inner_product == "paper":
        # Vertices that see a common one are coupled.
        entries = min(squares, float(n) ** 2)
    tied = size >= HUB_LIMIT and 100 * len(np.unique(graph.lengths)) < m
    # Vertices at equal distances are taken together, up to another frame of them.
    typical = min(float(np.sqrt((1 + tied) * np.mean(frames**2))), n - 1.0)
    solver = "direct" if options.solver == "auto" else options.solver
    part = PartSizes(n, m, squares, typical, entries, solver, n_threads, options, tied=tied)
    return part.with_fill(entries * (4.0 if c <= 2 else max(0.45 * n ** (1 / 3), 4.0)))


def _with_factor(part: PartSizes, graph: NeighborGraph) -> PartSizes:
    """With the solver the fit will choose and the size of its factor, counted from the elimination tree."""
    paper = part.options.inner_product == "paper"
    # A synchronized start makes a factor whatever the solver is.
    is_made = part.is_counted or part.start in ("both", "synchronized")
    if not is_made and not paper:
        return part
    # As the fit does it: minimum degree is faster on a local numbering, and breaks its ties by it.
    order = local_order(graph)
    pattern = _pattern(graph if order is None else renumber(graph, order))
    laplacian = prepare_laplacian(csgraph.laplacian(pattern @ pattern if paper else pattern))
    part = replace(part, entries=float(len(laplacian.data)))
    if not is_made:
        return part
    plan = laplacian.elimination
    if part.options.solver == "auto":
        choice = choose_solver(laplacian, part.options.n_components)
        part = replace(part, solver=choice.solver, reason=choice.reason)
    elif part.solver == "direct" and plan.fill > MAX_FILL:
        reason = f"its Cholesky factor has more than {MAX_FILL:,} entries"
        part = replace(part, solver="jacobi", reason=reason)
    part = part.with_fill(plan.fill)
    if part.solver not in _DIRECT:
        return part
    found = analyse(plan)
    factor = float(8 * found.value_ptr[-1] + 4 * found.row_ptr[-1] + 28 * len(found.starts))
    return replace(part, factor=factor, workspace=8.0 * (found.stack_size + found.front_size))


def _bound(fit: FitSizes) -> FitSizes:
    """With the largest factor that a solver would make."""
    part = fit.largest
    fill = MAX_FILL_RATIO * part.entries if part.options.solver == "auto" and part.n > 3000 else math.inf
    return replace(fit, largest=replace(part.with_fill(min(fill, MAX_FILL)), solver="direct"))


def _pattern(graph: NeighborGraph) -> sp.csr_array:
    shape = (graph.n_vertices, graph.n_vertices)
    return sp.csr_array((np.ones(len(graph.indices)), graph.indices, graph.indptr), shape=shape)


def _smaller(part: PartSizes, n: int, m: float) -> PartSizes:
    """A component of the same kind with fewer vertices or edges."""
    share = (n + m) / (part.n + part.m)
    sizes: Any = {"n": n, "m": m, "squares": share * part.squares, "entries": share * part.entries}
    return replace(part, frame=min(part.frame, n - 1.0), **sizes).with_fill(share * part.fill)


def _part_bytes(s: PartSizes) -> dict[str, float]:
    """Bytes alive at the peak of every stage of a connected graph."""
    n, m, c, entries, threads = s.n, s.m, s.options.n_components, s.entries, s.n_threads
    paper, block = s.options.inner_product == "paper", 8 * n * c
    # Rows and weights; dense matrices of every thread while it scales a neighbourhood.
    kept = 8 * m * c + m + block + 16 * n + (8 * m * c if paper else 8 * m)
    scratch = threads * (20 * n + 140 * min(s.frame, n) ** 2)
    peaks = {"frames": kept + max(4 * m + block + 16 * n + scratch, 8 * m * c + 9 * m)}
    # The matrix, beside it the checked copy that solvers read, and its permutation if a factor is counted.
    matrix, checked = 12 * entries + 4 * n, 12 * entries + 24 * n
    making = 50 * entries - checked + 40 * m * c * paper
    if s.is_counted:
        making = 58 * entries
        checked += 4 * entries + 20 * n
    if s.solver in _DIRECT:
        method, building = s.factor, 12 * entries + 8 * n + s.workspace
    elif s.solver == "amg":
        method, building = 12 * (entries + s.coarse_entries) + 60 * n, 30 * entries + 8 * s.coarse_entries
    else:
        method, building = (6 * entries + 180 * n,) * 2 if s.solver == "ic" else (8.0 * n, 0.0)
    peaks["solver"] = kept + matrix + checked + max(making, method + building)
    kept += checked + method
    peaks["start"] = kept + _start_bytes(s)
    # Coordinates, gradients and what a solve needs; ten steps are remembered with three blocks each. At the
    # end alignments and stretch.
    remembered = 0 if s.options.optimizer == "alternating" else 3 * min(10, s.options.max_iter or 10)
    blocks = remembered + 3 * c + 11
    solve = max(8 * m * c, block * (7 if s.solver in _DIRECT else 15 if s.solver == "amg" else 11))
    peaks["optimise"] = kept + max(block * blocks + solve, block * (7 * c + 6))
    if s.options.scale == "geodesics":
        peaks["optimise"] = max(peaks["optimise"], kept + block * (c + 2) + _landmark_bytes(s))
    return peaks


def _start_bytes(s: PartSizes) -> float:
    n, m, c = s.n, s.m, s.options.n_components
    if s.start == "given":
        return 0.0
    if s.start == "identity":
        # Every edge gets the alignment of its source.
        return 8 * m * c * c + 24 * m * c + 8 * n * c * c
    if s.start == "landmark":
        return _landmark_bytes(s)
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


def _part_time(s: PartSizes) -> dict[str, float]:
    """Nanoseconds of one connected component by stage."""
    n, m, c = s.n, s.m, s.options.n_components
    frames = _frames_time(n, m, s.frame, c, s.tied)
    if s.options.inner_product == "paper":
        # Convex hulls.
        frames += n * 6e4 * 3.0 ** (min(c, 7) - 2)
    factoring = 400 * s.entries + 8 * min(s.fill, MAX_FILL) if s.is_counted else 0.0
    if s.solver in _DIRECT:
        factoring += 3 * s.factor + 0.25 * s.fill**2 / n
        solve = 0.15 * s.factor * ((c + 1) // 2) + 100 * n * c
    elif s.solver == "amg":
        factoring += 300 * s.entries + 150 * s.coarse_entries
        solve = c * (28 * s.entries + 10 * s.coarse_entries + 200 * n)
    else:
        factoring += 1000 * s.entries * (s.solver == "ic")
        solve = (8 + 2 * n ** (1 / c) if s.solver == "jacobi" else 60) * c * (1.5 * s.entries + 10 * n)
    steps = _RECURSION_STEPS if s.options.optimizer == "alternating" else _STEPS
    steps = min(steps, s.options.max_iter or steps)
    optimise = (steps + 1) * (m * (10 + 5 * c * c) + n * 10 * c**3 + solve)
    start = 0.0
    if s.start in ("both", "landmark"):
        start = max(N_LANDMARKS, 2 * c + 2) * (250 * n + 10 * m) + optimise * (s.start == "both")
    elif s.start == "coarse":
        # The sample has two edges per vertex of the graph.
        start = n * (7000 + 500 * c) + _frames_time(n / THINNING, 2 * n, 22, c)
    if s.start in ("both", "coarse", "synchronized"):
        vertices, edges, fill = s.companion
        start += _frames_time(vertices, edges, 1.4 * edges / vertices, c)
        start += edges * (900 + 150 * c * c) + 3 * fill**2 / vertices
        if m > DENSE_DEGREE * n:
            # Eigenvalues without a gap: all sweeps of the inverse iteration, with a full factor.
            start += 200 * 1.6 * (c + 3) * c * c * (2 * fill + 2 * edges)
    return {
        "frames": frames,
        "solver": 130 * s.entries + factoring,
        "start": start,
        "optimise": optimise + n * (600 + 150 * c * c),
    }


def _frames_time(n: float, m: float, f: float, c: int, tied: bool = False) -> float:
    """Shortest paths, Gram matrix and eigenvectors of neighbourhoods of f vertices."""
    # Two directions of a surface stand out, and a few sweeps find them; in more dimensions the sweeps are
    # mostly in vain, and the whole matrix is decomposed after all.
    sweeps = 4 * (c + 2) + (170 if tied or c > 3 else 5 if c <= 2 else 45)
    return n * (8000 + f * f * (18 + min(m / n, 2 * f) + (sweeps if 3 * (c + 2) < f else 70)))
