"""Incomplete Cholesky with a drop tolerance as a preconditioner for blocks.

The paper solves its Poisson problem this way. Maintained packages offer incomplete LU only (not
symmetric) or come without wheels, so the factorisation is here: left-looking by columns, with a
larger diagonal when a pivot fails (Manteuffel, 1980).
"""

from __future__ import annotations

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.engines.compile import kernel
from isoweave.linalg._base import Laplacian, PreparationError
from isoweave.linalg._cholesky import sort_range

_DROP_TOL = 3e-3
# Entries kept per column beside as many as the matrix has there.
_EXTRA = 30
_SHIFTS = (0.0, 1e-3, 1e-2, 1e-1, 1.0)


class IncompleteCholesky:
    """``L Lᵀ`` close to the Laplacian, entries under ``drop_tol`` times their column's norm left out."""

    name = "ic"

    def __init__(self, laplacian: Laplacian, team: ThreadTeam, drop_tol: float = _DROP_TOL) -> None:
        # Doubling the diagonal at one vertex per component makes the matrix definite; the constants,
        # which this changes, do not occur in projected right-hand sides.
        grounded = np.zeros(laplacian.n)
        grounded[laplacian.ground] = 1.0
        for self.shift in _SHIFTS:
            diagonal = laplacian.diagonal * (1.0 + self.shift + grounded)
            diagonal[laplacian.diagonal <= 0.0] = 1.0
            self._factor = _incomplete_factor(
                laplacian.indptr, laplacian.indices, laplacian.data, diagonal, drop_tol, _EXTRA
            )
            if self._factor[3] < 0:
                return
        raise PreparationError(
            f"no incomplete Cholesky factor even with the diagonal multiplied by {1 + _SHIFTS[-1]:g} "
            f"(pivot of vertex {self._factor[3]})"
        )

    def apply(self, residual: FloatArray, out: FloatArray) -> None:
        out[:] = residual
        _substitute(*self._factor[:3], out)


@kernel
def _incomplete_factor(
    indptr: IntArray, indices: IntArray, data: FloatArray, diagonal: FloatArray, drop_tol: float, extra: int
) -> tuple[AnyArray, IntArray, FloatArray, int]:
    """Columns of the factor, diagonal entry first, and the column that failed or -1."""
    n = len(diagonal)
    bound = n * (1 + extra)
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] > i:
                bound += 1
    ptr = np.zeros(n + 1, np.int64)
    rows = np.empty(bound, np.int32)
    values = np.empty(bound, np.float64)
    work = np.zeros(n)
    listed = np.empty(n, np.int32)
    seen = np.full(n, -1, np.int32)
    # waiting[i] heads the list of earlier columns whose next unused entry, at cursor, is in row i.
    waiting = np.full(n, -1, np.int32)
    following = np.full(n, -1, np.int32)
    cursor = np.zeros(n, np.int64)
    for j in range(n):
        used, norm, n_matrix = 0, diagonal[j], 0
        pivot = diagonal[j]
        for e in range(indptr[j], indptr[j + 1]):
            i = indices[e]
            if i != j:
                norm += abs(data[e])
            if i > j:
                seen[i] = j
                work[i] = data[e]
                listed[used] = i
                used += 1
                n_matrix += 1
        c = waiting[j]
        while c != -1:
            after = following[c]
            weight = values[cursor[c]]
            pivot -= weight * weight
            for e in range(cursor[c] + 1, ptr[c + 1]):
                i = rows[e]
                if seen[i] != j:
                    seen[i] = j
                    work[i] = 0.0
                    listed[used] = i
                    used += 1
                work[i] -= weight * values[e]
            cursor[c] += 1
            if cursor[c] < ptr[c + 1]:
                i = rows[cursor[c]]
                following[c] = waiting[i]
                waiting[i] = c
            c = after
        if not pivot > 1e-10 * diagonal[j]:
            return ptr, rows, values, j
        pivot = np.sqrt(pivot)
        threshold = drop_tol * norm
        kept = 0
        for t in range(used):
            if abs(work[listed[t]]) > threshold:
                listed[kept] = listed[t]
                kept += 1
        # Too many for the space set aside: keep the largest.
        while kept > n_matrix + extra:
            threshold *= 2.0
            used, kept = kept, 0
            for t in range(used):
                if abs(work[listed[t]]) > threshold:
                    listed[kept] = listed[t]
                    kept += 1
        sort_range(listed, 0, kept)
        first = ptr[j]
        rows[first], values[first] = j, pivot
        for t in range(kept):
            rows[first + 1 + t] = listed[t]
            values[first + 1 + t] = work[listed[t]] / pivot
        ptr[j + 1] = first + 1 + kept
        cursor[j] = first + 1
        if kept > 0:
            following[j] = waiting[listed[0]]
            waiting[listed[0]] = j
    return ptr, rows[: ptr[n]].copy(), values[: ptr[n]].copy(), -1


@kernel
def _substitute(ptr: AnyArray, rows: IntArray, values: FloatArray, x: FloatArray) -> None:
    """Overwrite the block ``x`` with the solution of ``L Lᵀ y = x``."""
    n, width = x.shape
    for j in range(n):
        first = ptr[j]
        for b in range(width):
            x[j, b] /= values[first]
        for e in range(first + 1, ptr[j + 1]):
            weight = values[e]
            i = rows[e]
            for b in range(width):
                x[i, b] -= weight * x[j, b]
    for j in range(n - 1, -1, -1):
        first = ptr[j]
        for e in range(first + 1, ptr[j + 1]):
            weight = values[e]
            i = rows[e]
            for b in range(width):
                x[j, b] -= weight * x[i, b]
        for b in range(width):
            x[j, b] /= values[first]
