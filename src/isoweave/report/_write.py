"""Writing the page."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._files import check_writable, write_text
from isoweave._pages import render
from isoweave.diagnostics import diagnose, local_fit
from isoweave.graph import subgraph
from isoweave.metrics import METRIC_MEANINGS, evaluate
from isoweave.report._payload import MOST_EDGES, Column, build_payload, map_columns, sample_rows, user_columns
from isoweave.result import Embedding, as_embedding

_TEMPLATES = Path(__file__).parent / "templates"
_SCRIPTS = ("decode.js", "geometry.js", "color.js", "map.js", "panels.js", "main.js")
_MOST_LABELS = 100


def write_report(
    result: Any,
    path: str | os.PathLike[str],
    *,
    graph: Any = None,
    columns: Any = None,
    names: Any = None,
    title: str | None = None,
    diagnosis: Any = True,
    metrics: bool = True,
    n_jobs: int | None = None,
) -> Path:
    """Write one interactive HTML page about a map; it opens without a network and needs no other file.

    The map can be zoomed, hovered and coloured by any column; a vertex that is clicked shows its
    neighbourhood as measured and in the map. Below: what the diagnosis says, the metrics, a Shepard diagram
    and the energy by step.

    Parameters
    ----------
    result : Embedding, fitted estimator, or array of shape (n, N)
        Any N; also a file of one of these, and estimators of other packages that have ``embedding_``.
    path : path-like
        Where to write, .html; returned.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Measured distances. Without any, for plain coordinates, there are no neighbourhoods, metrics, Shepard
        diagram or verdict.
    columns : mapping of str to array of shape (n,), or data frame, optional
        Properties of the points: numbers or words; whole numbers of up to 20 distinct values are classes. The
        first one is shown when the page opens.
    names : sequence of n str, optional
        Of the points; by default those of the result, or their numbers.
    title : str, optional
    diagnosis : bool or Diagnosis
        Whether to run :func:`isoweave.diagnose`, which takes about as long as the embedding, or its result.
    metrics : bool
        Whether to compute the metrics.
    n_jobs : int, optional
        Threads of the diagnosis and of the frames.
    """
    path = Path(path)
    library = check_report(path)
    source = as_embedding(result, graph)
    if names is not None:
        source = replace(source, names=_checked_names(names, source.n_points))
    given = user_columns(columns, source.n_points)
    found, why_not = _find_verdicts(source, diagnosis, has_own_graph=graph is None, n_jobs=n_jobs)
    misfit, stretch = getattr(found, "misfit", None), source.stretch
    if source.graph is not None and (misfit is None or stretch is None):
        fit = local_fit(source, n_jobs)
        if fit is not None:
            misfit, stretch = fit[0], fit[1] if stretch is None else stretch
    taken = {column.name for column in given}
    known = map_columns(source, misfit, stretch, getattr(found, "curvature", None), taken)
    scores, voted = _measure(source, given) if metrics else ({}, None)
    page = _page(
        library,
        title=title or "isoweave report",
        source=source,
        n_placed=int(source.is_placed.sum()),
        verdicts=tuple(getattr(found, "verdicts", ())),
        no_verdict=why_not,
        metrics=metrics,
        scores=scores,
        meanings=METRIC_MEANINGS,
        voted=voted,
        most_edges=MOST_EDGES,
        data=build_payload(source, [*given, *known]),
    )
    write_text(path, page)
    return path


def check_report(path: Path) -> str:
    """Refuse a page that could not be written, before anything is computed; returns the text of plotly.js."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"cannot write {path}: a report is a page, and its name must end in .html.")
    check_writable(path)
    try:
        import jinja2  # noqa: F401
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("Reports need plotly and jinja2: pip install 'isoweave[report]'.") from error
    # The hash of a script is that of its text as the browser reads it, with line feeds only.
    text: str = get_plotlyjs().replace("\r\n", "\n").replace("\r", "\n")
    lower = text.lower()
    if "</script" in lower or ("<!--" in lower and "<script" in lower):
        raise RuntimeError(
            "This version of plotly.js cannot be embedded in a page; try another version of plotly."
        )
    return text


def _checked_names(names: Any, n: int) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"names must be one name per point, got the string {names!r}.")
    found = tuple(str(name) for name in names)
    if len(found) != n:
        raise ValueError(f"names has {len(found)} entries, but the map has {n} points.")
    return found


def _page(library: str, **values: Any) -> str:
    """The whole page; nothing is loaded from anywhere, and only its own two scripts run.

    plotly's WebGL traces compile drawing commands with Function(), hence 'unsafe-eval'; what may be compiled
    is still decided by the two scripts alone.
    """
    from isoweave import __version__

    style, *scripts = ((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", *_SCRIPTS))
    script = '"use strict";\n(() => {\n' + "\n".join(scripts) + "})();\n"
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (library, script)
    )
    policy = (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    own = {"policy": policy, "style": style, "script": script, "version": __version__}
    return render("report/templates/page.html", library=library, **own, **values)


def _find_verdicts(
    source: Embedding, diagnosis: Any, *, has_own_graph: bool, n_jobs: int | None
) -> tuple[Any, str | None]:
    """A diagnosis, or None and the reason why there is none."""
    if diagnosis is None or diagnosis is False:
        return None, "No diagnosis was asked for."
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


def _measure(source: Embedding, columns: list[Column]) -> tuple[dict[str, float], str | None]:
    """Metrics of the vertices that were embedded, and the column whose labels were voted for, if any."""
    placed = np.flatnonzero(source.is_placed)
    if source.graph is None or len(placed) < 3:
        return {}, None
    graph, points = source.kept_graph("metrics"), source.coordinates
    if len(placed) < len(points):
        graph, points = subgraph(graph, placed), points[placed]
    labels = voted = None
    for c in columns:
        if c.levels is not None and 2 <= len(c.levels) <= _MOST_LABELS and (c.values[placed] >= 0).all():
            labels, voted = c.values[placed], c.name
            break
    return evaluate(graph, points, labels=labels, n_rows=sample_rows(len(placed))), voted
