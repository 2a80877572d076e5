"""From facts to findings: the rules and what to do. Each code is in the table of docs/diagnose.md."""

from __future__ import annotations

from collections.abc import Iterator

from isoweave.diagnostics._local import NEGLIGIBLE, is_too_sparse, needed_degree
from isoweave.diagnostics._map_verdicts import judge_map, keeps_edges
from isoweave.diagnostics._result import (
    SEVERITIES,
    DimensionFacts,
    GraphFacts,
    MapFacts,
    ShapeFacts,
    Verdict,
)
from isoweave.diagnostics._shape import FEWEST_VERTICES

# A next direction of this size is more than zig-zag paths make; with an estimate this far above N it counts.
_SLIGHTLY_TOO_LOW = 0.062
_ABOVE = 0.5
_FAR_BELOW = 0.6
_MANY_DROPPED = 0.01
_FEW_TRIANGLES = 0.2
# Share of the harmonic part on one edge in a hundred: a shape spreads it over all edges around the loop.
# Where frames reflect, some of it sits on the line where they do.
_CONCENTRATED = {"closed": 0.15, "non_orientable": 0.25}
# Curvature that costs edges this part of their length (root of the irremovable energy) is a problem.
_COSTLY = 0.1


def judge(
    n_components: int,
    n_edges: int,
    graph: GraphFacts,
    dimension: DimensionFacts,
    shapes: tuple[ShapeFacts, ...],
    found: MapFacts | None,
) -> tuple[Verdict, ...]:
    """All findings, most severe first, otherwise in the order of the rules."""
    kept = found is not None and keeps_edges(found)
    causes = [
        *_sparse(n_components, graph),
        *_dimension_too_low(n_components, dimension),
        *_shape(n_components, shapes, kept=kept),
    ]
    findings = [*causes, *_shortcuts(n_edges, graph), *_parts(graph)]
    undetermined = any(v.code in ("graph_too_sparse", "dimension_too_low") for v in causes)
    if not shapes and not undetermined:
        findings.append(_too_small(graph))
    if found is not None:
        # A sparse graph keeps its edges in many maps: that says nothing for this one.
        sparse = is_too_sparse(graph, n_components)
        is_flat = bool(shapes) and all(s.kind == "flat" for s in shapes)
        explained = any(v.severity != "info" for v in causes)
        if not (sparse and kept):
            findings += judge_map(found, is_flat=is_flat, explained=explained)
    elif shapes and all(s.kind == "flat" for s in shapes) and not undetermined:
        findings.append(
            Verdict(
                "flat",
                "info",
                "frames fit together around all loops: nothing speaks against an isometric map in "
                f"{n_components} dimension{'s' if n_components > 1 else ''}",
                "embed it",
                {"excess": shapes[0].excess or 0.0, "coherence": shapes[0].coherence},
            )
        )
    if not undetermined:
        findings += _dimension_too_high(n_components, dimension, shapes)
    return tuple(sorted(findings, key=lambda v: -SEVERITIES.index(v.severity)))


def _sparse(n: int, graph: GraphFacts) -> Iterator[Verdict]:
    numbers = {
        "low_degree": graph.low_degree,
        "deficient": graph.deficient,
        "triangles_per_edge": graph.triangles_per_edge,
    }
    advice = (
        f"join every vertex to more neighbours, {needed_degree(n) + 2} at least; for a graph without "
        "triangles (roads, grids) use distances along it: isoweave.graph.geodesic_neighbors"
    )
    if is_too_sparse(graph, n):
        if graph.low_degree <= needed_degree(n):
            text = (
                f"a quarter of the vertices have {graph.low_degree:g} neighbours or fewer, too few to fix "
                f"{n} directions: many maps keep these edges"
            )
        else:
            text = f"{graph.deficient:.0%} of the neighbourhoods lack a direction, so frames are not fixed"
        yield Verdict("graph_too_sparse", "problem", text, advice, numbers)
    elif n > 1 and graph.n_distinct > 2 * n + 2 and graph.triangles_per_edge < _FEW_TRIANGLES:
        text = "hardly any neighbours are neighbours of each other, so frames rest on paths alone"
        yield Verdict("graph_too_sparse", "warn", text, advice, numbers)


def _dimension_too_low(n: int, dimension: DimensionFacts) -> Iterator[Verdict]:
    next_one = dimension.beyond[n - 1] if n <= len(dimension.beyond) else 0.0
    estimate = dimension.estimate
    strong = next_one >= NEGLIGIBLE
    weak = next_one >= _SLIGHTLY_TOO_LOW and estimate is not None and estimate >= n + _ABOVE
    if not (strong or weak):
        return
    told = f", and the two nearest distances say {estimate:.1f}" if estimate is not None else ""
    better = max(dimension.local, round(estimate) if estimate is not None else 0, n + 1)
    yield Verdict(
        "dimension_too_low",
        "problem" if strong else "warn",
        f"neighbourhoods have more than {n} directions: the next one has {next_one:.0%} of the size of the "
        f"first {n} together{told}",
        f"embed in {better} dimensions; if you know that the data have {n}, they are noisy at the distance "
        "of neighbours: take more neighbours, or average the noise out first",
        {"next_direction": next_one, **({} if estimate is None else {"estimate": estimate})},
    )


