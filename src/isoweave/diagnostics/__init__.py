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
]
