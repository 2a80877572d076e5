"""Memory, time and solver of a fit, predicted before it is made.

Closed formulas in the numbers of vertices n, of stored edges m (two per undirected edge) and of dimensions c, the
squares of the degrees, the frames and the Cholesky factor, which is counted. ``benchmarks/forecast.py`` compares
them with fits.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

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
from isoweave.linalg._base import MAX_FILL, prepare_laplacian
from isoweave.linalg._cholesky import analyse
from isoweave.linalg._ordering import MAX_FILL_RATIO
from isoweave.optimise._coarse import THINNING
from isoweave.optimise._starts import LOW_DIMENSION, N_LANDMARKS, SYNCHRONISED_LIMIT

if TYPE_CHECKING:
    from isoweave.embedding import EmbeddingOptions

# Up to here the factor is counted for the time left too, which nobody has asked to wait for.
_COUNTED = 50_000
# What every fit adds beside its arrays: small pieces, stacks and heaps of the threads, and, for the first
# fit of a process, compiled code. Freed arrays of up to 32 MB are not always of use to the next.
_ALLOWANCE, _PER_THREAD, _FIRST_FIT = 8e6, 2e6, 60e6
_FRAGMENTS, _MOST_FRAGMENTS = 0.15, 40e6
# Steps of the optimiser (4 to 20 as a rule) and of the paper's recursion.
_STEPS, _RECURSION_STEPS = 10, 300
# Seconds that a stage takes however small the component is.
_OVERHEAD = {"frames": 0.0006, "solver": 0.0015, "start": 0.005, "optimise": 0.003}


@dataclass(frozen=True)
class StageEstimate:
    """One stage of a fit: its processor seconds, and how much its peak adds to the process before the fit."""

    name: str
    growth_bytes: int
    cpu_seconds: float


@dataclass(frozen=True)
class ResourceEstimate:
    """What a fit will need.

    ``peak_bytes`` is the largest resident memory of the whole process: what it has now, and ``growth_bytes``,
    which the fit adds. ``seconds`` to wait and ``cpu_seconds`` of all threads are right to a factor of two.
    ``solver`` is that of the largest component's Poisson problems. ``limit_bytes`` is None where there is no limit.
    Every undirected edge counts once in ``n_edges``.
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
    graph: Any, n_components: int = 2, *, asymmetry: str = "error", n_jobs: int | None = None, **options: Any
) -> ResourceEstimate:
    """Predict memory, time and solver of :func:`embed_graph` without embedding.

    Takes up to a tenth of the time of the fit. Memory is meant to be right to -5 and +25 % (docs/forecast.md
    compares it with measured peaks). What the first fit of a process loads is added where it has not happened yet;
    compiling it, once after installation, takes about 20 s and 170 MB more.

    Parameters
    ----------
    graph : sparse matrix of shape (n, n) or NeighborGraph
        As given to :func:`embed_graph`. For a matrix the graph made from it is counted too.
    n_components, asymmetry, n_jobs, **options
        Of :func:`embed_graph`; ``memory_limit`` is what ``limit_bytes`` and ``fits`` refer to. Anchors and
        refinement are not counted.

    Returns
    -------
    ResourceEstimate

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
        solver_reason=fit.largest.reason,
        stages=tuple(StageEstimate(stage, size, cpu.get(stage, 0.0)) for stage, size in growths.items()),
        limit_bytes=None if math.isinf(limit.bytes) else int(limit.bytes),
        limit_source=limit.source,
    )


def expected_seconds(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> float:
    """Time to wait for a fit, to a factor of two."""
    return _wall_seconds(_cpu_seconds(_look(graph, options, n_threads, _COUNTED)), n_threads)


def check_memory(graph: NeighborGraph, options: EmbeddingOptions, n_jobs: int | None) -> None:
    """Refuse a fit that would need more than ``options.memory_limit``.

    The largest factor a solver would make settles most fits in no time; it is counted near the limit only.
    """
    limit, n_threads, resident = resolve_limit(options.memory_limit), resolve_n_jobs(n_jobs), resident_bytes()
    if math.isinf(limit.bytes) or graph.n_edges == 0:
        return
    fit = _look(graph, options, n_threads, counted=0)
    fill = MAX_FILL_RATIO * max(fit.largest.entries, 3000) if options.solver == "auto" else math.inf
    bound = replace(fit.largest.with_fill(min(fill, MAX_FILL)), solver="direct")
    if resident + _growth(replace(fit, largest=bound)) <= limit.bytes:
        return
    fit = _look(graph, options, n_threads)
    if resident + _growth(fit) > limit.bytes:
        raise MemoryError(_refusal(fit, resident, limit))


def check_search_memory(n: int, d: int, k: int, limit: float | None, n_jobs: int | None = None) -> None:
    """Refuse a search for the k nearest of n points of d features that would exceed ``limit`` bytes."""
    resolved, resident = resolve_limit(limit), resident_bytes()
    # Distances of up to 256 points to all others, by every thread.
    blocks = 0 if choose_knn_search(n, d) == "tree" else 4 * n * min(256, max(8, 2**25 // max(n, 1)))
    arrays = 24 * n * d + max(80 * n * k, resolve_n_jobs(n_jobs) * blocks + 12 * n * k)
    peak = resident + arrays + int(_ALLOWANCE)
    if peak > resolved.bytes:
        raise MemoryError(
            f"The search for {k} neighbours of {n:,} points with {d:,} features would need {show_bytes(peak)} of "
            f"memory, {show_bytes(resident)} of which the process has already; the limit is "
            f"{show_bytes(resolved.bytes)} ({resolved.source}). Lower n_neighbors, or the number of features "
            "(PCA) or points; or raise memory_limit ('none' switches this check off)."
        )


# --- The sizes that the formulas see


@dataclass(frozen=True)
class _Part:
    """A connected graph to be embedded.

    ``squares`` is the sum of squared degrees, ``frame`` the root mean square of the vertices of a frame; ``fill``
    are the entries of the Cholesky factor, used or not; ``factor`` and ``workspace`` are its bytes.
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

    def with_fill(self, fill: float) -> _Part:
        """With the factor that is typical of so many entries."""
        full = self.n * (self.n + 1) / 2
        fill = min(fill, full)
        factor = 8.2 * fill + 10 * self.entries + 40 * self.n
        return replace(self, fill=fill, factor=factor, workspace=min(4 + 100 * fill / full, 40) * fill)

    @property
    def is_direct(self) -> bool:
        return self.solver in ("direct", "cholmod")

    @property
    def is_counted(self) -> bool:
        """Whether the fit counts the factor."""
        return self.is_direct or self.options.solver == "auto"

    @property
    def start(self) -> str:
        """The start that is taken; "both" are those of landmarks and synchronised."""
        start, c = self.options.start, self.options.n_components
        if not isinstance(start, str):
            return "given"
        if start != "auto":
            return start
        return "landmark" if c > LOW_DIMENSION else "coarse" if self.n * c > SYNCHRONISED_LIMIT else "both"

    @property
    def coarse_entries(self) -> float:
        """Of multigrid's hierarchy: around the hubs of scale-free graphs coarse matrices are full."""
        return (self.n / 7) ** 2 if self.squares * self.n > 2 * self.m**2 else 0.5 * self.entries

    @property
    def companion(self) -> tuple[int, float, float]:
        """Vertices, edges and fill of the synchronised start of this graph, or of the last of its samples."""
        n, c, ratio = self.n, self.options.n_components, self.fill / self.entries
        degree = max(20, min(1.8 * self.m / n, 40), 2 * c)
        while self.start == "coarse" and n * c > SYNCHRONISED_LIMIT:
            # Samples have 14 neighbours. Fill over entries of graphs and their samples: 3.7 and 3.1 on 200,000
            # points of a swiss roll, 3.4 and 3.6 on a sphere, 21 and 7 in a cube, 87 and 15 if scale-free.
            n, degree, ratio = n // THINNING, 28, 1.9 * math.sqrt(ratio)
        m = n * min(1.15 * degree, n - 1)
        return n, m, min(1.1 * ratio * (n + m), n * (n + 1) / 2)


