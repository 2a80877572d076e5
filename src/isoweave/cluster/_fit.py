"""The fit of a graph in shares: what ``isoweave.embed`` and ``isoweave._component`` do on one machine."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from isoweave._component import embed_in_rounds, stretch_of
from isoweave._engine import ComponentResult, Engine, check_start, geodesic_factor
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.cluster._frames import ShareEnergy, share_frames
from isoweave.cluster._landmarks import far_vertices, scaled_share, share_global
from isoweave.cluster._patch import Patch, around, restricted
from isoweave.cluster._problem import ShareAnchors, cluster_problem
from isoweave.cluster._share import Ranks, Share
from isoweave.cluster._shortcuts import without_shortcuts
from isoweave.cluster._starts import STARTS, gathered, to_owners
from isoweave.embed import STATUSES, check_components, embed_parts, in_users_unit
from isoweave.energy import AnchorEnergy
from isoweave.geometry import edge_lengths
from isoweave.graph import NeighborGraph, PreparedGraph, longer_than_detours, pack_boxes
from isoweave.known import Known
from isoweave.optimise import ALONE, MENDED, SYNCHRONIZED_LIMIT, Run, check_finite, mended
from isoweave.options import EmbeddingOptions


def check_cluster_options(options: EmbeddingOptions) -> None:
    """Refuse, on all ranks alike, what a fit asks for that engine="petsc" does not have."""
    is_paper, start = "paper" in (options.preset, options.inner_product), options.start
    asked = {
        "the paper's method (preset or inner_product 'paper')": is_paper,
        "frame_size='all'": options.frame_size == "all",
        f"start={start!r:.20}": isinstance(start, str) and start not in ("auto", *STARTS),
        f"solver={options.solver!r}": options.solver not in ("auto", "amg", "jacobi"),
        f"along_graph={options.along_graph}": options.along_graph is not None,
        "components='bridge'": options.components == "bridge",
    }
    for name, wanted in asked.items():
        if wanted:
            raise ValueError(
                f"{name} is not supported by engine='petsc' yet: leave it out, or use engine='cpu'."
            )


def embed_share(
    share: Share,
    options: EmbeddingOptions,
    *,
    anchors: tuple[AnyArray, FloatArray, FloatArray] | None = None,
    run: Run = ALONE,
    team: ThreadTeam = ONE_THREAD,
    alone_up_to: int = SYNCHRONIZED_LIMIT,
) -> tuple[FloatArray, dict[str, Any]]:
    """Embed a graph in shares; every rank calls it with its own.

    Parameters
    ----------
    share : Share
    options : EmbeddingOptions
        ``start`` may be an array of the owned rows.
    anchors : tuple or None
        Rows (a,), positions (a, N) in the user's unit and weights (a,) of owned vertices whose positions are
        known; infinite weights hold. Given on all ranks or on none.
    run, team
        As on one machine; a journal of ``run`` answers alike on all ranks.
    alone_up_to : int
        Components of up to this many unknowns (vertices times dimensions) are embedded by one rank each.

    Returns
    -------
    coordinates : float64 array (n_owned, N)
        In the user's unit; NaN in components that are left out.
    facts : dict
        "energy", "relative_energy", "n_iter", "status", "start", "solver", "global_weight", "n_dropped", the
        same on all ranks, and "stretch" (n_owned, N).
    """
    check_cluster_options(options)
    width, ranks = options.n_components, share.ranks
    origin, pins = _in_unit(share, anchors, width)
    _check_components(share, options, pins)
    given = None if isinstance(options.start, str) else (options.start - origin) / share.unit
    n_dropped = 0
    if options.shortcuts == "drop":
        run.stage("shortcuts")
        share, n_dropped = without_shortcuts(share, team)
    x, stretch = np.full((share.n_owned, width), np.nan), np.ones((share.n_owned, width))
    is_one = len(share.component_sizes) == 1
    sizes = share.component_sizes if options.components != "largest" else share.component_sizes[:1]
    x[(share.component_sizes[share.component] == 1) & (share.component < len(sizes))] = 0.0
    embed: Any = embed_large if options.loss == "squares" else _embed_robustly
    results: dict[int, ComponentResult] = {}
    for c in np.flatnonzero((sizes > 1) & (sizes * width > alone_up_to)).tolist():
        inside = share.component == c
        part = share if is_one else restricted(share, inside)
        held = None if pins is None else _inside(pins, inside, part)
        begin = None if given is None else given[inside]
        where = run if is_one else run.within(f"component-{c}")
        found = results[c] = embed(part, options, held, team=team, start=begin, run=where)
        x[inside], stretch[inside] = found.iteration.coordinates, found.stretch
    alone = np.flatnonzero((sizes > 1) & (sizes * width <= alone_up_to)).tolist()
    small = _embed_alone(share, alone, options, pins, given, team, x, stretch) if alone else {}
    # Results of large components are on all ranks, and count on the first.
    mine = [*small.values(), *(results.values() if ranks.rank == 0 else ())]
    scales = np.array([(r.iteration.energy, r.mass) for r in mine], dtype=np.float64)
    energy, mass = ranks.sum(scales.reshape(-1, 2).sum(axis=0)).tolist()
    status = ranks.max(max((STATUSES.index(r.iteration.status) for r in mine), default=0))
    x = _laid_out(share, x, pins, sizes)
    with ranks.together():
        x = in_users_unit(x, share.unit) + origin
    if pins is not None and anchors is not None:
        hard = np.isinf(anchors[2])
        x[anchors[0][hard]] = anchors[1][hard]
    facts = _facts_of_first(ranks, (results | small).get(0)) | {
        "energy": energy * share.unit * share.unit,
        "relative_energy": energy / mass if mass > 0 else 0.0,
        "status": STATUSES[status], "n_dropped": n_dropped, "stretch": stretch,
    }  # fmt: skip
    return x, facts


def _facts_of_first(ranks: Ranks, first: ComponentResult | None) -> dict[str, Any]:
    """What is said of a map is said of its largest component."""
    mine = first and {
        "n_iter": first.iteration.n_iter, "start": first.start, "solver": first.solver,
        "global_weight": first.global_weight,
    }  # fmt: skip
    nothing = {"n_iter": 0, "start": "none", "solver": "none", "global_weight": 0.0}
    return next((facts for facts in ranks.gather(mine) if facts), nothing)


def _check_components(share: Share, options: EmbeddingOptions, pins: AnchorEnergy | None) -> None:
    n_lost = None
    if pins is not None:
        known = np.zeros(len(share.component_sizes), dtype=bool)
        known[share.component[pins.vertices]] = True
        n_lost = int(np.count_nonzero(~share.ranks.max(known)))
    said = check_components(share.component_sizes.tolist(), options, n_lost)
    if said and share.ranks.rank == 0:
        warnings.warn(f"{said}.", UserWarning, stacklevel=3)


def _in_unit(share: Share, anchors: Any, width: int) -> tuple[FloatArray, AnchorEnergy | None]:
    """Mean of the anchors, and the owned ones around it in the unit of the lengths."""
    count = 0 if anchors is None else int(share.ranks.sum(len(anchors[0])))
    if count == 0:
        return np.zeros(width), None
    rows, positions, weights = anchors
    origin = share.ranks.sum(positions.sum(axis=0)) / count
    places = (positions - origin) / share.unit
    return origin, ShareAnchors(rows, places, weights, share.n_owned, share.ranks)


def _inside(anchors: AnchorEnergy, inside: AnyArray, part: Share) -> AnchorEnergy | None:
    """Those of a component; None, on all ranks, where it has none."""
    at = inside[anchors.vertices]
    if not part.ranks.max(bool(at.any())):
        return None
    number = np.cumsum(inside) - 1
    vertices = number[anchors.vertices[at]]
    return ShareAnchors(vertices, anchors.positions[at], anchors.weights[at], part.n_owned, part.ranks)


def embed_large(
    share: Share,
    options: EmbeddingOptions,
    anchors: AnchorEnergy | None = None,
    *,
    team: ThreadTeam,
    start: FloatArray | None = None,
    run: Run = ALONE,
) -> ComponentResult:
    """One connected graph on all ranks, the stages as in ``isoweave._component``; owned rows."""
    check_start(start)
    ranks, width = share.ranks, options.n_components
    run.stage("frames")
    frames = share_frames(
        share, width, team, options.frame_size, calibrate=options.calibrate, confidence=share.weights
    )

    def geodesics(x: FloatArray) -> float:
        paths = frames.patch.share
        landmarks, distances = far_vertices(paths, width, team)
        return geodesic_factor(x, paths.fetch(landmarks, x), distances, ranks.total)

    engine = Engine(
        *(frames, frames.graph, options, anchors, run),
        factored=lambda anchors: cluster_problem(frames, anchors),
        far_problem=lambda far, near: cluster_problem(frames, anchors, far, near),
        geodesic_factor=geodesics,
        edge_factor=lambda x: _edge_factor(frames, x),
        stretch=lambda x: _stretch(frames, x),
        mend=partial(_mended, share, team) if anchors is None and share.weights is None else None,
        starts=STARTS,
        long_distances=(partial(share_global, team=team), scaled_share, partial(_extent, ranks)),
        any_of=lambda lost: ranks.max(bool(lost.any())),
    )
    return engine.embed(start)


def _mended(share: Share, team: ThreadTeam, x: FloatArray) -> FloatArray | None:
    """By one rank, because what is mended is small."""
    if share.n_vertices > MENDED:
        return None
    graph, found = gathered(share), None
    (places,) = share.ranks.send(np.zeros(len(x), dtype=np.int64), x)
    with share.ranks.together():
        if graph is not None:
            found = mended(graph, places, team)
    return to_owners(share, found, x.shape[1])


def _embed_robustly(
    share: Share, options: EmbeddingOptions, anchors: AnchorEnergy | None, *, run: Run, **more: Any
) -> ComponentResult:
    """In rounds, as ``isoweave._component`` does with a robust loss."""
    ranks, patch = share.ranks, Patch(share, around(share, 1))
    wrong = longer_than_detours(patch.graph)[patch.own_edges]
    given = 1.0 if share.weights is None else share.weights

    def weighted(trust: FloatArray, run: Run) -> ComponentResult:
        return embed_large(replace(share, weights=given * trust), options, anchors, run=run, **more)

    over_all: Any = (ranks.median, lambda change: ranks.max(change.max(initial=0.0)))
    return embed_in_rounds(wrong, weighted, lambda x: _lengths(patch, patch.graph, x), run, *over_all)


def _extent(ranks: Ranks, x: FloatArray) -> float:
    low, high = ranks.min(x.min(axis=0, initial=np.inf)), ranks.max(x.max(axis=0, initial=-np.inf))
    return float((high - low).max())


def _lengths(patch: Patch, graph: NeighborGraph, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of the owned edges in the map, and as they were measured."""
    return edge_lengths(graph, patch.on_vertices(x))[patch.own_edges], graph.lengths[patch.own_edges]


