"""The same bits for 1, 2 and 4 threads on graphs of every kind; tests/test_determinism.py has the options."""

from __future__ import annotations

import hashlib
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from isoweave import embed_graph
from isoweave.datasets import klein_bottle, s_curve
from isoweave.graph import knn_graph


def with_hub(points, k):
    """A kNN graph with one vertex joined to all others, beyond what a frame holds."""
    matrix = sp.lil_array(knn_graph(points, k).to_matrix())
    distances = np.linalg.norm(points - points[0], axis=1)
    matrix[0, 1:] = distances[1:]
    matrix[1:, [0]] = distances[1:, None]
    return sp.csr_array(matrix)


def tree_of(n, rng):
    parents = np.array([rng.integers(max(0, i - 30), i) for i in range(1, n)])
    return sp.coo_array((rng.uniform(0.5, 2.0, n - 1), (np.arange(1, n), parents)), shape=(n, n))


KINDS = {
    "Klein bottle": (lambda rng: knn_graph(klein_bottle(600, random_state=1).data, 9).to_matrix(), 4),
    "duplicates": (
        lambda rng: knn_graph(rng.normal(size=(150, 3))[rng.integers(150, size=300)], 9).to_matrix(),
        3,
    ),
    "hub": (lambda rng: with_hub(rng.uniform(size=(300, 2)), 8), 2),
    "tree": (lambda rng: tree_of(600, rng), 3),
    "parts": (
        lambda rng: sp.block_diag(
            [knn_graph(rng.normal(size=(n, 2)), 7).to_matrix() for n in (300, 200, 100)]
        ),
        2,
    ),
    # From 6,000 vertices on the start is a coarser graph, from 20,000 on they are renumbered.
    "6,500": (lambda rng: knn_graph(s_curve(6500, random_state=2).data, 9).to_matrix(), 2),
    "20,500": (lambda rng: knn_graph(s_curve(20_500, random_state=3).data, 9).to_matrix(), 2),
}


def digest(matrix, n_components, n_jobs):
    """Hash of everything that comes out."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The graph has", UserWarning)
        warnings.filterwarnings("ignore", "The optimiser stopped", ConvergenceWarning)
        result = embed_graph(matrix, n_components, n_jobs=n_jobs, max_iter=8)
    rest = (result.history, result.energy, result.status, result.start, result.solver)
    arrays = (result.coordinates, result.alignments, result.stretch, result.dropped_edges)
    return hashlib.sha256(repr(rest).encode() + b"".join(a.tobytes() for a in arrays)).hexdigest()


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if "500" in kind else ()) for kind in KINDS]
)
def test_same_bits(kind):
    make, n_components = KINDS[kind]
    matrix = sp.csr_array(make(np.random.default_rng(83)))
    found = digest(matrix, n_components, 1)
    assert found == digest(matrix, n_components, 2) == digest(matrix, n_components, 4)
    if kind == "tree":
        matrix.data[7] = np.nextafter(matrix.data[7], np.inf)
        assert found != digest(matrix, n_components, 1), "the digest is blind"
