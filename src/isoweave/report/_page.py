"""The page, and what its script reads: all arrays as compact text."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from isoweave._files import check_writable, write_text
from isoweave._pages import render
from isoweave._reporter import Event
from isoweave._typing import AnyArray, FloatArray
from isoweave.diagnostics import diagnose, edge_errors, edge_table, local_fit, scale_sentence
from isoweave.geometry import rigid_motion
from isoweave.graph import NeighborGraph, is_edge
from isoweave.interop import is_anndata, map_of_anndata
from isoweave.metrics import METRIC_MEANINGS, GeodesicRows, distance_pairs, evaluate
from isoweave.plot import by_variance, principal_axes, sampled_paths, turned_towards, view as plotted_view
from isoweave.report._columns import Column, map_columns, user_columns
from isoweave.result import Embedding, as_embedding

_TEMPLATES = Path(__file__).parent / "templates"
_SCRIPTS = (
    *("decode.js", "geometry.js", "color.js", "paint.js"),
    *("map.js", "pointer.js", "panels.js", "export.js", "main.js"),
)
_MOST_LABELS = 100
# Beyond this many edges a page would become too large to open with ease; neighbourhoods are left out then.
MOST_EDGES = 4_000_000
# Vertices that shortest paths start from: all of a small graph, few of a large one, where each takes long.
_ALL_ROWS, _SAMPLED_ROWS, _FEW_ROWS = 1_000, 200, 40
_LARGE = 20_000
_SHEPARD_POINTS = 5_000
_SHEPARD_BINS = 100
# Largest rounding error, as part of the range of the values, with which numbers are stored in 32 bits:
# nothing that can be seen on a screen or read in a table of six digits.
_FINE = 1e-7


def write_report(
    result: Any,
    path: str | os.PathLike[str],
    *,
    graph: Any = None,
    columns: Any = None,
    names: Any = None,
    align: Any = None,
    beside: Any = None,
    faces: Any = None,
    view: Any = False,
    title: str | None = None,
    diagnosis: Any = True,
    metrics: bool = True,
    n_jobs: int | None = None,
) -> Path:
    """Write one interactive HTML page about a map; it opens without a network and needs no other file.

    The map can be zoomed, hovered, coloured by any column and saved as a picture; a point that is clicked
    shows its neighbourhood as measured and in the map, a lasso selects rows to export. Maps of more than
    three dimensions have a tour and a scatter matrix. Below: what the diagnosis says, the metrics, a Shepard
    diagram and the energy by step.

    Parameters
    ----------
    result : Embedding, fitted estimator of any package, file of one, array of shape (n, N), or AnnData
        Of annotated data, the map that :func:`isoweave.tl.embed` has left there.
    path : path-like
        Where to write, .html; returned.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Measured distances. Without any, for plain coordinates, there are no neighbourhoods, metrics, Shepard
        diagram or verdict.
    columns : mapping of str to array of shape (n,), or data frame, optional
        Properties of the points: numbers or words; whole numbers of up to 20 distinct values are classes. The
        first one is shown when the page opens. Of annotated data, names: of columns of ``obs`` (all by
        default) and of genes.
    names : sequence of n str, optional
        Of the points; by default those of the result, or their numbers.
    align : array of shape (n, d), optional
        Positions to rotate or mirror the map towards, such as the truth; NaN where unknown. If d = N,
        the page can turn one into the other. By default the columns ``lon`` and ``lat`` (or longitude,
        latitude; x, y), where they are given: a country comes out with north at the top.
    beside : map of the same points, as ``result``, or {title: map}, optional
        Shown beside the map, linked with it: the truth, another method, the surface, a map before or after. A
        third column makes it a picture in space; of more than three, the two principal axes are shown.
    faces : int array of shape (m, 3), optional
        Corners of the triangles of a mesh, which is drawn as a shaded surface.
    view : bool, View or array of shape (n, 2)
        Whether the page opens with a picture of clusters (:func:`isoweave.plot.view`, extra ``view``), for
        maps of more than two dimensions, or that picture.
    title : str, optional
    diagnosis : bool or Diagnosis
        Whether to run :func:`isoweave.diagnose`, which takes about as long as the embedding, or its result.
    metrics : bool
    n_jobs : int, optional
        Threads of the diagnosis and of the frames.
    """
    path = Path(path)
    check_report(path)
    if is_anndata(result):
        result, columns = map_of_anndata(result, columns)
    source = as_embedding(result, graph)
    if names is not None:
        source = replace(source, names=_checked_names(names, source.n_points))
    given = user_columns(columns, source.n_points)
    second, triangles = _beside(beside, source), _checked_faces(faces, source.n_points)
    source, truth = _aligned(source, align, given)
    _tell("diagnosis")
    found, why_not = find_verdicts(source, diagnosis, has_own_graph=graph is None, n_jobs=n_jobs)
    misfit, stretch = getattr(found, "misfit", None), source.stretch
    if source.graph is not None and (misfit is None or stretch is None):
        _tell("stretch")
        fit = local_fit(source, n_jobs)
        if fit is not None:
            misfit, stretch = fit[0], fit[1] if stretch is None else stretch
    taken = {column.name for column in given}
    known = map_columns(source, misfit, stretch, getattr(found, "curvature", None), taken)
    n_placed = int(source.is_placed.sum())
    _tell("shortest paths")
    measured = None
    if source.graph is not None and n_placed >= 2:
        measured = sampled_paths(source, n_rows=_sample_rows(n_placed))
    _tell("metrics")
    scores, voted = _measure(source, measured, given) if metrics else ({}, None)
    data = build_payload(source, [*given, *known]) | {"shepard": _shepard_payload(measured)}
    data["scale"] = scale_sentence(source, getattr(found, "verdicts", ()))
    data["truth"] = None if truth is None else [encode_numbers(axis) for axis in truth.T]
    data["faces"] = None if triangles is None else encode(triangles)
    if second is not None:
        name, shown = second[0], _turned(second[1], source)
        data["beside"] = {"title": name, "axes": [encode_numbers(axis) for axis in shown.T]}
    if view is not False and view is not None:
        _tell("view")
        data["view"] = [encode_numbers(axis) for axis in _view_of(source, view).T]
    _tell("writing the page")
    page = _page(
        title=title or "isoweave report",
        source=source,
        n_placed=n_placed,
        edge_errors=None if source.graph is None else edge_errors(source),
        verdicts=tuple(getattr(found, "verdicts", ())),
        no_verdict=why_not,
        metrics=metrics,
        scores=scores,
        meanings=METRIC_MEANINGS,
        voted=voted,
        most_edges=MOST_EDGES,
        data=data,
    )
    write_text(path, page)
    return path


def _beside(given: Any, source: Embedding) -> tuple[str, FloatArray] | None:
    """Title and coordinates of the other map, in at most three dimensions."""
    if given is None:
        return None
    title, result = "beside", given
    if isinstance(given, dict):
        if len(given) != 1:
            raise ValueError(f"beside must be one map, or one title with its map; got {len(given)} of them.")
        title, result = next(iter(given.items()))
    other = as_embedding(result)
    if other.n_points != source.n_points:
        raise ValueError(f"beside has {other.n_points} points, but the map has {source.n_points}.")
    if other.n_components <= 3:
        return str(title), np.pad(other.coordinates, ((0, 0), (0, max(0, 2 - other.n_components))))
    turned, _ = by_variance(other)
    return f"{title}: two principal axes of {other.n_components}", turned.coordinates[:, :2]


def _turned(other: FloatArray, source: Embedding) -> FloatArray:
    """A map of the plane rotated and mirrored towards what is seen of the other; one in space as it is."""
    seen = by_variance(source)[0].coordinates if source.n_components > 3 else source.coordinates
    use = source.is_placed & np.isfinite(other).all(axis=1)
    if other.shape[1] != 2 or seen.shape[1] < 2 or use.sum() < 2 or source.n_components == 3:
        return other
    return other @ rigid_motion(other[use], seen[use][:, :2])[0]


def _checked_faces(faces: Any, n: int) -> AnyArray | None:
    if faces is None:
        return None
    found = np.asarray(faces)
    if found.ndim != 2 or found.shape[1] != 3 or found.dtype.kind not in "iu":
        raise ValueError(f"faces must be whole numbers of shape (m, 3), got {found.dtype} {found.shape}.")
    if len(found) and not (found.min() >= 0 and found.max() < n):
        wrong = found.min() if found.min() < 0 else found.max()
        raise ValueError(f"faces name the vertex {wrong}, but the map has {n} points.")
    return found.astype(np.int32)


def _view_of(source: Embedding, given: Any) -> FloatArray:
    """The coordinates of a view, made or given."""
    made = plotted_view(source) if given is True else given
    picture = np.asarray(getattr(made, "coordinates", made), dtype=np.float64)
    if picture.shape != (source.n_points, 2):
        raise ValueError(f"view must have shape ({source.n_points}, 2), got {picture.shape}.")
    return picture


def _tell(stage: str) -> None:
    """Report a stage to whoever listens to the logger, as fits do."""
    logging.getLogger("isoweave").info(stage, extra={"isoweave_event": Event(f"report: {stage}")})


def check_report(path: Path) -> None:
    """Refuse a page that could not be written, before anything is computed."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"cannot write {path}: a report is a page, and its name must end in .html.")
    check_writable(path)
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise ImportError("Reports need jinja2: pip install 'isoweave[report]'.") from error


