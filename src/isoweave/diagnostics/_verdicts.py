"""From facts to findings, and to the options of a fit that follows their advice.

The words are in verdicts.toml; docs/diagnose.md lists all codes and what following them changed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from isoweave.diagnostics._facts import (
    FEW_TRIANGLES,
    NEGLIGIBLE,
    SEVERITIES,
    Diagnosis,
    GraphFacts,
    MapFacts,
    ShapeFacts,
    Verdict,
    frame_dimension,
    is_too_sparse,
    known_distortion,
    needed_degree,
    torn_share,
)
from isoweave.diagnostics._shape import FEWEST_VERTICES
from isoweave.result import as_embedding

# A next direction of this size is more than zig-zag paths make; with an estimate this far above N it counts.
_SLIGHTLY_TOO_LOW = 0.062
_ABOVE = 0.5
_FAR_BELOW = 0.6
_MANY_DROPPED = 0.01
# Shares of outlying edges that are a problem, and that noise alone may make, if none is this much too long.
_MANY_OUTLYING, _FEW_OUTLYING = 0.01, 0.002
_FAR_OUT = 4.0
# Share on one edge in a hundred of the harmonic part, or, where small loops do not close, of all that the
# fitted map leaves: a shape spreads it over all edges. Where frames reflect, some of it sits on the line
# where they do.
_CONCENTRATED = {"closed": 0.15, "non_orientable": 0.25, "curved": 0.3}
# Curvature that costs edges this part of their length (root of the irremovable energy) is a problem.
_COSTLY = 0.1
# Mean error of the edges and share of torn ones up to which a map is isometric, and beyond which it is bad.
_KEPT_ERROR, _KEPT_TORN = 0.05, 0.005
_BAD_ERROR, _BAD_TORN = 0.12, 0.05
# Where nothing is wrong, a page has one of these as its badge.
_KEPT = ("isometric", "approximate")
# Correlation of distances in the map with paths from which on it keeps the large shape.
_SHAPE_KEPT = 0.95
_NOT_CONVERGED = ("max_iter", "stopped", "interrupted")
# More steps for a fit that was cut short.
_MORE_STEPS = 5000
# Part of n_neighbors that is left where there are shortcuts, and the fewest that are advised.
_FEWER, _FEWEST_NEIGHBORS = 0.7, 6


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("verdicts.toml").read_text(encoding="utf-8"))


def _verdict(
    name: str,
    severity: str,
    numbers: dict[str, float],
    options: dict[str, Any] | None = None,
    **facts: Any,
) -> Verdict:
    """A finding in words; a name after a dot is a variant of its code's text or advice."""
    code, _, variant = name.partition(".")
    words = _words()[code] | _words()[code].get(variant, {})
    text, advice = (words[part].format(**numbers | facts) for part in ("text", "advice"))
    return Verdict(code, severity, text, advice, numbers, options or {})


