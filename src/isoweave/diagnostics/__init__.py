"""What a graph allows and what a map of it keeps, in numbers and in plain words."""

from isoweave.diagnostics._diagnose import diagnose
from isoweave.diagnostics._facts import (
    Diagnosis,
    DimensionFacts,
    EnergySplit,
    GraphFacts,
    MapFacts,
    ShapeFacts,
    Verdict,
    edge_table,
    local_fit,
)
from isoweave.diagnostics._shape import loop_holonomy

__all__ = [
    "Diagnosis",
    "DimensionFacts",
    "EnergySplit",
    "GraphFacts",
    "MapFacts",
    "ShapeFacts",
    "Verdict",
    "diagnose",
    "edge_table",
    "local_fit",
    "loop_holonomy",
]
