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
from isoweave.result import as_embedding

pytestmark = pytest.mark.filterwarnings("ignore:The optimiser stopped:sklearn.exceptions.ConvergenceWarning")

# More vertices than a kernel takes in one range, so that two threads have something to share.
CASES = {
    "plane": (lambda: swiss_roll(700, random_state=191).data, 9, 2),
    "line": (lambda: swiss_roll(500, random_state=193).data, 8, 1),
    "space": (lambda: flat_torus(500, random_state=197).data, 10, 3),
    "5-D": (lambda: difficult(500, random_state=199).data, 14, 5),
    "9-D": (lambda: np.random.default_rng(211).normal(size=(500, 12)), 14, 9),
    # Hulls in many dimensions are slow: fewer vertices for the paper's method.
    "small space": (lambda: flat_torus(300, random_state=197).data, 8, 3),
    "small 4-D": (lambda: difficult(270, random_state=199).data, 8, 4),
}
PAPER = {"preset": "paper", "max_iter": 6}
SHORT = {"max_iter": 5, "start": "landmark"}
SETTINGS = [
    *((name, {}) for name in ("plane", "line", "space", "5-D", "9-D")),
    *((name, PAPER) for name in ("plane", "line", "small space", "small 4-D")),
    *(
        ("plane", {"solver": solver, "inner_product": product, **SHORT})
        for solver in ("direct", "amg", "jacobi", "ic")
        for product in ("edge", "paper")
    ),
    *(("plane", {"start": start}) for start in ("landmark", "synchronized", "coarse", "identity")),
]


def graph_of(name):
    make, k, n_components = CASES[name]
    return knn_graph(make(), k).to_matrix(), n_components


def assert_same(a, b):
    for name in ("coordinates", "alignments", "stretch"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.history == b.history
    assert (a.energy, a.status, a.start, a.solver) == (b.energy, b.status, b.start, b.solver)


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_graphs(name, settings):
    matrix, n_components = graph_of(name)
    kept = matrix.copy()
    first, together = (embed_graph(matrix, n_components, n_jobs=n_jobs, **settings) for n_jobs in (1, 2))
    assert_same(first, together)
    np.testing.assert_array_equal(matrix.data, kept.data)
    np.testing.assert_array_equal(matrix.indices, kept.indices)


@pytest.mark.parametrize("name", ["plane", "space", "5-D"])
def test_features(name):
    make, k, n_components = CASES[name]
    data = make()
    first, *others = (
        IsometricEmbedding(n_components, n_neighbors=k, n_jobs=n_jobs).fit(data) for n_jobs in (1, 2, 2, None)
    )
    for other in others:
        assert_same(as_embedding(first), as_embedding(other))
        np.testing.assert_array_equal(first.graph_.data, other.graph_.data)
        np.testing.assert_array_equal(first.graph_.indices, other.graph_.indices)


def test_the_seed_changes_what_is_random_and_nothing_else():
    """Hull volumes in eight dimensions are estimated from random projections."""
    matrix, _ = graph_of("plane")
    assert_same(*(embed_graph(matrix, random_state=seed) for seed in (1, 2)))
    matrix = knn_graph(np.random.default_rng(223).normal(size=(30, 9)), 9).to_matrix()
    settings = {"n_components": 8, "preset": "paper", "max_iter": 3}
    first, again, other = (embed_graph(matrix, random_state=seed, **settings) for seed in (5, 5, 6))
    assert_same(first, again)
    assert not np.array_equal(first.coordinates, other.coordinates)


def test_numpys_global_state_is_neither_used_nor_changed():
    matrix, _ = graph_of("plane")
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
    command, environment = [sys.executable, "-c", PROGRAM], os.environ | environment
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.strip()


def test_a_fresh_process_gets_the_same_bits():
    data = swiss_roll(500, random_state=227).data
    here = np.ascontiguousarray(IsometricEmbedding(2, n_neighbors=8, n_jobs=1).fit_transform(data))
    assert hash_of_a_fresh_process() == hashlib.sha256(here.tobytes()).hexdigest()


@pytest.mark.slow
def test_kernels_just_compiled_and_kernels_from_the_cache_agree(tmp_path):
    """The first run after installation compiles, the second loads what the first has stored."""
    first, second = (hash_of_a_fresh_process(NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first == second
