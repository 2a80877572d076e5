"""Commands that take data: embed, forecast, dimension, diagnose."""

from __future__ import annotations

import json
import shlex
import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Exit, Option

from isoweave.cli._app import command
from isoweave.cli._console import ProgressLine, duration, print_rows, printed_warnings, sigterm_as_interrupt
from isoweave.options import SearchOptions

if TYPE_CHECKING:
    from isoweave.forecast import ResourceEstimate
    from isoweave.io import LoadedInput

# Options that mean nothing for one kind of input: refused, because the user expects them to do something.
_FOREIGN = {"graph": [f.name for f in fields(SearchOptions)], "features": ["asymmetry"]}
# Options of a fit that a diagnosis of its map needs, too.
_OF_THE_GRAPH = ("n_neighbors", "metric", "shortcuts", "along_graph", "asymmetry")
# Exit code of a fit that does not fit; 2 is for errors.
_DOES_NOT_FIT = 3


def _read_data(input_file: Path, as_graph: bool | None, options: dict[str, Any]) -> LoadedInput:
    """The data of a command, if its options go with them."""
    from isoweave.io import read_input

    loaded = read_input(input_file, as_graph=as_graph)
    check_foreign(loaded, input_file, options)
    return loaded


def check_foreign(loaded: LoadedInput, input_file: Path, options: dict[str, Any]) -> None:
    """Refuse options that mean nothing for these data."""
    for name in options.keys() & {*_FOREIGN[loaded.kind]}:
        is_graph = loaded.kind == "graph"
        what, other = ("features", "--features") if is_graph else ("distance graphs", "--graph")
        said = f"--{name.replace('_', '-')} is for {what}, but {input_file} holds {loaded.kind}"
        raise ValueError(f"{said}; leave it out, or read the file with {other}.")


def model_and_data(loaded: LoadedInput, options: dict[str, Any]) -> tuple[Any, Any]:
    """An estimator with these options, and what to fit it to."""
    from isoweave import IsometricEmbedding

    if loaded.kind == "graph":
        return IsometricEmbedding(**options, metric="precomputed"), loaded.graph
    return IsometricEmbedding(**options), loaded.features


