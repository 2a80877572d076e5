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

from isoweave import graph as graphs
from isoweave._memory import MemoryLimit, resident_bytes, resolve_limit, show_bytes, too_large
from isoweave._parallel import resolve_n_jobs
from isoweave._part_costs import (
    SMALL,
    PartSizes,
    bytes_by_stage,
    part_sizes,
    small_seconds,
    squares_of,
    time_by_stage,
    with_solver,
)
from isoweave.graph import NeighborGraph
from isoweave.linalg import MAX_FILL
from isoweave.optimise import AT_ONCE, N_LANDMARKS
from isoweave.options import EmbeddingOptions, FitOptions, documented, resolve_options

# What every fit adds beside its arrays: small pieces, stacks and heaps of the threads, and, for the first
# fit of a process, compiled code. Freed arrays of up to 32 MB are not always of use to the next.
_ALLOWANCE, _PER_THREAD, _FIRST_FIT = 30_000_000, 2e6, 60e6
_FRAGMENTS, _MOST_FRAGMENTS = 0.15, 40e6
# Seconds that a stage takes however small the component is; bytes of a component's result beside its arrays.
_OVERHEAD = {"frames": 0.0006, "solver": 0.0007, "start": 0.001, "optimise": 0.0025}
_RESULT = 4000
# Up to here the factor is counted for the time left too, for which nobody wants to wait.
_COUNTED = 50_000


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
    is counted; compiling it, once after installation, is not: about 10 s and 170 MB more.

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
    checked = graphs.graph_from_matrix(graph, asymmetry=resolved.asymmetry)
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
    if resident + _bound(fit_sizes(graph, options, n_threads, counted=0)) <= limit.bytes:
        return
    fit = fit_sizes(graph, options, n_threads)
    if resident + fit.growth > limit.bytes:
        growths = fit.growths()
        what = f"The fit would need {{}} of memory in its stage {max(growths, key=lambda s: growths[s])!r}"
        raise too_large(what, fit.growth, resident, limit, _cures(fit, resident, limit))


def _cures(fit: FitSizes, resident: int, limit: MemoryLimit) -> str:
    """The settings that would lower the peak, and by how much; ``resident`` is what the process has."""
    part, options = fit.largest, fit.largest.options
    c = options.n_components
    fewer, size = max(c - 1 if c <= 4 else c // 2, 1), max(round(part.m / part.n), c + 1)
    # What a user would write, and what the fit is then.
    settings = {
        "solver='jacobi'": replace(part, solver="jacobi", options=replace(options, solver="jacobi")),
        "solver='amg'": replace(part, solver="amg", options=replace(options, solver="amg")),
        "a graph with half the edges (n_neighbors)": part.with_edges(part.m / 2),
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
class FitSizes:
    """A graph, its largest component, and how many others have edges."""

    n: int
    m: int
    squares: float
    largest: PartSizes
    n_others: int
    n_together: int  #: Of these, small ones that are embedded together.
    in_together: int  #: Vertices of those.
    share: float  #: Vertices of all components but small ones, over those of the largest.
    small_seconds: float  #: Processor time of all small ones.
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
        if part.options.shortcuts == "drop":
            kept += 8 * m + 4 * n
            peaks["shortcuts"] = kept + 45 * m
        kept += 24 * n
        if self.n_others:
            # A copy of the component.
            peaks["graph"] = max(peaks["graph"], kept + 20 * part.m + 9 * m)
            kept += 20 * part.m + 4 * part.n
        # Of small components many at once, of about the same size.
        in_one = self.in_together / max(self.n_together, 1) / part.n
        at_once = max(1.0, min(AT_ONCE * part.n_threads, self.n_together) * in_one)
        peaks |= {stage: kept + at_once * size for stage, size in bytes_by_stage(part).items()}
        # Coordinates, stretch and alignments: of the parts, of all vertices, of the graph given.
        kept += _RESULT * self.n_others
        peaks["optimise"] = max(peaks["optimise"], kept + 24 * n * c * (c + 2))
        return {
            name: int(size + min(_FRAGMENTS * size, _MOST_FRAGMENTS) + fixed) for name, size in peaks.items()
        }

    def cpu_seconds(self) -> dict[str, float]:
        """Processor seconds by stage; small components are all counted in the last."""
        seconds = {"graph": 1e-9 * (90 * self.m + 300 * self.n)}
        if self.largest.options.shortcuts == "drop":
            seconds["shortcuts"] = 1e-9 * (22 * self.squares + 40 * self.m)
        for stage, time in time_by_stage(self.largest).items():
            seconds[stage] = self.share * (1e-9 * time + _OVERHEAD[stage])
        seconds["optimise"] += self.small_seconds
        return seconds

    def wall_seconds(self) -> float:
        """Seconds to wait if every thread has a core; they share filter, frames and small components."""
        seconds = self.cpu_seconds()
        shared = seconds.get("shortcuts", 0.0) + seconds["frames"]
        shared += self.small_seconds if self.n_together else 0.0
        return sum(seconds.values()) - (1.0 - 1.0 / self.largest.n_threads) * shared


def fit_sizes(
    graph: NeighborGraph, options: EmbeddingOptions, n_threads: int, counted: float = math.inf
) -> FitSizes:
    """Sizes of a fit; the factor of the largest component is counted up to so many vertices."""
    if options.along_graph is not None and graph.n_edges:
        graph = graphs.join_along(graph, options.along_graph)
    given = (graph.n_vertices, len(graph.indices), squares_of(graph))
    if (graph.lengths == 0.0).any():
        graph = graphs.merge_duplicates(graph)[0]
    n_parts, labels = graphs.connected_components(graph)
    connected = graph if n_parts == 1 else graphs.subgraph(graph, np.flatnonzero(labels == 0))
    largest = part_sizes(connected, options, n_threads)
    if largest.n <= counted:
        largest = with_solver(largest, connected)
    sizes, edges = (np.bincount(labels, each, n_parts) for each in (None, graph.degrees))
    is_part = (sizes > 1) & (options.components != "largest")
    is_part[0] = True
    sizes, edges = sizes[is_part], edges[is_part]
    is_small = (sizes <= SMALL) & (len(sizes) > 1) & (options.optimizer != "alternating")
    # A callback is called by each alone.
    is_together = (sizes <= N_LANDMARKS) & options.is_ordinary & (options.callback is None)
    small = float(small_seconds(sizes, edges, options.n_components, is_together)[is_small].sum())
    share = float(sizes[~is_small].sum()) / max(largest.n, 1)
    others = sizes[1:][is_together[1:]]
    return FitSizes(*given, largest, len(sizes) - 1, len(others), int(others.sum()), share, small)


def _bound(fit: FitSizes) -> int:
    """Growth with the largest factor that a solver would make."""
    return replace(fit, largest=fit.largest.with_fill(MAX_FILL)).growth
