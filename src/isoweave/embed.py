"""From a distance graph to coordinates: the pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from isoweave._component import embed_component
from isoweave._edges import measured_factors
from isoweave._engine import ComponentResult
from isoweave._parallel import ThreadTeam, thread_team
from isoweave._reporter import Reporter
from isoweave._small_components import embed_many
from isoweave._stages import arrays_of, finished_from, finished_record
from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_array
from isoweave.engines import plain
from isoweave.forecast import check_memory
from isoweave.geometry import typical_degrees
from isoweave.graph import NeighborGraph, PreparedGraph, graph_from_matrix, prepare_graph
from isoweave.known import Known, check_known
from isoweave.optimise import (
    AT_ONCE,
    MANY,
    N_LANDMARKS,
    SYNCHRONIZED_LIMIT,
    Callback,
    Interrupt,
    IterationState,
    Run,
    StepRecord,
    check_finite,
    companion_width,
)
from isoweave.options import EmbeddingOptions, FitOptions, documented, resolve_options
from isoweave.result import Embedding

# Worst last: the status of an embedding is that of its worst component.
STATUSES = ("converged", "stalled", "collapsed", "max_iter", "stopped", "interrupted")


@documented(FitOptions)
def embed_graph(
    matrix: Any, n_components: int = 2, *, anchors: Any = None, weights: Any = None, **options: Any
) -> Embedding:
    """Embed a sparse graph of distances in Euclidean space.

    Parameters
    ----------
    matrix : sparse matrix of shape (n, n)
        ``matrix[i, j]`` is the distance of neighbours i and j. Stored zeros are duplicates. One direction of
        an edge is enough.
    n_components : int, default=2
        N, dimension of the embedding.
    anchors : isoweave.Anchors, default=None
        Vertices whose positions are known.
    weights : sparse matrix of shape (n, n), array of shape (n,), or isoweave.Weights, default=None
        How far to trust every distance (a matrix with the pattern of the graph; inverse variances are a good
        choice), how much the neighbourhood of every vertex counts (an array), or both.
    {options}

    Returns
    -------
    Embedding

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> lengths = np.linalg.norm(square[:, None] - square, axis=-1)
    >>> result = embed_graph(sp.csr_array(lengths), n_components=2)
    >>> bool(np.allclose(result.distances(), lengths))
    True
    """
    resolved = resolve_options(n_components, **options)
    if resolved.components == "bridge":
        raise ValueError(
            "components='bridge' needs features to measure distances between components; a graph alone has "
            "none. Use components='separate', or IsometricEmbedding on the features."
        )
    graph = graph_from_matrix(matrix, asymmetry=resolved.asymmetry)
    known = check_known(graph, resolved, anchors, weights)
    with running(
        resolved, lambda: ({**arrays_of("graph", graph), **arrays_of("known", known)}, resolved.fingerprint())
    ) as run:
        return embed(graph, resolved, known, run)


def embed(
    graph: NeighborGraph, options: EmbeddingOptions, known: Known | None = None, run: Run | None = None
) -> Embedding:
    """Embed a checked graph with checked options; see :func:`embed_graph`.

    ``run`` is what :func:`running` makes; None is one that cannot be interrupted and is kept nowhere.
    """
    known = known or Known()
    run = run or Run(report=Reporter(options.verbose), callback=options.callback)
    say = run.report
    start = _checked_start(options.start, graph.n_vertices, options.n_components)
    device = _device(graph, options, known)
    if device is None:
        check_memory(graph, options, options.n_jobs)
    say.begin(graph, options)
    from isoweave.engines.ahead import compiled_ahead

    with (
        thread_team(options.n_jobs) as team,
        compiled_ahead(team.n_threads, options.n_components, graph.n_vertices, len(graph.indices)),
    ):
        drop, prepared = options.shortcuts == "drop", None
        if device is not None and options.along_graph is None:
            from isoweave.cuda import prepare_on_device

            prepared = prepare_on_device(graph, drop, device, run.stage)
        how: Any = {"along": options.along_graph, "team": team, "on_stage": run.stage}
        prepared = prepared or prepare_graph(graph, drop, **how)
        say.unit, n_dropped = prepared.unit, len(prepared.dropped)
        n_merged = graph.n_vertices - prepared.graph.n_vertices
        n_more = prepared.graph.n_edges - graph.n_edges
        for count, what in (
            (n_merged, "duplicates merged"),
            (n_dropped, "edges dropped as shortcuts"),
            (n_more, "edges added along the graph"),
        ):
            if count > 0:
                say(f"{count} {what}")
        merged = known.merged(prepared)
        without = (not merged.has_anchor(part) for part in prepared.parts)
        n_lost = None if merged.anchors is None else sum(without)
        said = check_components([len(part) for part in prepared.parts], options, n_lost)
        if said:
            warnings.warn(f"{said} (see component_labels_).", UserWarning, stacklevel=3)
        if start is not None:
            start = start - known.origin
        results = embed_parts(prepared, known, merged, options, start, team, run, device is not None)
        embedding = _assemble(prepared, known, merged, options, results, team)
    first = results[0]
    if first is not None:
        say(f"start: {first.start}; solver {first.solver}; {first.iteration.n_iter} steps")
        if first.global_weight:
            say(f"long distances count with global_weight={first.global_weight:.2g}")
    say(f"relative energy {embedding.relative_energy:.2g}; isoweave.diagnose explains it")
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


@contextmanager
def running(
    options: EmbeddingOptions,
    describe: Callable[[], tuple[Mapping[str, AnyArray], Mapping[str, Any]]] | None = None,
    callback: Callback | None = None,
) -> Iterator[Run]:
    """The run of one computation: who is told, what Ctrl-C does, and where its state is kept.

    ``describe`` gives the inputs and the parameters that define the run; without it nothing is kept.
    """
    report, callback = Reporter(options.verbose), callback or options.callback
    if options.on_interrupt == "raise" and (describe is None or options.checkpoint is None):
        # Python's own Ctrl-C is what is wanted.
        yield Run(report=report, callback=callback)
        return
    with Interrupt(options.on_interrupt) as interrupt:
        journal = None
        if describe is not None and options.checkpoint is not None:
            journal = options.checkpoint.open(*describe())
        with kept_in(journal, interrupt, report, callback) as run:
            yield run


@contextmanager
def kept_in(journal: Any, interrupt: Interrupt, report: Reporter, callback: Callback | None) -> Iterator[Run]:
    """The run that a journal keeps, if there is one, until the end of the block."""
    if journal is None:
        yield Run(None, interrupt, report, callback=callback)
        return
    raised = []

    def call(state: IterationState) -> object:
        try:
            return None if callback is None else callback(state)
        except Exception as error:
            raised.append(error)
            raise

    try:
        yield Run(journal, interrupt, report, callback=None if callback is None else call)
    except (ValueError, TypeError, ArithmeticError, LookupError) as error:
        # Numbers out of a file may break whatever is made of them, at any later stage.
        if journal.is_resumed and error not in raised:
            raise journal.unusable(error) from error
        raise
    finally:
        journal.close()


def _device(graph: NeighborGraph, options: EmbeddingOptions, known: Known) -> Any:
    """The device that large components are embedded on; None is the CPU."""
    if options.engine == "cpu":
        return None
    if options.engine == "petsc":
        raise ValueError(
            "engine='petsc' embeds a graph in parts, one on each rank: run mpiexec -n 4 isoweave embed GRAPH "
            "--engine petsc -o MAP, or call isoweave.cluster.embed_file. The estimator, transform and "
            "diagnose do not support it yet; use engine='cpu'."
        )
    from isoweave.cuda import device_for

    return device_for(graph, options, known)


def _checked_start(start: str | FloatArray, n: int, n_components: int) -> FloatArray | None:
    if isinstance(start, str):
        return None
    array: FloatArray = check_array("start", start, (n, n_components))
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"start must be finite, but entry ({row}, {column}) is {array[row, column]}.")
    return array


def check_components(
    sizes: Sequence[int], options: EmbeddingOptions, n_lost: int | None = None
) -> str | None:
    """Refuse components that the options do not allow; what to say of them, if there is anything.

    ``n_lost`` of them have no anchors; None if there are no anchors at all.
    """
    n_components = options.n_components
    # With a single point (all duplicates) there is nothing to embed, whatever N is.
    if sizes[0] > 1 and n_components > sizes[0] - 1:
        raise ValueError(
            f"n_components={n_components} is more than any neighbourhood can support: the largest component "
            f"has {sizes[0]} distinct points, which span at most {sizes[0] - 1} dimensions. "
            "Lower n_components."
        )
    if len(sizes) == 1:
        return None
    what = f"The graph has {len(sizes)} connected components (sizes {', '.join(map(str, sizes[:5]))}"
    what += ", ...)." if len(sizes) > 5 else ")."
    if options.components == "error":
        ways = "'separate' or 'largest'" if options.engine == "petsc" else "'separate', 'largest' or 'bridge'"
        raise ValueError(f"{what} Raise n_neighbors, or allow it with components={ways}.")
    if options.components == "largest":
        return f"{what} Only the largest was embedded; the other rows are NaN"
    if n_lost is None:
        return f"{what} Each was embedded alone and laid side by side; distances between them mean nothing"
    lost = f"{n_lost} of them without anchors were laid beside the others; their places mean nothing"
    return f"{what} {lost}" if n_lost else None


def embed_parts(
    prepared: PreparedGraph,
    known: Known,
    merged: Known,
    options: EmbeddingOptions,
    start: FloatArray | None,
    team: ThreadTeam,
    run: Run,
    has_device: bool,
) -> list[ComponentResult | None]:
    """Results of the components, None for single vertices and for those that are left out."""
    finished = finished_from(run.load("components"), prepared.parts, options.n_components)
    results = [finished.get(c) for c in range(len(prepared.parts))]

    def keep() -> None:
        if any(result is not None for result in results):
            run.keep("components", lambda: finished_record(results))

    def embed_alone(c: int) -> None:
        graph, vertices = prepared.part(c), prepared.parts[c]
        # A start too far out for the unit becomes infinite, and embed_component refuses it.
        with np.errstate(over="ignore"):
            here = None if start is None else start[prepared.firsts[vertices]] / prepared.unit
        place = run.within(f"component-{c}")
        if run.callback is not None:
            place = replace(place, callback=_in_users_terms(run.callback, prepared, known, c))
        part = merged.part(prepared.graph, vertices)
        # A smaller one takes the CPU no longer than the device.
        large = has_device and graph.n_vertices * options.n_components > SYNCHRONIZED_LIMIT
        results[c] = embed_component(graph, options, part, team=team, start=here, run=place, on_device=large)
        place.forget()
        keep()

    sizes = [len(vertices) for vertices in prepared.parts]
    wanted = range(1 if options.components == "largest" else len(sizes))
    waiting = [c for c in wanted if sizes[c] > 1 and results[c] is None]
    special = (run.callback, merged.edge_weights, merged.vertex_weights)
    small = [c for c in waiting if sizes[c] <= N_LANDMARKS and not merged.has_anchor(prepared.parts[c])]
    if options.is_ordinary and all(value is None for value in special) and len(small) > 1:
        # Only those with the same companions go together, larger ones first.
        typical = typical_degrees(*prepared.degrees_of(small)).tolist()
        widths = [companion_width(degree, options.n_components)[0] for degree in typical]
        width_of = dict(zip(small, widths, strict=True))
        small.sort(key=lambda c: width_of[c])
        plain.expect(len(prepared.graph.indices))
        waiting = [c for c in waiting if c not in width_of] + small

        def embed_range(start: int, stop: int, chosen: list[int], found: dict) -> None:
            for _, like in groupby(chosen[start:stop], key=lambda c: width_of[c]):
                which = list(like)
                parts = (prepared.part(*which), [sizes[c] for c in which])
                found |= dict(zip(which, embed_many(*parts, options, run.interrupt), strict=True))

        # One thread takes a block at a time; several take all, so that none waits for another, unless what is
        # done has to be kept in between.
        n_threads, at_once = team.n_threads, AT_ONCE
        if n_threads > 1:
            at_once = 4 * AT_ONCE * n_threads if run.journal is not None else len(small)
        for lo in range(0, len(small), at_once):
            run.stage("small components")
            chosen = small[lo : lo + at_once]
            found: dict[int, ComponentResult | None] = {}
            # As many blocks for every thread.
            n_blocks = n_threads * -(-len(chosen) // (AT_ONCE * n_threads))
            grain = -(-len(chosen) // n_blocks)
            team.run(embed_range, len(chosen), chosen, found, grain=grain, exactly=True)
            # Before what an interrupt has left unfinished is among what is kept.
            run.pause()
            for c, result in found.items():
                results[c] = result
            keep()
    left = [c for c in waiting if results[c] is None]
    run = replace(run, one_of_many=len(left) >= MANY)
    for c in left:
        embed_alone(c)
    return results


def _in_users_terms(callback: Callback, prepared: PreparedGraph, known: Known, c: int) -> Callback:
    """The user's callback, given coordinates in the order and unit of the input."""
    n_parts, vertices, unit = len(prepared.parts), prepared.parts[c], prepared.unit
    rows = np.full(prepared.graph.n_vertices, -1, dtype=np.int64)
    rows[vertices] = np.arange(len(vertices))
    rows = rows[prepared.representative]
    inside = rows >= 0

    def call(state: IterationState) -> object:
        coordinates = np.full((len(rows), state.coordinates.shape[1]), np.nan)
        # Beyond the largest number it is infinite, as the error at the end will say.
        with np.errstate(over="ignore"):
            coordinates[inside] = state.coordinates[rows[inside]] * unit + known.origin
        stage = state.stage if n_parts == 1 else f"{state.stage} (component {c + 1} of {n_parts})"
        energy = state.energy * unit * unit * known.weight_unit
        return callback(replace(state, stage=stage, energy=energy, coordinates=coordinates))

    return call


