"""What ``isoweave diagnose`` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from isoweave.cli._embed import FOREIGN_OPTIONS, parse_value
from isoweave.cli._errors import option_mismatch, printed_warnings
from isoweave.cli._progress import ProgressLine
from isoweave.diagnostics import Diagnosis, diagnose
from isoweave.graph import (
    NeighborGraph,
    choose_n_components,
    graph_from_matrix,
    intrinsic_dimension_graph,
    knn_graph,
)
from isoweave.io import LoadedInput, match_names, read_embedding, read_input


def run_diagnose(
    input_file: Path,
    embedding_file: Path | None,
    options: dict[str, Any],
    *,
    solve: bool,
    as_graph: bool | None,
    as_json: bool,
) -> None:
    """Print a diagnosis as a page or as JSON.

    Parameters
    ----------
    input_file : pathlib.Path
    embedding_file : pathlib.Path or None
        Coordinates to examine.
    options : dict
        Options that were given, by name.
    solve : bool
        Embed first.
    as_graph : bool or None
        See :func:`isoweave.io.read_input`.
    as_json : bool
        :meth:`isoweave.diagnostics.Diagnosis.to_dict`.
    """
    if solve and embedding_file is not None:
        raise ValueError("--solve makes a map and --embedding brings one: give one of them.")
    if embedding_file is not None and "n_components" in options:
        raise ValueError("--n-components is for a map to be made: leave it out with --embedding.")
    options = {name: parse_value(value) for name, value in options.items()}
    with printed_warnings(quiet=False), ProgressLine(Console(stderr=True)) as progress:
        loaded = read_input(input_file, as_graph=as_graph)
        for name in FOREIGN_OPTIONS[loaded.kind]:
            if name in options:
                raise option_mismatch(name, input_file, loaded.kind)
        progress.describe("neighbours")
        found = _diagnosis(loaded, embedding_file, options, solve, progress)
    print(json.dumps(found.to_dict(), indent=2) if as_json else found)


def _diagnosis(
    loaded: LoadedInput,
    embedding_file: Path | None,
    options: dict[str, Any],
    solve: bool,
    progress: ProgressLine,
) -> Diagnosis:
    n_jobs = options.get("n_jobs")
    if solve:
        from isoweave import IsometricEmbedding

        if loaded.kind == "graph":
            options["metric"] = "precomputed"
        source = loaded.features if loaded.kind == "features" else loaded.graph
        estimator = IsometricEmbedding(**options).fit(source)
        progress.describe("diagnosis")
        return diagnose(estimator, n_jobs=n_jobs)
    shortcuts = options.get("shortcuts", "auto")
    graph = _graph_of(loaded, options)
    if embedding_file is not None:
        read = read_embedding(embedding_file)
        order = match_names(embedding_file, read.names, loaded.names)
        points = read.coordinates if order is None else read.coordinates[order]
        progress.describe("diagnosis")
        return diagnose(points, graph=graph, shortcuts=shortcuts, n_jobs=n_jobs)
    n_components = options.get("n_components", 2)
    if n_components == "auto":
        n_components = min(choose_n_components(intrinsic_dimension_graph(graph)), graph.n_vertices - 1)
    progress.describe("diagnosis")
    return diagnose(graph, n_components=n_components, shortcuts=shortcuts, n_jobs=n_jobs)


def _graph_of(loaded: LoadedInput, options: dict[str, Any]) -> NeighborGraph:
    """The graph a fit would embed."""
    if loaded.kind == "graph":
        return graph_from_matrix(loaded.graph, asymmetry=options.get("asymmetry", "error"))
    assert loaded.features is not None
    n_neighbors = options.get("n_neighbors", 10)
    if isinstance(n_neighbors, int):
        n_neighbors = min(n_neighbors, len(loaded.features) - 1)
    return knn_graph(
        loaded.features, n_neighbors, metric=options.get("metric", "euclidean"), n_jobs=options.get("n_jobs")
    )
