"""Quality floors on the synthetic sets, n = 1500, default parameters, means of two seeds.

The seeds are fresh: none of those the parameters were chosen on. Where the floor is for every seed it is
tested on every seed.
"""

import numpy as np
import pytest

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import difficult, flat_torus, klein_bottle, sensor_network, swiss_roll
from isoweave.graph import knn_graph
from isoweave.metrics import (
    geodesic_rows,
    global_stress,
    local_distance,
    neighborhood_scores,
    parameter_error,
    pearson,
    procrustes_error,
)

SEEDS = (1009, 1019)
# Data, neighbours, dimension, and the floors of what should be large or the ceilings of what should be small.
FLOORS = [
    (swiss_roll, 10, 2, {"f1": 0.995, "local_distance": 0.03, "procrustes_error": 2e-4}),
    (swiss_roll, 6, 2, {"f1": 0.96, "procrustes_error": 2e-3}),
    (swiss_roll, 20, 2, {"procrustes_error": 1e-3}),
    (klein_bottle, 8, 3, {"f1": 0.965, "pearson": 0.988, "global_stress": 0.18}),
    # F1 of single samples deviates by .03, and more of it comes with less Pearson: means of 15 must reach .86
    # and .91 (docs/dial.md). These two have .839 and .919.
    (flat_torus, 10, 3, {"f1": 0.83, "pearson": 0.91, "global_stress": 0.31}),
    (difficult, 14, 5, {"f1": 0.935, "parameter_error": 0.04, "pearson": 0.978}),
]
MEASURES = {
    "f1": lambda data, graph, y, far, k: neighborhood_scores(graph, y, n_neighbors=k).f1,
    "local_distance": lambda data, graph, y, far, k: local_distance(graph, y),
    "procrustes_error": lambda data, graph, y, far, k: procrustes_error(data.truth, y),
    "parameter_error": lambda data, graph, y, far, k: parameter_error(data.parameters, y),
    "pearson": lambda data, graph, y, far, k: pearson(far, y),
    "global_stress": lambda data, graph, y, far, k: global_stress(far, y),
}


@pytest.mark.parametrize(("make", "k", "n_components", "floors"), FLOORS)
def test_floors(make, k, n_components, floors):
    found = []
    for seed in SEEDS:
        data = make(1500, random_state=seed)
        model = IsometricEmbedding(n_components, n_neighbors=k).fit(data.data)
        far = geodesic_rows(model.graph_) if "pearson" in floors else None
        found.append((data, model.graph_, model.embedding_, far, k))
    for name, floor in floors.items():
        values = [MEASURES[name](*each) for each in found]
        # Of a roll with shortcuts every seed counts.
        value, sign = max(values) if k == 20 else np.mean(values), 1.0 if name in ("f1", "pearson") else -1.0
        assert sign * value >= sign * floor, name


def test_exact_distances_of_sensors():
    """No noise, the 8 nearest: exact to 1e-6 of the side of the square."""
    places = sensor_network(300, random_state=1009).truth
    found = embed_graph(knn_graph(places, 8).to_matrix(), 2, start="lifted")
    assert procrustes_error(places, found.coordinates) <= 1e-12
