"""Diagnosis of a graph before, and of a map after solving; and the rules from facts to findings.

The words of the findings are in verdicts.toml, all codes in docs/diagnose.md.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave._validation import check_integer
from isoweave.diagnostics._facts import (
    NEGLIGIBLE,
    SEVERITIES,
    Diagnosis,
    DimensionFacts,
    EnergySplit,
    GraphFacts,
    MapFacts,
    ShapeFacts,
    Verdict,
    dimension_facts,
    edge_table,
    frame_fit,
    frames_of,
    graph_facts,
    is_too_sparse,
    needed_degree,
    torn_share,
)
from isoweave.diagnostics._hodge import cell_boundaries, measure_misfit, split_misfit
from isoweave.diagnostics._shape import FEWEST_VERTICES, Shape, find_shape
from isoweave.energy import EdgeEnergy, Evaluation, edge_energy
from isoweave.geometry import LocalFrames
from isoweave.graph import NeighborGraph, PreparedGraph, graph_from_matrix, is_edge, prepare_graph
from isoweave.optimise import LBFGS, build_problem, minimise_from
from isoweave.options import DEFAULT_TOL, EmbeddingOptions, resolve_options
from isoweave.result import Embedding, as_embedding

# Of the map of one component: energy of the collapsed map, relative energies, and the least one known.
_Part = tuple[float, EnergySplit, float]

# Components whose shape is looked at, the largest first.
_MOST_SHAPES = 5
# Up to this many edges and dimensions curl and loops are separated.
_MOST_EDGES, _MOST_COMPONENTS = 30_000, 3
_WITHIN = 0.1
# A map whose energy can be divided by this is a poor one; a better one is sought in so many steps.
_POOR, _STEPS = 1.5, 500
# A next direction of this size is more than zig-zag paths make; with an estimate this far above N it counts.
_SLIGHTLY_TOO_LOW = 0.062
_ABOVE = 0.5
_FAR_BELOW = 0.6
_MANY_DROPPED = 0.01
# Shares of outlying edges that are a problem, and that noise alone may make, if none is this much too long.
_MANY_OUTLYING, _FEW_OUTLYING = 0.01, 0.002
_FAR_OUT = 4.0
_FEW_TRIANGLES = 0.2
# Share of the harmonic part on one edge in a hundred: a shape spreads it over all edges around the loop.
# Where frames reflect, some of it sits on the line where they do.
_CONCENTRATED = {"closed": 0.15, "non_orientable": 0.25}
# Curvature that costs edges this part of their length (root of the irremovable energy) is a problem.
_COSTLY = 0.1
# Mean error of the edges and share of torn ones up to which a map is isometric, and beyond which it is bad.
_KEPT_ERROR, _KEPT_TORN = 0.05, 0.005
_BAD_ERROR, _BAD_TORN = 0.12, 0.05
_NOT_CONVERGED = ("max_iter", "stopped", "interrupted")


def diagnose(
    result: Any,
    *,
    graph: Any = None,
    n_components: int | None = None,
    shortcuts: str | bool = "auto",
    asymmetry: str = "error",
    n_jobs: int | None = None,
) -> Diagnosis:
    """Find out what a map keeps, what its graph allows, and what to do.

    Parameters
    ----------
    result : Embedding, fitted estimator, file of one, array of shape (n, N), or distance graph
        A map after solving (maps by other tools need ``graph``), or a graph alone before solving.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Distances to measure a map against instead of those it was made from.
    n_components : int, optional
        N, dimension of the map to be made; for a graph alone, where 2 is the default.
    shortcuts, asymmetry, n_jobs
        As in :func:`isoweave.embed_graph`, for a graph that is given; a result has its own dropped edges.

    Returns
    -------
    Diagnosis
        Data; ``str()`` of it is a page to read. Without a map, the parts that need one are None. Frames are
        those of the default options (``frame_size`` and ``calibrate`` of an estimator are taken over);
        energies are measured with the edge inner product. docs/diagnose.md has costs and error rates.
    """
    dropped: bool | AnyArray = resolve_options(2, shortcuts=shortcuts).shortcuts == "drop"
    if n_components is not None:
        n_components = check_integer("n_components", n_components, minimum=1)
    given = None if graph is None else graph_from_matrix(graph, asymmetry=asymmetry)
    if isinstance(result, NeighborGraph) or sp.issparse(result):
        if given is not None:
            raise TypeError("diagnose got two graphs and no map: give the map first, then graph=...")
        given, embedding = graph_from_matrix(result, asymmetry=asymmetry), None
    else:
        embedding = as_embedding(result, given)
        if given is None:
            given, dropped = embedding.measured_graph("diagnose"), embedding.dropped_edges
        if n_components not in (None, embedding.n_components):
            raise ValueError(
                f"n_components={n_components}, but the map has {embedding.n_components} columns; omit it."
            )
        n_components = embedding.n_components
    with thread_team(n_jobs) as team:
        return _examine(prepare_graph(given, dropped, team=team), embedding, n_components or 2, team)


def _examine(
    prepared: PreparedGraph, embedding: Embedding | None, n_components: int, team: ThreadTeam
) -> Diagnosis:
    """Facts about every component, then about the map, then findings."""
    graph, largest = prepared.given, len(prepared.parts[0])
    if 1 < largest <= n_components:
        raise ValueError(
            f"n_components={n_components} is more than the data support: the largest component has {largest} "
            f"distinct points, which span at most {largest - 1} dimensions. Lower n_components."
        )
    parts = [prepared.part(c) for c, vertices in enumerate(prepared.parts) if len(vertices) > 1]
    options, solved = _frame_options(embedding), embedding is not None
    frames = [frames_of(part, n_components, options, with_frames=solved, team=team) for part in parts]
    spectrum = np.concatenate([np.empty((0, n_components + 1)), *(spectrum for _, spectrum in frames)])
    dimension = dimension_facts(prepared.graph, spectrum)
    facts, outlying = graph_facts(prepared, spectrum, min(dimension.local, n_components), team=team)
    shapes: dict[int, Shape] = {}
    curvature = np.full(prepared.graph.n_vertices, np.nan)
    # Frames that lack directions, or have more than N, cannot be carried around.
    if dimension.local <= n_components and not is_too_sparse(facts, n_components):
        for c, part in enumerate(parts[:_MOST_SHAPES]):
            if part.n_vertices >= FEWEST_VERTICES:
                shapes[c] = find_shape(part, dimension.local, c, prepared.unit, team)
                curvature[prepared.parts[c]] = shapes[c].curvature
    shape_facts = tuple(shape.facts for shape in shapes.values())
    once = graph.sources < graph.indices
    of_map: dict[str, Any] = {"map": None, "edge_distortion": None, "misfit": None, "stretch": None}
    if embedding is not None:
        made = [each for each, _ in frames if each is not None]
        of_map = _examine_map(prepared, parts, made, shapes, embedding, dimension.local, team)
    return Diagnosis(
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        n_components=n_components,
        verdicts=judge(n_components, graph.n_edges, facts, dimension, shape_facts, of_map["map"]),
        graph=facts,
        dimension=dimension,
        shapes=shape_facts,
        curvature=curvature[prepared.representative],
        outlying=outlying,
        edges=np.column_stack((graph.sources[once], graph.indices[once])),
        **of_map,
    )


def _frame_options(embedding: Embedding | None) -> EmbeddingOptions:
    """Frames to measure with: an estimator's own, where its energy is the one measured here."""
    given = {} if embedding is None else embedding.parameters
    names = ("preset", "inner_product", "frame_size", "calibrate")
    options = resolve_options(2, **{name: given[name] for name in names if name in given})
    return options if options.inner_product == "edge" else resolve_options(2)


