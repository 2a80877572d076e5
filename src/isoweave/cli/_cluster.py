"""The command ``embed --engine petsc``: the same on every rank, of which the first one speaks."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from isoweave.cli._console import ProgressLine, one_line, print_rows, printed_warnings, sigterm_as_interrupt
from isoweave.options import SearchOptions

# Exit code of errors, as for every command.
_FAILED = 2
# Where all ranks fail at once the first speaks and ends the job; the others wait for that, and then in turn.
# Ranks that have nothing to say wait for the one that has.
_WAIT_SECONDS, _TURN_SECONDS, _LONGEST_WAIT, _SILENT_WAIT = 5.0, 0.2, 15.0, 20.0


def is_for_ranks(options: dict[str, Any]) -> bool:
    """Whether a fit is asked for on the ranks of an MPI job."""
    return (options.get("engine") or os.environ.get("ISOWEAVE_ENGINE")) == "petsc"


def embed_on_ranks(
    input_file: Path,
    output: Path,
    options: dict[str, Any],
    as_graph: bool | None,
    columns_file: Path | None,
    check_pairs: Callable[[], None],
    *,
    report: Path | None,
    quiet: bool,
    verbose: bool,
    **anchors: Any,
) -> None:
    """Embed a graph in parts, and write its map."""
    from isoweave.cluster import all_ranks, embed_file

    ranks = all_ranks()
    first = ranks.rank == 0
    with _ending_together(ranks, verbose):
        with ranks.together():
            _refuse(options, as_graph, report, columns_file)
            check_pairs()
        options["engine"] = "petsc"
        started = time.perf_counter()
        shown = {"enabled": not quiet and first, "verbose": verbose and first}
        with sigterm_as_interrupt(), printed_warnings(quiet or not first), ProgressLine(**shown):
            found = embed_file(input_file, output, **anchors, **options)
        seconds = time.perf_counter() - started
        if first and not quiet:
            print_rows(str(output), _rows(found, seconds, verbose))


def _refuse(
    options: dict[str, Any], as_graph: bool | None, report: Path | None, columns: Path | None
) -> None:
    """Refuse what ranks cannot do."""
    hint = "embed the graph first, and ask for it on one machine"
    asked = {
        f"--report: {hint} with isoweave report": report is not None,
        f"--columns: {hint} with isoweave report": columns is not None,
        "features: give a graph of distances (edges in Parquet or .npz)": as_graph is False,
        **{f"--{f.name.replace('_', '-')}: give a graph": f.name in options for f in fields(SearchOptions)},
        "--n-components auto: give a number": isinstance(options.get("n_components"), str),
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise ValueError(f"engine='petsc' does not support {what}.")


def _rows(found: dict[str, Any], seconds: float, verbose: bool) -> dict[str, str]:
    from isoweave._memory import show_bytes

    energy = f"{found['energy']:.{12 if verbose else 6}g}"
    rows = {
        "points": f"{found['points']:,} on {found['ranks']} ranks",
        "edges": f"{found['edges']:,}, of which {found['cut edges']:,} join ranks",
        "components": f"{found['components']:,}",
        "duplicates": f"{found['duplicates merged']:,}",
        "dropped edges": f"{found['n_dropped']:,}",
        "edges off by": f"{found['edge error']:.2%} on average",
        "energy": f"{energy}, {found['relative_energy']:.2%} of a collapsed map",
        "global weight": f"{found['global_weight']:.2g}",
        "optimiser": f"{found['status']} after {found['n_iter']:,} steps",
        "seconds": f"{seconds:.2f}",
        "memory": f"{show_bytes(found['peak bytes'])} on the fullest rank",
    }
    if verbose:
        for what, (messages, n_bytes) in zip(("to distribute", "to embed"), found["traffic"], strict=True):
            rows[f"sent {what}"] = f"{messages:,} messages, {show_bytes(n_bytes)}, all ranks together"
        messages, n_bytes = found["per step"]
        rows["sent in a step"] = f"{messages:,.0f} messages, {show_bytes(n_bytes)}, by the busiest rank"
        rows |= {name: str(found[name]) for name in ("start", "solver")}
    return rows


@contextmanager
def _ending_together(ranks: Any, verbose: bool) -> Iterator[None]:
    """A rank that fails says so and ends all others, which would wait for it for ever."""
    from isoweave.cluster import ElsewhereError

    try:
        yield
    except KeyboardInterrupt as error:
        # Agreed on by all ranks, of which the first speaks, unless it is the second signal.
        if ranks.rank and "kept in" in str(error):
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        raise
    except BaseException as error:
        if ranks.size == 1:
            raise
        silent = isinstance(error, ElsewhereError)
        if silent:
            time.sleep(_SILENT_WAIT)
        elif ranks.rank and not ranks.knows_failure:
            time.sleep(min(_WAIT_SECONDS + _TURN_SECONDS * ranks.rank, _LONGEST_WAIT))
        if not silent:
            users = isinstance(error, ValueError | TypeError | ImportError | OSError | MemoryError)
            if verbose or not users:
                traceback.print_exc()
            text = one_line(error) or type(error).__name__
            print(f"isoweave: error: {text} (rank {ranks.rank} of {ranks.size})", file=sys.stderr, flush=True)
        ranks.comm.Abort(_FAILED)
