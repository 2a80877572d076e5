"""From facts to findings: the rules, their thresholds and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from isoweave.diagnostics._result import (
    SEVERITIES,
    DimensionFacts,
    GraphFacts,
    MapFacts,
    ShapeFacts,
    Verdict,
)
from isoweave.diagnostics._shape import COHERENT

# Thresholds; docs/diagnostics.md has what they were chosen on and what they were checked on.
TOO_LOW = 0.1
SLIGHTLY_TOO_LOW = 0.062
ABOVE = 0.5
FAR_BELOW = 0.6
MANY_DROPPED = 0.01
MANY_DEFICIENT = 0.05
FEW_TRIANGLES = 0.2
POOR = 1.5
KEPT_ERROR = 0.05
KEPT_TORN = 0.005
BAD_ERROR = 0.12
BAD_TORN = 0.05
CONCENTRATED = 0.3


def judge(
    n_components: int,
    n_edges: int,
    graph: GraphFacts,
    dimension: DimensionFacts,
    shapes: tuple[ShapeFacts, ...],
    found: MapFacts | None,
) -> tuple[Verdict, ...]:
    """All findings, most severe first, otherwise in the order of the rules."""
    low = list(_dimension_too_low(n_components, dimension))
    findings = [
        *_sparse(n_components, graph),
        *low,
        *_shape(n_components, shapes),
        *_shortcuts(n_edges, graph, shapes),
        *_parts(graph),
    ]
    if found is not None:
        findings += _map(n_components, graph, shapes, found, explained=bool(low))
    elif not any(v.severity == "problem" for v in findings) and shapes and shapes[0].kind == "flat":
        findings.append(
            Verdict(
                "flat",
                "info",
                f"frames fit together around all loops: nothing speaks against an isometric map in "
                f"{n_components} dimensions",
                "embed it",
                {"excess": shapes[0].excess or 0.0, "coherence": shapes[0].coherence},
            )
        )
    if not low:
        findings += _dimension_too_high(n_components, dimension, shapes)
    return tuple(sorted(findings, key=lambda v: -SEVERITIES.index(v.severity)))


def _sparse(n: int, graph: GraphFacts) -> Iterator[Verdict]:
    needed = 2 * n if n <= 3 else n - 1
    numbers = {
        "low_degree": graph.low_degree,
        "deficient": graph.deficient,
        "triangles_per_edge": graph.triangles_per_edge,
    }
    advice = (
        f"join every vertex to more neighbours, {needed + 2} at least; for a graph without triangles (roads, grids) "
        "use distances along the graph (isoweave.graph.geodesic_neighbors)"
    )
    if graph.n_distinct <= 2 * n + 2:
        return
    if graph.low_degree <= needed:
        text = f"a quarter of the vertices have {graph.low_degree:g} neighbours or fewer, too few for {n} dimensions"
        yield Verdict("graph_too_sparse", "problem", text, advice, numbers)
    elif graph.deficient >= MANY_DEFICIENT:
        text = f"{graph.deficient:.0%} of the neighbourhoods have fewer than {n} directions"
        yield Verdict("graph_too_sparse", "problem", text, advice, numbers)
    elif graph.triangles_per_edge < FEW_TRIANGLES:
        text = "hardly any neighbours are neighbours of each other, so frames rest on paths alone"
        yield Verdict("graph_too_sparse", "warn", text, advice, numbers)


def _dimension_too_low(n: int, dimension: DimensionFacts) -> Iterator[Verdict]:
    next_one = dimension.beyond[n - 1] if n <= len(dimension.beyond) else 0.0
    estimate = dimension.estimate
    strong = next_one >= TOO_LOW
    weak = next_one >= SLIGHTLY_TOO_LOW and estimate is not None and estimate >= n + ABOVE
    if not (strong or weak):
        return
    told = f", and the two nearest distances say {estimate:.1f}" if estimate is not None else ""
    better = max(dimension.local, round(estimate) if estimate is not None else 0, n + 1)
    yield Verdict(
        "dimension_too_low",
        "problem" if strong else "warn",
        f"neighbourhoods have more than {n} directions: the next one has {next_one:.0%} of the size of the first "
        f"{n} together{told}",
        f"embed in {better} dimensions; if you know that the data have {n}, they are noisy at the distance of "
        "neighbours: take more neighbours, or average the noise out first",
        {"next_direction": next_one, **({} if estimate is None else {"estimate": estimate})},
    )


def _dimension_too_high(
    n: int, dimension: DimensionFacts, shapes: tuple[ShapeFacts, ...]
) -> Iterator[Verdict]:
    enough = None
    if dimension.local < n and shapes and all(s.kind == "flat" for s in shapes):
        enough = dimension.local
    elif dimension.estimate is not None and n > 4 and dimension.estimate < FAR_BELOW * n:
        enough = max(1, round(dimension.estimate))
    if enough is not None:
        yield Verdict(
            "dimension_too_high",
            "info",
            f"{enough} dimensions are enough: the data are of that dimension and unroll",
            f"embed in {enough} dimensions; more cost accuracy and time, and gain nothing",
            {"enough": float(enough)},
        )


def _shape(n: int, shapes: tuple[ShapeFacts, ...]) -> Iterator[Verdict]:
    for s in shapes:
        where = "" if len(shapes) == 1 else f"component {s.component}: "
        exact = s.dimension == n
        severity = "problem" if exact else "info"
        room = (
            f"embed in {n + 1} dimensions or more"
            if exact
            else "see how much of the edges the map keeps; a dimension more may help"
        )
        if s.kind == "unclear":
            if s.coherence < COHERENT:
                yield Verdict(
                    "shape_unclear",
                    "info",
                    f"{where}frames of neighbours do not fit well enough to be carried around long loops, so "
                    "curvature and closedness cannot be judged",
                    "take more neighbours, or less noisy distances, if you need to know",
                    {"coherence": s.coherence},
                )
        elif s.kind == "non_orientable":
            yield Verdict(
                "non_orientable",
                severity,
                f"{where}the data have one side only (as a Möbius strip or a Klein bottle): frames come back "
                f"reflected from some loops, so no map in {s.dimension} dimensions fits",
                f"{room}; in {s.dimension} the map is torn along a line",
                {"reflected": s.reflected, "coherence": s.coherence},
            )
        elif s.kind == "closed":
            assert s.synchronised is not None
            yield Verdict(
                "closed",
                severity,
                f"{where}the data close up on themselves (as a cylinder or a torus): small loops are in order, "
                f"but going around a long one leads elsewhere in {s.dimension} dimensions",
                f"{room}; in {s.dimension} the map is torn or folded",
                {"loops": s.synchronised.loops or 0.0, "irremovable": s.synchronised.irremovable},
            )
        elif s.kind == "curved":
            numbers = {"excess": s.excess or 0.0, "tearing": s.tearing or 0.0}
            if s.total_curvature is not None:
                numbers["total_curvature"] = s.total_curvature
            yield Verdict(
                "curved",
                severity,
                f"{where}the data are curved: frames do not fit around small loops by more than their noise, so "
                f"lengths cannot all be kept in {s.dimension} dimensions",
                f"{room}, or embed parts of the data one by one",
                numbers,
            )


def _shortcuts(n_edges: int, graph: GraphFacts, shapes: tuple[ShapeFacts, ...]) -> Iterator[Verdict]:
    if graph.n_dropped:
        many = graph.n_dropped > MANY_DROPPED * n_edges
        yield Verdict(
            "shortcuts_dropped",
            "warn" if many else "info",
            f"{graph.n_dropped:,} of {n_edges:,} edges were taken out as shortcuts",
            "lower n_neighbors: so many shortcuts hide others"
            if many
            else "look at dropped_edges_; keep them with shortcuts='keep' if they are real",
            {"dropped": float(graph.n_dropped)},
        )
    if graph.n_suspicious:
        yield Verdict(
            "shortcuts_left",
            "warn",
            f"{graph.n_suspicious:,} edges join vertices that lie far apart along the nearest neighbours",
            "lower n_neighbors, or take those edges out: they support each other, so the filter did not",
            {"suspicious": float(graph.n_suspicious)},
        )
    for s in shapes:
        split = s.synchronised
        if s.kind == "closed" and split is not None and (split.concentration or 0.0) >= CONCENTRATED:
            yield Verdict(
                "shortcuts_left",
                "warn",
                "what keeps long loops from closing sits on few edges: shortcuts rather than a closed shape",
                "lower n_neighbors, or look for wrong edges between distant parts of the data",
                {"concentration": split.concentration or 0.0},
            )


def _parts(graph: GraphFacts) -> Iterator[Verdict]:
    if graph.n_parts > 1:
        listed = ", ".join(f"{size:,}" for size in graph.part_sizes[:5])
        more = ", ..." if graph.n_parts > 5 else ""
        yield Verdict(
            "components",
            "warn",
            f"the graph is in {graph.n_parts:,} pieces (of {listed}{more} vertices): distances between them are "
            "unknown",
            "raise n_neighbors, or join them with components='bridge'; otherwise read every piece by itself",
            {"n_parts": float(graph.n_parts)},
        )


def _map(
    n: int, graph: GraphFacts, shapes: tuple[ShapeFacts, ...], found: MapFacts, *, explained: bool
) -> Iterator[Verdict]:
    numbers = {"edge_error": found.edge_error, "edge_within": found.edge_within, "torn": found.torn}
    if found.status in ("max_iter", "stopped"):
        yield Verdict(
            "not_converged",
            "warn",
            f"the optimiser ended early ({found.status}); another sweep would still remove "
            f"{found.energy.removable:.1%} of the energy of a collapsed map",
            "raise max_iter, or go on from here with start=coordinates",
            {"removable": found.energy.removable},
        )
    kept = found.edge_error <= KEPT_ERROR and found.torn <= KEPT_TORN
    if kept:
        text = f"the map keeps the edges: {found.edge_error:.1%} off in the mean, {found.edge_within:.0%} within 10 %"
        yield Verdict("isometric", "info", text, "use it", numbers)
        return
    ratio = found.against_relaxed
    flat = bool(shapes) and shapes[0].kind == "flat" and shapes[0].dimension == n
    if flat and ratio is not None and ratio >= POOR:
        yield Verdict(
            "poor_minimum",
            "problem",
            f"a better map exists: the data are flat, but the map has {ratio:.1f} times the energy of one fitted "
            "from synchronised frames",
            "try start='synchronised' or start='coarse', and lower tol",
            {"against_relaxed": ratio},
        )
    bad = found.edge_error > BAD_ERROR or found.torn > BAD_TORN
    yield Verdict(
        "distorted",
        "problem" if bad and not explained else "warn",
        f"edges are {found.edge_error:.0%} off in the mean, {found.edge_within:.0%} within 10 %, and "
        f"{found.torn:.1%} are torn or folded (off by half or more)",
        "see the other findings for the cause; colour the map by stretch to see where it cannot be trusted",
        numbers,
    )
