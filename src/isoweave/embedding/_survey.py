"""The sizes of a fit, told from the graph: components, solver, and its factor counted without being made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from isoweave.embedding._sizes import FactorSize, FitSizes, PartSizes
from isoweave.geometry import resolve_frame_size
from isoweave.geometry._local_mds import ALL_FRAME_LIMIT, HUB_LIMIT
from isoweave.graph import (
    SMALLEST_REORDERED,
    NeighborGraph,
    connected_components,
    local_order,
    merge_duplicates,
    renumber,
    subgraph,
)
from isoweave.linalg import MAX_FILL, MAX_FILL_RATIO, Laplacian, analyse, choose_solver
from isoweave.options import EmbeddingOptions

# Up to here the factor is counted in any case: it costs nothing, and the synchronised start makes one alike.
_SMALL = 6000
# Above, the factor of a surface is told from patches of the graph; where those fill in by more than so many
# times their entries, or the factor would be large, it is counted after all.
_LARGE = 50_000
_FILL_OF_SURFACES = 8.0
_FACTOR_OF_SURFACES = 0.5 * MAX_FILL
# A patch has one vertex in this many; a smaller one, by the same factor, tells how fill grows.
_PATCH = 8
# More components than this are small, and make no peak.
_PARTS_COUNTED = 8
# Vertices whose second-order neighbourhood is looked at.
_ROWS_SAMPLED = 400


def survey(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> FitSizes:
    """Sizes of a fit; the factor of the largest component is counted if it may be made."""
    merged = graph
    if len(graph.lengths) and graph.lengths.min() == 0.0:
        merged, _ = merge_duplicates(graph)
    n_parts, labels = connected_components(merged)
    counts = np.bincount(labels)
    edges = np.bincount(labels, weights=merged.degrees).astype(np.int64)
    largest = merged if n_parts == 1 else subgraph(merged, np.flatnonzero(labels == 0))
    first, reason = _with_solver(_part(largest, options, n_threads), largest)
    parts = [first]
    if options.components != "largest":
        for n, m in zip(counts[1:_PARTS_COUNTED].tolist(), edges[1:_PARTS_COUNTED].tolist(), strict=True):
            if n > 1:
                parts.append(_scaled(first, n, m))
    return FitSizes(
        n_given=graph.n_vertices,
        m_given=len(graph.indices),
        n=merged.n_vertices,
        m=len(merged.indices),
        from_matrix=False,
        reordered=merged.n_vertices >= SMALLEST_REORDERED,
        shortcuts=options.drop_shortcuts,
        parts=tuple(parts),
        n_parts=n_parts,
        reason=reason,
    )


def bound(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> FitSizes:
    """Sizes that a fit will not exceed, from the numbers of vertices and edges alone."""
    n, m = graph.n_vertices, len(graph.indices)
    part = _part(graph, options, n_threads)
    entries = part.laplacian
    if part.inner_product == "paper":
        entries = min(float(np.sum(graph.degrees.astype(np.float64) ** 2)) + m + n, float(n) ** 2)
    if options.solver in ("auto", "direct", "cholmod"):
        fill = min(n * (n + 1) / 2, float(MAX_FILL))
        if options.solver == "auto" and n > 3000:
            fill = min(fill, MAX_FILL_RATIO * entries)
        factor = FactorSize(fill, 1.5 * fill + n, fill / 8 + 30 * n, 0.3 * n, 5 * fill, 0.0)
        part = replace(part, solver="direct", factor=factor, symbolic=True)
    part = replace(part, laplacian=entries, fill_ratio=MAX_FILL_RATIO)
    # As one of several parts, which is a copy of its piece of the graph.
    return FitSizes(n, m, n, m, False, True, options.drop_shortcuts, (part,), 2, "")


def _part(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> PartSizes:
    n, m, n_components = graph.n_vertices, len(graph.indices), options.n_components
    size = resolve_frame_size(graph, options.frame_size, n_components)
    return PartSizes(
        n=n,
        m=m,
        n_components=n_components,
        n_threads=n_threads,
        frame_size=size,
        typical_frame=_typical_frame(graph, size),
        largest_degree=int(graph.degrees.max(initial=0)),
        solver=options.solver,
        factor=None,
        symbolic=False,
        laplacian=float(n + m),
        # Where it is not counted; of surfaces, or of solids if there are three dimensions.
        fill_ratio=4.0 if n_components <= 2 else max(0.45 * n ** (1 / 3), 4.0),
        start=options.start if isinstance(options.start, str) else "given",
        optimizer=options.optimizer,
        inner_product=options.inner_product,
        calibrate=options.calibrate,
        scale=options.scale,
        max_iter=int(options.max_iter or 0),
    )


def _typical_frame(graph: NeighborGraph, size: int) -> float:
    """Mean number of vertices of a frame (the root of the mean square, as costs grow with it)."""
    if size > 0:
        most = max(size, HUB_LIMIT)
        frames = np.maximum(np.minimum(graph.degrees, most), size).astype(np.float64)
        return float(np.sqrt(np.mean(frames**2)))
    rows = np.linspace(0, graph.n_vertices - 1, min(graph.n_vertices, _ROWS_SAMPLED)).astype(np.int64)
    ones = np.ones(len(graph.indices), dtype=np.int8)
    pattern = sp.csr_array((ones, graph.indices, graph.indptr), shape=(graph.n_vertices,) * 2)
    second = np.diff((pattern[rows] @ pattern).indptr)
    return float(np.sqrt(np.mean(np.minimum(second, ALL_FRAME_LIMIT).astype(np.float64) ** 2)))


def _with_solver(part: PartSizes, graph: NeighborGraph) -> tuple[PartSizes, str]:
    """The solver the fit will choose and the size of its factor, with the reason."""
    paper = part.inner_product == "paper"
    asked = part.solver not in ("auto", "direct", "cholmod")
    if asked and not paper and part.n > _SMALL:
        return part, "asked for"
    if part.n > _LARGE and not paper:
        factor = _factor_of_a_surface(graph)
        if factor is not None:
            return _with_direct(part, factor)
    # As the fit does it: minimum degree is faster on a local numbering, and breaks its ties by it.
    order = local_order(graph)
    laplacian = pattern_of_laplacian(graph if order is None else renumber(graph, order), part.inner_product)
    entries = len(laplacian.data)
    part = replace(part, laplacian=float(entries))
    if asked and part.n > _SMALL:
        return part, "asked for"
    solver, reason = part.solver, "asked for"
    if solver == "auto":
        choice = choose_solver(laplacian, part.n_components)
        solver, reason = choice.solver, choice.reason
        part = replace(part, symbolic=choice.predicted_fill is not None)
    fill = laplacian.elimination.fill
    part = replace(part, solver=solver, fill_ratio=fill / entries)
    if solver == "direct" and fill > MAX_FILL:
        return replace(part, solver="jacobi"), f"its Cholesky factor has more than {MAX_FILL:,} entries"
    if solver in ("direct", "cholmod"):
        part = replace(part, factor=factor_size(laplacian))
    return part, reason


def _with_direct(part: PartSizes, factor: FactorSize) -> tuple[PartSizes, str]:
    """A factor of which :func:`choose_solver` would approve, in its words."""
    ratio = factor.fill / part.laplacian
    part = replace(part, factor=factor, symbolic=True, fill_ratio=ratio)
    if part.solver != "auto":
        return part, "asked for"
    told = f"its Cholesky factor has {ratio:.0f} times the entries of the Laplacian"
    return replace(part, solver="direct"), f"{told}, at most {MAX_FILL_RATIO:.0f}"


def _factor_of_a_surface(graph: NeighborGraph) -> FactorSize | None:
    """Size of the factor of a large graph from patches of it; None where they say that it fills in fast.

    A patch is a ball of hops, without hubs (those come last in the order of elimination). The ratio of fill
    is taken to grow by the same factor from the patch to the whole graph as from a smaller patch to it: on
    surfaces, where it grows with the logarithm, that is a little too much.
    """
    n = graph.n_vertices
    common = np.flatnonzero(graph.degrees <= max(16.0, 10.0 * np.sqrt(n)))
    pattern = sp.csr_array((np.ones(len(graph.indices)), graph.indices, graph.indptr), shape=(n, n))
    if len(common) < n:
        pattern = sp.csr_array(pattern[common][:, common])
    found: list[FactorSize] = []
    start = int(np.argmax(np.diff(pattern.indptr)))
    for _ in range(2):
        ball = breadth_first_order(pattern, start, return_predecessors=False)
        # The second time from the rim: some graphs have sparse and dense parts.
        start = int(ball[-1])
        ratios = []
        for size in (len(ball) // _PATCH**2, len(ball) // _PATCH):
            if size < 3:
                return None
            members = np.sort(ball[:size])
            patch = sp.csr_array(pattern[members][:, members])
            laplacian = pattern_of_laplacian(NeighborGraph(patch.indptr, patch.indices, patch.data), "edge")
            ratios.append(laplacian.elimination.fill / len(laplacian.data))
        ratio = ratios[1] * max(ratios[1] / ratios[0], 1.0)
        if ratio > _FILL_OF_SURFACES or ratio * (n + len(graph.indices)) > _FACTOR_OF_SURFACES:
            return None
        factor = factor_size(laplacian)
        found.append(factor.scaled(ratio * (n + len(graph.indices)) / factor.fill))
    return max(found, key=lambda factor: factor.fill)


def pattern_of_laplacian(graph: NeighborGraph, inner_product: str) -> Laplacian:
    """A Laplacian with its pattern only: what is needed to count a factor."""
    n = graph.n_vertices
    ones = np.ones(len(graph.indices), dtype=np.int8)
    pattern = sp.csr_array((ones, graph.indices, graph.indptr), shape=(n, n)) + sp.eye_array(n, dtype=np.int8)
    pattern = sp.csr_array(pattern)
    if inner_product == "paper":
        # Vertices that see a common one are coupled.
        pattern = sp.csr_array(pattern @ pattern)
    pattern.sort_indices()
    return Laplacian(
        indptr=pattern.indptr.astype(np.int32, copy=False),
        indices=pattern.indices.astype(np.int32, copy=False),
        # Only its length is asked for.
        data=np.broadcast_to(np.float64(0.0), (pattern.nnz,)),
        diagonal=np.empty(0),
        norm=0.0,
        labels=np.zeros(n, dtype=np.int32),
        sizes=np.array([float(n)]),
    )


def factor_size(laplacian: Laplacian) -> FactorSize:
    """Size of the Cholesky factor of a connected Laplacian."""
    plan = laplacian.elimination
    found = analyse(plan)
    return FactorSize(
        fill=float(plan.fill),
        values=float(found.value_ptr[-1]),
        rows=float(found.row_ptr[-1]),
        supernodes=float(len(found.starts)),
        workspace=float(found.stack_size + found.front_size),
        work=float(np.sum(plan.counts.astype(np.float64) ** 2)),
    )


def _scaled(first: PartSizes, n: int, m: int) -> PartSizes:
    """A smaller component of the same kind."""
    share = (n + m) / (first.n + first.m)
    factor = None if first.factor is None else first.factor.scaled(share)
    return replace(first, n=n, m=m, laplacian=share * first.laplacian, factor=factor)
