"""Measures of an embedding: pure functions of (graph, geodesics, truth or labels; embedding)."""

from isoweave.metrics._evaluate import METRIC_MEANINGS, evaluate
from isoweave.metrics._global import (
    GeodesicRows,
    continuity,
    default_n_rows,
    distance_pairs,
    geodesic_rows,
    global_stress,
    kendall,
    parameter_error,
    pearson,
    pearson_of_pairs,
    procrustes_error,
    spearman,
    stress_of_pairs,
    trustworthiness,
)
from isoweave.metrics._local import (
    LabelScores,
    NeighborhoodScores,
    label_scores,
    local_angle,
    local_distance,
    local_metric,
    neighborhood_scores,
)

__all__ = [
    "METRIC_MEANINGS",
    "GeodesicRows",
    "LabelScores",
    "NeighborhoodScores",
    "continuity",
    "default_n_rows",
    "distance_pairs",
    "evaluate",
    "geodesic_rows",
    "global_stress",
    "kendall",
    "label_scores",
    "local_angle",
    "local_distance",
    "local_metric",
    "neighborhood_scores",
    "parameter_error",
    "pearson",
    "pearson_of_pairs",
    "procrustes_error",
    "spearman",
    "stress_of_pairs",
    "trustworthiness",
]
