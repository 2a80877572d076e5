"""Distances times 4^m: the same bits up to the factor, whatever the graph, N, start or solver."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from adversarial_graphs import cycle, disjoint, grid, plane, random_tree, sphere, with_lengths, with_twins
from isoweave import IsometricEmbedding, as_embedding, embed_graph

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


def fit(data, n_components, factor=1.0, **settings):
    settings = {"max_iter": 25, "n_jobs": 1} | settings
    if isinstance(settings.get("start"), np.ndarray):
        settings["start"] = settings["start"] * factor
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The graph has", UserWarning)
        warnings.filterwarnings("ignore", "The optimiser stopped", ConvergenceWarning)
        if sp.issparse(data):
            return embed_graph(data * factor, n_components, **settings)
        return as_embedding(IsometricEmbedding(n_components, **settings).fit(data * factor))


@pytest.mark.parametrize("powers", [(-20, 7), pytest.param(range(-20, 21), marks=pytest.mark.slow)])
@pytest.mark.parametrize(("data", "n_components", "settings"), CONFIGURATIONS)
def test_same_up_to_the_factor(data, n_components, settings, powers):
    here = fit(data, n_components, **settings)
    assert here.n_iter > 0
    for m in powers:
        there = fit(data, n_components, 4.0**m, **settings)
        np.testing.assert_array_equal(there.coordinates, np.ldexp(here.coordinates, 2 * m))
        for name in ("alignments", "stretch", "dropped_edges"):
            np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
        for name in ("relative_energy", "status", "n_iter", "start", "solver"):
            assert getattr(there, name) == getattr(here, name)
        assert there.energy == np.ldexp(here.energy, 4 * m)
        for a, b in zip(here.history, there.history, strict=True):
            assert b == replace(a, energy=np.ldexp(a.energy, 4 * m))


def test_a_factor_that_is_no_power_of_two_does_change_bits():
    """Otherwise the comparison would be blind."""
    here, there = fit(PLANE, 2), fit(PLANE, 2, 3.0)
    assert not np.array_equal(there.coordinates, 3.0 * here.coordinates)
    np.testing.assert_allclose(there.coordinates, 3.0 * here.coordinates, rtol=1e-6, atol=1e-6)
