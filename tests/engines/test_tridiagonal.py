"""Leading eigenpairs by tridiagonal matrices, against LAPACK's."""

import numpy as np
import pytest

from isoweave.engines.compile import kernel
from isoweave.engines.lanes import LANES
from isoweave.engines.tridiagonal import ROWS, leading_pairs
from reference_graphs import random_rotations

found_by = kernel(leading_pairs.py_func)
RNG = np.random.default_rng(77)


def pairs_of(matrices, n_wanted):
    """Of up to ``LANES`` matrices side by side: whether they were found, and the pairs."""
    orders = np.array([len(matrices[w % len(matrices)]) for w in range(LANES)], np.int32)
    m = orders.max()
    work = np.zeros((m, m, LANES))
    for w, order in enumerate(orders):
        work[:order, :order, w] = matrices[w % len(matrices)]
    # As the frames have it: longer than the matrices.
    values, vectors = np.empty((n_wanted, LANES)), np.empty((LANES, m + 2, n_wanted))
    settled, scratch = np.empty(LANES, np.int32), np.empty((ROWS + n_wanted) * (m + 1) * LANES)
    found_by(work.reshape(-1), m, orders, values, vectors, settled, scratch)
    return [
        (settled[w] == 1, values[:, w], vectors[w, : orders[w]]) for w in range(min(LANES, len(matrices)))
    ]


def with_values(values):
    m = len(values)
    (q,) = random_rotations(1, m, RNG)
    matrix = (q * values) @ q.T
    return 0.5 * (matrix + matrix.T)


def assert_leading(matrix, n_wanted, is_ordinary=True):
    """What is found is right, and it is found in ordinary cases."""
    ((done, values, vectors),) = pairs_of([matrix], n_wanted)
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
    for matrix, n_wanted in ((np.eye(4), 4), (np.zeros((6, 6)), 2), (np.ones((2, 2)), 1)):
        assert not pairs_of([matrix], n_wanted)[0][0]
    with np.errstate(all="ignore"):
        assert not pairs_of([np.full((6, 6), np.nan)], 2)[0][0]


def test_pairs_do_not_depend_on_what_stands_beside():
    """Nor on the zeros that a matrix is filled up with beside larger ones, whatever its rank."""
    full = with_values(RNG.normal(size=12))
    matrices = [
        full,
        np.zeros((12, 12)),
        with_values(RNG.normal(size=17)),
        full[:9, :9].copy(),
        with_values(np.r_[3.0, 2.0, np.zeros(11)]),
        with_values(-np.arange(1.0, 11.0)),
        np.kron(np.eye(4), full[:4, :4]),
        np.full((5, 5), np.nan),
    ]
    for n_wanted in (1, 4, 6):
        together = pairs_of(matrices, n_wanted)
        for matrix, (done, values, vectors) in zip(matrices, together, strict=True):
            ((alone, *pairs),) = pairs_of([matrix], n_wanted)
            assert done == alone
            if done:
                np.testing.assert_array_equal(values, pairs[0])
                np.testing.assert_array_equal(vectors, pairs[1])
