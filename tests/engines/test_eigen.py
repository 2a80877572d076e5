"""Leading eigenpairs of small symmetric matrices against LAPACK."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from isoweave.engines.eigen import EXTRA_VECTORS, block_iteration, full_spectrum, jacobi_eigh


def iterate(matrix, n_wanted):
    """Whether block iteration settled, and its eigenpairs."""
    m, block = len(matrix), n_wanted + EXTRA_VECTORS
    # Scratch longer than the matrix, as the frames use it.
    values, vectors, (rows, image) = np.empty(n_wanted), np.empty((m, n_wanted)), np.empty((2, block, m + 3))
    scratch = (rows, image, *np.empty((2, block, block)), np.empty(block, dtype=np.int32))
    return block_iteration(matrix, values, vectors, *scratch), values, vectors


def leading_eigenpairs(matrix, n_wanted):
    """Eigenpairs as the frames get them: by iteration, or by LAPACK where that does not settle."""
    settled, values, vectors = iterate(matrix, n_wanted)
    if not settled:
        full_spectrum(matrix, values, vectors)
    return values, vectors


def with_spectrum(values, seed):
    """Symmetric matrix with given eigenvalues in random directions."""
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))
    matrix = (q * values) @ q.T
    return np.ascontiguousarray(0.5 * (matrix + matrix.T))


def assert_leading(matrix, n_wanted, tol=1e-10):
    """Values are LAPACK's largest; vectors are orthonormal and have those values."""
    values, vectors = leading_eigenpairs(matrix, n_wanted)
    expected = np.linalg.eigvalsh(matrix)[::-1][:n_wanted]
    scale = max(np.abs(np.linalg.eigvalsh(matrix)).max(), np.finfo(float).tiny)
    np.testing.assert_allclose(values, expected, atol=tol * scale)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n_wanted), atol=1e-12)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=tol * scale)


@pytest.mark.parametrize(
    "values",
    [
        *(np.random.default_rng(size).normal(size=size) for size in (1, 2, 3, 5, 8, 12)),
        [3.0, 3.0, 3.0, 1.0],
        [0.0, 0.0, 0.0],
        [-5.0, 2.0, 2.0, 0.0],
        [1e8, 1.0, 1e-8],
    ],
    ids=len,
)
def test_jacobi(values):
    a = with_spectrum(np.array(values), 61)
    work, vectors = a.copy(), np.empty(a.shape)
    jacobi_eigh(work, vectors)
    scale = max(np.abs(values).max(), 1)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-13)
    np.testing.assert_allclose(np.sort(np.diag(work)), np.sort(values), atol=1e-14 * scale)
    np.testing.assert_allclose((vectors * np.diag(work)) @ vectors.T, a, atol=1e-13 * scale)


@pytest.mark.parametrize("n_wanted", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [7, 13, 30, 60])
def test_local_grams_of_random_points(size, n_wanted):
    points = np.random.default_rng(100 * size + n_wanted).normal(size=(size, max(n_wanted, 3)))
    # The third power of a distance breaks the triangle inequality now and then: negative eigenvalues.
    distances = cdist(points, points) ** 1.5
    gram = 0.5 * (distances[0, :, None] ** 2 + distances[0] ** 2 - distances**2)
    assert_leading(np.ascontiguousarray(gram), n_wanted)


@pytest.mark.parametrize("n_wanted", [1, 2, 3, 5])
def test_equal_eigenvalues(n_wanted):
    """The wanted eigenvalue is exactly N-fold, or more: any basis of its space will do."""
    for multiplicity in (n_wanted, n_wanted + 1, n_wanted + 6):
        values = np.r_[np.full(multiplicity, 4.0), np.linspace(1.0, -1.0, 40 - multiplicity)]
        assert_leading(with_spectrum(values, 71 + multiplicity), n_wanted)
    assert_leading(3.0 * np.eye(20), n_wanted)


