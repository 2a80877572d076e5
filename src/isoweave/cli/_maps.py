"""Commands that take maps: evaluate, report, plot, view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from isoweave._files import atomic_write, check_writable
from isoweave.cli._app import command
from isoweave.cli._console import ProgressLine, printed_warnings

if TYPE_CHECKING:
    from isoweave._typing import AnyArray, FloatArray
    from isoweave.io import LoadedInput

_ALIGN_HELP = "Positions to rotate the map towards, such as the truth: .npz, .npy, .csv."
_FIGURES = (".png", ".svg", ".pdf")
_GRAPH_HELP = "Distance graph: sparse square .npz, .mtx, .edges, .csv ..."
_MAP_ARGUMENT = Argument(metavar="MAP", help="What embed wrote (.npz), a saved model, or any coordinates.")


def _check_rows(path: Path, n_rows: int, n_vertices: int, what: str) -> None:
    """A file must have a row for every vertex."""
    from isoweave.io import InputFileError

    if n_rows != n_vertices:
        have = "have" if what == "features" else "has"
        raise InputFileError(path, f"{n_rows} rows, but the {what} {have} {n_vertices}")


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
    columns_file: Path | None,
    labels_file: Path | None,
    n: int,
    names: Sequence[str] | None,
    genes: str | None = None,
) -> dict[str, AnyArray]:
    """Labels and columns of a table, in the order of the vertices; each file may be missing.

    Of an .h5ad file the columns of obs, and genes, separated by commas.
    """
    from isoweave.io import InputFileError, match_names, read_annotations, read_columns, read_labels

    is_annotated = columns_file is not None and columns_file.suffix.lower() == ".h5ad"
    if genes is not None and not is_annotated:
        raise ValueError("--genes are read from an .h5ad file; give it as INPUT or by --columns.")

    columns: dict[str, AnyArray] = {}
    if labels_file is not None:
        columns["label"] = read_labels(labels_file)
        _check_rows(labels_file, len(columns["label"]), n, "map")
    if columns_file is not None:
        if is_annotated:
            found, row_names = read_annotations(columns_file, [g for g in (genes or "").split(",") if g])
        else:
            found, row_names = read_columns(columns_file)
        order = match_names(columns_file, row_names, names)
        for name, values in found.items():
            if order is None:
                _check_rows(columns_file, len(values), n, "map")
            if name in columns:
                raise InputFileError(columns_file, f"column {name!r} is also given by --labels")
            columns[name] = values if order is None else values[order]
    return columns


@command(
    *("metric", "asymmetry"),
    input_file=Argument(metavar="INPUT", help="What the map was made from: features, or a distance graph."),
    embedding_file=Argument(metavar="EMBEDDING", help="Coordinates: .npz (array embedding), .npy, .csv."),
    n_neighbors=Option(
        *("--n-neighbors", "-k"),
        help="Neighbours and voters for labels.",
        show_default="smallest degree; 10 for features",
    ),
    board=Option(help="The measures of a board, on features, instead: openproblems.", metavar="NAME"),
    truth=Option(help="True positions; adds parameter_error (affine) and procrustes_error (rigid)."),
)
def evaluate(
    input_file: Path,
    embedding_file: Path,
    options: dict[str, Any],
    as_graph: bool | None = None,
    n_neighbors: int | None = None,
    board: str | None = None,
    labels_file: Path | None = None,
    truth: Path | None = None,
    as_json: bool = False,
) -> None:
    """Measure how well an embedding made by any tool keeps a graph's distances.

    Features are first turned into the graph of their nearest neighbours. A square array is taken for a graph
    unless --features is given. Where input and coordinates both have names, rows are matched by name.
    """
    import json

    from rich.console import Console

    from isoweave.cli._fit import check_foreign, model_and_data
    from isoweave.io import read_labels
    from isoweave.metrics import board_scores, evaluate as evaluated

    if board not in (None, "openproblems"):
        raise ValueError(f"--board {board}: unknown board; the only one is openproblems.")
    unused = options | {"n_neighbors": n_neighbors, "truth": truth, "graph": as_graph or None}
    for name in (name for name, value in unused.items() if board and value is not None):
        raise ValueError(f"--board has its own measures; leave out --{name.replace('_', '-')}.")
    with printed_warnings(), ProgressLine() as progress:
        loaded = _read_reference(input_file, as_graph, board)
        n = loaded.n_rows
        points = read_points(embedding_file, n, loaded.names, of=loaded.kind)
        known: dict[str, Any] = {}
        if truth is not None:
            known["truth"] = read_points(truth, n, loaded.names, of=loaded.kind)
        if labels_file is not None:
            known["labels"] = read_labels(labels_file)
            _check_rows(labels_file, len(known["labels"]), n, loaded.kind)
        progress.describe("measuring")
        if board is not None:
            scores = board_scores(loaded.features, points, labels=known.get("labels"))
        else:
            check_foreign(loaded, input_file, options)
            model, data = model_and_data(loaded, options)
            graph, _ = model.set_params(n_neighbors=n_neighbors or min(10, n - 1)).graph_of(data)
            scores = evaluated(graph, points, n_neighbors=n_neighbors, **known)
    if as_json:
        print(json.dumps({k: None if math.isnan(v) else v for k, v in scores.items()}, indent=2))
    else:
        Console().print(_scores_table(scores, n))


def _read_reference(input_file: Path, as_graph: bool | None, board: str | None) -> LoadedInput:
    """Features or graph to compare a map with; a square array is a graph unless it is said to be features."""
    from isoweave.io import read_input

    loaded = read_input(input_file, as_graph=False if board else as_graph)
    square = loaded.features is not None and loaded.features.shape[0] == loaded.features.shape[1]
    return read_input(input_file, as_graph=True) if square and as_graph is None and not board else loaded


def _scores_table(scores: dict[str, float], n: int) -> Any:
    from rich.table import Table

    from isoweave.metrics import BOARD_MEANINGS, METRIC_MEANINGS

    caption, meanings = f"{n:,} points; the openproblems board", BOARD_MEANINGS
    if "n_neighbors" in scores:
        k, n_rows = int(scores["n_neighbors"]), int(scores["n_rows"])
        sampled = "" if n_rows == n else f"; global metrics from {n_rows:,} sampled rows"
        caption, meanings = f"{n:,} vertices, n_neighbors = {k}{sampled}", METRIC_MEANINGS
    table = Table("metric", "value", "best", "meaning", caption=caption, caption_justify="left")
    table.columns[0].no_wrap, table.columns[1].justify = True, "right"
    for name, (meaning, direction) in meanings.items():
        if name in scores:
            value = "undefined" if math.isnan(scores[name]) else f"{scores[name]:.4g}"
            table.add_row(name, value, "high" if direction > 0 else "low", meaning)
    return table


def mesh_page(loaded: LoadedInput, name: str) -> dict[str, Any]:
    """What the page of a flattened mesh shows beside the map: the surface, if the input was one."""
    if loaded.mesh is None:
        return {}
    return {"faces": loaded.mesh.triangles, "beside": {name: loaded.mesh.vertices}}


@command(
    "asymmetry",
    map_file=_MAP_ARGUMENT,
    output=Option("--output", "-o", help="Where to write the page (.html)."),
    graph_file=Option("--graph", "-g", help=_GRAPH_HELP, show_default="the one in MAP"),
    align=Option(help=_ALIGN_HELP),
    beside=Option(help="Another map of the same points, or the truth, to show beside it: .npz, .npy, .csv."),
    mesh=Option(help="The mesh that was embedded (.obj, .off, .ply), drawn as a surface and beside the map."),
    title=Option(help="Title of the page.", show_default="name of MAP"),
    diagnosis=Option(help="Run the diagnosis, which takes about as long as the embedding."),
)
def report(
    map_file: Path,
    output: Path,
    options: dict[str, Any],
    graph_file: Path | None = None,
    columns_file: Path | None = None,
    genes: str | None = None,
    labels_file: Path | None = None,
    align: Path | None = None,
    beside: Path | None = None,
    mesh: Path | None = None,
    title: str | None = None,
    diagnosis: bool = True,
) -> None:
    """Write one interactive page about a map; it opens without a network."""
    from rich.console import Console

    from isoweave.graph import graph_from_matrix
    from isoweave.io import InputFileError, match_names, read_input
    from isoweave.report import check_report, write_report
    from isoweave.result import as_embedding

    check_report(output)
    with printed_warnings(), ProgressLine():
        found = as_embedding(map_file)
        given: dict[str, Any] = {"names": found.names, "title": title or map_file.name}
        given["columns"] = page_columns(columns_file, labels_file, found.n_points, found.names, genes)
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
        if mesh is not None:
            loaded = read_input(mesh)
            if loaded.mesh is None:
                raise InputFileError(mesh, "is no mesh (.obj, .off, .ply)")
            _check_rows(mesh, loaded.n_rows, found.n_points, "map")
            given |= mesh_page(loaded, mesh.name)
        if beside is not None:
            places = read_points(beside, found.n_points, found.names, of="map", some=True)
            given["beside"] = {beside.name: places}
        write_report(found, output, diagnosis=diagnosis, **given)
    size = output.stat().st_size if output.is_file() else 0
    Console().print(f"{output}: {found.n_points:,} points, {size / 1e6:.1f} MB", highlight=False)


def _draw(coordinates: Any, color: str | None, columns: dict[str, Any], **options: Any) -> Any:
    """Axes with points coloured by a column, or by something that is known about the map."""
    from isoweave.plot import plot_embedding

    known = [*columns, "stretch", "edge_error", "component"]
    if color is None:
        color = next(iter(columns), None)
    elif color not in known:
        names = ", ".join(known)
        more = "" if columns else ", or give a table of columns with --columns"
        raise ValueError(f"--color {color}: there is no such column; choose one of {names}{more}.")
    if color not in columns:
        return plot_embedding(coordinates, color, **options)
    ax: Any = plot_embedding(coordinates, columns[color], **options)
    if ax.figure.legends:
        ax.figure.legends[0].set_title(color)
    elif ax.collections[0].get_array() is not None:
        ax.figure.colorbar(ax.collections[0], ax=ax, label=color, shrink=0.7)
    return ax


def _save_figure(path: Path, ax: Any, caption: str) -> None:
    import matplotlib.pyplot as plt

    shape = ax.dataLim.height / (ax.dataLim.width or 1.0)
    ax.figure.set_size_inches(7.0, 0.6 + min(max(6.0 * shape, 2.0), 7.0))
    ax.figure.supxlabel(caption, fontsize="x-small", wrap=True)
    with atomic_write(path) as file:
        ax.figure.savefig(file, format=path.suffix[1:].lower(), dpi=200)
    plt.close(ax.figure)


def _check_figure(path: Path) -> None:
    if path.suffix.lower() not in _FIGURES:
        raise ValueError(f"cannot write {path}: its name must end in {', '.join(_FIGURES[:-1])} or .pdf.")
    check_writable(path)


@command(
    map_file=_MAP_ARGUMENT,
    output=Option("--output", "-o", help="Where to write the figure: .png, .svg or .pdf."),
    color=Option(help="A column, stretch, edge_error or component.", show_default="the first column"),
    align=Option(help=_ALIGN_HELP),
    edges=Option("--edges", help="Draw the edges of the graph, by distortion, instead of the points."),
    title=Option(help="Title of the figure."),
)
def plot(
    map_file: Path,
    output: Path,
    color: str | None = None,
    columns_file: Path | None = None,
    labels_file: Path | None = None,
    align: Path | None = None,
    edges: bool = False,
    title: str | None = None,
) -> None:
    """Draw a map as a figure with a caption: in many dimensions, its two principal axes."""
    _check_figure(output)
    from isoweave.plot import by_variance, plot_edges, turned_towards
    from isoweave.result import as_embedding

    with printed_warnings(), ProgressLine() as progress:
        found = as_embedding(map_file)
        columns = page_columns(columns_file, labels_file, found.n_points, found.names)
        progress.describe("drawing")
        turned, caption = by_variance(found)
        if align is not None:
            known = read_points(align, found.n_points, found.names, of="map", some=True)
            turned = turned_towards(turned, known)
        first = (0, 1) if found.n_components > 2 else None
        if edges:
            if color is not None:
                raise ValueError("--edges are coloured by their distortion; leave --color out.")
            ax = plot_edges(turned, components=first)
        else:
            ax = _draw(turned, color, columns, components=first)
        if title is not None:
            ax.set_title(title)
        _save_figure(output, ax, caption)
    print(f"{output}: {caption}")


@command(
    map_file=_MAP_ARGUMENT,
    output=Option(
        "--output", "-o", help="Coordinates (.npz, .npy, .csv), figure (.png, .svg, .pdf) or page (.html)."
    ),
    color=Option(help="Column to colour a figure by.", show_default="the first column"),
    pull=Option(help="From 0, t-SNE alone, to 1, hardly more than the order of distances."),
    perplexity=Option(help="Number of neighbours that attract a point."),
)
def view(
    map_file: Path,
    output: Path,
    color: str | None = None,
    columns_file: Path | None = None,
    labels_file: Path | None = None,
    pull: float = 0.05,
    perplexity: float = 30.0,
) -> None:
    """Draw the clusters of a map of many dimensions, and say what the picture keeps.

    t-SNE (openTSNE, extra view) on the graph's neighbours, held in place by the order of the map's distances.
    """
    from isoweave.io import check_output_path, write_embedding
    from isoweave.plot import view as viewed
    from isoweave.report import check_report, write_report
    from isoweave.result import as_embedding

    suffix = output.suffix.lower()
    if suffix in _FIGURES:
        _check_figure(output)
    elif suffix in (".html", ".htm"):
        check_report(output)
    else:
        check_output_path(output)
    with printed_warnings(), ProgressLine() as progress:
        found = as_embedding(map_file)
        columns = page_columns(columns_file, labels_file, found.n_points, found.names)
        progress.describe("t-SNE")
        made = viewed(found, pull=pull, perplexity=perplexity)
        if suffix in _FIGURES:
            _save_figure(output, _draw(made.coordinates, color, columns), made.caption)
        elif suffix in (".html", ".htm"):
            write_report(found, output, columns=columns, names=found.names, view=made, title=map_file.name)
        else:
            write_embedding(output, made.coordinates, names=found.names)
    print(f"{output}: {made.caption}")
