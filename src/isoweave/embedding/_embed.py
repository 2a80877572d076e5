"""From a distance graph to coordinates: the whole pipeline."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np

from isoweave._parallel import thread_team
from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_integer
from isoweave.embedding._component import ComponentResult, embed_component
from isoweave.embedding._forecast import check_memory
from isoweave.embedding._known import Known, check_fitting, check_known
from isoweave.embedding._known_parts import MergedKnown
from isoweave.embedding._options import EmbeddingOptions, resolve_options
from isoweave.embedding._parts import assemble, in_users_terms, members, split
from isoweave.embedding._result import Embedding
from isoweave.graph import (
    NeighborGraph,
    connected_components,
    drop_shortcuts,
    graph_from_matrix,
    local_order,
    merge_duplicates,
    renumber,
    subgraph,
)
from isoweave.iteration import Callback

logger = logging.getLogger("isoweave")

# Beyond this ratio of lengths fourth powers overflow, and nothing at the small end would be visible.
_LARGEST_RATIO = 1e70


def embed_graph(
    matrix: Any,
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
    refine: str = "none",
    edge_weights: Any = None,
    vertex_weights: AnyArray | None = None,
    anchors: AnyArray | None = None,
    anchor_positions: AnyArray | None = None,
    anchor_weight: float | AnyArray | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    random_state: int | None = None,
    memory_limit: float | str | None = None,
    verbose: int = 0,
    callback: Callback | None = None,
) -> Embedding:
    """Embed a sparse graph of distances in Euclidean space.

    Parameters
    ----------
    matrix : sparse matrix of shape (n, n)
        ``matrix[i, j]`` is the distance of neighbours i and j. Stored zeros are duplicates. One direction of
        an edge is enough.
    n_components : int
        N, dimension of the map.
    preset : {"default", "paper"}
        "paper" is the method as published: second-order frames, its inner product with hull volumes, start
        at the identity, alternating recursion, no filter, no calibration.
    start : {"auto", "landmark", "synchronised", "coarse", "identity"} or array of shape (n, N)
        "auto" takes the landmark start, in up to three dimensions the synchronised one too if it ends with
        clearly less energy; large graphs start from the embedding of a sample ("coarse").
    solver : {"auto", "direct", "cholmod", "amg", "jacobi", "ic"}
        Of the Poisson problems; :func:`isoweave.solvers.choose_solver` tells what "auto" takes.
    inner_product : {"auto", "edge", "paper"}
    frame_size : "auto", "all", int or float
        Vertices per local frame; a float is a multiple of the typical degree, "auto" is 2.5.
    calibrate : bool or {"auto", "rows", "vertices", "none"}
        Rescale the frames to the measured lengths.
    scale : {"edges", "geodesics"}
        Whether the map's overall size follows the edges or the shortest paths.
    shortcuts : {"auto", "drop", "keep"}
        Remove short-circuits before embedding.
    components : {"separate", "largest", "error"}
        What to do with a disconnected graph: embed every part and lay them side by side, embed the largest
        (the other rows are NaN), or refuse. ("bridge" needs features: see
        :class:`isoweave.IsometricEmbedding`.)
    asymmetry : {"error", "max", "min", "mean"}
        What to do where the two directions of an edge differ.
    refine : {"none", "distances"}
        "distances" goes on from the finished map to the least sum of squares of
        ``|y_i - y_j| - matrix[i, j]`` over the edges: the better map where the data do lie in N dimensions,
        above all if distances were measured with errors (sensor networks); worse on closed surfaces in too
        few dimensions.
    edge_weights : sparse matrix of shape (n, n), optional
        How far to trust every distance: positive, with the pattern of ``matrix``, one direction or both. An
        edge of weight 2 counts as two. Only ratios matter. Inverse variances are a good choice.
    vertex_weights : array of shape (n,), optional
        How much the surroundings of every vertex count, positive.
    anchors : int array of shape (a,) or bool array of shape (n,), optional
        Vertices whose positions are known. The map is then in their coordinates; N + 1 of them or more, not
        all in a hyperplane, fix it, fewer leave it free to turn. Components without anchors are laid beside
        the others.
    anchor_positions : array of shape (a, N), optional
        In the order of ``anchors`` (of the true entries of a mask), in the unit of the distances.
    anchor_weight : float or array of shape (a,), optional
        None or infinite: anchors stay exactly where they are. Otherwise they are pulled there with
        ``anchor_weight`` times the squared distance; 1 counts as one direction of one edge of weight 1.
    tol, max_iter : float, int
        Of the optimiser; None takes the preset's. By default iterations end when one more sweep would change
        the map by less than 3 % of the misfit that is left.
    n_jobs : int or None
        Threads; None or -1 takes all cores. The result does not depend on it.
    random_state : int or None
        Seed of what is random (projections of hull volumes in the paper preset).
    memory_limit : None, number of bytes, or str
        Refuse with a MemoryError, before the work begins, a fit whose process would grow beyond this
        (:func:`estimate_resources` predicts it). Text is as "4GB" or "512MiB"; None is 90 % of what the
        machine or its container allows; "none" or infinity switches the check off.
    verbose : int
        1 prints a line per stage.
    callback : callable
        Called with an :class:`isoweave.iteration.IterationState` after every step; returning True stops.

    Returns
    -------
    Embedding

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> lengths = np.linalg.norm(square[:, None] - square, axis=-1)
    >>> result = embed_graph(sp.csr_array(lengths), n_components=2)
    >>> found = np.linalg.norm(result.coordinates[:, None] - result.coordinates, axis=-1)
    >>> bool(np.allclose(found, lengths))
    True
    """
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
        tol=tol,
        max_iter=max_iter,
        seed=0 if random_state is None else check_integer("random_state", random_state, minimum=0),
        memory_limit=memory_limit,
        refine=refine,
    )
    if components == "bridge":
        raise ValueError(
            "components='bridge' needs features to measure distances between components; a graph alone has "
            "none. Use components='separate', or IsometricEmbedding on the features."
        )
    graph = graph_from_matrix(matrix, asymmetry=asymmetry)
    known = check_known(
        graph,
        options.n_components,
        edge_weights=edge_weights,
        vertex_weights=vertex_weights,
        anchors=anchors,
        anchor_positions=anchor_positions,
        anchor_weight=anchor_weight,
    )
    return embed(graph, options, n_jobs=n_jobs, verbose=verbose, callback=callback, known=known)


def embed(
    graph: NeighborGraph,
    options: EmbeddingOptions,
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
    callback: Callback | None = None,
    known: Known | None = None,
) -> Embedding:
    """Embed a checked graph with resolved options; see :func:`embed_graph`."""
    if callback is not None and not callable(callback):
        raise TypeError(
            f"callback must be callable or None, got {callback!r} of type {type(callback).__name__}."
        )
    say = _Reporter(verbose)
    n, n_components = graph.n_vertices, options.n_components
    user_start = _checked_start(options.start, n, n_components)
    if known is not None:
        check_fitting(options, known)
    check_memory(graph, options, n_jobs)
    with thread_team(n_jobs) as team:
        unit, normal = _normalise(graph)
        merged, representative = merge_duplicates(normal)
        if merged.n_vertices < n:
            say(f"{n - merged.n_vertices} duplicates merged")
        order = local_order(merged)
        if order is not None:
            merged = renumber(merged, order)
            representative = np.argsort(order).astype(np.int32)[representative]
        merged_known = None if known is None else MergedKnown(known, graph, representative, unit)
        if merged_known is not None and merged_known.origin is not None and user_start is not None:
            user_start = user_start - merged_known.origin
        dropped = np.empty((0, 2), dtype=np.int32)
        filtered = merged
        if options.drop_shortcuts and merged.n_edges:
            report = drop_shortcuts(merged, team=team)
            filtered = report.graph
            if len(report.dropped):
                dropped = members(graph, representative, report.dropped)
                say(f"{len(dropped)} edges dropped as shortcuts")
        n_parts, labels = connected_components(filtered)
        parts = split(labels, n_parts)
        _check_parts(options, parts, n_components, merged_known)
        firsts = np.unique(representative, return_index=True)[1]
        results: list[ComponentResult | None] = []
        for c, vertices in enumerate(parts):
            if len(vertices) == 1 or (c > 0 and options.components == "largest"):
                results.append(None)
                continue
            part = filtered if n_parts == 1 else subgraph(filtered, vertices)
            # A start too far out for the unit becomes infinite, and embed_component refuses it.
            with np.errstate(over="ignore"):
                here = None if user_start is None else user_start[firsts[vertices]] / unit
            hook = None
            if callback is not None:
                place = np.full(len(labels), -1, dtype=np.int64)
                place[vertices] = np.arange(len(vertices))
                hook = in_users_terms(callback, place[representative], unit, c, n_parts, merged_known)
            part_known = None if merged_known is None else merged_known.part(part, vertices)
            result = embed_component(
                part, options, team=team, user_start=here, callback=hook, known=part_known
            )
            results.append(result)
            if c == 0:
                say(f"start: {result.start}; solver {result.solver}; {result.iteration.n_iter} steps")
    embedding = assemble(graph, options, unit, representative, labels, parts, results, dropped, merged_known)
    if embedding.status == "max_iter":
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"The optimiser stopped after max_iter={options.max_iter} steps before reaching "
            f"tol={options.tol:g}; raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return embedding


class _Reporter:
    """One line per stage: to the log always, to standard output when asked."""

    def __init__(self, verbose: int) -> None:
        self._verbose = verbose

    def __call__(self, text: str) -> None:
        logger.info(text)
        if self._verbose:
            print(f"[isoweave] {text}", flush=True)


def _normalise(graph: NeighborGraph) -> tuple[float, NeighborGraph]:
    """Lengths in a unit near their median.

    The unit is a power of two: no digit changes, and no later stage over- or underflows.
    """
    positive = graph.lengths[graph.lengths > 0]
    if len(positive) == 0:
        return 1.0, graph
    # The upper of the two middle lengths, because their mean may overflow; the unit must be a number too.
    middle = np.partition(positive, len(positive) // 2)[len(positive) // 2]
    exponent = min(int(np.frexp(middle)[1]), np.finfo(np.float64).maxexp - 1)
    if positive.max() / _LARGEST_RATIO > positive.min():
        raise ValueError(
            f"distances span from {positive.min():.3g} to {positive.max():.3g}, a ratio over "
            f"{_LARGEST_RATIO:.0g}; rescale or remove the extreme ones."
        )
    lengths = np.ldexp(graph.lengths, -exponent)
    return float(np.ldexp(1.0, exponent)), NeighborGraph(graph.indptr, graph.indices, lengths)


def _checked_start(start: str | FloatArray, n: int, n_components: int) -> FloatArray | None:
    if isinstance(start, str):
        return None
    array = np.asarray(start)
    if array.shape != (n, n_components) or array.dtype.kind not in "fiu":
        raise ValueError(
            f"start must be a real array of shape ({n}, {n_components}), got shape {array.shape} and dtype "
            f"{array.dtype}."
        )
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"start must be finite, but entry ({row}, {column}) is {array[row, column]}.")
    return array


def _check_parts(
    options: EmbeddingOptions, parts: list[AnyArray], n_components: int, known: MergedKnown | None
) -> None:
    sizes = [len(part) for part in parts]
    # With a single point (all duplicates) there is nothing to embed, whatever N is.
    if sizes[0] > 1 and n_components > sizes[0] - 1:
        raise ValueError(
            f"n_components={n_components} is more than any neighbourhood can support: the largest component "
            f"has {sizes[0]} distinct points, which span at most {sizes[0] - 1} dimensions. "
            "Lower n_components."
        )
    n_parts = len(parts)
    if n_parts == 1:
        return
    what = f"The graph has {n_parts} connected components (sizes {', '.join(map(str, sizes[:5]))}"
    what += ", ...)." if n_parts > 5 else ")."
    if options.components == "error":
        raise ValueError(
            f"{what} Raise n_neighbors, or allow it with components='separate', 'largest' or 'bridge'."
        )
    fate = "each was embedded by itself and laid side by side; distances between them mean nothing"
    if options.components == "largest":
        fate = "only the largest was embedded; the other rows are NaN"
    elif known is not None and known.origin is not None:
        lost = sum(not known.has_anchor(part) for part in parts)
        if lost == 0:
            return
        fate = f"{lost} of them without anchors were laid beside the others; their places mean nothing"
    warnings.warn(f"{what} {fate[0].upper()}{fate[1:]} (see component_labels_).", UserWarning, stacklevel=4)
