"""Measures of an embedding: pure functions of (graph, geodesics, truth or labels; embedding)."""

from isoweave.metrics._alignment import parameter_error, procrustes_error
from isoweave.metrics._evaluate import evaluate
from isoweave.metrics._global import (
    GeodesicRows,
    default_n_rows,
    distance_pairs,
    geodesic_rows,
    global_stress,
    kendall,
    pearson,
    pearson_of_pairs,
    spearman,
    stress_of_pairs,
)
from isoweave.metrics._labels import LabelScores, label_scores
from isoweave.metrics._local import NeighborhoodScores, local_distance, neighborhood_scores
from isoweave.metrics._meaning import METRIC_MEANINGS
from isoweave.metrics._ranks import continuity, trustworthiness
from isoweave.metrics._shape import local_angle, local_metric

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