def judge(found: Diagnosis, n_neighbors: int | None = None) -> tuple[Verdict, ...]:
    """All findings, most severe first, then what a map keeps, then by the rules.

    ``n_neighbors`` is what the graph was made with, None if it was given.
    """
    n, graph, of_map, shapes = found.n_components, found.graph, found.map, found.shapes
    kept = of_map is not None and keeps_edges(of_map.edge_error, of_map.torn)
    shape_kept = of_map is not None and of_map.paths is not None and of_map.paths >= _SHAPE_KEPT
    too_sparse = is_too_sparse(graph, frame_dimension(graph, found.dimension, n))
    causes = [*_sparse(found, n_neighbors, shape_kept=shape_kept), *_too_low(found, n_neighbors)]
    undetermined = any(v.code in ("graph_too_sparse", "dimension_too_low") for v in causes)
    causes += _closed_mesh(n, graph, kept=kept)
    for shape in shapes:
        where = "" if len(shapes) == 1 else f"component {shape.component}: "
        # What closes like a sphere is curved, which goes without saying.
        causes += [
            replace(v, text=where + v.text)
            for v in _shape(n, shape, n_neighbors, kept=kept)
            if not (v.code == "curved" and graph.is_closed_mesh)
        ]
    causes += _outlying(found.n_edges, graph)
    findings = [*causes, *_graph(found.n_edges, graph, n_neighbors)]
    is_flat = bool(shapes) and all(s.kind == "flat" for s in shapes)
    if not shapes and not undetermined:
        largest = float(graph.part_sizes[0]) if graph.part_sizes else 0.0
        findings.append(_verdict("uncertain.small", "info", {"largest": largest}, fewest=FEWEST_VERTICES))
    if of_map is not None:
        # A sparse graph keeps its edges in many maps: that says nothing for this one.
        if not (too_sparse and kept):
            explained = any(v.severity != "info" for v in causes)
            findings += _map(n, of_map, kept=kept, is_flat=is_flat, explained=explained)
        if shape_kept and not (kept and not too_sparse):
            findings.append(_verdict("shape_kept", "info", {"paths": of_map.paths or 0.0}))
    elif is_flat and not undetermined and all(v.severity == "info" for v in causes):
        numbers = {"excess": shapes[0].excess or 0.0, "coherence": shapes[0].coherence}
        findings.append(_verdict("flat", "info", numbers, dimensions=_dimensions(n)))
    if not undetermined:
        findings += _too_high(found, is_flat=is_flat)
    return tuple(sorted(findings, key=lambda v: (-SEVERITIES.index(v.severity), v.code not in _KEPT)))


def _dimensions(n: int) -> str:
    return f"{n} dimension{'s' if n > 1 else ''}"


def _sparse(found: Diagnosis, n_neighbors: int | None, *, shape_kept: bool) -> Iterator[Verdict]:
    n, graph = found.n_components, found.graph
    d = frame_dimension(graph, found.dimension, n)
    numbers = {name: getattr(graph, name) for name in ("low_degree", "deficient", "triangles_per_edge")}
    enough = max(needed_degree(d) + 4, d + 2)
    few_triangles = graph.triangles_per_edge < FEW_TRIANGLES
    way, options = ".features", dict[str, Any](n_neighbors=enough)
    if n_neighbors is None:
        way, options = ("", {"along_graph": enough}) if few_triangles else (".measured", {})
        is_forest = found.n_edges == graph.n_distinct - graph.n_parts
        way, options = (".tree", {}) if is_forest else (way, options)
    if "along_graph" in options and graph.n_outlying:
        # Without triangles few such edges can be seen: where there is one, lengths bend with their roads.
        way, options = ".bent", options | {"loss": "robust"}
    facts: dict[str, Any] = {"n": d, "enough": enough, "options": options}
    if is_too_sparse(graph, d):
        low = graph.low_degree <= needed_degree(d)
        words = _words()["graph_too_sparse"]["degree" if low else "rank"]
        facts["what"] = words.format(**numbers, n=d)
        yield _verdict(f"graph_too_sparse{way}", "warn" if shape_kept else "problem", numbers, **facts)
    elif n > 1 and graph.n_distinct > 2 * n + 2 and few_triangles:
        facts["what"] = _words()["graph_too_sparse"]["triangles"]
        yield _verdict(f"graph_too_sparse{way}", "warn", numbers, **facts)


