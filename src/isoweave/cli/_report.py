"""What ``isoweave report`` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from isoweave._typing import AnyArray
from isoweave.cli._errors import printed_warnings
from isoweave.cli._progress import ProgressLine
from isoweave.io import InputFileError, match_names, read_columns, read_embedding, read_input, read_labels


def run_report(
    map_file: Path,
    output: Path,
    *,
    graph_file: Path | None,
    columns_file: Path | None,
    labels_file: Path | None,
    title: str | None,
    diagnosis: bool,
    asymmetry: str | None,
) -> None:
    """Read a map and write a page about it.

    Parameters
    ----------
    map_file : pathlib.Path
        See :func:`isoweave.io.read_embedding`; a folder is a saved model.
    output : pathlib.Path
    graph_file : pathlib.Path or None
        Measured distances, where the map does not hold them. Where both have names, rows are matched by name.
    columns_file, labels_file : pathlib.Path or None
    title : str or None
    diagnosis : bool
    asymmetry : str or None
        See :func:`isoweave.graph.graph_from_matrix`.
    """
    check_report_path(output)
    with printed_warnings(quiet=False), ProgressLine(Console(stderr=True)) as progress:
        result, names = _read_map(map_file)
        n = len(result.coordinates if hasattr(result, "coordinates") else result.embedding_)
        graph = None if graph_file is None else _read_graph(graph_file, asymmetry, n, names)
        columns = read_page_columns(columns_file, labels_file, n, names)
        progress.describe("measuring and writing")
        title = title or map_file.name
        write_page(output, result, columns, names=names, title=title, graph=graph, diagnosis=diagnosis)
    size = output.stat().st_size if output.is_file() else 0
    Console().print(f"{output}: {n:,} points, {size / 1e6:.1f} MB", highlight=False)


def write_page(
    output: Path,
    result: Any,
    columns: dict[str, AnyArray],
    *,
    names: Sequence[str] | None,
    title: str,
    graph: Any = None,
    diagnosis: bool = True,
) -> None:
    """Write the page; the extra that it needs is checked by :func:`check_report_path`."""
    from isoweave.report import write_report

    write_report(result, output, graph=graph, columns=columns, names=names, title=title, diagnosis=diagnosis)


def check_report_path(path: Path) -> None:
    """Refuse a page that could not be written, before anything is computed."""
    from isoweave.report import check_report

    check_report(path)


def read_page_columns(
    columns_file: Path | None, labels_file: Path | None, n: int, names: Sequence[str] | None
) -> dict[str, AnyArray]:
    """Labels and columns of a table, in the order of the vertices; each file may be missing."""
    columns: dict[str, AnyArray] = {}
    if labels_file is not None:
        labels = read_labels(labels_file)
        _check_rows(labels_file, len(labels), n)
        columns["label"] = labels
    if columns_file is not None:
        values, row_names = read_columns(columns_file)
        rows = len(next(iter(values.values())))
        order = match_names(columns_file, row_names, names)
        if order is None:
            _check_rows(columns_file, rows, n)
        for name, column in values.items():
            if name in columns:
                raise InputFileError(columns_file, f"column {name!r} is also given by --labels")
            columns[name] = column if order is None else column[order]
    return columns


def _read_map(path: Path) -> tuple[Any, Sequence[str] | None]:
    """A map and the names of its rows, if it has any."""
    if path.is_dir():
        from isoweave.persist import load

        model = load(path)
        if not hasattr(model, "coordinates") and not hasattr(model, "embedding_"):
            raise ValueError(f"{path}: the model was saved before it was fitted; there is no map in it.")
        return model, None
    stored = read_embedding(path)
    return stored, stored.names


def _read_graph(path: Path, asymmetry: str | None, n: int, names: Sequence[str] | None) -> Any:
    from isoweave.graph import graph_from_matrix

    loaded = read_input(path, as_graph=True)
    matrix = loaded.graph
    assert matrix is not None
    order = match_names(path, loaded.names, names)
    if order is None:
        _check_rows(path, loaded.n_rows, n)
    else:
        matrix = matrix[order][:, order]
    return graph_from_matrix(matrix, asymmetry=asymmetry or "error")


def _check_rows(path: Path, n_rows: int, n_vertices: int) -> None:
    if n_rows != n_vertices:
        raise InputFileError(path, f"{n_rows} rows, but the map has {n_vertices}")
