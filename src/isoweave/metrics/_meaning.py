"""What the metrics say, in few words."""

from __future__ import annotations

# Meaning, in words that fit beside the number on 80 columns, and whether more (1) or less (-1) is better.
METRIC_MEANINGS: dict[str, tuple[str, int]] = {
    "local_distance": ("relative error of edge lengths", -1),
    "local_angle": ("error of angles at vertices, degrees", -1),
    "local_metric": ("relative error of local Gram matrices", -1),
    "precision": ("neighbours in the map that are edges", 1),
    "recall": ("edges that are neighbours in the map", 1),
    "f1": ("harmonic mean of the two", 1),
    "trustworthiness": ("near in the map, near in the graph", 1),
    "continuity": ("near in the graph, near in the map", 1),
    "global_stress": ("relative error of all distances", -1),
    "pearson": ("correlation of distances with geodesics", 1),
    "spearman": ("the same of their ranks", 1),
    "kendall": ("agreement of their order, -1 to 1", 1),
    "parameter_error": ("left by an affine map onto the truth", -1),
    "procrustes_error": ("left by a rigid motion onto the truth", -1),
    "accuracy": ("labels the nearest neighbours vote for", 1),
    "nmi": ("mutual information of vote and labels", 1),
    "ari": ("adjusted Rand index of the two", 1),
}
