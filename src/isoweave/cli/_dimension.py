"""What ``isoweave dimension`` does."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from isoweave.cli._errors import printed_warnings
from isoweave.cli._progress import ProgressLine
from isoweave.graph import intrinsic_dimension, intrinsic_dimension_graph
from isoweave.io import read_input


def run_dimension(input_file: Path, *, as_graph: bool | None) -> None:
    """Print the estimate for a file of features or of distances."""
    with printed_warnings(quiet=False), ProgressLine(Console(stderr=True)) as progress:
        loaded = read_input(input_file, as_graph=as_graph)
        progress.describe("nearest neighbours")
        if loaded.kind == "features":
            estimate = intrinsic_dimension(loaded.features)
        else:
            estimate = intrinsic_dimension_graph(loaded.graph)
    print(f"{estimate:.2f}")
