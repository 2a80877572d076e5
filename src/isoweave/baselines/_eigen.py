"""Eigenvectors at the ends of the spectrum."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh
from sklearn.utils import check_random_state

from isoweave._typing import FloatArray

_DENSE_UP_TO = 2000


def smallest_eigenvectors(matrix: sp.csr_array, n_vectors: int, random_state: Any = None) -> FloatArray:
    """Eigenvectors of the smallest eigenvalues of a positive semi-definite matrix, the constant left out.

    Parameters
    ----------
    matrix : sparse array of shape (n, n)
        Symmetric; constants in its kernel.
    n_vectors : int
    random_state : int, RandomState or None
        Start of the iteration above 2,000 vertices.

    Returns
    -------
    array of shape (n, n_vectors)
        Columns orthogonal, of mean square 1, their largest entry positive.
    """
    n = matrix.shape[0]
    if n <= _DENSE_UP_TO or n_vectors + 1 >= n // 2:
        _, vectors = scipy.linalg.eigh(matrix.toarray(), subset_by_index=(0, n_vectors))
    else:
        # A shift just below zero: the matrix itself is singular.
        shift = -1e-10 * float(matrix.diagonal().mean())
        v0 = check_random_state(random_state).uniform(-1.0, 1.0, n)
        values, vectors = eigsh(sp.csc_array(matrix), n_vectors + 1, sigma=shift, v0=v0)
        vectors = vectors[:, np.argsort(values)]
    # Where the kernel is larger than the constants they are mixed with the rest of it: take them out first.
    constant = np.full((n, 1), n**-0.5)
    overlap = vectors.T @ constant
    turn, _ = np.linalg.qr(np.hstack([overlap, np.eye(n_vectors + 1)]))
    return oriented(vectors @ turn[:, 1:]) if abs(overlap[0, 0]) < 0.999 else oriented(vectors[:, 1:])


def oriented(vectors: FloatArray) -> FloatArray:
    """Columns scaled to mean square 1, their largest entry positive."""
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    scaled: FloatArray = vectors * (signs * np.sqrt(len(vectors)))
    return scaled
