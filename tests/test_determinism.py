"""The same bits whatever the number of threads and from run to run; only ``random_state`` may change them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import difficult, flat_torus, swiss_roll
from isoweave.graph import knn_graph

pytestmark = pytest.mark.filterwarnings("ignore:The optimiser stopped:sklearn.exceptions.ConvergenceWarning")

# More vertices than a kernel takes in one range, so that two threads have something to share.
CASES = {
    "plane": (lambda: swiss_roll(700, random_state=191).data, 9, 2),
    "line": (lambda: swiss_roll(500, random_state=193).data, 8, 1),
    "space": (lambda: flat_torus(500, random_state=197).data, 10, 3),
    "5-D": (lambda: difficult(500, random_state=199).data, 14, 5),
    "9-D": (lambda: np.random.default_rng(211).normal(size=(500, 12)), 14, 9),
}
# Hulls in many dimensions are slow: fewer vertices for the paper's method.
PAPER_CASES = {
    "plane": CASES["plane"],
    "line": CASES["line"],
    "space": (lambda: flat_torus(300, random_state=197).data, 8, 3),
    "4-D": (lambda: difficult(270, random_state=199).data, 8, 4),
}


def assert_same(a, b):
    np.testing.assert_array_equal(a.coordinates, b.coordinates)
    np.testing.assert_array_equal(a.alignments, b.alignments)
    np.testing.assert_array_equal(a.stretch, b.stretch)
    assert a.history == b.history
    assert (a.energy, a.status, a.start, a.solver) == (b.energy, b.status, b.start, b.solver)


@pytest.mark.parametrize("name", CASES)
def test_graphs(name):
    make, k, n_components = CASES[name]
    matrix = knn_graph(make(), k).to_matrix()
    first, again, together = (embed_graph(matrix, n_components, n_jobs=n_jobs) for n_jobs in (1, 1, 2))
    assert_same(first, again)
    assert_same(first, together)


@pytest.mark.parametrize("name", PAPER_CASES)
def test_graphs_by_the_papers_method(name):
    make, k, n_components = PAPER_CASES[name]
    matrix = knn_graph(make(), k).to_matrix()
    settings = {"preset": "paper", "max_iter": 6}
    first, together = (embed_graph(matrix, n_components, n_jobs=n_jobs, **settings) for n_jobs in (1, 2))
    assert_same(first, together)


@pytest.mark.parametrize("name", ["plane", "space", "5-D"])
def test_features(name):
    make, k, n_components = CASES[name]
    data = make()
    results = [
        IsometricEmbedding(n_components, n_neighbors=k, n_jobs=n_jobs).fit(data) for n_jobs in (1, 2, 2, None)
    ]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].embedding_, other.embedding_)
        np.testing.assert_array_equal(results[0].graph_.data, other.graph_.data)
        np.testing.assert_array_equal(results[0].graph_.indices, other.graph_.indices)
        assert results[0].history_ == other.history_


@pytest.mark.parametrize("solver", ["direct", "amg", "jacobi", "ic"])
@pytest.mark.parametrize("inner_product", ["edge", "paper"])
def test_solvers(solver, inner_product):
    matrix = knn_graph(CASES["plane"][0](), 9).to_matrix()
    settings = {"solver": solver, "inner_product": inner_product, "max_iter": 5, "start": "landmark"}
    assert_same(embed_graph(matrix, n_jobs=1, **settings), embed_graph(matrix, n_jobs=2, **settings))


@pytest.mark.parametrize("start", ["landmark", "synchronized", "coarse", "identity"])
def test_starts(start):
    matrix = knn_graph(CASES["plane"][0](), 9).to_matrix()
    assert_same(embed_graph(matrix, start=start, n_jobs=1), embed_graph(matrix, start=start, n_jobs=2))


def test_the_seed_changes_nothing_that_is_not_random():
    make, k, n_components = CASES["plane"]
    matrix = knn_graph(make(), k).to_matrix()
    assert_same(
        embed_graph(matrix, n_components, random_state=1), embed_graph(matrix, n_components, random_state=2)
    )


def test_the_seed_changes_what_is_random():
    """Hull volumes in eight dimensions are estimated from random projections."""
    data = np.random.default_rng(223).normal(size=(30, 9))
    matrix = knn_graph(data, 9).to_matrix()
    settings = {"n_components": 8, "preset": "paper", "max_iter": 3}
    first, again, other = (embed_graph(matrix, random_state=seed, **settings) for seed in (5, 5, 6))
    assert_same(first, again)
    assert not np.array_equal(first.coordinates, other.coordinates)


def test_numpys_global_state_is_neither_used_nor_changed():
    matrix = knn_graph(CASES["plane"][0](), 9).to_matrix()
    np.random.seed(7)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = embed_graph(matrix)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.random.seed(8)  # noqa: NPY002
    assert_same(first, embed_graph(matrix))


PROGRAM = """
import hashlib, numpy as np
from isoweave import IsometricEmbedding
from isoweave.datasets import swiss_roll
data = swiss_roll(500, random_state=227).data
y = IsometricEmbedding(2, n_neighbors=8, n_jobs=2).fit_transform(data)
print(hashlib.sha256(np.ascontiguousarray(y).tobytes()).hexdigest())
"""


def hash_of_a_fresh_process(**environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    return done.stdout.strip()


def test_a_fresh_process_gets_the_same_bits():
    here = IsometricEmbedding(2, n_neighbors=8, n_jobs=1).fit_transform(
        swiss_roll(500, random_state=227).data
    )
    assert hash_of_a_fresh_process() == hashlib.sha256(np.ascontiguousarray(here).tobytes()).hexdigest()


@pytest.mark.slow
def test_kernels_just_compiled_and_kernels_from_the_cache_agree(tmp_path):
    """The first run after installation compiles, the second loads what the first has stored."""
    first, second = (hash_of_a_fresh_process(NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first == second


def test_input_is_not_changed():
    matrix = knn_graph(CASES["plane"][0](), 9).to_matrix()
    kept = matrix.copy()
    embed_graph(matrix)
    np.testing.assert_array_equal(matrix.data, kept.data)
    np.testing.assert_array_equal(matrix.indices, kept.indices)
