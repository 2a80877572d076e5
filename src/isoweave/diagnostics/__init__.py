"""What a graph allows and what a map of it keeps, in numbers and in plain words."""

from isoweave.diagnostics._diagnose import diagnose, diagnose_graph
from isoweave.diagnostics._result import (
    Diagnosis,
    DimensionFacts,
    EnergySplit,
    GraphFacts,
    MapFacts,
    ShapeFacts,
    Verdict,
)
from isoweave.diagnostics._text import summary_line

__all__ = [
    "Diagnosis",
    "DimensionFacts",
    "EnergySplit",
    "GraphFacts",
    "MapFacts",
    "ShapeFacts",
    "Verdict",
    "diagnose",
    "diagnose_graph",
    "summary_line",
]
