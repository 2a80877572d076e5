"""Distances times 4^m: the same bits up to the factor, whatever the graph, N, start or solver."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from adversarial_graphs import (
    cycle,
    disjoint,
    grid,
    hubs,
    plane,
    random_tree,
    sphere,
    with_lengths,
    with_twins,
)
from isoweave import IsometricEmbedding, embed_graph

SOME = (-20, -7, 6, 20)
POWERS = pytest.mark.parametrize(
    "powers", [SOME, pytest.param(range(-20, 21), marks=pytest.mark.slow)], ids=["some", "all"]
)
GRAPHS = {
    "plane": lambda: plane(40, 6, 43),
    "sphere": lambda: sphere(40, 6),
    "tree": lambda: random_tree(25, 47),
    "grid": lambda: grid(5, 6, reach=1.5),
    "hub": lambda: hubs(50, 1, 53),
    "duplicates": lambda: with_twins(plane(40, 6, 43), [1, 1, 5]),
    "parts": lambda: disjoint(cycle(12), plane(20, 5, 59), sp.coo_array((1, 1))),
    "ratio 1e20": lambda: with_lengths(plane(40, 6, 43), np.logspace(-10, 10, 11)),
}
# Every graph, every N of a few, every start, every solver, both presets: each at least once.
CONFIGURATIONS = [
    ("plane", 2, {}),
    ("plane", 1, {"start": "synchronized"}),
    ("plane", 2, {"start": "coarse"}),
    ("plane", 3, {"start": "identity"}),
    ("plane", 2, {"solver": "amg"}),
    ("plane", 7, {"solver": "jacobi"}),
    ("plane", 2, {"solver": "ic", "inner_product": "paper"}),
    ("plane", 2, {"scale": "geodesics", "calibrate": "vertices"}),
    ("plane", 2, {"preset": "paper"}),
    ("plane", 8, {"preset": "paper", "random_state": 61}),
    ("sphere", 3, {"solver": "direct"}),
    ("sphere", 3, {"preset": "paper", "solver": "jacobi"}),
    ("tree", 13, {}),
    ("tree", 1, {"solver": "jacobi"}),
    ("grid", 2, {"frame_size": "all"}),
    ("hub", 2, {"start": "landmark"}),
    ("duplicates", 2, {}),
    ("duplicates", 3, {"preset": "paper"}),
    ("parts", 2, {}),
    ("ratio 1e20", 2, {}),
]


def assert_same_up_to(here, there, power):
    """``there`` is ``here`` with all distances times 2^power."""
    np.testing.assert_array_equal(there.coordinates, np.ldexp(here.coordinates, power))
    np.testing.assert_array_equal(there.alignments, here.alignments)
    np.testing.assert_array_equal(there.stretch, here.stretch)
    np.testing.assert_array_equal(there.dropped_edges, here.dropped_edges)
    assert there.energy == np.ldexp(here.energy, 2 * power)
    assert there.relative_energy == here.relative_energy
    assert (there.status, there.n_iter, there.start, there.solver) == (
        here.status,
        here.n_iter,
        here.start,
        here.solver,
    )
    for a, b in zip(here.history, there.history, strict=True):
        assert b.energy == np.ldexp(a.energy, 2 * power)
        assert (b.iteration, b.gradient_norm, b.step) == (a.iteration, a.gradient_norm, a.step)


def quiet(call, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The graph has", UserWarning)
        warnings.filterwarnings("ignore", "The optimiser stopped", ConvergenceWarning)
        return call(*args, **kwargs)


@POWERS
@pytest.mark.parametrize(("name", "n_components", "settings"), CONFIGURATIONS)
def test_graphs(name, n_components, settings, powers):
    matrix = GRAPHS[name]()
    settings = {"max_iter": 25, "n_jobs": 1} | settings
    here = quiet(embed_graph, matrix, n_components, **settings)
    assert here.n_iter > 0
    for m in powers:
        there = quiet(embed_graph, sp.coo_array(matrix * 4.0**m), n_components, **settings)
        assert_same_up_to(here, there, 2 * m)


@POWERS
def test_given_starts(powers):
    matrix = GRAPHS["plane"]()
    start = np.random.default_rng(67).normal(size=(40, 2))
    here = embed_graph(matrix, 2, start=start, n_jobs=1)
    for m in powers:
        there = embed_graph(sp.coo_array(matrix * 4.0**m), 2, start=start * 4.0**m, n_jobs=1)
        assert_same_up_to(here, there, 2 * m)


@POWERS
@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_features(metric, powers):
    points = np.random.default_rng(71).normal(size=(50, 3)) * np.array([3.0, 2.0, 0.2])
    model = IsometricEmbedding(2, n_neighbors=7, metric=metric, n_jobs=1)
    here = model.fit_transform(points)
    for m in powers:
        np.testing.assert_array_equal(model.fit_transform(points * 4.0**m), np.ldexp(here, 2 * m))


def test_a_factor_that_is_no_power_of_two_does_change_bits():
    """Otherwise the comparison would be blind."""
    matrix = GRAPHS["plane"]()
    here, there = embed_graph(matrix, 2), embed_graph(sp.coo_array(matrix * 3.0), 2)
    assert not np.array_equal(there.coordinates, 3.0 * here.coordinates)
    np.testing.assert_allclose(there.coordinates, 3.0 * here.coordinates, rtol=1e-6, atol=1e-6)