_DIRECTIONS = (("lon", "lat"), ("lng", "lat"), ("longitude", "latitude"), ("easting", "northing"), ("x", "y"))


def _aligned(source: Embedding, align: Any, columns: list[Column]) -> tuple[Embedding, FloatArray | None]:
    """The map, rotated towards known positions, and these, where the page can show both."""
    by_name = {column.name.lower(): column.values for column in columns if column.levels is None}
    if align is not None:
        known = np.asarray(align, dtype=np.float64)
        return turned_towards(source, known), known if known.shape[1] == source.n_components <= 3 else None
    for pair in _DIRECTIONS if source.n_components > 1 else ():
        if all(name in by_name for name in pair):
            known = np.column_stack([by_name[name] for name in pair])
            if (source.is_placed & np.isfinite(known).all(axis=1)).sum() >= 2:
                return turned_towards(source, known - np.nanmean(known, axis=0)), None
            break
    return source, None


def _checked_names(names: Any, n: int) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"names must be one name per point, got the string {names!r}.")
    found = tuple(str(name) for name in names)
    if len(found) != n:
        raise ValueError(f"names has {len(found)} entries, but the map has {n} points.")
    return found


def _page(**values: Any) -> str:
    """The whole page; nothing is loaded from anywhere, and only its own script runs."""
    from isoweave import __version__

    style, *scripts = ((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", *_SCRIPTS))
    script = '"use strict";\n(() => {\n' + "\n".join(scripts) + "})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    own = {"policy": policy, "style": style, "script": script, "version": __version__}
    return render("report/templates/page.html", **own, **values)


def find_verdicts(
    source: Embedding, diagnosis: Any = True, *, has_own_graph: bool = True, n_jobs: int | None = None
) -> tuple[Any, str | None]:
    """A diagnosis, or None and the reason why there is none."""
    if diagnosis is None or diagnosis is False:
        return None, "The diagnosis was skipped."
    if diagnosis is not True:
        if not hasattr(diagnosis, "verdicts"):
            raise TypeError(
                f"diagnosis must be True, False or what isoweave.diagnose returns, got {diagnosis!r}."
            )
        return diagnosis, None
    if source.graph is None:
        return None, "A diagnosis needs the measured distances, which were not given."
    if source.n_points < 3:
        return None, f"A map of {source.n_points} points is too small for a diagnosis."
    try:
        # A graph that was given may have shortcuts; those of the map's own graph are known.
        return diagnose(source, graph=None if has_own_graph else source.graph, n_jobs=n_jobs), None
    except (ValueError, ArithmeticError) as error:
        # The rest of the page is worth having.
        return None, f"The diagnosis could not be made: {error}"


# Graph and coordinates of the vertices that were embedded, and shortest paths from some of them.
_Measured: TypeAlias = tuple[NeighborGraph, FloatArray, GeodesicRows]


def _measure(
    source: Embedding, measured: _Measured | None, columns: list[Column]
) -> tuple[dict[str, float], str | None]:
    """Metrics, and the column whose labels were voted for, if any."""
    if measured is None or len(measured[1]) < 3:
        return {}, None
    graph, points, paths = measured
    placed, labels, voted = source.is_placed, None, None
    for c in columns:
        if c.levels is not None and 2 <= len(c.levels) <= _MOST_LABELS and (c.values[placed] >= 0).all():
            labels, voted = c.values[placed], c.name
            break
    return evaluate(graph, points, labels=labels, geodesics=paths), voted


def build_payload(source: Embedding, columns: list[Column]) -> dict[str, Any]:
    """Everything that the page draws."""
    steps = [r for r in source.history if np.isfinite(r.energy)]
    return {
        "n": source.n_points,
        "dimension": source.n_components,
        "coordinates": [encode_numbers(axis) for axis in source.coordinates.T],
        "principal": _principal_axes(source.coordinates),
        "names": None if source.names is None else list(source.names),
        "columns": [_column_payload(column) for column in columns],
        "graph": _graph_payload(source),
        "history": {"step": [r.iteration for r in steps], "energy": [float(r.energy) for r in steps]},
    }


def encode(array: AnyArray) -> dict[str, str]:
    """Type and base64 text of an array of int16, int32, float32 or float64, little-endian."""
    kind = f"{array.dtype.kind}{array.dtype.itemsize}"
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return {"type": kind, "base64": base64.b64encode(little.tobytes()).decode("ascii")}


def encode_numbers(values: AnyArray) -> dict[str, str]:
    """Real numbers in 32 bits where that is fine enough, otherwise in 64."""
    values = np.asarray(values, dtype=np.float64)
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return encode(values.astype(np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        short = known.astype(np.float32)
        spread = float(known.max() - known.min()) or abs(float(known[0]))
        error = float(np.max(np.abs(short.astype(np.float64) - known)))
        return encode(values.astype(np.float32) if error <= _FINE * spread else values)


def _column_payload(column: Column) -> dict[str, Any]:
    if column.levels is not None:
        kind = np.int16 if column.values.max(initial=0) < 2**15 else np.int32
        codes = encode(column.values.astype(kind))
        return {"name": column.name, "levels": list(column.levels), "codes": codes}
    known = column.values[np.isfinite(column.values)]
    # A few extreme values must not take the whole scale, least of all one that is as long on both sides.
    ends = [2.0, 98.0] if column.is_ratio else [0.5, 99.5]
    low, high = np.percentile(known, ends) if len(known) else (0.0, 1.0)
    return {
        "name": column.name,
        "numbers": encode_numbers(column.values),
        "low": float(low),
        "high": float(high),
        "ratio": column.is_ratio,
    }


def _graph_payload(source: Embedding) -> dict[str, Any] | None:
    """Edges i < j by rows, their lengths, and the positions of those the shortcut filter removed."""
    graph = source.graph
    if graph is None or graph.n_edges > MOST_EDGES:
        return None
    edges, lengths, _ = edge_table(graph, source.coordinates)
    counts = np.bincount(edges[:, 0], minlength=graph.n_vertices)
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    dropped = np.flatnonzero(is_edge(graph, source.dropped_edges)[graph.sources < graph.indices])
    return {
        "indptr": encode(indptr),
        "indices": encode(edges[:, 1].astype(np.int32)),
        "lengths": encode_numbers(lengths),
        "dropped": encode(dropped.astype(np.int32)),
    }


def _principal_axes(coordinates: FloatArray) -> dict[str, Any] | None:
    """Axes of the map by variance, for maps that a picture cannot show whole; None below three dimensions."""
    if coordinates.shape[1] < 3:
        return None
    mean, axes, shares = principal_axes(coordinates)
    return {"mean": mean.tolist(), "axes": axes.T.tolist(), "shares": shares.tolist()}


def _sample_rows(n: int) -> int:
    """Vertices that shortest paths start from."""
    if n <= _ALL_ROWS:
        return n
    return _SAMPLED_ROWS if n <= _LARGE else _FEW_ROWS


def _shepard_payload(measured: _Measured | None) -> dict[str, Any] | None:
    """Sampled pairs as points, or many of them as counts on a grid."""
    if measured is None:
        return None
    paths, reached = distance_pairs(measured[2], measured[1])
    if len(paths) == 0:
        return None
    payload: dict[str, Any] = {"n_pairs": len(paths)}
    if len(paths) <= _SHEPARD_POINTS:
        return payload | {"graph": encode_numbers(paths), "map": encode_numbers(reached)}
    ends = (float(paths.max()) or 1.0, float(reached.max()) or 1.0)
    limits = ((0.0, ends[0]), (0.0, ends[1]))
    counts, _, _ = np.histogram2d(paths, reached, bins=_SHEPARD_BINS, range=limits)
    # Rows of an image run along the vertical axis.
    return payload | {"counts": encode(counts.T.astype(np.int32)), "bins": _SHEPARD_BINS, "ends": list(ends)}
