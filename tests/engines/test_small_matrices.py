"""Small dense matrices: polar factors and leading eigenpairs against LAPACK."""

from itertools import product

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.spatial.distance import cdist

from isoweave.engines import lanes, small, tridiagonal
from isoweave.engines.compile import kernel
from isoweave.engines.lanes import LANES
from isoweave.engines.plain_frames import EXTRA_VECTORS
from reference_graphs import random_rotations

# Helpers are compiled into the kernels that call them; for these tests they are kernels, kept on disk.
HELPERS = (small.block_iteration, small.block_iterations, tridiagonal.leading_pairs, small.full_spectrum)
block_iteration, block_iterations, leading_pairs, full_spectrum = (kernel(f.py_func) for f in HELPERS)
polar, polar_lanes = kernel(small.polar.py_func), kernel(lanes.polar_lanes.py_func)
scratch = kernel(lambda n: small.squares(n)[2:])


def polar_of(matrix):
    n = len(matrix)
    q = np.full((n, n), np.nan)
    polar(np.ascontiguousarray(matrix, dtype=float), q, *scratch(n))
    return q


def assert_best_orthogonal(matrix):
    """Orthogonal, and with the largest possible trace: the sum of the singular values."""
    q = polar_of(matrix)
    values = np.linalg.svd(matrix, compute_uv=False)
    np.testing.assert_allclose(q.T @ q, np.eye(len(matrix)), atol=1e-13)
    np.testing.assert_allclose(q @ q.T, np.eye(len(matrix)), atol=1e-13)
    # Singular values below 1e-13 of the largest are taken for zero.
    assert np.sum(q * matrix) == pytest.approx(values.sum(), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 13])
def test_polar(n):
    """Random, ill-conditioned and rank-deficient matrices, reflections, and scales that do not matter."""
    rng = np.random.default_rng(300 + n)
    for _ in range(10):
        assert_best_orthogonal(rng.normal(size=(n, n)))
    matrix = rng.normal(size=(n, n)) + 2.0 * np.eye(n)
    u, _, vt = np.linalg.svd(matrix)
    np.testing.assert_allclose(polar_of(matrix), u @ vt, atol=1e-11)
    for scale in (1e-140, 1e-60, 1e60, 1e140):
        np.testing.assert_allclose(polar_of(scale * matrix), polar_of(matrix), atol=1e-12)
    # Orthogonal whatever the size: squares of entries under 1e-162 are no numbers any more.
    for full, exponent in product((1.0, 0.5), (-1074, -1000, -538, 538, 1000)):
        q = polar_of(np.ldexp(rng.normal(size=(n, n)) * (rng.random((n, n)) < full), exponent))
        np.testing.assert_allclose(q @ q.T, np.eye(n), atol=1e-14)
    u, v = random_rotations(2, n, rng)
    for smallest in (1e-4, 1e-8, 1e-11, 1e-13, 1e-15, 1e-20):
        assert_best_orthogonal((u * np.geomspace(1.0, smallest, n)) @ v)
    assert_best_orthogonal((u * np.r_[1.0, 1.0, np.full(n, 0.5)][:n]) @ v)
    assert_best_orthogonal(np.ones((n, n)))
    for rank in range(n):
        assert_best_orthogonal(rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n)))
        # Zero rows and columns, which leave whole directions untouched.
        block = np.zeros((n, n))
        block[:rank, :rank] = rng.normal(size=(rank, rank))
        assert_best_orthogonal(block)
        assert_best_orthogonal(block[::-1])
    zero = polar_of(np.zeros((n, n)))
    np.testing.assert_array_equal(zero @ zero.T, np.eye(n))
    # Orthogonal matrices of either determinant are their own polar factor.
    for sign in (1.0, -1.0):
        u[:, 0] *= sign * np.sign(np.linalg.det(u))
        np.testing.assert_allclose(polar_of(3.0 * u), u, atol=1e-13)


