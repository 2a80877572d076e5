"""Memory, time and solver of a fit, predicted before it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from isoweave._memory import MemoryLimit, resident_bytes, resolve_limit
from isoweave._parallel import resolve_n_jobs
from isoweave._typing import AnyArray
from isoweave.embedding._advice import refusal
from isoweave.embedding._costs import cpu_seconds, wall_seconds
from isoweave.embedding._memory import growth_by_stage
from isoweave.embedding._sizes import FitSizes
from isoweave.embedding._survey import bound, survey
from isoweave.graph import NeighborGraph, graph_from_matrix
from isoweave.options import EmbeddingOptions, resolve_options


@dataclass(frozen=True)
class StageEstimate:
    """One stage of a fit.

    Attributes
    ----------
    name : str
    growth_bytes : int
        How much larger the process is at the fullest moment of the stage than before the fit.
    cpu_seconds : float
    """

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
        What the fit adds at its fullest moment.
    seconds, cpu_seconds : float
        Time to wait, and processor time of all threads. Rough: a factor of two either way.
    solver : str
        Of the Poisson problems of the largest component.
    solver_reason : str
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
    preset: str = "default",
    start: str | AnyArray = "auto",
    solver: str = "auto",
    inner_product: str = "auto",
    frame_size: int | float | str = "auto",
    calibrate: bool | str = "auto",
    scale: str = "edges",
    shortcuts: str | bool = "auto",
    components: str = "separate",
    asymmetry: str = "error",
    max_iter: int | None = None,
    n_jobs: int | None = None,
    memory_limit: float | str | None = None,
) -> ResourceEstimate:
    """Predict memory, time and solver of :func:`embed_graph` without embedding.

    The arrays that every stage makes are counted from the sizes of the graph; the Cholesky factor is counted
    exactly, from its elimination tree, if a direct solver is in question. That takes a few percent of the
    time of the fit (docs/forecast.md has the table of predicted and measured peaks).

    Parameters
    ----------
    graph : sparse matrix of shape (n, n) or NeighborGraph
        As given to :func:`embed_graph`. For a matrix the graph made from it is counted too.
    n_components : int
    preset, start, solver, inner_product, frame_size, calibrate, scale, shortcuts, components, asymmetry
    max_iter
        As in :func:`embed_graph`; what is missing here changes neither memory nor, as far as can be told in
        advance, time.
    n_jobs : int or None
        Threads of the fit.
    memory_limit : None, number of bytes, or str
        What ``limit_bytes`` and ``fits`` refer to; see :func:`embed_graph`.

    Returns
    -------
    ResourceEstimate

    Notes
    -----
    Memory is meant to be right to -5 and +25 %: a little too much rather than too little. The first fit of
    a process also loads compiled code, which is added where it has not happened yet; compiling it, once
    after installation, takes about 20 s and 170 MB more and is not counted.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> n = 1000
    >>> ring = sp.diags_array([1.0, 2.0], offsets=[1, 2], shape=(n, n))
    >>> estimate = estimate_resources(ring, n_components=2)
    >>> estimate.solver, estimate.growth_bytes < 200e6
    ('direct', True)
    """
    resident = resident_bytes()
    options = resolve_options(
        n_components,
        preset=preset,
        start=start,
        solver=solver,
        inner_product=inner_product,
        frame_size=frame_size,
        calibrate=calibrate,
        scale=scale,
        shortcuts=shortcuts,
        components=components,
        max_iter=max_iter,
        memory_limit=memory_limit,
    )
    n_threads = resolve_n_jobs(n_jobs)
    checked = graph_from_matrix(graph, asymmetry=asymmetry)
    fit = survey(checked, options, n_threads)
    if not isinstance(graph, NeighborGraph):
        fit = replace(fit, from_matrix=True)
    return forecast(fit, resident, resolve_limit(options.memory_limit))


def forecast(fit: FitSizes, resident: int, limit: MemoryLimit) -> ResourceEstimate:
    """Estimate from sizes that are known."""
    growths = growth_by_stage(fit)
    growth = max(growths.values())
    cpu = cpu_seconds(fit)
    return ResourceEstimate(
        n_vertices=fit.n_given,
        n_edges=fit.m_given // 2,
        peak_bytes=resident + growth,
        growth_bytes=growth,
        seconds=wall_seconds(cpu, fit.parts[0].n_threads),
        cpu_seconds=sum(cpu.values()),
        solver=fit.parts[0].solver,
        solver_reason=fit.reason,
        stages=tuple(StageEstimate(stage, size, cpu.get(stage, 0.0)) for stage, size in growths.items()),
        limit_bytes=None if math.isinf(limit.bytes) else int(limit.bytes),
        limit_source=limit.source,
    )


def check_memory(graph: NeighborGraph, options: EmbeddingOptions, n_jobs: int | None) -> None:
    """Refuse a fit that would need more than ``options.memory_limit``.

    A bound from the numbers of vertices and edges settles most fits in no time; only near the limit is
    the graph looked at.
    """
    limit = resolve_limit(options.memory_limit)
    if math.isinf(limit.bytes) or graph.n_edges == 0:
        return
    n_threads = resolve_n_jobs(n_jobs)
    resident = resident_bytes()
    if resident + max(growth_by_stage(bound(graph, options, n_threads)).values()) <= limit.bytes:
        return
    fit = survey(graph, options, n_threads)
    if resident + max(growth_by_stage(fit).values()) > limit.bytes:
        raise MemoryError(refusal(fit, resident, limit))
