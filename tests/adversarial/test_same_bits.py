"""The same bits on any number of threads and, up to the factor, for distances times 4^m.

Whatever the graph, N, start or solver; tests/processes compares fresh processes.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from adversarial_graphs import cycle, disjoint, grid, plane, random_tree, sphere, with_lengths, with_twins
from isoweave import IsometricEmbedding, as_embedding, embed_graph
from isoweave.datasets import klein_bottle, s_curve
from isoweave.graph import knn_graph

PLANE = plane(40, 6, 43)
SPHERE = sphere(40, 6)
TREE = random_tree(25, 47)
TWINS = with_twins(PLANE, [1, 1, 5])
START = np.random.default_rng(67).normal(size=(40, 2))
FEATURES = np.random.default_rng(71).normal(size=(50, 3)) * np.array([3.0, 2.0, 0.2])
# Every graph, every N of a few, every start, every solver, both presets: each at least once.
CONFIGURATIONS = [
    (PLANE, 2, {}),
    (PLANE, 1, {"start": "synchronized"}),
    (PLANE, 2, {"start": "coarse"}),
    (PLANE, 3, {"start": "identity"}),
    (PLANE, 2, {"start": START}),
    (PLANE, 2, {"solver": "amg"}),
    (PLANE, 7, {"solver": "jacobi"}),
    (PLANE, 2, {"solver": "ic", "inner_product": "paper"}),
    (PLANE, 2, {"scale": "geodesics", "calibrate": "vertices"}),
    (PLANE, 2, {"preset": "paper"}),
    (PLANE, 8, {"preset": "paper", "random_state": 61}),
    (SPHERE, 3, {"solver": "direct"}),
    (SPHERE, 3, {"preset": "paper", "solver": "jacobi"}),
    (TREE, 13, {}),
    (TREE, 1, {"solver": "jacobi"}),
    (grid(5, 6, reach=1.5), 2, {"frame_size": "all"}),
    (plane(50, 6, 53, hubs=1), 2, {"start": "landmark"}),
    (TWINS, 2, {}),
    (TWINS, 3, {"preset": "paper"}),
    (disjoint(cycle(12), plane(20, 5, 59), sp.coo_array((1, 1))), 2, {}),
    (with_lengths(PLANE, np.logspace(-10, 10, 11)), 2, {}),
    (FEATURES, 2, {"n_neighbors": 7}),
    (FEATURES, 2, {"n_neighbors": 7, "metric": "manhattan"}),
]
# More vertices than a kernel takes in one range.
SHARED = {
    "Klein bottle": (lambda rng: knn_graph(klein_bottle(400, random_state=1).data, 9).to_matrix(), 4),
    "duplicates": (lambda rng: knn_graph(rng.normal(size=(150, 3))[rng.integers(150, size=300)], 9), 3),
    # One vertex joined to all others, beyond what a frame holds.
    "hub": (lambda rng: plane(300, 8, 83, hubs=1), 2),
    "tree": (lambda rng: random_tree(400, 83), 3),
    "parts": (lambda rng: disjoint(plane(300, 7, 83), plane(200, 7, 89), plane(100, 7, 97)), 2),
    # From 6,000 vertices on the start is a coarser graph, from 20,000 on they are renumbered.
    "6,500": (lambda rng: knn_graph(s_curve(6500, random_state=2).data, 9), 2),
    "20,500": (lambda rng: knn_graph(s_curve(20_500, random_state=3).data, 9), 2),
}


def fit(data, n_components, factor=1.0, **settings):
    settings = {"max_iter": 25, "n_jobs": 1} | settings
    if isinstance(settings.get("start"), np.ndarray):
        settings["start"] = settings["start"] * factor
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The graph has", UserWarning)
        warnings.filterwarnings("ignore", "The optimiser stopped", ConvergenceWarning)
        if isinstance(data, np.ndarray):
            return as_embedding(IsometricEmbedding(n_components, **settings).fit(data * factor))
        return embed_graph(data if factor == 1.0 else data * factor, n_components, **settings)


def assert_same(there, here, m=0):
    np.testing.assert_array_equal(there.coordinates, np.ldexp(here.coordinates, 2 * m))
    for name in ("alignments", "stretch", "dropped_edges"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
    for name in ("relative_energy", "status", "n_iter", "start", "solver"):
        assert getattr(there, name) == getattr(here, name)
    assert there.energy == np.ldexp(here.energy, 4 * m)
    assert list(there.history) == [replace(r, energy=np.ldexp(r.energy, 4 * m)) for r in here.history]


@pytest.mark.parametrize("powers", [(-20, 7), pytest.param(range(-20, 21), marks=pytest.mark.slow)])
@pytest.mark.parametrize(("data", "n_components", "settings"), CONFIGURATIONS)
def test_any_unit(data, n_components, settings, powers):
    here = fit(data, n_components, **settings)
    assert here.n_iter > 0
    for m in powers:
        assert_same(fit(data, n_components, 4.0**m, **settings), here, m)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if "500" in kind else ()) for kind in SHARED]
)
def test_any_number_of_threads(kind):
    make, n_components = SHARED[kind]
    data = make(np.random.default_rng(83))
    here, *others = (fit(data, n_components, max_iter=8, n_jobs=n_jobs) for n_jobs in (1, 2, 4))
    for there in others:
        assert_same(there, here)


def test_other_numbers_have_other_bits():
    """Otherwise the comparison would be blind: to a factor that is no power of two, and to one bit."""
    here, there = fit(PLANE, 2), fit(PLANE, 2, 3.0)
    assert not np.array_equal(there.coordinates, 3.0 * here.coordinates)
    np.testing.assert_allclose(there.coordinates, 3.0 * here.coordinates, rtol=1e-6, atol=1e-6)
    nudged = with_lengths(PLANE, np.where(np.arange(PLANE.nnz) == 7, np.nextafter(PLANE.data, 9), PLANE.data))
    with pytest.raises(AssertionError):
        assert_same(fit(nudged, 2), here)