def _examine_map(
    prepared: PreparedGraph,
    parts: list[NeighborGraph],
    frames: list[LocalFrames],
    shapes: dict[int, Shape],
    embedding: Embedding,
    local: int,
    team: ThreadTeam,
) -> dict[str, Any]:
    """The map component by component, and what it does to every edge and vertex of the input."""
    graph, back = prepared.given, prepared.representative
    points = embedding.coordinates[prepared.firsts] / prepared.unit
    placed: BoolArray = np.asarray(np.isfinite(points).all(axis=1))
    misfit, stretch = np.full(len(points), np.nan), np.ones(points.shape)
    found: list[_Part] = []
    for c, (part, made) in enumerate(zip(parts, frames, strict=True)):
        vertices = prepared.parts[c]
        if placed[vertices].all():
            energy = edge_energy(part, made, team=team)
            at = energy.evaluate(points[vertices])
            found.append(_examine_part(energy, at, points[vertices], shapes.get(c)))
            misfit[vertices], stretch[vertices] = frame_fit(energy, at, points[vertices])
    of_rows = stretch[back] if embedding.stretch is None else embedding.stretch
    _, lengths, distortion = edge_table(graph, embedding.coordinates)
    counts = (lengths > 0.0) & ~is_edge(graph, embedding.dropped_edges)[graph.sources < graph.indices]
    facts = _map_facts(found, distortion[counts], of_rows[placed[back]], local, embedding.status)
    return {"map": facts, "edge_distortion": distortion, "misfit": misfit[back], "stretch": of_rows}


