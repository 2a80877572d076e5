"""Cholesky factors of small matrices by LAPACK, as bands: nothing has to be compiled for them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dpbtrf, dpbtrs
from scipy.sparse.csgraph import reverse_cuthill_mckee

from isoweave._parallel import ThreadTeam, single_blas_thread
from isoweave._typing import AnyArray, FloatArray
from isoweave.engines.plain import LEAST_BANDED, MOST_BANDED

# Entries of the band at most. Beyond, solves take longer than with a sparse factor, and compiling pays.
_MOST = 2**19
# Part of its entry on the diagonal below which a pivot is rounding.
NO_PIVOT = 1e-14


INDEFINITE = "the Laplacian is not positive definite at vertex {}"


class PreparationError(RuntimeError):
    """A method could not be prepared: out of memory, or the matrix is not positive definite."""


class BandedCholesky:
    """The factor of a symmetric matrix in some order of its vertices; those left out are held at zero."""

    def __init__(self, matrix: sp.csr_array, order: AnyArray, width: int) -> None:
        self._order, place = order, np.full(matrix.shape[0], -1)
        place[order] = np.arange(len(order))
        entries = sp.coo_array(matrix)
        row, column = place[entries.row], place[entries.col]
        below = (row >= column) & (column >= 0)
        band = np.zeros((width + 1, len(order)), order="F")
        band[(row - column)[below], column[below]] = entries.data[below]
        with single_blas_thread():
            self._factor, failed = dpbtrf(band, lower=1)
        bad = np.flatnonzero(~(self._factor[0] ** 2 > NO_PIVOT * band[0]))
        if failed or len(bad):
            raise PreparationError(INDEFINITE.format(order[failed - 1 if failed else bad[0]]))

    @property
    def n_entries(self) -> int:
        return int(self._factor.size)

    def solve(self, rhs: FloatArray, team: ThreadTeam) -> FloatArray:
        """Solution for a block (n, N), in one thread."""
        out = np.zeros_like(rhs)
        with single_blas_thread():
            out[self._order] = dpbtrs(self._factor, rhs[self._order], lower=1)[0]
        return out


def banded_factor(matrix: sp.csr_array, ground: AnyArray) -> BandedCholesky | None:
    """The factor of a connected Laplacian, or None where a sparse one does better."""
    n = matrix.shape[0]
    if len(ground) != 1 or not LEAST_BANDED <= n <= MOST_BANDED:
        return None
    free = np.delete(np.arange(n), ground[0])
    inner = sp.csr_array(matrix[free][:, free])
    order = reverse_cuthill_mckee(inner, symmetric_mode=True)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    entries = sp.coo_array(inner)
    width = int(np.abs(place[entries.row] - place[entries.col]).max(initial=0))
    if len(order) * (width + 1) > _MOST:
        return None
    return BandedCholesky(matrix, free[order], width)