def lanes_of(matrices):
    """Polar factors of matrices side by side, and the sums of their squared singular values."""
    n = len(matrices[0])
    x = np.zeros((n, n, LANES))
    x[..., : len(matrices)] = np.moveaxis(matrices, 0, -1)
    row = np.empty((n, LANES))
    q = polar_lanes(x, np.empty_like(x), np.empty_like(x), row)
    return np.moveaxis(q, -1, 0)[: len(matrices)], row[0, : len(matrices)]


@pytest.mark.parametrize("n", [3, 8, 13, 20])
def test_polar_factors_side_by_side(n):
    """The same as alone, whatever stands beside, or said to be of no use: near singular or out of range."""
    rng = np.random.default_rng(430 + n)
    u, v = random_rotations(2, n, rng)
    smallest = np.array([1.0, 1e-1, 1e-2, 1e-3, 1e-4])
    # Relative to the norm, which is that of the others together.
    good = np.array(
        [(u * np.r_[np.full(n - 1, 1.0), s]) @ v * 10.0 ** rng.integers(-90, 90) for s in smallest]
    )
    factors, sums = lanes_of(good)
    np.testing.assert_allclose(sums, n, atol=1e-12)
    for q, s in zip(factors, smallest, strict=True):
        np.testing.assert_allclose(q, u @ v, atol=1e-14 / s)
        np.testing.assert_allclose(q.T @ q, np.eye(n), atol=1e-13)
    useless = np.array(
        [np.zeros((n, n)), np.ones((n, n)), np.diag(np.r_[np.ones(n - 1), 1e-9]), 1e200 * u, 1e-200 * u]
    )
    assert not (lanes_of(useless)[1] > n - 1e-12).any()
    mixed = np.array([useless[0], good[3], useless[3], good[4]])
    np.testing.assert_array_equal(lanes_of(mixed)[0][[1, 3]], factors[[3, 4]])


def iterate(matrix, n_wanted):
    """Whether block iteration settled, and its eigenpairs."""
    m, block = len(matrix), n_wanted + EXTRA_VECTORS
    # Scratch longer than the matrix, as the frames use it.
    values, vectors, (rows, image) = np.empty(n_wanted), np.empty((m, n_wanted)), np.empty((2, block, m + 3))
    scratch = (rows, image, *np.empty((2, block, block)), np.empty(block, dtype=np.int32))
    return block_iteration(matrix, values, vectors, *scratch), values, vectors


def side_by_side(matrices, n_wanted, by_iteration):
    """The same of some matrices side by side, by block iteration (all of one order) or tridiagonal ones."""
    orders = np.array([len(matrices[w % len(matrices)]) for w in range(LANES)], np.int32)
    m, block = orders.max(), n_wanted + EXTRA_VECTORS
    work = np.zeros((m, m, LANES))
    for w, order in enumerate(orders):
        work[:order, :order, w] = matrices[w % len(matrices)]
    values, vectors = np.empty((n_wanted, LANES)), np.empty((LANES, m + 2, n_wanted))
    settled = np.empty(LANES, np.int32)
    if by_iteration:
        scratch = np.empty(((3 * block + n_wanted + 1) * m + 3 * (block + n_wanted) * block) * LANES)
        more = (*np.empty((2, block, block)), np.empty(block, np.int32))
        block_iterations(work.ravel(), m, values, vectors, settled, scratch, *more)
    else:
        scratch = np.empty((tridiagonal.ROWS + n_wanted) * (m + 1) * LANES)
        leading_pairs(work.ravel(), m, orders, values, vectors, settled, scratch)
    return [(settled[w] == 1, values[:, w], vectors[w, : len(one)]) for w, one in enumerate(matrices)]


def by_tridiagonal(matrix, n_wanted):
    return side_by_side([matrix], n_wanted, by_iteration=False)[0]


def with_spectrum(values, seed):
    """Symmetric matrix with given eigenvalues in random directions."""
    (q,) = random_rotations(1, len(values), np.random.default_rng(seed))
    matrix = (q * values) @ q.T
    return np.ascontiguousarray(0.5 * (matrix + matrix.T))


