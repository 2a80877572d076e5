"""A map in a notebook: a small picture and the numbers that matter, without scripts."""

from __future__ import annotations

import html

import numpy as np

from isoweave._typing import FloatArray
from isoweave.diagnostics import edge_table
from isoweave.plot import PALETTE, vertex_errors
from isoweave.result import Embedding

_SIDE, _MARGIN = 260, 8
_MOST_POINTS = 2000


def embedding_html(source: Embedding) -> str:
    """What a notebook shows for an Embedding: points by the error of their edges, names on hover."""
    placed = np.flatnonzero(source.is_placed)
    rows = {"points": f"{source.n_points:,}", "dimensions": f"{source.n_components}"}
    if len(placed) < source.n_points:
        rows["not embedded"] = f"{source.n_points - len(placed):,}"
    errors = None
    if source.graph is not None:
        graph = source.kept_graph("a notebook")
        errors = vertex_errors(graph, source.coordinates)
        distortion = np.abs(edge_table(graph, source.coordinates)[2])
        known = distortion[np.isfinite(distortion)]
        rows["edges"] = f"{graph.n_edges:,}"
        if len(known):
            rows["edges off by"] = f"{known.mean():.1%} on average, {np.mean(known <= 0.1):.0%} within 10 %"
    if source.status is not None:
        rows["status"] = source.status
    left = "style='text-align:left'"
    cells = "".join(
        f"<tr><th {left}>{name}</th><td {left}>{html.escape(value)}</td></tr>" for name, value in rows.items()
    )
    kind = "isometric map" if source.n_components <= 2 else f"two principal axes of {source.n_components}"
    scale = "; darker: edges more distorted" if errors is not None else ""
    more = "<code>.diagnose()</code>, <code>.report('map.html')</code>"
    hint = f"<div style='opacity:.7'>{kind}{scale}. {more}</div>"
    box = "display:flex;gap:1em;align-items:center;flex-wrap:wrap"
    return (
        f"<div style='{box}'>{_picture(source, placed, errors)}<div><table>{cells}</table>{hint}</div></div>"
    )


def _picture(source: Embedding, placed: np.ndarray, errors: FloatArray | None) -> str:
    if len(placed) == 0:
        return ""
    points = source.coordinates[placed]
    if points.shape[1] > 2:
        centred = points - points.mean(axis=0)
        points = centred @ np.linalg.eigh(centred.T @ centred)[1][:, :-3:-1]
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    if len(placed) > _MOST_POINTS:
        some = np.sort(np.random.default_rng(0).choice(len(placed), _MOST_POINTS, replace=False))
        points, placed = points[some], placed[some]
    low, span = points.min(axis=0), float(np.ptp(points, axis=0).max()) or 1.0
    at = _MARGIN + (points - low) * ((_SIDE - 2 * _MARGIN) / span)
    height = at[:, 1].max() + _MARGIN
    radius = min(3.0, max(1.0, 60.0 / len(points) ** 0.5))
    dots = []
    for (x, y), vertex in zip(at.tolist(), placed.tolist(), strict=True):
        name = html.escape(source.names[vertex] if source.names else str(vertex))
        error = 0.0 if errors is None or np.isnan(errors[vertex]) else float(errors[vertex])
        shade = "" if errors is None else f" fill-opacity='{min(1.0, 0.45 + 3.0 * error):.2f}'"
        where = f"cx='{x:.1f}' cy='{height - y:.1f}' r='{radius:.1f}'"
        dots.append(f"<circle {where}{shade}><title>{name}</title></circle>")
    size = f"width='{_SIDE}' height='{height:.0f}' viewBox='0 0 {_SIDE} {height:.1f}'"
    return f"<svg {size} fill='{PALETTE[0]}' role='img' aria-label='map'>{''.join(dots)}</svg>"
