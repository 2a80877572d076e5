"""Leading eigenpairs by tridiagonal matrices, against LAPACK's."""

import numpy as np
import pytest

from isoweave.engines.compile import kernel
from isoweave.engines.tridiagonal import leading_pairs
from reference_graphs import random_rotations

found_by = kernel(leading_pairs.py_func)
RNG = np.random.default_rng(77)


def pairs_of(matrix, n_wanted):
    """Whether they were found, and the pairs; scratch is longer than the matrix, as the frames have it."""
    m = len(matrix)
    values, vectors = np.empty(n_wanted), np.empty((m + 2, n_wanted))
    done = found_by(matrix, np.empty((m + 3, m + 5)), values, vectors, np.empty((11, m + 2)))
    return done, values, vectors[:m]


def with_values(values):
    m = len(values)
    (q,) = random_rotations(1, m, RNG)
    matrix = (q * values) @ q.T
    return 0.5 * (matrix + matrix.T)


def assert_leading(matrix, n_wanted, is_ordinary=True):
    """What is found is right, and it is found in ordinary cases."""
    done, values, vectors = pairs_of(matrix, n_wanted)
    assert done or not is_ordinary
    if not done:
        return
    size = np.abs(matrix).sum(axis=1).max()
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[::-1][:n_wanted], atol=1e-13 * size)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=2e-12 * size)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n_wanted), atol=1e-11)


@pytest.mark.parametrize(("m", "n_wanted"), [(3, 1), (4, 3), (9, 5), (38, 5), (38, 13), (90, 30)])
def test_pairs_of_all_kinds_of_spectra(m, n_wanted):
    nearly_equal = np.r_[np.full(m - 1, 2.0) + 1e-15 * RNG.normal(size=m - 1), -3.0]
    for values, is_ordinary in (
        (RNG.normal(size=m), True),
        (np.geomspace(1.0, 1e-9, m), True),
        (np.r_[1.0, 1.0, RNG.normal(size=m - 2) * 0.5], True),
        (-np.arange(1.0, m + 1), True),
        (nearly_equal, False),
        (1e-160 * RNG.random(m), False),
        (1e140 * RNG.random(m), False),
    ):
        assert_leading(with_values(values), n_wanted, is_ordinary)


def test_matrices_that_are_in_pieces():
    """Zeros next to the diagonal, which nothing has to be made zero by."""
    blocks = np.zeros((20, 20))
    for lo in range(0, 20, 4):
        part = RNG.normal(size=(4, 4))
        blocks[lo : lo + 4, lo : lo + 4] = part + part.T
    assert_leading(blocks, 6)
    assert_leading(np.diag(RNG.normal(size=12)), 5)
    # The same piece five times: every value is fivefold.
    assert_leading(np.kron(np.eye(5), blocks[:4, :4]), 5, is_ordinary=False)


def test_what_is_left_to_lapack():
    assert not pairs_of(np.eye(4), 4)[0]
    assert not pairs_of(np.zeros((6, 6)), 2)[0]
    assert not pairs_of(np.ones((2, 2)), 1)[0]
