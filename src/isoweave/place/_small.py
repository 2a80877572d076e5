"""Compiled kernels: small linear systems, sorted rows, distances of queries to candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def factor(matrix: Any, ridge: float, lower: Any) -> None:
    """Cholesky factor of a positive semi-definite matrix plus ``ridge`` on the diagonal."""
    n = matrix.shape[0]
    for c in range(n):
        for r in range(c, n):
            value = matrix[r, c]
            if r == c:
                value += ridge
            for k in range(c):
                value -= lower[r, k] * lower[c, k]
            if r == c:
                # Rounding can eat the ridge of a singular matrix.
                lower[c, c] = np.sqrt(max(value, 0.5 * ridge))
            else:
                lower[r, c] = value / lower[c, c]


@njit(nogil=True, cache=True)
def substitute(lower: Any, x: Any) -> None:
    """Solve with a Cholesky factor, in place."""
    n = len(x)
    for r in range(n):
        for k in range(r):
            x[r] -= lower[r, k] * x[k]
        x[r] /= lower[r, r]
    for r in range(n - 1, -1, -1):
        for k in range(r + 1, n):
            x[r] -= lower[k, r] * x[k]
        x[r] /= lower[r, r]


@njit(nogil=True, cache=True)
def sort_rows(
    start: int, stop: int, starts: Any, vertices: Any, lengths: Any, limit: int, counts: Any
) -> None:
    """Sort the rows start..stop by length, in place; a vertex given twice counts once, at the smaller length.

    ``counts[i]`` entries at the front of row i are what is left, ``limit`` at most; ties go by vertex.
    """
    for i in range(start, stop):
        lo, hi = starts[i], starts[i + 1]
        order = np.argsort(vertices[lo:hi], kind="mergesort")
        names = vertices[lo:hi][order]
        values = lengths[lo:hi][order]
        count = 0
        for a in range(hi - lo):
            if count > 0 and names[count - 1] == names[a]:
                values[count - 1] = min(values[count - 1], values[a])
            else:
                names[count] = names[a]
                values[count] = values[a]
                count += 1
        order = np.argsort(values[:count], kind="mergesort")
        counts[i] = min(count, limit)
        for a in range(counts[i]):
            vertices[lo + a] = names[order[a]]
            lengths[lo + a] = values[order[a]]