def in_users_unit(coordinates: FloatArray, unit: float) -> FloatArray:
    """The coordinates times the unit, in their place; refused beyond the largest number."""
    with np.errstate(over="ignore"):
        coordinates *= unit
    if np.isinf(coordinates).any():
        raise ValueError(
            f"The map of these distances (median near {unit:.1g}) extends beyond the largest number, "
            f"{np.finfo(np.float64).max:.2g}; divide the distances by a power of ten."
        )
    return coordinates


def _assemble(
    prepared: PreparedGraph,
    known: Known,
    merged: Known,
    options: EmbeddingOptions,
    results: list[ComponentResult | None],
    team: ThreadTeam,
) -> Embedding:
    """Put the components in place, give duplicates their coordinates, restore the unit."""
    n_components, n_merged, unit = options.n_components, prepared.graph.n_vertices, prepared.unit
    parts = prepared.parts
    if options.components == "largest":
        parts, results = parts[:1], results[:1]
    placed = [
        r.iteration.coordinates if r is not None else np.zeros((len(v), n_components))
        for v, r in zip(parts, results, strict=True)
    ]
    if options.along_graph is not None and options.keeps_lengths and known.anchors is None:
        factors = measured_factors(prepared, parts, placed)
        placed = [local * factor for local, factor in zip(placed, factors, strict=True)]
        results = [r and replace(r, stretch=r.stretch * f) for r, f in zip(results, factors, strict=True)]
    offsets = merged.offsets(parts, placed)
    check_finite("layout", "shifts of the components", np.array(offsets))
    energy = mass = 0.0
    status = 0
    if len(prepared.parts) == 1 and results[0] is not None:
        coordinates, stretch = placed[0] + offsets[0], results[0].stretch
        alignments = results[0].iteration.alignments
    else:
        coordinates, stretch = np.full((n_merged, n_components), np.nan), np.ones((n_merged, n_components))
        alignments = np.tile(np.eye(n_components), (n_merged, 1, 1))
        for vertices, local, offset, result in zip(parts, placed, offsets, results, strict=True):
            coordinates[vertices] = local + offset
            if result is not None:
                alignments[vertices], stretch[vertices] = result.iteration.alignments, result.stretch
    for result in results:
        if result is not None:
            energy += result.iteration.energy
            mass += result.mass
            status = max(status, STATUSES.index(result.iteration.status))
    coordinates = in_users_unit(coordinates, unit)
    first, representative = results[0], prepared.representative
    steps = (StepRecord(0, 0.0, 0.0, 0.0),) if first is None else first.iteration.history
    return Embedding(
        coordinates=known.finish(team.take(coordinates, representative), representative),
        graph=prepared.given,
        alignments=team.take(alignments, representative),
        stretch=team.take(stretch, representative),
        component_labels=prepared.labels[representative],
        dropped_edges=prepared.dropped,
        energy=energy * unit * unit * known.weight_unit,
        # In the unit near the median, where neither over- nor underflows.
        relative_energy=energy / mass if mass > 0 else 0.0,
        history=tuple(replace(s, energy=s.energy * unit * unit * known.weight_unit) for s in steps),
        status=STATUSES[status],
        start="none" if first is None else first.start,
        solver="none" if first is None else first.solver,
        global_weight=0.0 if first is None else first.global_weight,
        parameters={} if options.along_graph is None else {"along_graph": options.along_graph},
    )
