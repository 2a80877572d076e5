"""The application, and the options of a fit as options of a command.

Everything heavy is imported inside the commands, so that ``isoweave --help`` answers at once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from isoweave.options import FitOptions, SearchOptions

app = typer.Typer(
    name="isoweave",
    help="Weave local distances into one Euclidean map.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

INPUT_HELP = (
    "Features (.npy .npz .csv .tsv .parquet .h5ad) or distance graph (sparse square .npz, .mtx, .edges)."
)
Input = Annotated[Path, typer.Argument(metavar="INPUT", help=INPUT_HELP)]
AsGraph = Annotated[
    bool | None,
    typer.Option(
        "--graph/--features",
        help="Read INPUT as a distance graph (tables: lines of i, j, distance) or as features.",
        show_default="by suffix",
    ),
]
ColumnsFile = Annotated[
    Path | None,
    typer.Option(
        "--columns", help="Table (.csv, .tsv) with a header and a row per vertex, to colour the page by."
    ),
]
LabelsFile = Annotated[Path | None, typer.Option("--labels", help="One label per vertex.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON; null where undefined.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Report every step; show tracebacks.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]


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


def takes_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command options of a fit, by default all; it gets those the user gave as ``options``."""
    declared = _declared()
    chosen = {name: declared[name] for name in names or declared}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            values = {name: given.pop(name) for name in chosen}
            options = {name: _parsed(value) for name, value in values.items() if value is not None}
            command(options=options, **given)

        own = inspect.signature(command, eval_str=True)
        parameters = [p for p in own.parameters.values() if p.name != "options"]
        # After those of the command that must be given, before those that may.
        at = next((k for k, p in enumerate(parameters) if p.default is not p.empty), len(parameters))
        parameters[at:at] = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in chosen.items()
        ]
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _declared() -> dict[str, Any]:
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
    if isinstance(value, str):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
    return value