@pytest.mark.parametrize("n_wanted", [1, 2, 3])
@pytest.mark.parametrize("n_negative", [1, 2, 4, 12])
def test_large_negative_eigenvalues_do_not_hide_the_positive_ones(n_wanted, n_negative):
    """Power iteration is drawn to the negative end; the result must be the largest all the same."""
    positive = np.linspace(2.0, 1.0, 6)
    values = np.r_[positive, np.full(n_negative, -50.0), np.linspace(0.5, -0.5, 30)]
    assert_leading(with_spectrum(values, 83), n_wanted)
    assert_leading(with_spectrum(np.linspace(-1.0, -9.0, 30), 103), n_wanted)


@pytest.mark.parametrize("n_wanted", [1, 2, 3])
def test_negative_eigenvalues_of_nearly_the_same_size(n_wanted):
    """Equal sizes of both signs: power iteration alone never settles between them."""
    values = np.r_[5.0, -5.0, 4.0, -4.0, 3.0, -3.0, 2.0, -2.0, np.linspace(1.0, -1.0, 25)]
    assert_leading(with_spectrum(values, 89), n_wanted)
    assert_leading(with_spectrum(values * np.where(values < 0, 1.0 + 1e-9, 1.0), 97), n_wanted)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_rank_deficient(rank):
    """Fewer directions than wanted: zeros, with vectors that complete an orthonormal set."""
    values = np.zeros(24)
    values[:rank] = [3.0, 1.0][:rank]
    matrix = with_spectrum(values, 101) if rank else np.zeros((24, 24))
    assert_leading(matrix, 3)


@pytest.mark.parametrize("n_wanted", [1, 2, 3])
def test_a_subspace_that_holds_the_largest_diagonal_but_not_the_largest_eigenvalue(n_wanted):
    """Five far points at right angles and a crowd in a sixth direction: the crowd is the leading direction.

    Zeros between the two are exact, so an iteration that starts among the five never leaves them.
    """
    points = np.zeros((26, 6))
    points[1:6, :5] = 4.0 * np.eye(5)
    points[6:, 5] = 3.0 + 0.001 * np.arange(20)
    distances = cdist(points, points)
    gram = 0.5 * (distances[0, :, None] ** 2 + distances[0] ** 2 - distances**2)[1:, 1:]
    assert_leading(np.ascontiguousarray(gram), n_wanted)


def test_scales_with_the_matrix():
    matrix = with_spectrum(np.r_[4.0, 3.0, 2.0, np.linspace(0.5, -0.5, 27)], 107)
    values, vectors = leading_eigenpairs(matrix, 2)
    for power in (-40, 40):
        scaled = leading_eigenpairs(np.ldexp(matrix, power), 2)
        np.testing.assert_array_equal(scaled[0], np.ldexp(values, power))
        np.testing.assert_array_equal(scaled[1], vectors)


@pytest.mark.parametrize("n_wanted", [1, 2, 5])
def test_iteration_settles_where_the_gap_is_clear(n_wanted):
    """Otherwise every frame would pay for the whole spectrum."""
    values = np.r_[np.linspace(9.0, 6.0, n_wanted), np.linspace(0.1, -0.1, 40)]
    assert iterate(with_spectrum(values, 109), n_wanted)[0]


def test_iteration_leaves_most_of_a_spectrum_to_lapack():
    assert not iterate(with_spectrum(np.linspace(9.0, 1.0, 9), 113), 3)[0]


def test_more_values_wanted_than_there_are():
    values, vectors = np.full(4, 7.0), np.full((4, 4), 7.0)
    full_spectrum(np.diag([1.0, 3.0]), values, vectors)
    np.testing.assert_allclose(values, [3.0, 1.0, 7.0, 7.0])
    np.testing.assert_allclose(np.abs(vectors[:2, :2]), [[0.0, 1.0], [1.0, 0.0]])