@command(
    "all",
    output=Option("--output", "-o", help="Where to write: .npz (everything), .npy, .csv or .parquet."),
    anchors=Option(help="Known positions (.csv .tsv .txt): vertex, then coordinates.", metavar="FILE"),
    anchor_weight=Option(help="Pull of the anchors, in edges; without it they stay exactly where they are."),
    checkpoint=Option(help="Keep the state of the run in this file.", metavar="FILE"),
    every=Option(help="Seconds between two checkpoints; 0: every step.", show_default="60, or 2% of the run"),
    resume=Option("--resume", help="Continue from the checkpoint; start a new run if there is none."),
    report=Option(help="Also write an interactive page about the map (.html)."),
)
def embed(
    input_file: Path,
    output: Path,
    options: dict[str, Any],
    as_graph: bool | None = None,
    anchors: Path | None = None,
    anchor_weight: float | None = None,
    checkpoint: Path | None = None,
    every: float | None = None,
    resume: bool = False,
    report: Path | None = None,
    columns_file: Path | None = None,
    genes: str | None = None,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Embed features or a distance graph and write the coordinates.

    Ctrl-C (SIGINT) ends it with exit code 130, SIGTERM with 143. With --checkpoint, it first finishes the
    step and writes the state, unless a second signal comes.
    """
    from isoweave import Anchors, Checkpoint
    from isoweave.cli._cluster import embed_on_ranks, is_for_ranks

    def check_pairs() -> None:
        if anchor_weight is not None and anchors is None:
            raise ValueError("--anchor-weight was given without --anchors; give both.")
        if checkpoint is not None:
            options["checkpoint"] = Checkpoint(checkpoint, every=every, resume=resume)
        elif every is not None or resume:
            raise ValueError(f"--{'resume' if every is None else 'every'} needs --checkpoint FILE.")

    if is_for_ranks(options):
        given: Any = {"anchors": anchors, "anchor_weight": anchor_weight, "report": report, "quiet": quiet}
        what = (input_file, output, options, as_graph, columns_file, check_pairs)
        embed_on_ranks(*what, verbose=verbose, **given)
        return
    from isoweave.cli._maps import mesh_page, page_columns
    from isoweave.diagnostics import edge_errors
    from isoweave.io import check_output_path, read_anchors, write_embedding

    check_output_path(output)
    if report is not None:
        from isoweave.report import check_report, write_report

        check_report(report)
        # Annotated data bring their own columns.
        if columns_file is None and input_file.suffix.lower() == ".h5ad":
            columns_file = input_file
    elif columns_file is not None or genes is not None:
        name = "genes" if columns_file is None else "columns"
        raise ValueError(f"--{name} is for the page of --report; give both.")
    check_pairs()
    with sigterm_as_interrupt(), printed_warnings(quiet), ProgressLine(enabled=not quiet, verbose=verbose):
        loaded = _read_data(input_file, as_graph, options)
        columns = page_columns(columns_file, None, loaded.n_rows, loaded.names, genes)
        known: dict[str, Any] = {}
        if anchors is not None:
            known["anchors"] = Anchors(*read_anchors(anchors, loaded.n_rows, loaded.names), anchor_weight)
        started = time.perf_counter()
        model, data = model_and_data(loaded, options)
        estimator = model.fit(data, **known)
        seconds = time.perf_counter() - started
    write_embedding(output, estimator, names=loaded.names)
    if report is not None:
        with printed_warnings(quiet), ProgressLine(enabled=not quiet):
            surface = mesh_page(loaded, input_file.name)
            write_report(estimator, report, columns=columns, names=loaded.names, title=output.name, **surface)
    if not quiet:
        rows = {
            "points": f"{len(estimator.embedding_):,}",
            "dimension": f"{estimator.embedding_.shape[1]}",
            "edges": f"{estimator.graph_.nnz // 2:,}",
            "components": f"{estimator.component_labels_.max() + 1:,}",
            "dropped edges": f"{len(estimator.dropped_edges_):,}",
            "edges off by": edge_errors(estimator),
            "energy": f"{estimator.energy_:.6g}, {estimator.relative_energy_:.2%} of a collapsed map",
            "global weight": f"{estimator.global_weight_:.2g}",
            "optimiser": f"{estimator.status_} after {estimator.n_iter_:,} steps",
            "seconds": f"{seconds:.2f}",
            "what it keeps": _diagnosing(input_file, output, options, as_graph),
        }
        print_rows(str(output), rows)


def _diagnosing(input_file: Path, output: Path, options: dict[str, Any], as_graph: bool | None) -> str:
    """The line to type for a diagnosis of the map."""
    words = ["isoweave", "diagnose", str(input_file), "--embedding", str(output)]
    if as_graph is not None:
        words.append("--graph" if as_graph else "--features")
    for name in _OF_THE_GRAPH:
        if name in options:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    return shlex.join(words)


@command("all")
def forecast(
    input_file: Path, options: dict[str, Any], as_graph: bool | None = None, as_json: bool = False
) -> None:
    """Predict memory, time and solver of a fit without running it.

    It takes the options of embed. For features, it does search the neighbours, and predicts the rest.
    The exit code is 0 if the fit stays within its memory limit, 3 if it does not, and 2 after an error.
    """
    from isoweave.forecast import estimate_resources

    with printed_warnings(), ProgressLine() as progress:
        loaded = _read_data(input_file, as_graph, options)
        progress.describe("neighbours")
        # Whether the fit is within its limit is said of all of it.
        model, data = model_and_data(loaded, options | {"memory_limit": "none"})
        graph, n_components = model.graph_of(data)
        progress.describe("counting")
        of_fit = {k: v for k, v in options.items() if k not in ("n_components", *_FOREIGN["graph"])}
        source = graph if loaded.graph is None else loaded.graph
        estimate = estimate_resources(source, n_components, **of_fit)
    if as_json:
        print(json.dumps({**asdict(estimate), "n_components": n_components, "fits": estimate.fits}, indent=2))
    else:
        _print_forecast(estimate, input_file, n_components)
    if not estimate.fits:
        raise Exit(_DOES_NOT_FIT)


def _print_forecast(estimate: ResourceEstimate, input_file: Path, n_components: int) -> None:
    from isoweave._memory import show_bytes

    verdict = "fits" if estimate.fits else "does not fit"
    if estimate.limit_bytes is not None:
        limit = f"{show_bytes(estimate.limit_bytes)} ({estimate.limit_source})"
        verdict += f": {show_bytes(estimate.peak_bytes)} of {limit}"
    rows = {
        "vertices": f"{estimate.n_vertices:,}",
        "edges": f"{estimate.n_edges:,}",
        "dimension": f"{n_components}",
        "solver": f"{estimate.solver}: {estimate.solver_reason}",
    }
    base = estimate.peak_bytes - estimate.growth_bytes
    for stage in estimate.stages:
        mark = "  (peak)" if stage is estimate.fullest else ""
        memory = f"{show_bytes(base + stage.growth_bytes):>8s}"
        rows[f"  {stage.name}"] = f"{memory}   {duration(stage.cpu_seconds)}{mark}"
    rows["peak memory"] = show_bytes(estimate.peak_bytes)
    rows["time, roughly"] = f"{duration(estimate.seconds)} ({duration(estimate.cpu_seconds)} of processor)"
    print_rows(str(input_file), rows | {"verdict": verdict})


@command("asymmetry")
def dimension(input_file: Path, options: dict[str, Any], as_graph: bool | None = None) -> None:
    """Estimate the intrinsic dimension, from nearest distances or from how balls along the graph grow."""
    from isoweave.graph import graph_from_matrix, intrinsic_dimension, intrinsic_dimension_graph

    with printed_warnings(), ProgressLine() as progress:
        loaded = _read_data(input_file, as_graph, options)
        progress.describe("nearest neighbours")
        if loaded.kind == "features":
            estimate = intrinsic_dimension(loaded.features)
        else:
            estimate = intrinsic_dimension_graph(graph_from_matrix(loaded.graph, **options))
    print(f"{estimate:.2f}")


@command(
    *("n_components", *_OF_THE_GRAPH, "n_jobs"),
    embedding_file=Option("--embedding", "-e", help="A map of INPUT made by any tool: .npz, .npy, .csv."),
    solve=Option("--solve", help="Embed with the defaults first, and diagnose that map."),
)
def diagnose(
    input_file: Path,
    options: dict[str, Any],
    embedding_file: Path | None = None,
    solve: bool = False,
    as_graph: bool | None = None,
    as_json: bool = False,
) -> None:
    """Say what the data allow and what a map keeps; without --embedding or --solve, judge the graph alone."""
    from isoweave.cli._maps import read_points
    from isoweave.diagnostics import diagnose as diagnosed

    if solve and embedding_file is not None:
        raise ValueError("--solve computes a map and --embedding reads one; give only one of them.")
    if embedding_file is not None and "n_components" in options:
        raise ValueError("--n-components does not apply to a given map; leave it out with --embedding.")
    common: dict[str, Any] = {"n_jobs": options.get("n_jobs")}
    with printed_warnings(), ProgressLine() as progress:
        loaded = _read_data(input_file, as_graph, options)
        progress.describe("neighbours")
        model, data = model_and_data(loaded, options)
        if solve:
            result: Any = model.fit(data)
        else:
            common |= {name: options[name] for name in ("shortcuts", "along_graph") if name in options}
            if loaded.kind == "features":
                common["n_neighbors"] = options.get("n_neighbors", 10)
            result, common["n_components"] = model.graph_of(data)
        if embedding_file is not None:
            del common["n_components"]
            common["graph"] = result
            result = read_points(embedding_file, loaded.n_rows, loaded.names)
        progress.describe("diagnosis")
        found = diagnosed(result, **common)
    print(json.dumps(found.to_dict(), indent=2) if as_json else found.page(shlex.quote(str(input_file))))
