"""The commands that take maps, and those that make their own data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isoweave.cli import _arguments as args
from isoweave.cli._app import app
from isoweave.cli._errors import reported


@app.command()
def report(
    map_file: Annotated[
        Path,
        typer.Argument(
            metavar="MAP", help="What embed wrote (.npz), a saved model, or coordinates by any tool."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the page (.html).")],
    graph: Annotated[
        Path | None,
        typer.Option(
            "--graph",
            "-g",
            help="Distance graph of the map: sparse square .npz, .mtx, .edges, .csv ...",
            show_default="the one in MAP",
        ),
    ] = None,
    columns: args.ColumnsFile = None,
    labels: Annotated[Path | None, typer.Option(help="One label per vertex; a column 'label'.")] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default="name of MAP")] = None,
    diagnosis: Annotated[
        bool, typer.Option(help="Run the diagnosis, which takes about as long as the embedding.")
    ] = True,
    asymmetry: args.Asymmetry = None,
    verbose: args.Verbose = False,
) -> None:
    """Write one interactive page about a map; it opens without network."""
    with reported(verbose):
        from isoweave.cli._report import run_report

        run_report(
            map_file,
            output,
            graph_file=graph,
            columns_file=columns,
            labels_file=labels,
            title=title,
            diagnosis=diagnosis,
            asymmetry=asymmetry,
        )


@app.command()
def evaluate(
    graph_file: Annotated[
        Path,
        typer.Argument(metavar="GRAPH", help="Distance graph: sparse square .npz, .mtx, .edges, .csv ..."),
    ],
    embedding_file: Annotated[
        Path,
        typer.Argument(
            metavar="EMBEDDING", help="Coordinates by any tool: .npz (array embedding), .npy, .csv."
        ),
    ],
    n_neighbors: Annotated[
        int | None,
        typer.Option(
            "--n-neighbors",
            "-k",
            help="Neighbourhoods compared and voters for labels.",
            show_default="smallest degree of the graph",
        ),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="One label per vertex; adds accuracy, nmi and ari.")
    ] = None,
    truth: Annotated[
        Path | None,
        typer.Option(help="True positions; adds parameter_error (affine) and procrustes_error (rigid)."),
    ] = None,
    asymmetry: args.Asymmetry = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; null where undefined.")] = False,
    verbose: args.Verbose = False,
) -> None:
    """Measure how well an embedding, by any tool, keeps a graph's distances."""
    with reported(verbose):
        from isoweave.cli._evaluate import run_evaluate

        run_evaluate(
            graph_file,
            embedding_file,
            n_neighbors=n_neighbors,
            labels_file=labels,
            truth_file=truth,
            asymmetry=asymmetry,
            as_json=as_json,
        )


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figures and the page.")] = Path("isoweave-demo"),
    verbose: args.Verbose = False,
) -> None:
    """Swiss roll and handwritten digits, against Isomap: a table, figures and a page."""
    with reported(verbose):
        from isoweave.cli._demo import run_demo_command

        run_demo_command(out)


@app.command()
def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="swiss, difficult, klein, torus, mnist, fmnist, rnaseq, robustness, graphs, or all.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for records, tables, figures and the page.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Few seeds and points: minutes, and only a first look.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the data files.", show_default="environment variable ISOWEAVE_DATA"),
    ] = None,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Fetch MNIST and Fashion-MNIST from OpenML if not in the folder.")
    ] = False,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help="Methods to run: default, paper-energy, paper, isomap, lle, hlle, ltsa, laplacian, "
            "diffusion, tsne, umap, mde; repeat the option or put commas.",
            show_default="those of each experiment",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Most seeds of a row.", show_default="those of each experiment")
    ] = None,
    n_jobs: Annotated[
        int,
        typer.Option("--n-jobs", "-j", help="Problems solved at a time, each on a core; -1: all cores."),
    ] = 1,
    verbose: args.Verbose = False,
) -> None:
    """Rerun the paper's experiments: ours, the paper's recursion and other methods.

    What OUT holds already is not run again.
    """
    with reported(verbose):
        from isoweave.cli._reproduce import run_reproduce

        run_reproduce(
            names,
            out,
            quick=quick,
            data_home=data,
            fetch=fetch,
            methods=methods,
            n_seeds=seeds,
            n_jobs=n_jobs,
        )