def _examine_part(energy: EdgeEnergy, at: Evaluation, coordinates: FloatArray, shape: Shape | None) -> _Part:
    """Energies of the map of one component, given in the unit of its graph and evaluated there."""
    graph, n_components = energy.graph, energy.frames.n_components
    problem = build_problem(energy)
    misfit = measure_misfit(problem, at.alignments, coordinates)
    split, best = misfit.split, misfit.split.total
    if shape is not None and n_components <= _MOST_COMPONENTS and graph.n_edges <= _MOST_EDGES:
        split = split_misfit(misfit, cell_boundaries(graph, team=energy.team))
    if shape is not None and shape.facts.kind == "flat" and shape.facts.dimension == n_components:
        assert shape.problem is not None
        assert shape.facts.relaxed is not None
        fitted = shape.facts.relaxed.total * shape.problem.mass
        distortion = edge_table(graph, coordinates)[2]
        is_kept = keeps_edges(float(np.mean(np.abs(distortion))), torn_share(distortion))
        if not is_kept and shape.problem.evaluate(coordinates[shape.vertices]).energy >= _POOR * fitted:
            _, found = minimise_from(problem, LBFGS(DEFAULT_TOL, _STEPS), "auto", DEFAULT_TOL)
            if _POOR * found.energy <= at.energy:
                best = found.energy / problem.mass
    return misfit.mass, split, best


def _map_facts(
    parts: list[_Part], distortion: FloatArray, stretch: FloatArray, local: int, status: str | None
) -> MapFacts:
    """Put the components together.

    ``distortion`` is that of the edges that count, ``stretch`` that of the vertices that were embedded;
    ``local`` is the number of directions that the data have.
    """
    known = distortion[np.isfinite(distortion)]
    known = known if len(known) else np.zeros(1)
    values = stretch[:, : min(local, stretch.shape[1])]
    values = values if len(values) else np.ones((1, 1))
    edge_low, edge_median, edge_high = np.percentile(known, (5, 50, 95)).tolist()
    low, median, high = np.percentile(values, (5, 50, 95)).tolist()
    # Energies of all components over the sum of their masses; None where one is unknown.
    mass = sum(m for m, _, _ in parts) or 1.0
    energy: dict[str, Any] = {}
    for name in (field.name for field in fields(EnergySplit)):
        each = [(m, getattr(split, name)) for m, split, _ in parts]
        energy[name] = None if any(v is None for _, v in each) else float(sum(m * v for m, v in each) / mass)
    best = sum(m * lowest for m, _, lowest in parts) / mass
    return MapFacts(
        status=status,
        energy=EnergySplit(**energy),
        edge_error=float(np.mean(np.abs(known))),
        edge_median=edge_median,
        edge_low=edge_low,
        edge_high=edge_high,
        edge_within=float(np.mean(np.abs(known) <= _WITHIN)),
        torn=torn_share(known),
        stretch_median=median,
        stretch_low=low,
        stretch_high=high,
        stretch_within=float(np.mean(np.all(np.abs(values - 1.0) <= _WITHIN, axis=1))),
        better=best if any(lowest < split.total for _, split, lowest in parts) else None,
    )


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("verdicts.toml").read_text(encoding="utf-8"))


def _verdict(name: str, severity: str, numbers: dict[str, float], **facts: Any) -> Verdict:
    """A finding in words; a name after a dot is a variant of its code's text or advice."""
    code, _, variant = name.partition(".")
    words = _words()[code] | _words()[code].get(variant, {})
    text, advice = (words[part].format(**numbers | facts) for part in ("text", "advice"))
    return Verdict(code, severity, text, advice, numbers)