def _edge_factor(frames: ShareEnergy, x: FloatArray) -> float:
    """The factor that brings edges nearest to their lengths (least squares)."""
    lengths, measured = _lengths(frames.patch, frames.graph.local, x)
    weighted = frames.edges.weights[frames.patch.own_edges] * lengths
    square = frames.ranks.total(weighted * lengths)
    return frames.ranks.total(weighted * measured) / square if square > 0 else 1.0


def _stretch(frames: ShareEnergy, x: FloatArray) -> tuple[FloatArray, AnyArray]:
    """Stretch of the owned vertices, and those at an edge that has no length in the map."""
    own = frames.patch.own
    stretch, lost = stretch_of(frames.graph.local, frames.edges, frames.patch.on_vertices(x))
    return stretch[own], lost[own]


def _embed_alone(
    share: Share,
    components: list[int],
    options: EmbeddingOptions,
    anchors: AnchorEnergy | None,
    start: FloatArray | None,
    team: ThreadTeam,
    x: FloatArray,
    stretch: FloatArray,
) -> dict[int, ComponentResult]:
    """Embed each small component on the rank of its first vertex, as on one machine; fills x and stretch."""
    ranks, width, n = share.ranks, options.n_components, share.n_owned
    first = np.full(len(share.component_sizes), share.n_vertices)
    np.minimum.at(first, share.component, share.own)
    to = share.owner_of(ranks.min(first))[share.component]
    inside = np.isin(share.component, components)
    rows, edges = np.flatnonzero(inside), np.flatnonzero(inside[share.sources])
    begin = np.zeros((n, width)) if start is None else start
    pinned, places = np.full(n, -1.0), np.zeros((n, width))
    if anchors is not None:
        pinned[anchors.vertices], places[anchors.vertices] = anchors.weights, anchors.positions
    mine = (share.own, share.component, np.diff(share.indptr), begin, pinned, places)
    ids, labels, counts, begin, pinned, places = ranks.send(to[rows], *(part[rows] for part in mine))
    weights = np.ones(len(share.indices)) if share.weights is None else share.weights
    theirs = (share.indices, share.lengths, weights)
    ends, lengths, weights = ranks.send(to[share.sources[edges]], *(part[edges] for part in theirs))
    found: dict[int, ComponentResult] = {}
    values = np.zeros((len(ids), 2 * width))
    if len(ids):
        starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        graph = NeighborGraph(starts, np.searchsorted(ids, ends).astype(np.int32), lengths)
        everyone = np.arange(len(ids), dtype=np.int32)
        prepared = PreparedGraph(graph, 1.0, graph, everyone, np.empty((0, 2), dtype=np.int32))
        at = np.flatnonzero(pinned >= 0)
        pins = AnchorEnergy(at.astype(np.int32), places[at], pinned[at], len(ids)) if len(at) else None
        known = Known(None if share.weights is None else weights, None, pins)
        options = replace(options, components="separate", engine="cpu", checkpoint=None)
        arguments = (prepared, known, known, options, None if start is None else begin, team, ALONE, False)
        for vertices, result in zip(prepared.parts, embed_parts(*arguments), strict=True):
            assert result is not None
            values[vertices] = np.hstack((result.iteration.coordinates, result.stretch))
            found[int(labels[vertices[0]])] = result
    home, values = ranks.send(share.owner_of(ids), ids, values)
    x[home - share.start], stretch[home - share.start] = values[:, :width], values[:, width:]
    return found


