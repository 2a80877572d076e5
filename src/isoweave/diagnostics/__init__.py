"""What a graph allows and what a map of it keeps, in numbers and in plain words."""

from isoweave.diagnostics._diagnose import diagnose as diagnose
from isoweave.diagnostics._facts import (
    Diagnosis as Diagnosis,
    DimensionFacts as DimensionFacts,
    EnergySplit as EnergySplit,
    GraphFacts as GraphFacts,
    MapFacts as MapFacts,
    ShapeFacts as ShapeFacts,
    Verdict as Verdict,
    edge_errors as edge_errors,
    edge_table as edge_table,
    local_fit as local_fit,
)
from isoweave.diagnostics._verdicts import scale_sentence as scale_sentence
