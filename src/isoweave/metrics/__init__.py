"""Measures of an embedding: pure functions of (graph, geodesics, truth or labels; embedding)."""

from isoweave.metrics._board import BOARD_MEANINGS as BOARD_MEANINGS, board_scores as board_scores
from isoweave.metrics._global import (
    GeodesicRows as GeodesicRows,
    continuity as continuity,
    default_n_rows as default_n_rows,
    distance_pairs as distance_pairs,
    geodesic_rows as geodesic_rows,
    global_stress as global_stress,
    kendall as kendall,
    parameter_error as parameter_error,
    pearson as pearson,
    pearson_of_pairs as pearson_of_pairs,
    procrustes_error as procrustes_error,
    spearman as spearman,
    stress_of_pairs as stress_of_pairs,
    trustworthiness as trustworthiness,
)
from isoweave.metrics._local import (
    METRIC_MEANINGS as METRIC_MEANINGS,
    LabelScores as LabelScores,
    NeighborhoodScores as NeighborhoodScores,
    evaluate as evaluate,
    label_scores as label_scores,
    local_angle as local_angle,
    local_distance as local_distance,
    local_metric as local_metric,
    neighborhood_scores as neighborhood_scores,
)