def _too_low(found: Diagnosis, n_neighbors: int | None) -> Iterator[Verdict]:
    n, dimension, low_degree = found.n_components, found.dimension, found.graph.low_degree
    next_one, estimate = dimension.beyond[n - 1], dimension.estimate
    if dimension.local <= n and dimension.by == "growth of balls":
        return
    strong = next_one >= NEGLIGIBLE
    if strong or (next_one >= _SLIGHTLY_TOO_LOW and estimate is not None and estimate >= n + _ABOVE):
        also = "" if estimate is None else f", and the {dimension.by} suggest {estimate:.1f}"
        better = max(dimension.local, 0 if estimate is None else round(estimate), n + 1)
        options = {"n_components": better}
        if better > low_degree and n_neighbors is not None:
            options["n_neighbors"] = better + 2
        elif better > low_degree:
            # More than the neighbours of a vertex can show.
            options["n_components"] = better = max(n + 1, int(low_degree))
        numbers = {"next_direction": next_one, **({} if estimate is None else {"estimate": estimate})}
        severity = "problem" if strong else "warn"
        yield _verdict("dimension_too_low", severity, numbers, options, n=n, also=also, better=better)


def _too_high(found: Diagnosis, *, is_flat: bool) -> Iterator[Verdict]:
    n, dimension, enough = found.n_components, found.dimension, None
    if dimension.local < n and is_flat:
        enough = dimension.local
    elif dimension.estimate is not None and n > 4 and dimension.estimate < _FAR_BELOW * n:
        enough = max(1, round(dimension.estimate))
    if enough is not None:
        numbers, options = {"enough": float(enough)}, {"n_components": enough}
        said = {"n": n, "dimensions": _dimensions(enough)}
        yield _verdict("dimension_too_high", "info", numbers, options, **said)


def _closed_mesh(n: int, graph: GraphFacts, *, kept: bool) -> Iterator[Verdict]:
    if graph.is_closed_mesh:
        numbers = {"border": float(graph.border or 0), "sheet": graph.sheet_border}
        if n > 2:
            yield _verdict("closed.mesh", "info", numbers)
        else:
            severity = "warn" if kept else "problem"
            yield _verdict("closed.flattened", severity, numbers, {"n_components": 3})


def _shape(n: int, s: ShapeFacts, n_neighbors: int | None, *, kept: bool) -> Iterator[Verdict]:
    # With room to spare, or with the edges kept nevertheless, it is worth knowing but no problem.
    severity = "info" if s.dimension < n else "warn" if kept else "problem"
    room, options = f"embed in {n + 1} dimensions or more", {"n_components": n + 1}
    if s.dimension < n:
        room = "check how well the map keeps the edges; one more dimension may help if it does not"
    elif kept:
        room = "this map keeps the edges nevertheless; one more dimension closes what it leaves open"
        options = {}
    facts: dict[str, Any] = {"d": s.dimension, "dimensions": _dimensions(s.dimension), "room": room}
    facts["options"] = options
    if s.synchronized is None or s.relaxed is None:
        yield _verdict("uncertain", "info", {"coherence": s.coherence})
        return
    loops = s.synchronized.loops or 0.0
    concentration = (s.relaxed if s.kind == "curved" else s.synchronized).concentration
    if concentration >= _CONCENTRATED.get(s.kind, 2.0):
        numbers = {"loops": loops, "concentration": concentration}
        # In fewer dimensions than the map has they do not explain what it fails to keep.
        if n_neighbors is None:
            yield _verdict("shortcuts_left.measured", severity, numbers, {"loss": "robust"})
        else:
            yield _verdict("shortcuts_left", severity, numbers, _fewer(n_neighbors))
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


def _fewer(n_neighbors: int | None) -> dict[str, Any]:
    """Fewer neighbours, where their number was ours to choose and leaves room."""
    fewer = max(_FEWEST_NEIGHBORS, int(_FEWER * (n_neighbors or 0)))
    return {} if n_neighbors is None or fewer >= n_neighbors else {"n_neighbors": fewer}


