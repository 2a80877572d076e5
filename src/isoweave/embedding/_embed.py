"""From a distance graph to coordinates: the whole pipeline."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from isoweave._parallel import thread_team
from isoweave._typing import AnyArray
from isoweave._validation import check_integer
from isoweave.embedding._component import ComponentResult, embed_component
from isoweave.embedding._finished import finished_from, finished_record
from isoweave.embedding._forecast import check_memory
from isoweave.embedding._known import Known, check_fitting, check_known
from isoweave.embedding._known_parts import MergedKnown
from isoweave.embedding._options import EmbeddingOptions, resolve_options
from isoweave.embedding._parts import assemble, in_users_terms, split
from isoweave.embedding._prepare import check_parts, checked_start, normalise_lengths, prepare_graph
from isoweave.embedding._records import graph_arrays, known_arrays, prepared_from, prepared_record
from isoweave.embedding._report import Reporter
from isoweave.embedding._running import option_values, running
from isoweave.graph import (
    NeighborGraph,
    connected_components,
    graph_from_matrix,
    subgraph,
)
from isoweave.optimise import Callback, Checkpoint, Run
from isoweave.result import Embedding


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
    checkpoint: Checkpoint | None = None,
    on_interrupt: str = "raise",
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
        Of the Poisson problems; :func:`isoweave.linalg.choose_solver` tells what "auto" takes.
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
        1 prints what was found on the way, 2 also every stage, and about once a second the step, the misfit
        and the time left. All of it goes to the logger "isoweave" too.
    callback : callable
        Called with an :class:`isoweave.optimise.IterationState` after every step; returning True stops.
    checkpoint : isoweave.Checkpoint
        Where to keep the state of a long run, and whether to go on from there.
    on_interrupt : {"raise", "return"}
        What Ctrl-C does: raise KeyboardInterrupt (with a checkpoint: after the step, once the state is
        written), or return the best map so far with status "interrupted". A second Ctrl-C raises at once.

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
    with running(
        Reporter(verbose),
        checkpoint,
        on_interrupt,
        lambda: ({**graph_arrays(graph), **known_arrays(known)}, option_values(options)),
    ) as run:
        return embed(graph, options, n_jobs=n_jobs, callback=callback, run=run, known=known)


def embed(
    graph: NeighborGraph,
    options: EmbeddingOptions,
    *,
    n_jobs: int | None = None,
    verbose: int = 0,
    callback: Callback | None = None,
    run: Run | None = None,
    known: Known | None = None,
) -> Embedding:
    """Embed a checked graph with resolved options; see :func:`embed_graph`.

    ``run`` is what :func:`isoweave.embedding._running.running` makes; None is one that cannot be interrupted
    and is kept nowhere.
    """
    if callback is not None and not callable(callback):
        raise TypeError(
            f"callback must be callable or None, got {callback!r} of type {type(callback).__name__}."
        )
    if run is None:
        run = Run(report=Reporter(verbose))
    assert isinstance(run.report, Reporter)
    say = run.report
    n, n_components = graph.n_vertices, options.n_components
    user_start = checked_start(options.start, n, n_components)
    if known is not None:
        check_fitting(options, known)
    check_memory(graph, options, n_jobs)
    say.begin(graph, options, n_jobs)
    with thread_team(n_jobs) as team:
        unit, normal = normalise_lengths(graph)
        say.unit = unit
        stored = run.load("graph")
        if stored is None:
            filtered, representative, dropped = prepare_graph(graph, normal, options, team, run, say)
            run.keep("graph", lambda: prepared_record(filtered, representative, dropped))
        else:
            filtered, representative, dropped = prepared_from(stored, n)
        merged_known = None if known is None else MergedKnown(known, graph, representative, unit)
        if merged_known is not None and merged_known.origin is not None and user_start is not None:
            user_start = user_start - merged_known.origin
        n_parts, labels = connected_components(filtered)
        parts = split(labels, n_parts)
        check_parts(options, parts, n_components, merged_known)
        firsts = np.unique(representative, return_index=True)[1]
        results: list[ComponentResult | None] = []
        kept = run.load("components")
        finished = {} if kept is None else finished_from(kept, parts, n_components)
        for c, vertices in enumerate(parts):
            if len(vertices) == 1 or (c > 0 and options.components == "largest"):
                results.append(None)
                continue
            if c in finished:
                results.append(finished.pop(c))
                continue
            part = filtered if n_parts == 1 else subgraph(filtered, vertices)
            # A start too far out for the unit becomes infinite, and embed_component refuses it.
            with np.errstate(over="ignore"):
                here = None if user_start is None else user_start[firsts[vertices]] / unit
            hook = None
            if callback is not None:
                rows = np.full(len(labels), -1, dtype=np.int64)
                rows[vertices] = np.arange(len(vertices))
                hook = in_users_terms(callback, rows[representative], unit, c, n_parts, merged_known)
            place = run.within(f"component-{c}")
            part_known = None if merged_known is None else merged_known.part(part, vertices)
            result = embed_component(
                part, options, team=team, user_start=here, callback=hook, run=place, known=part_known
            )
            results.append(result)
            place.forget()
            run.keep("components", lambda: finished_record(results))
            if c == 0:
                say(f"start: {result.start}; solver {result.solver}; {result.iteration.n_iter} steps")
    embedding = assemble(graph, options, unit, representative, labels, parts, results, dropped, merged_known)
    say(f"relative energy {embedding.relative_energy:.2g}; isoweave.diagnose tells what it means")
    run.finish()
    if embedding.status == "max_iter":
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"The optimiser stopped after max_iter={options.max_iter} steps before reaching "
            f"tol={options.tol:g}; raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return embedding
