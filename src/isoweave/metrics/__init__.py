"""Measures of an embedding: pure functions of (graph, geodesics, truth or labels; embedding)."""

from isoweave.metrics._alignment import parameter_error, procrustes_error
from isoweave.metrics._evaluate import evaluate
from isoweave.metrics._global import (
    GeodesicRows,
    default_n_rows,
    geodesic_rows,
    global_stress,
    kendall,
    pearson,
    spearman,
)
from isoweave.metrics._labels import LabelScores, label_scores
from isoweave.metrics._local import NeighborhoodScores, local_distance, neighborhood_scores
from isoweave.metrics._ranks import continuity, trustworthiness
from isoweave.metrics._shape import local_angle, local_metric

__all__ = [
    "GeodesicRows",
    "LabelScores",
    "NeighborhoodScores",
    "continuity",
    "default_n_rows",
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
    "procrustes_error",
    "spearman",
    "trustworthiness",
]
