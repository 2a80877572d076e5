"""The commands that take data, and their options; :mod:`isoweave.cli._app_maps` has the others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from isoweave.cli import _arguments as args
from isoweave.cli._errors import reported

app = typer.Typer(
    name="isoweave",
    help="Weave local distances into one Euclidean map.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point of the ``isoweave`` command."""
    app()


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from isoweave import __version__

        typer.echo(f"isoweave {__version__}")
        raise typer.Exit


def _given(**options: Any) -> dict[str, Any]:
    """Options that were given; the others take the estimator's defaults."""
    return {name: value for name, value in options.items() if value is not None}


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def embed(
    input_file: args.Input,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where to write: .npz (everything), .npy, .csv or .parquet."),
    ],
    as_graph: args.AsGraph = None,
    n_components: args.NComponents = None,
    n_neighbors: args.NNeighbors = None,
    metric: args.MetricName = None,
    preset: args.Preset = None,
    start: args.Start = None,
    solver: args.Solver = None,
    inner_product: args.InnerProduct = None,
    frame_size: args.FrameSize = None,
    calibrate: args.Calibrate = None,
    scale: args.Scale = None,
    shortcuts: args.Shortcuts = None,
    components: args.Components = None,
    asymmetry: args.Asymmetry = None,
    refine: args.Refine = None,
    anchors: args.Anchors = None,
    anchor_weight: args.AnchorWeight = None,
    tol: Annotated[
        float | None,
        typer.Option(help="Stop when one more sweep would change less than this part of the misfit."),
    ] = None,
    max_iter: args.MaxIter = None,
    n_jobs: args.NJobs = None,
    memory_limit: args.MemoryLimit = None,
    seed: args.Seed = None,
    checkpoint: args.CheckpointFile = None,
    every: args.Every = None,
    resume: args.Resume = False,
    report: Annotated[
        Path | None, typer.Option(help="Also write an interactive page about the map (.html).")
    ] = None,
    columns: args.ColumnsFile = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
    verbose: args.Verbose = False,
) -> None:
    """Embed features or a distance graph and write the coordinates.

    Options that are not given take the estimator's defaults. SIGINT (Ctrl-C) and SIGTERM end it with exit
    code 130 and 143; with --checkpoint the step is finished first and the state written, unless a second
    signal comes.
    """
    with reported(verbose):
        from isoweave.cli._embed import checkpoint_options, run_embed

        given = _given(
            n_components=n_components,
            n_neighbors=n_neighbors,
            metric=metric,
            preset=preset,
            start=start,
            solver=solver,
            inner_product=inner_product,
            frame_size=frame_size,
            calibrate=calibrate,
            scale=scale,
            shortcuts=shortcuts,
            components=components,
            asymmetry=asymmetry,
            refine=refine,
            tol=tol,
            max_iter=max_iter,
            n_jobs=n_jobs,
            memory_limit=memory_limit,
            random_state=seed,
        )
        keep = checkpoint_options(checkpoint, every, resume)
        run_embed(
            input_file,
            output,
            given | keep,
            as_graph=as_graph,
            quiet=quiet,
            verbose=verbose,
            anchors=anchors,
            anchor_weight=anchor_weight,
            report=report,
            columns_file=columns,
        )


@app.command()
def forecast(
    input_file: args.Input,
    as_graph: args.AsGraph = None,
    n_components: args.NComponents = None,
    n_neighbors: args.NNeighbors = None,
    metric: args.MetricName = None,
    preset: args.Preset = None,
    start: args.Start = None,
    solver: args.Solver = None,
    inner_product: args.InnerProduct = None,
    frame_size: args.FrameSize = None,
    calibrate: args.Calibrate = None,
    scale: args.Scale = None,
    shortcuts: args.Shortcuts = None,
    components: args.Components = None,
    asymmetry: args.Asymmetry = None,
    max_iter: args.MaxIter = None,
    n_jobs: args.NJobs = None,
    memory_limit: args.MemoryLimit = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, in bytes and seconds.")] = False,
    verbose: args.Verbose = False,
) -> None:
    """Predict memory, time and solver of a fit without making it.

    Options are those of embed. Features are searched for neighbours, which is measured. The exit code
    is 0 if the fit stays within its memory limit, 3 if it does not, and 2 after an error.
    """
    with reported(verbose):
        from isoweave.cli._forecast import run_forecast

        given = _given(
            n_components=n_components,
            n_neighbors=n_neighbors,
            metric=metric,
            preset=preset,
            start=start,
            solver=solver,
            inner_product=inner_product,
            frame_size=frame_size,
            calibrate=calibrate,
            scale=scale,
            shortcuts=shortcuts,
            components=components,
            asymmetry=asymmetry,
            max_iter=max_iter,
            n_jobs=n_jobs,
            memory_limit=memory_limit,
        )
        run_forecast(input_file, given, as_graph=as_graph, as_json=as_json)


@app.command()
def dimension(
    input_file: args.Input,
    as_graph: args.AsGraph = None,
    asymmetry: args.Asymmetry = None,
    verbose: args.Verbose = False,
) -> None:
    """Estimate the intrinsic dimension (two-nearest-neighbour ratios)."""
    with reported(verbose):
        from isoweave.cli._dimension import run_dimension

        run_dimension(input_file, as_graph=as_graph, asymmetry=asymmetry)


@app.command()
def diagnose(
    input_file: args.Input,
    embedding_file: Annotated[
        Path | None,
        typer.Option("--embedding", "-e", help="A map of INPUT by any tool: .npz, .npy, .csv."),
    ] = None,
    solve: Annotated[
        bool, typer.Option("--solve", help="Embed with the defaults first, and diagnose that map.")
    ] = False,
    as_graph: args.AsGraph = None,
    n_components: args.NComponents = None,
    n_neighbors: args.NNeighbors = None,
    metric: args.MetricName = None,
    shortcuts: args.Shortcuts = None,
    asymmetry: args.Asymmetry = None,
    n_jobs: args.NJobs = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; null where undefined.")] = False,
    verbose: args.Verbose = False,
) -> None:
    """Tell in plain words what the data allow and what a map keeps: closed, curved, too sparse ...

    Without --embedding and --solve nothing is embedded: the graph alone is examined.
    """
    with reported(verbose):
        from isoweave.cli._diagnose import run_diagnose

        given = _given(
            n_components=n_components,
            n_neighbors=n_neighbors,
            metric=metric,
            shortcuts=shortcuts,
            asymmetry=asymmetry,
            n_jobs=n_jobs,
        )
        run_diagnose(input_file, embedding_file, given, solve=solve, as_graph=as_graph, as_json=as_json)