def _dimension_too_high(
    n: int, dimension: DimensionFacts, shapes: tuple[ShapeFacts, ...]
) -> Iterator[Verdict]:
    enough = None
    if dimension.local < n and shapes and all(s.kind == "flat" for s in shapes):
        enough = dimension.local
    elif dimension.estimate is not None and n > 4 and dimension.estimate < _FAR_BELOW * n:
        enough = max(1, round(dimension.estimate))
    if enough is not None:
        yield Verdict(
            "dimension_too_high",
            "info",
            f"the data have about {enough} dimension{'s' if enough > 1 else ''}, fewer than {n}",
            f"try {enough}; more cost accuracy and time, and gain nothing unless the data are closed or "
            "curved",
            {"enough": float(enough)},
        )


def _shape(n: int, shapes: tuple[ShapeFacts, ...], *, kept: bool) -> Iterator[Verdict]:
    for s in shapes:
        where = "" if len(shapes) == 1 else f"component {s.component}: "
        # With room to spare, or with the edges kept nevertheless, it is worth knowing but no problem.
        severity = "info" if s.dimension < n else "warn" if kept else "problem"
        room = f"embed in {n + 1} dimensions or more"
        if s.dimension < n:
            room = "see how well the map keeps the edges; one dimension more may help if it does not"
        if _is_shortcut(s):
            assert s.synchronised is not None
            yield Verdict(
                "shortcuts_left",
                "warn" if kept else "problem",
                f"{where}long loops do not close, and what keeps them from it sits on few edges: shortcuts "
                "rather than a closed shape",
                "lower n_neighbors, or look for wrong edges between distant parts of the data",
                {"loops": s.synchronised.loops or 0.0, "concentration": s.synchronised.concentration or 0.0},
            )
        elif s.kind == "uncertain":
            yield Verdict(
                "uncertain",
                "info",
                f"{where}frames of neighbours do not fit well enough to be carried around long loops, so it "
                "cannot be told whether the data are curved or closed",
                "take more neighbours, or less noisy distances, if you need to know",
                {"coherence": s.coherence},
            )
        elif s.kind == "non_orientable":
            yield Verdict(
                "non_orientable",
                severity,
                f"{where}the data have one side only (as a Möbius strip or a Klein bottle): frames come back "
                f"reflected from some loops, so no map in {s.dimension} dimensions fits",
                f"{room}; in {s.dimension} the map is torn or folded along a line",
                {"reflected": s.reflected, "torn": s.torn or 0.0, "coherence": s.coherence},
            )
        elif s.kind == "closed":
            assert s.synchronised is not None
            numbers = {"loops": s.synchronised.loops or 0.0, "irremovable": s.synchronised.irremovable}
            yield Verdict(
                "closed",
                severity,
                f"{where}the data close up on themselves (as a cylinder or a torus): small loops are in "
                f"order, but going around a long one leads elsewhere in {s.dimension} dimension"
                f"{'s' if s.dimension > 1 else ''}",
                f"{room}; in {s.dimension} the map is torn or folded",
                numbers,
            )
        elif s.kind == "curved":
            assert s.relaxed is not None
            costly = s.relaxed.irremovable**0.5
            numbers = {"excess": s.excess or 0.0, "tearing": s.tearing or 0.0, "length_error": costly}
            if s.curvature is not None:
                numbers["curvature"] = s.curvature
            yield Verdict(
                "curved",
                severity if costly >= _COSTLY or severity == "info" else "warn",
                f"{where}the data are curved: frames do not fit around small loops by more than their noise, "
                f"so lengths cannot all be kept in {s.dimension} dimensions",
                f"{room}, or embed parts of the data one by one",
                numbers,
            )


def _is_shortcut(shape: ShapeFacts) -> bool:
    concentration = None if shape.synchronised is None else shape.synchronised.concentration
    return concentration is not None and concentration >= _CONCENTRATED.get(shape.kind, 2.0)


def _too_small(graph: GraphFacts) -> Verdict:
    return Verdict(
        "uncertain",
        "info",
        f"no component has {FEWEST_VERTICES} vertices or more: too few to tell whether the data are curved "
        "or closed",
        "judge by how well the map keeps the edges",
        {"largest": float(graph.part_sizes[0]) if graph.part_sizes else 0.0},
    )


def _shortcuts(n_edges: int, graph: GraphFacts) -> Iterator[Verdict]:
    if graph.n_dropped:
        many = graph.n_dropped > _MANY_DROPPED * n_edges
        yield Verdict(
            "shortcuts_dropped",
            "warn" if many else "info",
            f"{graph.n_dropped:,} of {n_edges:,} edges were taken out as shortcuts",
            "lower n_neighbors: so many shortcuts hide others"
            if many
            else "look at dropped_edges_; keep them with shortcuts='keep' if they are real",
            {"dropped": float(graph.n_dropped)},
        )


def _parts(graph: GraphFacts) -> Iterator[Verdict]:
    if graph.n_parts > 1:
        listed = ", ".join(f"{size:,}" for size in graph.part_sizes[:5])
        more = ", ..." if graph.n_parts > 5 else ""
        yield Verdict(
            "components",
            "warn",
            f"the graph is in {graph.n_parts:,} pieces (of {listed}{more} vertices): distances between them "
            "are unknown",
            "raise n_neighbors, or join them with components='bridge'; otherwise read every piece by itself",
            {"n_parts": float(graph.n_parts)},
        )