def _laid_out(share: Share, x: FloatArray, anchors: AnchorEnergy | None, sizes: AnyArray) -> FloatArray:
    """Components side by side, those without anchors beside those with some."""
    if len(sizes) == 1:
        return x
    ranks, x, has_anchor = share.ranks, x.copy(), np.zeros(len(sizes), dtype=bool)
    if anchors is not None:
        label = share.component[anchors.vertices]
        alone = sizes[label] == 1
        x[anchors.vertices[alone]] = anchors.positions[alone]
        has_anchor[label] = True
    has_anchor = ranks.max(has_anchor)
    is_fixed = bool(has_anchor.any())
    # Those with anchors are one box, the first, which stays where it is.
    box = np.where(has_anchor, 0, np.cumsum(~has_anchor) - (not is_fixed))
    at, shape = box[share.component], (int(box.max()) + 1, x.shape[1])
    lows, highs, sums = np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(shape)
    np.minimum.at(lows, at, x)
    np.maximum.at(highs, at, x)
    np.add.at(sums, at, x)
    shifts = pack_boxes(ranks.min(lows), ranks.max(highs), ranks.sum(sums), np.bincount(box, sizes))
    check_finite("layout", "shifts of the components", shifts)
    return x + (shifts - shifts[0] if is_fixed else shifts)[at]