def judge(
    n: int,
    n_edges: int,
    graph: GraphFacts,
    dimension: DimensionFacts,
    shapes: tuple[ShapeFacts, ...],
    found: MapFacts | None,
) -> tuple[Verdict, ...]:
    """All findings about a map in n dimensions, most severe first, otherwise in the order of the rules."""
    kept = found is not None and keeps_edges(found.edge_error, found.torn)
    causes = [*_sparse(n, graph), *_too_low(n, dimension)]
    undetermined = any(v.code in ("graph_too_sparse", "dimension_too_low") for v in causes)
    for shape in shapes:
        where = "" if len(shapes) == 1 else f"component {shape.component}: "
        causes += [replace(v, text=where + v.text) for v in _shape(n, shape, kept=kept)]
    causes += _outlying(n_edges, graph)
    findings = [*causes, *_graph(n_edges, graph)]
    is_flat = bool(shapes) and all(s.kind == "flat" for s in shapes)
    if not shapes and not undetermined:
        largest = float(graph.part_sizes[0]) if graph.part_sizes else 0.0
        findings.append(_verdict("uncertain.small", "info", {"largest": largest}, fewest=FEWEST_VERTICES))
    if found is not None:
        # A sparse graph keeps its edges in many maps: that says nothing for this one.
        if not (is_too_sparse(graph, n) and kept):
            explained = any(v.severity != "info" for v in causes)
            findings += _map(found, kept=kept, is_flat=is_flat, explained=explained)
    elif is_flat and not undetermined and all(v.severity == "info" for v in causes):
        numbers = {"excess": shapes[0].excess or 0.0, "coherence": shapes[0].coherence}
        findings.append(_verdict("flat", "info", numbers, dimensions=_dimensions(n)))
    if not undetermined:
        findings += _too_high(n, dimension, is_flat=is_flat)
    return tuple(sorted(findings, key=lambda v: -SEVERITIES.index(v.severity)))


def _dimensions(n: int) -> str:
    return f"{n} dimension{'s' if n > 1 else ''}"


def _sparse(n: int, graph: GraphFacts) -> Iterator[Verdict]:
    numbers = {name: getattr(graph, name) for name in ("low_degree", "deficient", "triangles_per_edge")}
    facts = {"n": n, "needed": needed_degree(n) + 2}
    if is_too_sparse(graph, n):
        variant = ".degree" if graph.low_degree <= needed_degree(n) else ""
        yield _verdict(f"graph_too_sparse{variant}", "problem", numbers, **facts)
    elif n > 1 and graph.n_distinct > 2 * n + 2 and graph.triangles_per_edge < _FEW_TRIANGLES:
        yield _verdict("graph_too_sparse.triangles", "warn", numbers, **facts)


def _too_low(n: int, dimension: DimensionFacts) -> Iterator[Verdict]:
    next_one, estimate = dimension.beyond[n - 1], dimension.estimate
    strong = next_one >= NEGLIGIBLE
    if strong or (next_one >= _SLIGHTLY_TOO_LOW and estimate is not None and estimate >= n + _ABOVE):
        also = "" if estimate is None else f", and the two nearest distances suggest {estimate:.1f}"
        better = max(dimension.local, 0 if estimate is None else round(estimate), n + 1)
        numbers = {"next_direction": next_one, **({} if estimate is None else {"estimate": estimate})}
        severity = "problem" if strong else "warn"
        yield _verdict("dimension_too_low", severity, numbers, n=n, also=also, better=better)


def _too_high(n: int, dimension: DimensionFacts, *, is_flat: bool) -> Iterator[Verdict]:
    enough = None
    if dimension.local < n and is_flat:
        enough = dimension.local
    elif dimension.estimate is not None and n > 4 and dimension.estimate < _FAR_BELOW * n:
        enough = max(1, round(dimension.estimate))
    if enough is not None:
        numbers = {"enough": float(enough)}
        yield _verdict("dimension_too_high", "info", numbers, n=n, dimensions=_dimensions(enough))


