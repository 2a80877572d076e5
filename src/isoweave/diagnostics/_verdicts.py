"""From facts to findings: the rules and what to do. Each code is in the table of docs/diagnose.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from isoweave.diagnostics._local import NEGLIGIBLE, is_too_sparse, needed_degree
from isoweave.diagnostics._result import SEVERITIES, DimensionFacts, GraphFacts, MapFacts, ShapeFacts, Verdict
from isoweave.diagnostics._shape import FEWEST_VERTICES

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
        text = f"no component has {FEWEST_VERTICES} vertices, too few to see whether the data are curved"
        largest = float(graph.part_sizes[0]) if graph.part_sizes else 0.0
        advice = "judge by how well the map keeps the edges"
        findings.append(Verdict("uncertain", "info", f"{text} or closed", advice, {"largest": largest}))
    if found is not None:
        # A sparse graph keeps its edges in many maps: that says nothing for this one.
        if not (is_too_sparse(graph, n) and kept):
            explained = any(v.severity != "info" for v in causes)
            findings += _map(found, kept=kept, is_flat=is_flat, explained=explained)
    elif is_flat and not undetermined and all(v.severity == "info" for v in causes):
        text = "frames fit together around all loops: nothing rules out an isometric map in "
        numbers = {"excess": shapes[0].excess or 0.0, "coherence": shapes[0].coherence}
        findings.append(Verdict("flat", "info", text + _dimensions(n), "embed it", numbers))
    if not undetermined:
        findings += _too_high(n, dimension, is_flat=is_flat)
    return tuple(sorted(findings, key=lambda v: -SEVERITIES.index(v.severity)))


def _dimensions(n: int) -> str:
    return f"{n} dimension{'s' if n > 1 else ''}"


def _sparse(n: int, graph: GraphFacts) -> Iterator[Verdict]:
    numbers = {name: getattr(graph, name) for name in ("low_degree", "deficient", "triangles_per_edge")}
    advice = (
        f"join every vertex to more neighbours, {needed_degree(n) + 2} at least; for a graph without "
        "triangles (roads, grids) use distances along it: isoweave.graph.geodesic_neighbors"
    )
    if is_too_sparse(graph, n):
        text = f"{graph.deficient:.0%} of the neighbourhoods lack a direction, so frames are undetermined"
        if graph.low_degree <= needed_degree(n):
            text = f"a quarter of the vertices have {graph.low_degree:g} neighbours or fewer, too few to "
            text += f"determine {n} directions: many maps keep these edges"
        yield Verdict("graph_too_sparse", "problem", text, advice, numbers)
    elif n > 1 and graph.n_distinct > 2 * n + 2 and graph.triangles_per_edge < _FEW_TRIANGLES:
        text = "hardly any neighbours are neighbours of each other, so frames rest on paths alone"
        yield Verdict("graph_too_sparse", "warn", text, advice, numbers)


def _too_low(n: int, dimension: DimensionFacts) -> Iterator[Verdict]:
    next_one, estimate = dimension.beyond[n - 1], dimension.estimate
    strong = next_one >= NEGLIGIBLE
    if strong or (next_one >= _SLIGHTLY_TOO_LOW and estimate is not None and estimate >= n + _ABOVE):
        also = "" if estimate is None else f", and the two nearest distances suggest {estimate:.1f}"
        better = max(dimension.local, 0 if estimate is None else round(estimate), n + 1)
        yield Verdict(
            "dimension_too_low",
            "problem" if strong else "warn",
            f"neighbourhoods have more than {n} directions: the next one has {next_one:.0%} of the size of "
            f"the first {n} together{also}",
            f"embed in {better} dimensions; if you know that the data have {n}, they are noisy at the "
            "scale of neighbourhoods: take more neighbours, or average the noise out first",
            {"next_direction": next_one, **({} if estimate is None else {"estimate": estimate})},
        )


def _too_high(n: int, dimension: DimensionFacts, *, is_flat: bool) -> Iterator[Verdict]:
    enough = None
    if dimension.local < n and is_flat:
        enough = dimension.local
    elif dimension.estimate is not None and n > 4 and dimension.estimate < _FAR_BELOW * n:
        enough = max(1, round(dimension.estimate))
    if enough is not None:
        text = f"the data have about {_dimensions(enough)}, fewer than {n}"
        more = "more dimensions cost time and accuracy and help only if the data are closed or curved"
        yield Verdict("dimension_too_high", "info", text, f"try {enough}; {more}", {"enough": float(enough)})


def _shape(n: int, s: ShapeFacts, *, kept: bool) -> Iterator[Verdict]:
    # With room to spare, or with the edges kept nevertheless, it is worth knowing but no problem.
    severity = "info" if s.dimension < n else "warn" if kept else "problem"
    room = f"embed in {n + 1} dimensions or more"
    if s.dimension < n:
        room = "check how well the map keeps the edges; one more dimension may help if it does not"
    if s.synchronized is None or s.relaxed is None:
        text = (
            "frames of neighbours do not fit well enough to be carried around long loops, so whether "
            "the data are curved or closed remains unknown"
        )
        advice = "take more neighbours, or less noisy distances, if you need to know"
        yield Verdict("uncertain", "info", text, advice, {"coherence": s.coherence})
        return
    loops, concentration = s.synchronized.loops or 0.0, s.synchronized.concentration or 0.0
    if concentration >= _CONCENTRATED.get(s.kind, 2.0):
        yield Verdict(
            "shortcuts_left",
            "warn" if kept else "problem",
            "long loops do not close because of a few edges: shortcuts rather than a closed shape",
            "lower n_neighbors, or look for wrong edges between distant parts of the data",
            {"loops": loops, "concentration": concentration},
        )
    elif s.kind == "non_orientable":
        yield Verdict(
            "non_orientable",
            severity,
            f"the data are one-sided (like a Möbius strip or a Klein bottle): frames come back reflected "
            f"from some loops, so no map in {s.dimension} dimensions fits",
            f"{room}; in {s.dimension} the map is torn or folded along a line",
            {"reflected": s.reflected, "torn": s.torn or 0.0, "coherence": s.coherence},
        )
    elif s.kind == "closed":
        yield Verdict(
            "closed",
            severity,
            "the data close up on themselves (like a cylinder or a torus): in "
            f"{_dimensions(s.dimension)} small loops close, but long ones do not",
            f"{room}; in {s.dimension} the map is torn or folded",
            {"loops": loops, "irremovable": s.synchronized.irremovable},
        )
    elif s.kind == "curved":
        costly = s.relaxed.irremovable**0.5
        numbers = {"excess": s.excess or 0.0, "tearing": s.tearing or 0.0, "length_error": costly}
        yield Verdict(
            "curved",
            severity if costly >= _COSTLY or severity == "info" else "warn",
            f"the data are curved: around small loops the mismatch of frames exceeds their noise, so "
            f"lengths cannot all be kept in {s.dimension} dimensions",
            f"{room}, or embed parts of the data separately",
            numbers if s.curvature is None else {**numbers, "curvature": s.curvature},
        )


def _outlying(n_edges: int, graph: GraphFacts) -> Iterator[Verdict]:
    if graph.n_outlying:
        worst = ", ".join(f"{i}-{j} ({ratio:.3g} times)" for i, j, ratio in graph.outlying[:5])
        share = graph.n_outlying / n_edges
        is_noise = share < _FEW_OUTLYING and graph.outlying[0][2] < _FAR_OUT
        yield Verdict(
            "outlying_distances",
            "problem" if share >= _MANY_OUTLYING else "info" if is_noise else "warn",
            f"{graph.n_outlying:,} of {n_edges:,} distances are more than twice as long as a detour over one "
            f"other vertex, which no distances between points can be: {worst}"
            f"{', ...' if graph.n_outlying > 5 else ''}",
            "check them (found.outlying lists all); leave them out, or take shortest paths for them",
            {"outlying": float(graph.n_outlying), "share": share},
        )


def _graph(n_edges: int, graph: GraphFacts) -> Iterator[Verdict]:
    if graph.n_dropped:
        many = graph.n_dropped > _MANY_DROPPED * n_edges
        advice = "look at dropped_edges_; keep them with shortcuts='keep' if they are real"
        yield Verdict(
            "shortcuts_dropped",
            "warn" if many else "info",
            f"{graph.n_dropped:,} of {n_edges:,} edges were removed as shortcuts",
            "lower n_neighbors: so many shortcuts may hide others" if many else advice,
            {"dropped": float(graph.n_dropped)},
        )
    if graph.n_parts > 1:
        listed = ", ".join([f"{size:,}" for size in graph.part_sizes[:5]] + ["..."] * (graph.n_parts > 5))
        yield Verdict(
            "components",
            "warn",
            f"the graph has {graph.n_parts:,} components (of {listed} vertices); the distances between them "
            "are unknown",
            "raise n_neighbors, or join them with components='bridge'; otherwise read each on its own",
            {"n_parts": float(graph.n_parts)},
        )


def keeps_edges(error: float, torn: float) -> bool:
    """Whether edges off by this much in the mean, and this share of them torn, make a map isometric."""
    return error <= _KEPT_ERROR and torn <= _KEPT_TORN


def _map(found: MapFacts, *, kept: bool, is_flat: bool, explained: bool) -> Iterator[Verdict]:
    """What the map keeps; ``explained`` if another finding says why edges cannot be kept."""
    if found.status in _NOT_CONVERGED:
        yield Verdict(
            "not_converged",
            "warn",
            f"the optimiser ended early ({found.status}); one more sweep would still remove "
            f"{found.energy.removable:.1%} of the energy of a collapsed map",
            "raise max_iter, or continue from here with start=coordinates",
            {"removable": found.energy.removable},
        )
    numbers = {"edge_error": found.edge_error, "edge_within": found.edge_within, "torn": found.torn}
    measured = f"edges are {found.edge_error:.1%} off on average, {found.edge_within:.0%} within 10 %"
    bad = found.edge_error > _BAD_ERROR or found.torn > _BAD_TORN
    if kept:
        yield Verdict("isometric", "info", f"the map keeps lengths: {measured}", "use it", numbers)
    elif found.better is not None:
        yield Verdict(
            "poor_minimum",
            "problem",
            f"a better map was found: start='auto' leaves {found.better:.2%} of the energy of a collapsed "
            f"map, this one {found.energy.total:.2%}; {measured}",
            "embed again with start='auto'",
            {**numbers, "energy": found.energy.total, "better": found.better},
        )
    elif not explained and (is_flat or not bad):
        cause = "the shape is flat, so this is noise in the distances"
        yield Verdict(
            "approximate",
            "warn" if bad else "info",
            f"{measured}; {cause if is_flat else 'the shape does not explain it'}",
            "use it for structures larger than a neighbourhood; more neighbours or cleaner distances help; "
            "colour the map by stretch to see where",
            numbers,
        )
    else:
        cause = "see the other findings for the cause"
        yield Verdict(
            "distorted",
            "warn" if explained else "problem",
            f"{measured}, and {found.torn:.1%} are torn or folded (off by half or more)",
            f"{cause if explained else 'try another start, and more dimensions'}; colour the map by stretch "
            "to see where it cannot be trusted",
            numbers,
        )
