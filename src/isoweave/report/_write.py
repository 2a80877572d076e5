"""Writing the page."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._files import check_writable, write_text
from isoweave._pages import render
from isoweave.diagnostics import diagnose, local_fit
from isoweave.graph import subgraph
from isoweave.metrics import METRIC_MEANINGS, evaluate
from isoweave.report._columns import Column, map_columns, user_columns
from isoweave.report._payload import MOST_EDGES, build_payload, sample_rows
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
        Where to write, .html.
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

    Returns
    -------
    pathlib.Path
        ``path``.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from isoweave import IsometricEmbedding
    >>> from isoweave.datasets import swiss_roll
    >>> roll = swiss_roll(300, random_state=7)
    >>> model = IsometricEmbedding(n_neighbors=8).fit(roll.data)
    >>> page = pathlib.Path(tempfile.mkdtemp(), "roll.html")
    >>> write_report(model, page, columns={"height": roll.truth[:, 1]}).name
    'roll.html'
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
    write_text(
        path,
        _page(
            library,
            title=title or "isoweave report",
            facts=_facts(source),
            notes=_notes(source, scores, voted, metrics),
            verdicts=tuple(getattr(found, "verdicts", ())),
            no_verdict=why_not,
            scores=_score_rows(scores),
            parameters={name: _short(value) for name, value in source.parameters.items()},
            data=build_payload(source, [*given, *known]),
        ),
    )
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

    script = '"use strict";\n(() => {\n' + "\n".join(_read(name) for name in _SCRIPTS) + "})();\n"
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (library, script)
    )
    policy = (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    own = {"policy": policy, "style": _read("page.css"), "script": script, "version": __version__}
    return render("report/templates/page.html", library=library, **own, **values)


def _read(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


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
    labelled = None
    for c in columns:
        if c.levels is not None and 2 <= len(c.levels) <= _MOST_LABELS and (c.values[placed] >= 0).all():
            labelled = c
            break
    labels = None if labelled is None else labelled.values[placed]
    scores = evaluate(graph, points, labels=labels, n_rows=sample_rows(len(placed)))
    return scores, None if labelled is None else labelled.name


def _score_rows(scores: Mapping[str, float]) -> list[tuple[str, str, str, str]]:
    """Name, value, which end is the better one, and meaning of every metric."""
    rows = []
    for name, (meaning, direction) in METRIC_MEANINGS.items():
        if name in scores:
            value = "undefined" if math.isnan(scores[name]) else f"{scores[name]:.4g}"
            rows.append((name.replace("_", " "), value, "high" if direction > 0 else "low", meaning))
    return rows


def _short(value: Any) -> str:
    text = f"array of shape {value.shape}" if hasattr(value, "shape") and value.shape else str(value)
    return text if len(text) <= 200 else text[:200] + "..."


def _facts(source: Embedding) -> dict[str, str]:
    """Sizes and the optimiser's end, in words."""
    facts = {"points": f"{source.n_points:,}", "dimensions": f"{source.n_components}"}
    missing = source.n_points - int(source.is_placed.sum())
    if missing:
        facts["not embedded"] = f"{missing:,}"
    if source.graph is not None:
        facts["edges"] = f"{source.graph.n_edges:,}"
        facts["dropped edges"] = f"{len(source.dropped_edges):,}"
    if source.component_labels is not None:
        facts["components"] = f"{len(np.unique(source.component_labels)):,}"
    if source.energy is not None:
        facts["energy"] = f"{source.energy:.4g}"
    if source.relative_energy is not None:
        facts["misfit of edges"] = f"{100 * source.relative_energy**0.5:.2g} %"
    if source.history:
        facts["steps"] = f"{source.history[-1].iteration:,}"
    if source.status is not None:
        facts["status"] = source.status
    return facts


def _notes(source: Embedding, scores: dict[str, float], voted: str | None, is_asked: bool) -> list[str]:
    notes = []
    if source.graph is None:
        notes.append(
            "The measured distances were not given: there are no neighbourhoods, metrics or Shepard diagram."
        )
    elif source.graph.n_edges > MOST_EDGES:
        notes.append(f"Neighbourhoods are left out of graphs with more than {MOST_EDGES:,} edges.")
    if scores:
        sample = int(scores["n_rows"])
        rows = "all vertices" if sample >= int(source.is_placed.sum()) else f"{sample} sampled vertices"
        notes.append(f"Global metrics and the Shepard diagram: shortest paths from {rows}.")
        if voted is not None:
            notes.append(f"Accuracy, nmi and ari are of the column {voted!r}.")
    elif source.graph is not None and not is_asked:
        notes.append("No metrics were asked for.")
    return notes
