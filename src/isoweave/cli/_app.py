"""The application, and how a function becomes one of its commands.

Everything heavy is imported inside the commands, so that ``isoweave --help`` answers at once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any

import typer

from isoweave.cli._console import reported
from isoweave.options import FitOptions, SearchOptions

app = typer.Typer(
    name="isoweave",
    help="Weave local distances into one Euclidean map.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_INPUT_HELP = (
    "Features (.npy .npz .csv .tsv .parquet .h5ad), a distance graph (sparse .npz, .mtx, .edges, .graphml) "
    "or a mesh (.obj .off .ply)."
)
_GRAPH_HELP = "Read INPUT as a distance graph (tables: lines of i, j, distance) or as features."
_COLUMNS_HELP = "Table (.csv, .tsv; obs of an .h5ad) with a header and a row per vertex, to colour by."
# What parameters of these names are, in whichever command.
_SHARED = {
    "input_file": typer.Argument(metavar="INPUT", help=_INPUT_HELP),
    "as_graph": typer.Option("--graph/--features", help=_GRAPH_HELP, show_default="by suffix"),
    "columns_file": typer.Option("--columns", help=_COLUMNS_HELP),
    "genes": typer.Option(
        "--genes", help="Genes of the .h5ad to colour by as well: CD3D,NKG7.", metavar="NAMES"
    ),
    "labels_file": typer.Option("--labels", help="One label per vertex."),
    "as_json": typer.Option("--json", help="Print JSON; null where undefined."),
    "quiet": typer.Option("--quiet", "-q", help="Print errors only."),
    "verbose": typer.Option("--verbose", "-v", help="Report every step; show tracebacks."),
}


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from isoweave import __version__

        typer.echo(f"isoweave {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the ``isoweave`` command."""
    app()


def command(*names: str, **own: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command, which gets as ``options`` those of a fit named here ("all") that were given.

    ``own`` says what its other parameters are on the command line, beside those that commands share.
    """
    chosen = _fit_options()
    if names != ("all",):
        chosen = {name: chosen[name] for name in names}

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)

        @functools.wraps(function)
        def run(verbose: bool, **given: Any) -> None:
            values = {name: given.pop(name) for name in chosen}
            if chosen:
                given["options"] = {name: _parsed(v) for name, v in values.items() if v is not None}
            if "verbose" in signature.parameters:
                given["verbose"] = verbose
            with reported(verbose):
                function(**given)

        def parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
            kind = inspect.Parameter.KEYWORD_ONLY
            return inspect.Parameter(name, kind, default=default, annotation=annotation)

        declared = _SHARED | own
        parameters = [
            parameter(name, Annotated[p.annotation, declared[name]], p.default)
            for name, p in signature.parameters.items()
            if name not in ("options", "verbose")
        ]
        # After those of the command that must be given, before those that may.
        at = sum(p.default is p.empty for p in parameters)
        parameters[at:at] = [parameter(name, annotation) for name, annotation in chosen.items()]
        parameters.append(parameter("verbose", Annotated[bool, declared["verbose"]], False))
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        # Lines of a paragraph are the terminal's to break.
        paragraphs = (inspect.getdoc(function) or "").split("\n\n")
        app.command(help="\n\n".join(" ".join(each.split()) for each in paragraphs))(run)
        return function

    return decorate


def _fit_options() -> dict[str, Any]:
    """Annotations of every option of a fit that the command line has, by name."""
    n_components = typer.Option(
        "--n-components", "-n", help="Dimension of the map, or auto.", show_default="2"
    )
    declared: dict[str, Any] = {"n_components": Annotated[str | None, n_components]}
    for f in (*fields(SearchOptions), *fields(FitOptions)):
        if not f.metadata["on_command"]:
            continue
        words = f.metadata["kind"].replace(",", "").split()
        kind = int if words[0] == "int" else float if words[:2] == ["float", "or"] else str
        flags = ["--seed" if f.name == "random_state" else f"--{f.name.replace('_', '-')}"]
        flags += [f"-{f.metadata['flag']}"] if f.metadata["flag"] else []
        help, choices = f.metadata["command"], f.metadata["choices"]
        if choices:  # the default comes first
            help = f"{help.rstrip('.')}: {', '.join(choices[:-1])} or {choices[-1]}."
        shown = False if choices or f.default in (None, "auto") else str(f.default)
        option = typer.Option(*flags, help=help, show_default=shown)
        declared[f.name] = Annotated[kind | None, option]  # type: ignore[valid-type]
    return declared


def _parsed(value: Any) -> Any:
    """A number where the text of an option is one, otherwise the text; other types pass through."""
    for kind in (int, float) if isinstance(value, str) else ():
        try:
            return kind(value)
        except ValueError:
            continue
    return value
