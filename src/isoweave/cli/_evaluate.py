"""What ``isoweave evaluate`` does."""

from __future__ import annotations

import json
import math
from pathlib import Path

from rich.console import Console
from rich.table import Table

from isoweave.cli._errors import printed_warnings
from isoweave.cli._progress import ProgressLine
from isoweave.graph import graph_from_matrix
from isoweave.io import InputFileError, match_names, read_embedding, read_input, read_labels
from isoweave.metrics import METRIC_MEANINGS, evaluate


def run_evaluate(
    graph_file: Path,
    embedding_file: Path,
    *,
    n_neighbors: int | None,
    labels_file: Path | None,
    truth_file: Path | None,
    asymmetry: str | None,
    as_json: bool,
) -> None:
    """Print every metric of an embedding as a table or as JSON.

    Parameters
    ----------
    graph_file, embedding_file : pathlib.Path
        See :func:`isoweave.io.read_input` and :func:`isoweave.io.read_embedding`. Where both name their
        rows, the embedding's are put in the graph's order.
    n_neighbors : int or None
    labels_file, truth_file : pathlib.Path or None
    asymmetry : str or None
        See :func:`isoweave.graph.graph_from_matrix`.
    as_json : bool
        One object, metrics by name; NaN is null.
    """
    with printed_warnings(quiet=False), ProgressLine(Console(stderr=True)) as progress:
        loaded = read_input(graph_file, as_graph=True)
        graph = graph_from_matrix(loaded.graph, asymmetry=asymmetry or "error")
        n = graph.n_vertices
        found = read_embedding(embedding_file)
        _check_rows(embedding_file, len(found.coordinates), n)
        order = match_names(embedding_file, found.names, loaded.names)
        points = found.coordinates if order is None else found.coordinates[order]
        truth = None
        if truth_file is not None:
            given = read_embedding(truth_file)
            _check_rows(truth_file, len(given.coordinates), n)
            order = match_names(truth_file, given.names, loaded.names)
            truth = given.coordinates if order is None else given.coordinates[order]
        labels = None if labels_file is None else read_labels(labels_file)
        if labels_file is not None and labels is not None:
            _check_rows(labels_file, len(labels), n)
        progress.describe("measuring")
        scores = evaluate(graph, points, n_neighbors=n_neighbors, labels=labels, truth=truth)
    if as_json:
        print(json.dumps({k: None if math.isnan(v) else v for k, v in scores.items()}, indent=2))
    else:
        Console().print(_table(scores, n))


def _check_rows(path: Path, n_rows: int, n_vertices: int) -> None:
    if n_rows != n_vertices:
        raise InputFileError(path, f"{n_rows} rows, but the graph has {n_vertices} vertices")


def _table(scores: dict[str, float], n: int) -> Table:
    k, n_rows = int(scores["n_neighbors"]), int(scores["n_rows"])
    sampled = "" if n_rows == n else f"; global metrics from {n_rows:,} sampled rows"
    caption = f"{n:,} vertices, n_neighbors = {k}{sampled}"
    table = Table("metric", "value", "best", "meaning", caption=caption, caption_justify="left")
    table.columns[1].justify = "right"
    for name, (meaning, direction) in METRIC_MEANINGS.items():
        if name in scores:
            value = "undefined" if math.isnan(scores[name]) else f"{scores[name]:.4g}"
            table.add_row(name, value, "high" if direction > 0 else "low", meaning)
    return table