def gram_of(distances):
    squares = distances**2
    return np.ascontiguousarray(0.5 * (squares[0, :, None] + squares[0] - squares))


def two_crowds():
    """Five far points at right angles and a crowd in a sixth direction, which is the leading one.

    Zeros between the two are exact, so an iteration that starts among the five never leaves them.
    """
    points = np.zeros((26, 6))
    points[1:6, :5] = 4.0 * np.eye(5)
    points[6:, 5] = 3.0 + 0.001 * np.arange(20)
    return np.ascontiguousarray(gram_of(cdist(points, points))[1:, 1:])


BOTH_SIGNS = np.r_[5.0, -5.0, 4.0, -4.0, 3.0, -3.0, 2.0, -2.0, np.linspace(1.0, -1.0, 25)]
MATRICES = {
    "identity": 3.0 * np.eye(20),
    "all negative": with_spectrum(np.linspace(-1.0, -9.0, 30), 103),
    "both signs": with_spectrum(BOTH_SIGNS, 89),
    "nearly both signs": with_spectrum(BOTH_SIGNS * np.where(BOTH_SIGNS < 0, 1.0 + 1e-9, 1.0), 97),
    # Fewer directions than wanted: zeros, with vectors that complete an orthonormal set.
    **{f"rank {k}": with_spectrum(np.r_[[3.0, 1.0][:k], np.zeros(24 - k)], 101) for k in range(3)},
    "two crowds": two_crowds(),
}
for n in (7, 13, 30, 60):
    # The third power of a distance breaks the triangle inequality now and then: negative eigenvalues.
    points = np.random.default_rng(n).normal(size=(n, 3))
    MATRICES[f"gram {n}"] = gram_of(cdist(points, points) ** 1.5)
for k in (1, 2, 3, 5, 9):
    # Any basis of the space of an eigenvalue will do.
    MATRICES[f"{k}-fold"] = with_spectrum(np.r_[np.full(k, 4.0), np.linspace(1.0, -1.0, 40 - k)], 71 + k)
for k in (1, 2, 4, 12):
    # Power iteration is drawn to the negative end, and never settles between equal sizes of both signs.
    values = np.r_[np.linspace(2.0, 1.0, 6), np.full(k, -50.0), np.linspace(0.5, -0.5, 30)]
    MATRICES[f"{k} large negative"] = with_spectrum(values, 83)


def assert_leading(matrix, values, vectors, close=1e-10):
    """Values are LAPACK's largest; vectors are orthonormal and have those values."""
    everything, n_wanted = np.linalg.eigvalsh(matrix)[::-1], len(values)
    scale = max(np.abs(everything).max(), np.finfo(float).tiny)
    np.testing.assert_allclose(values, everything[:n_wanted], atol=close * scale)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n_wanted), atol=1e-11)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=close * scale)


def check_tridiagonal(matrix, n_wanted, is_ordinary=True):
    """What is found is right, and it is found in ordinary cases."""
    settled, values, vectors = by_tridiagonal(matrix, n_wanted)
    assert settled or not is_ordinary
    if settled:
        assert_leading(matrix, values, vectors, close=2e-12)


@pytest.mark.parametrize("name", MATRICES)
def test_leading_eigenpairs(name):
    """As the frames get them: by iteration, or by LAPACK where that does not settle; or side by side."""
    for n_wanted in (1, 2, 3, 5):
        settled, values, vectors = iterate(MATRICES[name], n_wanted)
        if not settled:
            full_spectrum(MATRICES[name], values, vectors)
        assert_leading(MATRICES[name], values, vectors)
        check_tridiagonal(MATRICES[name], n_wanted, is_ordinary=False)