def _shape(n: int, s: ShapeFacts, *, kept: bool) -> Iterator[Verdict]:
    # With room to spare, or with the edges kept nevertheless, it is worth knowing but no problem.
    severity = "info" if s.dimension < n else "warn" if kept else "problem"
    room = f"embed in {n + 1} dimensions or more"
    if s.dimension < n:
        room = "check how well the map keeps the edges; one more dimension may help if it does not"
    facts = {"d": s.dimension, "dimensions": _dimensions(s.dimension), "room": room}
    if s.synchronized is None or s.relaxed is None:
        yield _verdict("uncertain", "info", {"coherence": s.coherence})
        return
    loops, concentration = s.synchronized.loops or 0.0, s.synchronized.concentration or 0.0
    if concentration >= _CONCENTRATED.get(s.kind, 2.0):
        numbers = {"loops": loops, "concentration": concentration}
        yield _verdict("shortcuts_left", "warn" if kept else "problem", numbers)
    elif s.kind == "non_orientable":
        numbers = {"reflected": s.reflected, "torn": s.torn or 0.0, "coherence": s.coherence}
        yield _verdict("non_orientable", severity, numbers, **facts)
    elif s.kind == "closed":
        numbers = {"loops": loops, "irremovable": s.synchronized.irremovable}
        yield _verdict("closed", severity, numbers, **facts)
    elif s.kind == "curved":
        costly = s.relaxed.irremovable**0.5
        numbers = {"excess": s.excess or 0.0, "tearing": s.tearing or 0.0, "length_error": costly}
        numbers |= {} if s.curvature is None else {"curvature": s.curvature}
        is_cheap = costly < _COSTLY and severity == "problem"
        yield _verdict("curved", "warn" if is_cheap else severity, numbers, **facts)


def _outlying(n_edges: int, graph: GraphFacts) -> Iterator[Verdict]:
    if graph.n_outlying:
        worst = [f"{i}-{j} ({ratio:.3g} times)" for i, j, ratio in graph.outlying[:5]]
        worst += ["..."] * (graph.n_outlying > 5)
        numbers = {"outlying": float(graph.n_outlying), "share": graph.n_outlying / n_edges}
        is_noise = numbers["share"] < _FEW_OUTLYING and graph.outlying[0][2] < _FAR_OUT
        severity = "problem" if numbers["share"] >= _MANY_OUTLYING else "info" if is_noise else "warn"
        yield _verdict("outlying_distances", severity, numbers, n_edges=n_edges, worst=", ".join(worst))


def _graph(n_edges: int, graph: GraphFacts) -> Iterator[Verdict]:
    if graph.n_dropped:
        many, numbers = graph.n_dropped > _MANY_DROPPED * n_edges, {"dropped": float(graph.n_dropped)}
        name, severity = ("shortcuts_dropped.many", "warn") if many else ("shortcuts_dropped", "info")
        yield _verdict(name, severity, numbers, n_edges=n_edges)
    if graph.n_parts > 1:
        listed = ", ".join([f"{size:,}" for size in graph.part_sizes[:5]] + ["..."] * (graph.n_parts > 5))
        yield _verdict("components", "warn", {"n_parts": float(graph.n_parts)}, listed=listed)


def keeps_edges(error: float, torn: float) -> bool:
    """Whether edges off by this much in the mean, and this share of them torn, make a map isometric."""
    return error <= _KEPT_ERROR and torn <= _KEPT_TORN


def _map(found: MapFacts, *, kept: bool, is_flat: bool, explained: bool) -> Iterator[Verdict]:
    """What the map keeps; ``explained`` if another finding says why edges cannot be kept."""
    if found.status in _NOT_CONVERGED:
        numbers = {"removable": found.energy.removable}
        yield _verdict("not_converged", "warn", numbers, status=found.status)
    numbers = {"edge_error": found.edge_error, "edge_within": found.edge_within, "torn": found.torn}
    bad = found.edge_error > _BAD_ERROR or found.torn > _BAD_TORN
    if kept:
        yield _verdict("isometric", "info", numbers)
    elif found.better is not None:
        numbers |= {"energy": found.energy.total, "better": found.better}
        yield _verdict("poor_minimum", "problem", numbers)
    elif not explained and (is_flat or not bad):
        yield _verdict(f"approximate{'.flat' * is_flat}", "warn" if bad else "info", numbers)
    else:
        name, severity = ("distorted.explained", "warn") if explained else ("distorted", "problem")
        yield _verdict(name, severity, numbers)
