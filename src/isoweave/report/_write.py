"""Writing the page."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._files import check_writable, write_text
from isoweave.plot._source import MapSource, read_map
from isoweave.report._columns import Column, map_columns, user_columns
from isoweave.report._encode import encode_numbers
from isoweave.report._html import Sections, build_page, import_plotlyjs
from isoweave.report._local_fit import fit_frames
from isoweave.report._parts import (
    MOST_EDGES,
    find_verdict,
    graph_payload,
    measure,
    principal_axes,
    shepard_payload,
)


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
    """Write one interactive HTML page about a map; it opens without network and needs no other file.

    The map can be zoomed, hovered and coloured by any column; a vertex that is clicked shows its
    neighbourhood as measured and in the map. Below: what the diagnosis says, the metrics, a Shepard diagram
    and the energy by step.

    Parameters
    ----------
    result : Embedding, fitted estimator, or array of shape (n, N)
        Any N; also what :func:`isoweave.io.read_embedding` returns, and estimators of other packages that
        have ``embedding_``.
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
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"cannot write {path}: a report is a page, and its name must end in .html.")
    check_writable(path)
    library = import_plotlyjs()
    source = read_map(result, graph)
    if names is not None:
        source = replace(source, names=_checked_names(names, source.n_points))
    given = user_columns(columns, source.n_points)
    found, why_not = find_verdict(source, result if graph is None else source, diagnosis, n_jobs)
    curvature = getattr(found, "curvature", None)
    fit = None if source.graph is None else fit_frames(source, n_jobs)
    all_columns = [*given, *map_columns(source, fit, curvature, {column.name for column in given})]
    scores, voted = measure(source, given) if metrics else ({}, None)
    sections = Sections(
        title=title or "isoweave report",
        facts=_facts(source),
        notes=_notes(source, scores, voted, metrics),
        verdicts=tuple(getattr(found, "verdicts", ())),
        no_verdict=why_not,
        scores=scores,
        parameters=source.parameters,
    )
    write_text(path, build_page(sections, _payload(source, all_columns), library))
    return path


def _checked_names(names: Any, n: int) -> tuple[str, ...]:
    if isinstance(names, str):
        raise TypeError(f"names must be one name per point, got the string {names!r}.")
    found = tuple(str(name) for name in names)
    if len(found) != n:
        raise ValueError(f"names has {len(found)} entries, but the map has {n} points.")
    return found


def _payload(source: MapSource, columns: list[Column]) -> dict[str, Any]:
    """Everything the page's script reads."""
    steps = [r for r in source.history if np.isfinite(r.energy)]
    return {
        "n": source.n_points,
        "dimension": source.n_components,
        "coordinates": [encode_numbers(axis) for axis in source.coordinates.T],
        "principal": principal_axes(source.coordinates),
        "names": None if source.names is None else list(source.names),
        "columns": [column.payload() for column in columns],
        "graph": graph_payload(source),
        "shepard": shepard_payload(source),
        "history": {"step": [r.iteration for r in steps], "energy": [float(r.energy) for r in steps]},
    }


def _facts(source: MapSource) -> dict[str, str]:
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


def _notes(source: MapSource, scores: dict[str, float], voted: str | None, is_asked: bool) -> list[str]:
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