@pytest.mark.parametrize(("m", "n_wanted"), [(3, 1), (4, 3), (9, 5), (38, 5), (38, 13), (90, 30)])
def test_tridiagonal_matrices_of_all_kinds_of_spectra(m, n_wanted):
    rng = np.random.default_rng(77)
    nearly_equal = np.r_[np.full(m - 1, 2.0) + 1e-15 * rng.normal(size=m - 1), -3.0]
    for values, is_ordinary in (
        (rng.normal(size=m), True),
        (np.geomspace(1.0, 1e-9, m), True),
        (np.r_[1.0, 1.0, rng.normal(size=m - 2) * 0.5], True),
        (-np.arange(1.0, m + 1), True),
        (nearly_equal, False),
        (1e-160 * rng.random(m), False),
        (1e140 * rng.random(m), False),
    ):
        check_tridiagonal(with_spectrum(values, 79), n_wanted, is_ordinary)


def test_tridiagonal_matrices_in_pieces_and_what_is_left_to_lapack():
    """Zeros next to the diagonal, which nothing has to be made zero by."""
    rng = np.random.default_rng(83)
    pieces = [part + part.T for part in rng.normal(size=(5, 4, 4))]
    check_tridiagonal(block_diag(*pieces), 6)
    check_tridiagonal(np.diag(rng.normal(size=12)), 5)
    # The same piece five times: every value is fivefold.
    check_tridiagonal(block_diag(*pieces[:1] * 5), 5, is_ordinary=False)
    left = [(np.eye(4), 4), (np.zeros((6, 6)), 2), (np.ones((2, 2)), 1), (np.full((6, 6), np.nan), 2)]
    with np.errstate(all="ignore"):
        assert not any(by_tridiagonal(matrix, n_wanted)[0] for matrix, n_wanted in left)


@pytest.mark.parametrize("by_iteration", [True, False])
@pytest.mark.parametrize("name", MATRICES)
def test_pairs_do_not_depend_on_what_stands_beside(name, by_iteration):
    """Nor, by tridiagonal matrices, on the zeros that a matrix is filled up with beside larger ones."""
    matrix, alone = MATRICES[name], iterate if by_iteration else by_tridiagonal
    rests = [np.linspace(k, -k, len(matrix) - 3) / 20 for k in range(1, LANES)]
    others = [with_spectrum(np.r_[9.0, 8.0, 7.0, rest], k) for k, rest in enumerate(rests)]
    if not by_iteration:
        others[:3] = MATRICES["gram 60"], np.full((5, 5), np.nan), np.zeros((12, 12))
    together = [*others[:2], matrix, *others[2:]]
    for n_wanted in (1, 2, 3):
        found = side_by_side(together, n_wanted, by_iteration)
        for one, (settled, *pairs) in zip(together, found, strict=True):
            expected = alone(one, n_wanted)
            assert settled == expected[0]
            if settled:
                np.testing.assert_array_equal(pairs[0], expected[1])
                np.testing.assert_array_equal(pairs[1], expected[2])


def test_iteration_scales_with_the_matrix_settles_at_clear_gaps_and_leaves_most_of_a_spectrum_to_lapack():
    """Otherwise every frame would pay for the whole spectrum."""
    for n_wanted in (1, 2, 5):
        values = np.r_[np.linspace(9.0, 6.0, n_wanted), np.linspace(0.1, -0.1, 40)]
        matrix = with_spectrum(values, 109)
        settled, values, vectors = iterate(matrix, n_wanted)
        assert settled
        scaled = iterate(np.ldexp(matrix, 40), n_wanted)
        np.testing.assert_array_equal(scaled[1], np.ldexp(values, 40))
        np.testing.assert_array_equal(scaled[2], vectors)
    assert not iterate(with_spectrum(np.linspace(9.0, 1.0, 9), 113), 3)[0]
    # More values wanted than there are.
    values, vectors = np.full(4, 7.0), np.full((4, 4), 7.0)
    full_spectrum(np.diag([1.0, 3.0]), values, vectors)
    np.testing.assert_allclose(values, [3.0, 1.0, 7.0, 7.0])
    np.testing.assert_allclose(np.abs(vectors[:2, :2]), [[0.0, 1.0], [1.0, 0.0]])
