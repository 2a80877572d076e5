"""What ``isoweave dimension`` does."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from isoweave.cli._errors import option_mismatch, printed_warnings
from isoweave.cli._progress import ProgressLine
from isoweave.graph import graph_from_matrix, intrinsic_dimension, intrinsic_dimension_graph
from isoweave.io import read_input


def run_dimension(input_file: Path, *, as_graph: bool | None, asymmetry: str | None) -> None:
    """Print the estimate for a file of features or of distances.

    Parameters
    ----------
    input_file : pathlib.Path
    as_graph : bool or None
        See :func:`isoweave.io.read_input`.
    asymmetry : str or None
        See :func:`isoweave.graph.graph_from_matrix`; only for distances, whose default is "error".
    """
    with printed_warnings(quiet=False), ProgressLine(Console(stderr=True)) as progress:
        loaded = read_input(input_file, as_graph=as_graph)
        progress.describe("nearest neighbours")
        if loaded.kind == "features":
            if asymmetry is not None:
                raise option_mismatch("asymmetry", input_file, loaded.kind)
            estimate = intrinsic_dimension(loaded.features)
        else:
            estimate = intrinsic_dimension_graph(
                graph_from_matrix(loaded.graph, asymmetry=asymmetry or "error")
            )
    print(f"{estimate:.2f}")
