"""Small dense matrices: polar factors and leading eigenpairs against LAPACK."""

from itertools import product

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from isoweave.engines import lanes, small
from isoweave.engines.compile import kernel
from isoweave.engines.plain_frames import EXTRA_VECTORS
from reference_graphs import random_rotations

# Helpers are compiled into the kernels that call them; for these tests they are kernels, kept on disk.
HELPERS = (
    small.block_iteration, small.block_iterations, small.full_spectrum, small.polar, lanes.polar_lanes
)  # fmt: skip
block_iteration, block_iterations, full_spectrum, polar, polar_lanes = (kernel(f.py_func) for f in HELPERS)
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
    n, width = len(matrices[0]), lanes.LANES
    x = np.zeros((n, n, width))
    x[..., : len(matrices)] = np.moveaxis(matrices, 0, -1)
    row = np.empty((n, width))
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


@pytest.mark.parametrize("name", MATRICES)
def test_leading_eigenpairs(name):
    """Values are LAPACK's largest; vectors are orthonormal and have those values."""
    matrix = MATRICES[name]
    everything = np.linalg.eigvalsh(matrix)[::-1]
    scale = max(np.abs(everything).max(), np.finfo(float).tiny)
    for n_wanted in (1, 2, 3, 5):
        # As the frames get them: by iteration, or by LAPACK where that does not settle.
        settled, values, vectors = iterate(matrix, n_wanted)
        if not settled:
            full_spectrum(matrix, values, vectors)
        np.testing.assert_allclose(values, everything[:n_wanted], atol=1e-10 * scale)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(n_wanted), atol=1e-12)
        np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-10 * scale)


@pytest.mark.parametrize("name", MATRICES)
def test_iterations_side_by_side_have_the_bits_of_one(name):
    """Whatever stands beside, and where one of them does not settle."""
    matrix = MATRICES[name]
    m, others = len(matrix), [with_spectrum(np.r_[9.0, 8.0, 7.0, np.linspace(k, -k, len(matrix) - 3) / 20], k)
                              for k in range(1, lanes.LANES)]  # fmt: skip
    together = [*others[:2], matrix, *others[2:]]
    for n_wanted in (1, 2, 3):
        block = n_wanted + EXTRA_VECTORS
        values, vectors = np.empty((n_wanted, lanes.LANES)), np.empty((lanes.LANES, m + 2, n_wanted))
        settled, order = np.empty(lanes.LANES, np.int32), np.empty(block, np.int32)
        size = (3 * block + n_wanted + 1) * m + 3 * (block + n_wanted) * block
        flat = (
            np.stack(together, axis=-1).ravel(),
            m,
            values,
            vectors,
            settled,
            np.empty(size * lanes.LANES),
        )
        block_iterations(*flat, *np.empty((2, block, block)), order)
        for w, one in enumerate(together):
            alone, its_values, its_vectors = iterate(one, n_wanted)
            assert (settled[w] == 1) == alone
            if alone:
                np.testing.assert_array_equal(values[:, w], its_values)
                np.testing.assert_array_equal(vectors[w, :m], its_vectors)


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