@dataclass(frozen=True)
class _Fit:
    """A graph; its largest component, and groups of others of about the same size."""

    n: int
    m: int
    squares: float
    largest: _Part
    others: tuple[tuple[int, _Part], ...]
    from_matrix: bool = False


def _look(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int, counted: float = math.inf) -> _Fit:
    """Sizes of a fit; the factor of the largest component is counted up to so many vertices."""
    n_parts, labels = connected_components(graph)
    connected = graph if n_parts == 1 else subgraph(graph, np.flatnonzero(labels == 0))
    largest = _part(connected, options, n_threads)
    if largest.n <= counted:
        largest = _with_factor(largest, connected)
    others = []
    if options.components != "largest":
        sizes, edges = np.bincount(labels)[1:], np.bincount(labels, weights=graph.degrees)[1:]
        group = np.round(4 * np.log2(sizes))
        for g in np.unique(group[sizes > 1]):
            n, m = sizes[group == g], edges[group == g]
            others.append((len(n), _smaller(largest, int(n.mean()), float(m.mean()))))
    squares = float(np.sum(graph.degrees.astype(np.float64) ** 2))
    return _Fit(graph.n_vertices, len(graph.indices), squares, largest, tuple(others))


def _part(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> _Part:
    """A connected graph whose factor is not counted yet: that of a surface, or of a solid in three dimensions."""
    n, m, c = graph.n_vertices, len(graph.indices), options.n_components
    degrees = graph.degrees.astype(np.float64)
    squares, entries = float(np.sum(degrees**2)), float(n + m)
    size = resolve_frame_size(graph, options.frame_size, c)
    frames = np.maximum(np.minimum(degrees, max(size, HUB_LIMIT)), size)
    if size == 0:
        # Second-order neighbourhoods, of some vertices.
        pattern = _pattern(graph)
        rows = np.linspace(0, n - 1, min(n, 400)).astype(np.int64)
        frames = np.minimum(np.diff((pattern[rows] @ pattern).indptr), ALL_FRAME_LIMIT).astype(np.float64)
    if options.inner_product == "paper":
        # Vertices that see a common one are coupled.
        entries = min(squares, float(n) ** 2)
    typical = float(np.sqrt(np.mean(frames**2)))
    solver = "direct" if options.solver == "auto" else options.solver
    part = _Part(n, m, squares, typical, entries, solver, n_threads, options)
    return part.with_fill(entries * (4.0 if c <= 2 else max(0.45 * n ** (1 / 3), 4.0)))


def _with_factor(part: _Part, graph: NeighborGraph) -> _Part:
    """With the solver the fit will choose and the size of its factor, counted from the elimination tree."""
    paper, c = part.options.inner_product == "paper", part.options.n_components
    # A synchronised start makes a factor whatever the solver is.
    is_made = part.is_counted or part.start in ("both", "synchronised")
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
        choice = choose_for(laplacian, c)
        part = replace(part, solver=choice.solver, reason=choice.reason)
    elif part.solver == "direct" and plan.fill > MAX_FILL:
        reason = f"its Cholesky factor has more than {MAX_FILL:,} entries"
        part = replace(part, solver="jacobi", reason=reason)
    part = part.with_fill(plan.fill)
    if not part.is_direct:
        return part
    found = analyse(plan)
    factor = 8.0 * found.value_ptr[-1] + 4.0 * found.row_ptr[-1] + 28.0 * len(found.starts)
    return replace(part, factor=factor, workspace=8.0 * (found.stack_size + found.front_size))


def _pattern(graph: NeighborGraph) -> sp.csr_array:
    shape = (graph.n_vertices, graph.n_vertices)
    return sp.csr_array((np.ones(len(graph.indices)), graph.indices, graph.indptr), shape=shape)


def _smaller(part: _Part, n: int, m: float) -> _Part:
    """A component of the same kind with fewer vertices or edges."""
    share = (n + m) / (part.n + part.m)
    sizes = {"n": n, "m": m, "squares": share * part.squares, "entries": share * part.entries}
    return replace(part, frame=min(part.frame, n - 1.0), **sizes).with_fill(share * part.fill)


# --- Memory


def _growth(fit: _Fit) -> int:
    return max(_growths(fit).values())


def _growths(fit: _Fit) -> dict[str, int]:
    """How much larger the process is at the peak of every stage, in order."""
    n, m, part = fit.n, fit.m, fit.largest
    fixed = _ALLOWANCE + _PER_THREAD * part.n_threads
    fixed += 0 if "isoweave.engines.local_mds" in sys.modules else _FIRST_FIT
    kept = 12 * m + 4 * n if fit.from_matrix else 0
    # Lengths in their unit, the numbering, the graph in it; then sources and reverse edges.
    peaks = {"graph": kept + 33 * m + 12 * n}
    kept += 20 * m + 12 * n
    if part.options.drop_shortcuts:
        kept += 8 * m + 4 * n
        peaks["shortcuts"] = kept + 45 * m
    kept += 24 * n
    if fit.others:
        # A copy of the component.
        peaks["graph"] = max(peaks["graph"], kept + 20 * part.m + 9 * m)
        kept += 20 * part.m + 4 * part.n
    peaks |= {stage: kept + size for stage, size in _part_bytes(part).items()}
    # Coordinates, stretch and alignments: of the parts, of all vertices, of the graph given.
    c = part.options.n_components
    peaks["optimise"] = max(peaks["optimise"], kept + 24 * n * c * (c + 2))
    return {name: int(size + min(_FRAGMENTS * size, _MOST_FRAGMENTS) + fixed) for name, size in peaks.items()}


def _part_bytes(s: _Part) -> dict[str, float]:
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
    if s.is_direct:
        method, building = s.factor, 12 * entries + 8 * n + s.workspace
    elif s.solver == "amg":
        method, building = 12 * (entries + s.coarse_entries) + 60 * n, 30 * entries + 8 * s.coarse_entries
    else:
        method, building = (6 * entries + 180 * n,) * 2 if s.solver == "ic" else (8.0 * n, 0.0)
    peaks["solver"] = kept + matrix + checked + max(making, method + building)
    kept += checked + method
    peaks["start"] = kept + _start_bytes(s)
    # Coordinates, gradients and what a solve needs; ten steps are remembered with three blocks each. At the end
    # alignments and stretch.
    blocks = (
        2 * c + 7 if s.options.optimizer == "alternating" else 3 * min(10, s.options.max_iter) + 3 * c + 11
    )
    solve = max(8 * m * c, block * (7 if s.is_direct else 15 if s.solver == "amg" else 11))
    peaks["optimise"] = kept + max(block * blocks + solve, block * (7 * c + 6))
    if s.options.scale == "geodesics":
        peaks["optimise"] = max(peaks["optimise"], kept + block * (c + 2) + _landmark_bytes(s))
    return peaks


def _start_bytes(s: _Part) -> float:
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
    synchronised = edges * (40 + 8 * c + 32 * c * c) + 24 * fill * c * c + 8 * vertices * c * (c + 1)
    if s.start != "coarse":
        return max(synchronised, _landmark_bytes(s))
    # Up to 8,192 balls of 336 vertices at once; the sample is embedded as the graph was.
    balls = 24 * min(8192, n / THINNING) * min(336, n) + s.n_threads * 20 * n + 35 * n
    ratio = 1.9 * math.sqrt(s.fill / s.entries)
    return max(
        12 * m + 40 * n, 108 * n + max(balls, synchronised, n * (100 + 18 * ratio + 60 * c + 3 * c * c))
    )


def _landmark_bytes(s: _Part) -> float:
    # Distances, their squares and a scaled copy of those.
    return 24 * s.n * min(max(N_LANDMARKS, 2 * s.options.n_components + 2), s.n)


# --- Time, in nanoseconds of one core of a server of the 2020s


def _cpu_seconds(fit: _Fit) -> dict[str, float]:
    """Processor seconds by stage."""
    seconds = {"graph": 1e-9 * (90 * fit.m + 300 * fit.n)}
    if fit.largest.options.drop_shortcuts:
        seconds["shortcuts"] = 1e-9 * (22 * fit.squares + 40 * fit.m)
    for count, part in ((1, fit.largest), *fit.others):
        # The edges of a component are picked from all.
        seconds["graph"] += 9e-9 * count * fit.m * bool(fit.others)
        for stage, time in _part_time(part).items():
            seconds[stage] = seconds.get(stage, 0.0) + count * (1e-9 * time + _OVERHEAD[stage])
    return seconds


def _wall_seconds(cpu: dict[str, float], n_threads: int) -> float:
    """Seconds to wait with so many threads, each on a core of its own, which share filter and frames."""
    return sum(s / n_threads if stage in ("shortcuts", "frames") else s for stage, s in cpu.items())


def _part_time(s: _Part) -> dict[str, float]:
    """Nanoseconds of one connected component by stage."""
    n, m, c = s.n, s.m, s.options.n_components
    frames = _frames_time(n, m, s.frame, c)
    if s.options.inner_product == "paper":
        # Convex hulls.
        frames += n * 6e4 * 3.0 ** (min(c, 7) - 2)
    factoring = 400 * s.entries + 8 * min(s.fill, MAX_FILL) if s.is_counted else 0.0
    if s.is_direct:
        factoring += 3 * s.factor + 0.25 * s.fill**2 / n
        solve = 0.15 * s.factor * ((c + 1) // 2) + 100 * n * c
    elif s.solver == "amg":
        factoring += 300 * s.entries + 150 * s.coarse_entries
        solve = c * (28 * s.entries + 10 * s.coarse_entries + 200 * n)
    else:
        factoring += 1000 * s.entries * (s.solver == "ic")
        solve = (8 + 2 * n ** (1 / c) if s.solver == "jacobi" else 60) * c * (1.5 * s.entries + 10 * n)
    steps = min(_RECURSION_STEPS if s.options.optimizer == "alternating" else _STEPS, s.options.max_iter)
    optimise = (steps + 1) * (m * (10 + 5 * c * c) + n * 10 * c**3 + solve)
    start = 0.0
    if s.start in ("both", "landmark"):
        start = max(N_LANDMARKS, 2 * c + 2) * (250 * n + 10 * m) + optimise * (s.start == "both")
    elif s.start == "coarse":
        # The sample has two edges per vertex of the graph.
        start = n * (7000 + 500 * c) + _frames_time(n / THINNING, 2 * n, 22, c)
    if s.start in ("both", "coarse", "synchronised"):
        vertices, edges, fill = s.companion
        start += _frames_time(vertices, edges, 1.4 * edges / vertices, c)
        start += edges * (900 + 150 * c * c) + 3 * fill**2 / vertices
    return {
        "frames": frames,
        "solver": 130 * s.entries + factoring,
        "start": start,
        "optimise": optimise + n * (600 + 150 * c * c),
    }


def _frames_time(n: float, m: float, f: float, c: int) -> float:
    """Shortest paths, Gram matrix and eigenvectors of neighbourhoods of f vertices."""
    # Two directions of a surface stand out, and a few sweeps find them; in more dimensions the sweeps are
    # mostly in vain, and the whole matrix is decomposed after all.
    sweeps = 4 * (c + 2) + (5 if c <= 2 else 45 if c == 3 else 170)
    return n * (8000 + f * f * (18 + min(m / n, 2 * f) + (sweeps if 3 * (c + 2) < f else 70)))


# --- What to say when a fit would not fit


def _refusal(fit: _Fit, resident: int, limit: MemoryLimit) -> str:
    """The message of the error; ``resident`` is what the process has already."""
    growths = _growths(fit)
    stage = max(growths, key=lambda name: growths[name])
    growth, part, c = growths[stage], fit.largest, fit.largest.options.n_components
    fewer, size = max(c - 1 if c <= 4 else c // 2, 1), max(round(part.m / part.n), c + 1)

    def changed(sizes: dict[str, Any] | None = None, **options: Any) -> _Part:
        return replace(part, options=replace(part.options, **options), **(sizes or {}))

    # What a user would write, and what the fit is then.
    settings = {
        "solver='jacobi'": changed({"solver": "jacobi"}, solver="jacobi"),
        "solver='amg'": changed({"solver": "amg"}, solver="amg"),
        "a graph with half the edges (n_neighbors)": _smaller(part, part.n, part.m / 2),
        f"n_components={fewer}": changed(n_components=fewer),
        "start='landmark'": changed(start="landmark"),
        f"frame_size={size}": changed({"frame": float(size)}),
        "n_jobs=1": changed({"n_threads": 1}),
    }
    peaks = {
        name: _growth(replace(fit, largest=s, m=int(fit.m * s.m / part.m))) for name, s in settings.items()
    }
    useful = [
        f"{name} saves {show_bytes(growth - peak)}{', enough' * (resident + peak <= limit.bytes)}"
        for name, peak in sorted(peaks.items(), key=lambda item: item[1])
        if growth - peak >= 0.02 * growth
    ]
    cures = f"To lower it: {'; '.join(useful)}. " if useful else ""
    return (
        f"The fit would need {show_bytes(resident + growth)} of memory in its stage {stage!r}, "
        f"{show_bytes(resident)} of which the process has already; the limit is {show_bytes(limit.bytes)} "
        f"({limit.source}). {cures}Or raise memory_limit ('none' switches this check off)."
    )
