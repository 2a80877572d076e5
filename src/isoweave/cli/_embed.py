"""What ``isoweave embed`` does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from isoweave.cli._errors import option_mismatch, printed_warnings
from isoweave.cli._progress import ProgressLine
from isoweave.cli._report import check_report_path, read_page_columns, write_page
from isoweave.cli._signals import sigterm_as_interrupt
from isoweave.io import LoadedInput, check_output_path, read_anchors, read_input, write_embedding

# Options that mean nothing for one kind of input: refused, because the user expects them to do something.
FOREIGN_OPTIONS = {"graph": ("metric", "n_neighbors"), "features": ("asymmetry",)}


def run_embed(
    input_file: Path,
    output: Path,
    options: dict[str, Any],
    *,
    as_graph: bool | None,
    quiet: bool,
    verbose: bool,
    anchors: Path | None = None,
    anchor_weight: float | None = None,
    report: Path | None = None,
    columns_file: Path | None = None,
) -> None:
    """Read, embed, write, summarise.

    Parameters
    ----------
    input_file, output : pathlib.Path
    options : dict
        Parameters of the estimator that were given, by name.
    as_graph : bool or None
        See :func:`isoweave.io.read_input`.
    quiet, verbose : bool
    anchors : pathlib.Path or None
        File with known positions.
    anchor_weight : float or None
    report : pathlib.Path or None
        Where to write a page about the map.
    columns_file : pathlib.Path or None
        Columns of that page.
    """
    check_output_path(output)
    if report is not None:
        check_report_path(report)
    elif columns_file is not None:
        raise ValueError("--columns is for the page of --report; give both.")
    options = {name: parse_value(value) for name, value in options.items()}
    progress = ProgressLine(Console(stderr=True), enabled=not quiet, verbose=verbose)
    with sigterm_as_interrupt(), printed_warnings(quiet), progress:
        loaded = read_input(input_file, as_graph=as_graph)
        columns = read_page_columns(columns_file, None, loaded.n_rows, loaded.names)
        for name in FOREIGN_OPTIONS[loaded.kind]:
            if name in options:
                raise option_mismatch(name, input_file, loaded.kind)
        if loaded.kind == "graph":
            options["metric"] = "precomputed"
        known = _known(loaded, anchors, anchor_weight)
        started = time.perf_counter()
        estimator = _fit(loaded, options, known)
        seconds = time.perf_counter() - started

    write_embedding(output, estimator, names=loaded.names)
    if report is not None:
        with printed_warnings(quiet), ProgressLine(Console(stderr=True), enabled=not quiet) as progress:
            progress.describe("writing the report")
            write_page(report, estimator, columns, names=loaded.names, title=output.name)
    if not quiet:
        Console().print(_summary(estimator, seconds, output))


def parse_value(value: Any) -> Any:
    """A number where the text of an option is one, otherwise the text; other types pass through."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def checkpoint_options(file: Path | None, every: float | None, resume: bool) -> dict[str, Any]:
    """The estimator's ``checkpoint`` from the options of the command."""
    if file is None:
        for name, is_given in (("--every", every is not None), ("--resume", resume)):
            if is_given:
                raise ValueError(f"{name} needs --checkpoint FILE.")
        return {}
    from isoweave import Checkpoint

    return {"checkpoint": Checkpoint(file, every=every, resume=resume)}


def _known(loaded: LoadedInput, anchors: Path | None, anchor_weight: float | None) -> dict[str, Any]:
    """Anchors as keywords of ``fit``; none without a file."""
    if anchors is None:
        if anchor_weight is not None:
            raise ValueError("--anchor-weight was given without --anchors; give both.")
        return {}
    from isoweave.known import Anchors

    return {"anchors": Anchors(*read_anchors(anchors, loaded.n_rows, loaded.names), anchor_weight)}


def _fit(loaded: LoadedInput, options: dict[str, Any], known: dict[str, Any]) -> Any:
    from isoweave import IsometricEmbedding

    source = loaded.features if loaded.kind == "features" else loaded.graph
    return IsometricEmbedding(**options).fit(source, **known)


def _summary(estimator: Any, seconds: float, output: Path) -> Table:
    table = Table(title=str(output), show_header=False, title_justify="left")
    graph = estimator.graph_
    rows = {
        "points": f"{len(estimator.embedding_):,}",
        "dimension": f"{estimator.embedding_.shape[1]}",
        "edges": f"{graph.nnz // 2:,}",
        "components": f"{len(np.unique(estimator.component_labels_)):,}",
        "dropped edges": f"{len(estimator.dropped_edges_):,}",
        "energy": f"{estimator.energy_:.6g}",
        "misfit of edges": f"{100 * estimator.relative_energy_**0.5:.2g} %",
        "steps": f"{estimator.n_iter_:,}",
        "status": f"{estimator.status_}",
        "seconds": f"{seconds:.2f}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table
