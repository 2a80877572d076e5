"""Commands that take maps: evaluate, report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from isoweave.cli._app import command
from isoweave.cli._console import ProgressLine, printed_warnings

if TYPE_CHECKING:
    from isoweave._typing import AnyArray, FloatArray

_GRAPH_HELP = "Distance graph: sparse square .npz, .mtx, .edges, .csv ..."
MAP_ARGUMENT = Argument(metavar="MAP", help="What embed wrote (.npz), a saved model, or any coordinates.")


def _check_rows(path: Path, n_rows: int, n_vertices: int, what: str) -> None:
    """A file must have a row for every vertex."""
    from isoweave.io import InputFileError

    if n_rows != n_vertices:
        raise InputFileError(path, f"{n_rows} rows, but the {what} has {n_vertices}")


def read_points(
    path: Path, n_vertices: int, names: Sequence[str] | None, *, of: str = "graph", some: bool = False
) -> FloatArray:
    """Coordinates of all (or some) vertices of a graph or map, in its order: by name if both have names."""
    from isoweave.io import InputFileError, match_names, read_embedding

    found = read_embedding(path)
    _check_rows(path, found.n_points, n_vertices, of)
    if not some and not found.is_placed.all():
        raise InputFileError(path, f"row {int(found.is_placed.argmin())} has no coordinates")
    order = match_names(path, found.names, names)
    return found.coordinates if order is None else found.coordinates[order]


def page_columns(
    columns_file: Path | None, labels_file: Path | None, n: int, names: Sequence[str] | None
) -> dict[str, AnyArray]:
    """Labels and columns of a table, in the order of the vertices; each file may be missing."""
    from isoweave.io import InputFileError, match_names, read_columns, read_labels

    columns: dict[str, AnyArray] = {}
    if labels_file is not None:
        columns["label"] = read_labels(labels_file)
        _check_rows(labels_file, len(columns["label"]), n, "map")
    if columns_file is not None:
        found, row_names = read_columns(columns_file)
        order = match_names(columns_file, row_names, names)
        if order is None:
            _check_rows(columns_file, len(next(iter(found.values()))), n, "map")
        for name, values in found.items():
            if name in columns:
                raise InputFileError(columns_file, f"column {name!r} is also given by --labels")
            columns[name] = values if order is None else values[order]
    return columns


@command(
    "asymmetry",
    graph_file=Argument(metavar="GRAPH", help=_GRAPH_HELP),
    embedding_file=Argument(metavar="EMBEDDING", help="Coordinates: .npz (array embedding), .npy, .csv."),
    n_neighbors=Option(
        *("--n-neighbors", "-k"), help="Neighbours and voters for labels.", show_default="smallest degree"
    ),
    truth=Option(help="True positions; adds parameter_error (affine) and procrustes_error (rigid)."),
)
def evaluate(
    graph_file: Path,
    embedding_file: Path,
    options: dict[str, Any],
    n_neighbors: int | None = None,
    labels_file: Path | None = None,
    truth: Path | None = None,
    as_json: bool = False,
) -> None:
    """Measure how well an embedding, by any tool, keeps a graph's distances.

    Where graph and coordinates both name their rows, they are matched by name.
    """
    import json

    from rich.console import Console

    from isoweave.graph import graph_from_matrix
    from isoweave.io import read_input, read_labels
    from isoweave.metrics import evaluate as evaluated

    with printed_warnings(), ProgressLine() as progress:
        loaded = read_input(graph_file, as_graph=True)
        graph = graph_from_matrix(loaded.graph, **options)
        n = graph.n_vertices
        points = read_points(embedding_file, n, loaded.names)
        known: dict[str, Any] = {}
        if truth is not None:
            known["truth"] = read_points(truth, n, loaded.names)
        if labels_file is not None:
            known["labels"] = read_labels(labels_file)
            _check_rows(labels_file, len(known["labels"]), n, "graph")
        progress.describe("measuring")
        scores = evaluated(graph, points, n_neighbors=n_neighbors, **known)
    if as_json:
        print(json.dumps({k: None if math.isnan(v) else v for k, v in scores.items()}, indent=2))
    else:
        Console().print(_scores_table(scores, n))


def _scores_table(scores: dict[str, float], n: int) -> Any:
    from rich.table import Table

    from isoweave.metrics import METRIC_MEANINGS

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


@command(
    "asymmetry",
    map_file=MAP_ARGUMENT,
    output=Option("--output", "-o", help="Where to write the page (.html)."),
    graph_file=Option("--graph", "-g", help=_GRAPH_HELP, show_default="the one in MAP"),
    align=Option(help="Positions to rotate the map towards, such as the truth: .npz, .npy, .csv."),
    title=Option(help="Title of the page.", show_default="name of MAP"),
    diagnosis=Option(help="Run the diagnosis, which takes about as long as the embedding."),
)
def report(
    map_file: Path,
    output: Path,
    options: dict[str, Any],
    graph_file: Path | None = None,
    columns_file: Path | None = None,
    labels_file: Path | None = None,
    align: Path | None = None,
    title: str | None = None,
    diagnosis: bool = True,
) -> None:
    """Write one interactive page about a map; it opens without a network."""
    from rich.console import Console

    from isoweave.graph import graph_from_matrix
    from isoweave.io import match_names, read_input
    from isoweave.report import check_report, write_report
    from isoweave.result import as_embedding

    check_report(output)
    with printed_warnings(), ProgressLine():
        found = as_embedding(map_file)
        given: dict[str, Any] = {"names": found.names, "title": title or map_file.name}
        given["columns"] = page_columns(columns_file, labels_file, found.n_points, found.names)
        if graph_file is not None:
            loaded = read_input(graph_file, as_graph=True)
            matrix: Any = loaded.graph
            order = match_names(graph_file, loaded.names, found.names)
            if order is None:
                _check_rows(graph_file, loaded.n_rows, found.n_points, "map")
            else:
                matrix = matrix[order][:, order]
            given["graph"] = graph_from_matrix(matrix, **options)
        if align is not None:
            given["align"] = read_points(align, found.n_points, found.names, of="map", some=True)
        write_report(found, output, diagnosis=diagnosis, **given)
    size = output.stat().st_size if output.is_file() else 0
    Console().print(f"{output}: {found.n_points:,} points, {size / 1e6:.1f} MB", highlight=False)
