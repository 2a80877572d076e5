"""The same bits from run to run; only ``random_state`` may change them.

tests/adversarial/test_same_bits.py compares numbers of threads.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import swiss_roll
from isoweave.graph import knn_graph

ROLL = swiss_roll(500, random_state=227).data
PLANE = knn_graph(ROLL, 9).to_matrix()


def assert_same(a, b):
    for name in ("coordinates", "alignments", "stretch"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.history == b.history
    assert (a.energy, a.status, a.start, a.solver) == (b.energy, b.status, b.start, b.solver)


@pytest.mark.filterwarnings("ignore:The optimiser stopped:sklearn.exceptions.ConvergenceWarning")
def test_the_seed_changes_what_is_random_and_nothing_else():
    """Hull volumes in eight dimensions are estimated from random projections."""
    kept, before = PLANE.copy(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = embed_graph(PLANE, random_state=1)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.random.seed(8)  # noqa: NPY002
    assert_same(first, embed_graph(PLANE, random_state=2))
    np.testing.assert_array_equal(PLANE.data, kept.data)
    np.testing.assert_array_equal(PLANE.indices, kept.indices)
    matrix = knn_graph(np.random.default_rng(223).normal(size=(20, 9)), 9).to_matrix()
    settings = {"n_components": 8, "preset": "paper", "max_iter": 3}
    first, again, other = (embed_graph(matrix, random_state=seed, **settings) for seed in (5, 5, 6))
    assert_same(first, again)
    assert not np.array_equal(first.coordinates, other.coordinates)


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
    kept = ROLL.copy()
    here = np.ascontiguousarray(IsometricEmbedding(2, n_neighbors=8, n_jobs=1).fit_transform(ROLL))
    np.testing.assert_array_equal(ROLL, kept)
    assert hash_of_a_fresh_process() == hashlib.sha256(here.tobytes()).hexdigest()


@pytest.mark.slow
def test_kernels_just_compiled_and_kernels_from_the_cache_agree(tmp_path):
    """The first run after installation compiles, the second loads what the first has stored."""
    first, second = (hash_of_a_fresh_process(NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first == second
