"""A map in a notebook: a small picture and the numbers that matter, without scripts."""

from __future__ import annotations

import html
from weakref import WeakKeyDictionary

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.diagnostics import Verdict, edge_errors, scale_sentence
from isoweave.plot import PALETTE, principal_axes, vertex_errors
from isoweave.report._page import find_verdicts
from isoweave.result import Embedding

_SIDE, _MARGIN = 260, 8
_MOST_POINTS = 2000
# Sparse graphs of up to so many edges, such as roads, are lines, as on the page of a report.
_MOST_LINES = 6000
# Up to this many points the diagnosis takes a second or two, once per map.
_MOST_JUDGED = 10_000
_BADGES = {"info": "#1d7a48", "warn": "#8a6500", "problem": "#b32d24"}
_judged: WeakKeyDictionary[Embedding, tuple[Verdict, ...]] = WeakKeyDictionary()


def embedding_html(source: Embedding) -> str:
    """What a notebook shows for an Embedding: points by the error of their edges, or lines."""
    placed = np.flatnonzero(source.is_placed)
    rows = {"points": f"{source.n_points:,}", "dimensions": f"{source.n_components}"}
    if len(placed) < source.n_points:
        rows["not embedded"] = f"{source.n_points - len(placed):,}"
    errors = None
    if source.graph is not None:
        graph = source.kept_graph("a notebook")
        errors = vertex_errors(graph, source.coordinates)
        rows["edges"] = f"{graph.n_edges:,}"
        if source.n_components > 2:
            rows["edges off by"] = edge_errors(source)
    if source.status is not None:
        rows["status"] = source.status
    left = "style='text-align:left'"
    cells = "".join(
        f"<tr><th {left}>{name}</th><td {left}>{html.escape(value)}</td></tr>" for name, value in rows.items()
    )
    verdict = _verdict(source)
    kind = f"Two principal axes of {source.n_components}"
    if source.n_components <= 2:
        kind = scale_sentence(source, _judged.get(source, ()))
    picture = _lines(source, placed)
    if not picture:
        picture = _points(source, placed, errors)
        kind += "; stronger colour: edges more distorted" if errors is not None else ""
    more = "<code>.diagnose()</code>, <code>.report('map.html')</code>"
    hint = f"{verdict}<div style='opacity:.7'>{kind}. {more}</div>"
    box = "display:flex;gap:1em;align-items:center;flex-wrap:wrap"
    # Beside the picture, however long its lines are; below it where the page is narrow.
    text = f"<div style='flex:1 1 18em;max-width:42em'><table>{cells}</table>{hint}</div>"
    return f"<div style='{box}'>{picture}{text}</div>"


def _verdict(source: Embedding) -> str:
    """The most severe finding of the diagnosis, where that is quick."""
    if source.n_points > _MOST_JUDGED:
        return ""
    if source not in _judged:
        _judged[source] = tuple(getattr(find_verdicts(source)[0], "verdicts", ()))
    if not _judged[source]:
        return ""
    worst = _judged[source][0]
    color = f"background:{_BADGES.get(worst.severity, _BADGES['info'])};color:#fff"
    name = html.escape(worst.code.replace("_", " "))
    badge = f"<b style='{color};border-radius:1em;padding:.1em .7em'>{name}</b>"
    advice = "" if worst.severity == "info" else f"<br><i>{html.escape(worst.advice)}</i>"
    return f"<div>{badge} {html.escape(worst.text)}{advice}</div>"


def _flat(points: FloatArray) -> tuple[FloatArray, float]:
    """Points in the picture, the first two principal axes of many; and its height."""
    if points.shape[1] > 2:
        points = points @ principal_axes(points)[1][:, :2]
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    low, span = points.min(axis=0), float(np.ptp(points, axis=0).max()) or 1.0
    at = _MARGIN + (points - low) * ((_SIDE - 2 * _MARGIN) / span)
    height = at[:, 1].max() + _MARGIN
    at[:, 1] = height - at[:, 1]
    return at, float(height)


def _svg(height: float, content: str) -> str:
    size = f"width='{_SIDE}' height='{height:.0f}' viewBox='0 0 {_SIDE} {height:.1f}'"
    return f"<svg {size} fill='{PALETTE[0]}' role='img' aria-label='map'>{content}</svg>"


def _lines(source: Embedding, placed: AnyArray) -> str:
    """A picture of the edges of a sparse graph; nothing for others."""
    if source.graph is None or len(placed) < source.n_points:
        return ""
    graph = source.kept_graph("a notebook")
    if not 0 < graph.n_edges <= min(_MOST_LINES, 2 * graph.n_vertices - 1):
        return ""
    at, height = _flat(source.coordinates)
    once = graph.sources < graph.indices
    ends = np.hstack((at[graph.sources[once]], at[graph.indices[once]])).tolist()
    path = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for a, b, c, d in ends)
    return _svg(height, f"<path d='{path}' stroke='{PALETTE[0]}' stroke-width='.8'/>")


def _points(source: Embedding, placed: AnyArray, errors: FloatArray | None) -> str:
    if len(placed) == 0:
        return ""
    at, height = _flat(source.coordinates[placed])
    if len(placed) > _MOST_POINTS:
        some = np.sort(np.random.default_rng(0).choice(len(placed), _MOST_POINTS, replace=False))
        at, placed = at[some], placed[some]
    radius = min(3.0, max(1.0, 60.0 / len(at) ** 0.5))
    dots = []
    for (x, y), vertex in zip(at.tolist(), placed.tolist(), strict=True):
        name = html.escape(source.names[vertex] if source.names else str(vertex))
        error = 0.0 if errors is None or np.isnan(errors[vertex]) else float(errors[vertex])
        shade = "" if errors is None else f" fill-opacity='{min(1.0, 0.45 + 3.0 * error):.2f}'"
        where = f"cx='{x:.1f}' cy='{y:.1f}' r='{radius:.1f}'"
        dots.append(f"<circle {where}{shade}><title>{name}</title></circle>")
    return _svg(height, "".join(dots))
