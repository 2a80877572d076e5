"""Commands that make pictures of maps: plot and view."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Option

from isoweave.cli._app import command
from isoweave.cli._console import ProgressLine, printed_warnings
from isoweave.cli._maps import ALIGN_HELP, MAP_ARGUMENT, page_columns, read_points

_FIGURES = (".png", ".svg", ".pdf")


def _draw(coordinates: Any, color: str | None, columns: dict[str, Any], **options: Any) -> Any:
    """Axes with points coloured by a column, or by something that is known about the map."""
    from isoweave.plot import plot_embedding

    known = ("stretch", "edge_error", "component")
    if color is None:
        color = next(iter(columns), None)
    elif color not in columns and color not in known:
        names = ", ".join([*columns, *known])
        more = "" if columns else ", or give a table of columns with --columns"
        raise ValueError(f"--color {color}: there is no such column; choose one of {names}{more}.")
    if color is None or color not in columns:
        return plot_embedding(coordinates, color, **options)
    ax: Any = plot_embedding(coordinates, columns[color], **options)
    if ax.figure.legends:
        ax.figure.legends[0].set_title(color)
    elif ax.collections[0].get_array() is not None:
        ax.figure.colorbar(ax.collections[0], ax=ax, label=color, shrink=0.7)
    return ax


def _save_figure(path: Path, ax: Any, caption: str) -> None:
    import matplotlib.pyplot as plt

    from isoweave._files import atomic_write

    shape = ax.dataLim.height / (ax.dataLim.width or 1.0)
    ax.figure.set_size_inches(7.0, 0.6 + min(max(6.0 * shape, 2.0), 7.0))
    ax.figure.supxlabel(caption, fontsize="x-small", wrap=True)
    with atomic_write(path) as file:
        ax.figure.savefig(file, format=path.suffix[1:].lower(), dpi=200)
    plt.close(ax.figure)


def _check_figure(path: Path) -> None:
    from isoweave._files import check_writable

    if path.suffix.lower() not in _FIGURES:
        raise ValueError(f"cannot write {path}: its name must end in {', '.join(_FIGURES[:-1])} or .pdf.")
    check_writable(path)


@command(
    map_file=MAP_ARGUMENT,
    output=Option("--output", "-o", help="Where to write the figure: .png, .svg or .pdf."),
    color=Option(help="A column, stretch, edge_error or component.", show_default="the first column"),
    align=Option(help=ALIGN_HELP),
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
    map_file=MAP_ARGUMENT,
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
