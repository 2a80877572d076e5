"""Runs to break off: between them every start, both optimisers, one component and several."""

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_swiss_roll

from isoweave.graph import knn_graph

POINTS = make_swiss_roll(130, random_state=1)[0]
GRAPH = knn_graph(POINTS, 8).to_matrix()
SQUARE = knn_graph(np.random.default_rng(4).random((70, 2)), 9).to_matrix()
PARTS = sp.csr_array(
    sp.block_diag([knn_graph(np.random.default_rng(n).random((n, 3)), 8).to_matrix() for n in (60, 40, 30)])
)
CASES = {
    "two starts": (GRAPH, {}),
    "synchronized": (GRAPH, {"start": "synchronized"}),
    "coarse": (GRAPH, {"start": "coarse", "tol": 1e-3}),
    "given": (GRAPH, {"start": np.random.default_rng(0).normal(size=(130, 2)), "max_iter": 12}),
    "recursion": (SQUARE, {"preset": "paper", "max_iter": 12, "scale": "geodesics"}),
    "components": (PARTS, {"n_components": 3, "start": "identity"}),
    "half of the digits": (GRAPH, {"start": "landmark"}),
}
