"""SciPy's sparse factorisation, for positive definite matrices that are no graph's Laplacian."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from isoweave._forks import forks_wait
from isoweave._typing import FloatArray


@contextmanager
def symmetric_solver(matrix: sp.csr_array, shift: float) -> Iterator[Callable[[FloatArray], FloatArray]]:
    """Function that solves with ``matrix + shift I`` inside the block, for right-hand sides (n,) or (n, k).

    Forks by other threads wait until the block is left: while a thread holds a factor of SuperLU, SciPy (1.17
    and before) sets an error in every child that another thread forks, and Python's clean-up of threads in
    the child stops at it.
    """
    with forks_wait():
        factor = splu(
            sp.csc_array(matrix + shift * sp.eye_array(matrix.shape[0])),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        # The caller's name for the function outlives the block; the factor must not.
        held = [factor]
        del factor
        try:
            yield lambda rhs: np.asarray(held[0].solve(rhs))
        finally:
            held.clear()
