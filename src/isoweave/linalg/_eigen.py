"""Positive definite matrices that are no graph's Laplacian: SciPy's factorisation, lowest eigenvectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from isoweave._forks import forks_wait
from isoweave._typing import FloatArray
from isoweave.linalg._cholesky import SYMMETRIC

_TOLERANCE = 1e-10  # of residuals, beside the mean diagonal
_STANDSTILL = 3e-3  # relative change of the eigenvalues in a sweep


@contextmanager
def symmetric_solver(matrix: sp.csr_array, shift: float) -> Iterator[Callable[[FloatArray], FloatArray]]:
    """Function that solves with ``matrix + shift I`` inside the block, for right-hand sides (n,) or (n, k).

    Forks by other threads wait until the block is left: while a thread holds a factor of SuperLU, SciPy (1.17
    and before) sets an error in every child that another thread forks, and Python's clean-up of threads in
    the child stops at it.
    """
    with forks_wait():
        # The caller's name for the function outlives the block; the factor must not.
        held = [splu(sp.csc_array(matrix + shift * sp.eye_array(matrix.shape[0])), **SYMMETRIC)]
        try:
            yield lambda rhs: np.asarray(held[0].solve(rhs))
        finally:
            held.clear()


def lowest_eigenvectors(
    matrix: sp.csr_array, n_wanted: int, *, rough: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Smallest eigenpairs of a positive semi-definite matrix by block inverse iteration.

    On flat data the eigenvalue zero of a connection Laplacian is exactly N-fold, which single-vector Krylov
    methods miss copies of; a block of more than N vectors cannot.

    Parameters
    ----------
    matrix : sparse array of shape (n, n)
    n_wanted : int
    rough : bool
        Stop once the eigenvalues hardly move (25 sweeps at most) instead of at small residuals (200 sweeps),
        with a wider block: for a caller that improves the vectors anyway.

    Returns
    -------
    values : (n_wanted,)
    vectors : (n, n_wanted)
    """
    n_extra, max_sweeps = (6, 25) if rough else (3, 200)
    size = matrix.shape[0]
    scale = float(matrix.diagonal().mean())
    shift = 1e-9 * max(scale, np.finfo(float).tiny)
    block = np.random.default_rng(7).standard_normal((size, min(n_wanted + n_extra, size)))
    values = before = np.full(n_wanted, np.inf)
    with symmetric_solver(matrix, shift) as solve:
        for _ in range(max_sweeps):
            block, _ = np.linalg.qr(solve(block))
            small = block.T @ (matrix @ block)
            all_values, rotation = np.linalg.eigh(0.5 * (small + small.T))
            block = block @ rotation
            values, vectors = all_values[:n_wanted], block[:, :n_wanted]
            if rough:
                now = np.maximum(values, shift)
                if np.all(before - now <= _STANDSTILL * now):
                    break
                before = now
            else:
                residual = np.linalg.norm(matrix @ vectors - vectors * values, axis=0)
                if residual.max() <= _TOLERANCE * scale:
                    break
    return values, vectors
