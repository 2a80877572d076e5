"""What ``isoweave forecast`` does."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from isoweave._memory import process_status, resident_bytes, show_bytes
from isoweave.cli._embed import FOREIGN_OPTIONS, parse_value
from isoweave.cli._errors import option_mismatch, printed_warnings
from isoweave.cli._progress import ProgressLine
from isoweave.forecast import ResourceEstimate, StageEstimate, estimate_resources
from isoweave.graph import (
    NeighborGraph,
    bridge_components,
    choose_n_components,
    graph_from_matrix,
    intrinsic_dimension,
    intrinsic_dimension_graph,
    knn_graph,
)
from isoweave.io import read_input
from isoweave.options import resolve_options

# Exit code of a fit that does not fit; 2 is for errors.
DOES_NOT_FIT = 3


def run_forecast(input_file: Path, options: dict[str, Any], *, as_graph: bool | None, as_json: bool) -> None:
    """Print what a fit will need; exit with code 3 if it would exceed its limit.

    Parameters
    ----------
    input_file : pathlib.Path
    options : dict
        Parameters of the estimator that were given, by name.
    as_graph : bool or None
        See :func:`isoweave.io.read_input`.
    as_json : bool
    """
    options = {name: parse_value(value) for name, value in options.items()}
    with printed_warnings(quiet=False), ProgressLine(Console(stderr=True)) as progress:
        loaded = read_input(input_file, as_graph=as_graph)
        for name in FOREIGN_OPTIONS[loaded.kind]:
            if name in options:
                raise option_mismatch(name, input_file, loaded.kind)
        n_components = options.pop("n_components", 2)
        _check(options, n_components)
        neighbours: StageEstimate | None = None
        if loaded.kind == "graph":
            graph: Any = loaded.graph
            if options.get("components") == "bridge":
                raise ValueError(
                    "components='bridge' needs features to measure distances between components."
                )
            if n_components == "auto":
                checked = graph_from_matrix(graph, asymmetry=options.get("asymmetry", "error"))
                n_components = min(
                    choose_n_components(intrinsic_dimension_graph(checked)), graph.shape[0] - 1
                )
        else:
            progress.describe("nearest neighbours")
            before, clock = resident_bytes(), time.process_time()
            graph, n_components = _graph_of(loaded.features, options, n_components)
            growth = process_status().get("VmHWM", resident_bytes()) - before
            neighbours = StageEstimate("neighbours", growth, time.process_time() - clock)
        progress.describe("counting")
        estimate = estimate_resources(graph, n_components, **options)
    if neighbours is not None:
        estimate = _with_neighbours(estimate, neighbours, before)
    if as_json:
        print(json.dumps({**asdict(estimate), "n_components": n_components, "fits": estimate.fits}, indent=2))
    else:
        Console().print(_table(estimate, input_file, n_components))
    if not estimate.fits:
        raise typer.Exit(DOES_NOT_FIT)


def _check(options: dict[str, Any], n_components: Any) -> None:
    """Refuse bad options before the search for neighbours."""
    elsewhere = ("metric", "n_neighbors", "asymmetry", "n_jobs")
    resolve_options(
        1 if n_components == "auto" else n_components,
        **{name: value for name, value in options.items() if name not in elsewhere},
    )


def _at_most(dimension: float, graph: NeighborGraph) -> int:
    """An estimated dimension, never more than the points can span."""
    return min(choose_n_components(dimension), graph.n_vertices - 1)


def _graph_of(features: Any, options: dict[str, Any], n_components: Any) -> tuple[NeighborGraph, Any]:
    """The graph the estimator would make, and the dimension; takes its own options out of the rest."""
    metric = options.pop("metric", "euclidean")
    n_neighbors = options.pop("n_neighbors", 10)
    n_jobs = options.get("n_jobs")
    if isinstance(n_neighbors, int) and n_neighbors >= len(features):
        n_neighbors = len(features) - 1
    graph = knn_graph(features, n_neighbors, metric=metric, n_jobs=n_jobs)
    if n_components == "auto":
        value = intrinsic_dimension(features, metric=metric, n_jobs=n_jobs)
        n_components = _at_most(value, graph)
    if options.get("components") == "bridge" and isinstance(n_components, int):
        graph = bridge_components(graph, features, metric=metric, n_bridges=n_components + 1)
    return graph, n_components


def _with_neighbours(estimate: ResourceEstimate, stage: StageEstimate, before: int) -> ResourceEstimate:
    """With the neighbour search, whose memory and time were measured, in front."""
    # All growth is told from before the search; the graph it made is there during the fit.
    kept = estimate.peak_bytes - estimate.growth_bytes - before
    stages = tuple(replace(s, growth_bytes=s.growth_bytes + kept) for s in estimate.stages)
    growth = max(stage.growth_bytes, estimate.growth_bytes + kept)
    return replace(
        estimate,
        stages=(stage, *stages),
        growth_bytes=growth,
        peak_bytes=before + growth,
        cpu_seconds=estimate.cpu_seconds + stage.cpu_seconds,
        seconds=estimate.seconds + stage.cpu_seconds,
    )


def _table(estimate: ResourceEstimate, input_file: Path, n_components: int) -> Table:
    limit = "none" if estimate.limit_bytes is None else show_bytes(estimate.limit_bytes)
    verdict = "fits" if estimate.fits else "does not fit"
    if estimate.limit_bytes is not None:
        verdict += f": {show_bytes(estimate.peak_bytes)} of {limit} ({estimate.limit_source})"
    table = Table(title=str(input_file), show_header=False, title_justify="left")
    table.add_row("vertices", f"{estimate.n_vertices:,}")
    table.add_row("edges", f"{estimate.n_edges:,}")
    table.add_row("dimension", f"{n_components}")
    table.add_row("solver", f"{estimate.solver}: {estimate.solver_reason}")
    base = estimate.peak_bytes - estimate.growth_bytes
    for stage in estimate.stages:
        mark = "  (peak)" if stage is estimate.fullest else ""
        text = f"{show_bytes(base + stage.growth_bytes):>8s}   {_show_seconds(stage.cpu_seconds)}{mark}"
        table.add_row(f"  {stage.name}", text)
    table.add_row("peak memory", show_bytes(estimate.peak_bytes))
    processor = _show_seconds(estimate.cpu_seconds)
    table.add_row("time, roughly", f"{_show_seconds(estimate.seconds)} ({processor} of processor)")
    table.add_row("verdict", verdict)
    return table


def _show_seconds(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