def _outlying(n_edges: int, graph: GraphFacts) -> Iterator[Verdict]:
    if graph.n_outlying:
        worst = [f"{i}-{j} ({ratio:.3g} times)" for i, j, ratio in graph.outlying[:5]]
        worst += ["..."] * (graph.n_outlying > 5)
        numbers = {"outlying": float(graph.n_outlying), "share": graph.n_outlying / n_edges}
        is_noise = numbers["share"] < _FEW_OUTLYING and graph.outlying[0][2] < _FAR_OUT
        severity = "problem" if numbers["share"] >= _MANY_OUTLYING else "info" if is_noise else "warn"
        bent = graph.triangles_per_edge < FEW_TRIANGLES
        name, options = f"outlying_distances{'.bent' * bent}", {} if bent else {"loss": "robust"}
        yield _verdict(name, severity, numbers, options, n_edges=n_edges, worst=", ".join(worst))


def _graph(n_edges: int, graph: GraphFacts, n_neighbors: int | None) -> Iterator[Verdict]:
    if graph.n_dropped:
        many, numbers = graph.n_dropped > _MANY_DROPPED * n_edges, {"dropped": float(graph.n_dropped)}
        name, severity = ("shortcuts_dropped.many", "warn") if many else ("shortcuts_dropped", "info")
        options = _fewer(n_neighbors) if many else {}
        yield _verdict(name, severity, numbers, options, n_edges=n_edges)
    if graph.n_parts > 1:
        listed = ", ".join([f"{size:,}" for size in graph.part_sizes[:5]] + ["..."] * (graph.n_parts > 5))
        name = f"components{'' if n_neighbors is None else '.features'}"
        yield _verdict(name, "warn", {"n_parts": float(graph.n_parts)}, listed=listed)


def keeps_edges(error: float, torn: float) -> bool:
    """Whether edges off by this much in the mean, and this share of them torn, make a map isometric."""
    return error <= _KEPT_ERROR and torn <= _KEPT_TORN


def scale_sentence(result: Any, verdicts: Sequence[Verdict] = ()) -> str:
    """Whether distances in the picture of a whole map are to scale, in a sentence that fits the verdicts."""
    words, embedding = _words()["to_scale"], as_embedding(result)
    if embedding.graph is None:
        return str(words["unknown"])
    known = known_distortion(embedding)
    if len(known) == 0:
        return str(words["unknown"])
    error, torn = float(np.mean(np.abs(known))), torn_share(known)
    loud = [v.code for v in verdicts if v.severity != "info"]
    if keeps_edges(error, torn):
        name = next((code for code in loud if code in words), "kept")
    elif error <= _BAD_ERROR and torn <= _BAD_TORN:
        name = "roughly"
    else:
        name = "shape_kept" if any(v.code == "shape_kept" for v in verdicts) else "bad"
    parts = embedding.component_labels
    apart = words["apart"] if parts is not None and np.ptp(parts) > 0 else ""
    return str(words[name]).format(error=error, torn=torn) + apart


def _map(n: int, found: MapFacts, *, kept: bool, is_flat: bool, explained: bool) -> Iterator[Verdict]:
    """What the map keeps; ``explained`` if another finding says why edges cannot be kept."""
    if found.status in _NOT_CONVERGED:
        numbers = {"removable": found.energy.removable}
        options = {"max_iter": _MORE_STEPS} if found.status == "max_iter" else {}
        yield _verdict("not_converged", "warn", numbers, options, status=found.status)
    numbers = {"edge_error": found.edge_error, "edge_within": found.edge_within, "torn": found.torn}
    bad = found.edge_error > _BAD_ERROR or found.torn > _BAD_TORN
    if kept:
        yield _verdict("isometric", "info", numbers)
    elif found.better is not None:
        numbers |= {"energy": found.energy.total, "better": found.better}
        yield _verdict("poor_minimum", "problem", numbers, {"start": "auto"})
    elif not explained and (is_flat or not bad):
        yield _verdict(f"approximate{'.flat' * is_flat}", "warn" if bad else "info", numbers)
    else:
        name, severity = ("distorted.explained", "warn") if explained else ("distorted", "problem")
        yield _verdict(name, severity, numbers, {} if explained else {"n_components": n + 1})
