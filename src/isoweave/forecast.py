"""Predicted memory and time of a fit."""

from __future__ import annotations

from isoweave.embedding._costs import cpu_seconds, wall_seconds
from isoweave.embedding._forecast import ResourceEstimate, StageEstimate, check_memory, estimate_resources
from isoweave.embedding._survey import survey
from isoweave.graph import NeighborGraph
from isoweave.options import EmbeddingOptions

__all__ = ["ResourceEstimate", "StageEstimate", "check_memory", "estimate_resources", "expected_seconds"]


def expected_seconds(graph: NeighborGraph, options: EmbeddingOptions, n_threads: int) -> float:
    """Seconds a fit will take, roughly."""
    return wall_seconds(cpu_seconds(survey(graph, options, n_threads)), n_threads)
