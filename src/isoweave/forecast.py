"""Memory, time and solver of a fit, predicted before it is made; what would not fit is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from isoweave._costs import ALLOWANCE, FitSizes, PartSizes, fit_sizes, smaller
from isoweave._memory import MemoryLimit, resident_bytes, resolve_limit, show_bytes
from isoweave._parallel import resolve_n_jobs
from isoweave.graph import TREE_DIMENSIONS, NeighborGraph, block_rows, graph_from_matrix
from isoweave.linalg import MAX_FILL, MAX_FILL_RATIO
from isoweave.options import EmbeddingOptions, FitOptions, documented, resolve_options

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
    is counted; compiling it, once after installation, is not: about 20 s and 170 MB more.

    Parameters
    ----------
    graph : sparse matrix of shape (n, n) or NeighborGraph
        As given to :func:`embed_graph`. For a matrix the graph made from it is counted too.
    n_components, **options
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
    resident = resident_bytes()
    resolved = resolve_options(n_components, **options)
    checked = graph_from_matrix(graph, asymmetry=resolved.asymmetry)
    fit = fit_sizes(checked, resolved, resolve_n_jobs(resolved.n_jobs))
    fit = replace(fit, from_matrix=not isinstance(graph, NeighborGraph))
    growths, cpu, limit = fit.growths(), fit.cpu_seconds(), resolve_limit(resolved.memory_limit)
    return ResourceEstimate(
        n_vertices=checked.n_vertices,
        n_edges=checked.n_edges,
        peak_bytes=resident + max(growths.values()),
        growth_bytes=max(growths.values()),
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
        stage = f" in its stage {max(fit.growths().items(), key=lambda item: item[1])[0]!r}"
        raise MemoryError(
            _refusal("The fit", stage, fit.growth, resident, limit, _cures(fit, resident, limit))
        )


def check_search_memory(n: int, d: int, k: int, limit: float | None, n_jobs: int | None = None) -> None:
    """Refuse a search for the k nearest of n points with d features that would exceed ``limit`` bytes."""
    resolved, resident = resolve_limit(limit), resident_bytes()
    # Distances of up to 256 points to all others, by every thread.
    blocks = 0 if d <= TREE_DIMENSIONS else 4 * n * block_rows(n)
    growth = 24 * n * d + max(80 * n * k, resolve_n_jobs(n_jobs) * blocks + 12 * n * k) + ALLOWANCE
    if resident + growth > resolved.bytes:
        what = f"The search for {k} neighbours of {n:,} points with {d:,} features"
        cures = "Lower n_neighbors, or the number of features (PCA) or points. "
        raise MemoryError(_refusal(what, "", growth, resident, resolved, cures))


def _bound(fit: FitSizes) -> FitSizes:
    """With the largest factor that a solver would make."""
    part = fit.largest
    fill = MAX_FILL_RATIO * part.entries if part.options.solver == "auto" and part.n > 3000 else math.inf
    return replace(fit, largest=replace(part.with_fill(min(fill, MAX_FILL)), solver="direct"))


def _refusal(what: str, where: str, growth: int, resident: int, limit: MemoryLimit, cures: str) -> str:
    peak, now, most = map(show_bytes, (resident + growth, resident, limit.bytes))
    return (
        f"{what} would need {peak} of memory{where}, {now} of which the process has already; the limit is "
        f"{most} ({limit.source}). {cures}Or raise memory_limit ('none' switches this check off)."
    )


def _cures(fit: FitSizes, resident: int, limit: MemoryLimit) -> str:
    """The settings that would lower the peak, and by how much; ``resident`` is what the process has."""
    part, c = fit.largest, fit.largest.options.n_components
    fewer, size = max(c - 1 if c <= 4 else c // 2, 1), max(round(part.m / part.n), c + 1)

    def changed(sizes: dict[str, Any], **options: Any) -> PartSizes:
        return replace(part, options=replace(part.options, **options), **sizes)

    # What a user would write, and what the fit is then.
    settings = {
        "solver='jacobi'": changed({"solver": "jacobi"}, solver="jacobi"),
        "solver='amg'": changed({"solver": "amg"}, solver="amg"),
        "a graph with half the edges (n_neighbors)": smaller(part, part.n, part.m / 2),
        f"n_components={fewer}": changed({}, n_components=fewer),
        "start='landmark'": changed({}, start="landmark"),
        f"frame_size={size}": changed({"frame": float(size)}),
        "n_jobs=1": changed({"n_threads": 1}),
    }
    useful = []
    for name, other in settings.items():
        growth = replace(fit, largest=other, m=int(fit.m * other.m / part.m)).growth
        if growth <= 0.98 * fit.growth:
            enough = ", enough" if resident + growth <= limit.bytes else ""
            useful.append((growth, f"{name} saves {show_bytes(fit.growth - growth)}{enough}"))
    return f"To lower it: {'; '.join(text for _, text in sorted(useful))}. " if useful else ""
