"""The order in which a sparse factorisation eliminates vertices, which decides how much it fills in."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spilu

from isoweave._forks import forks_wait
from isoweave._typing import BoolArray, IntArray
from isoweave.engines.compile import kernel

# Beside a separator of w vertices the factor holds w^2 / 2 entries. Above this many times the entries
# of the matrix a factor is no use, and minimum degree takes minutes to find out.
MAX_FILL_RATIO = 50.0


def elimination_order(indptr: IntArray, indices: IntArray, start: int = 0) -> IntArray:
    """Fill-reducing order of a symmetric pattern.

    Multiple minimum degree, as SuperLU computes it: on graphs of surfaces it fills as little as nested
    dissection. Vertices of very high degree come last, for minimum degree is slow around them. Where
    even a breadth-first level in the middle of the graph is too large to be a separator, every order
    fills in and vertices are simply taken by increasing degree.

    Parameters
    ----------
    indptr, indices : int32 arrays
        Pattern in CSR form; a diagonal may be stored or not.
    start : int
        A vertex of the component that is probed for separators.

    Returns
    -------
    int32 array of shape (n,)
        Vertices, the first to be eliminated first.
    """
    n = len(indptr) - 1
    degrees = np.diff(indptr)
    by_degree = np.argsort(degrees, kind="stable").astype(np.int32)
    hubs = degrees > max(16.0, 10.0 * np.sqrt(n))
    n_hubs = int(np.count_nonzero(hubs))
    widest = np.sqrt(2 * MAX_FILL_RATIO * len(indices))
    if n < 4 or (n > widest and _separator(indptr, indices, start, hubs) > widest):
        return by_degree
    if n_hubs == 0:
        return _minimum_degree(sp.csc_array((np.ones(len(indices)), indices, indptr), shape=(n, n)))
    rest = np.sort(by_degree[: n - n_hubs])
    pattern = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(n, n))
    inner = _minimum_degree(sp.csc_array(pattern[rest][:, rest]))
    return np.concatenate([rest[inner], by_degree[n - n_hubs :]]).astype(np.int32)


def _separator(indptr: IntArray, indices: IntArray, start: int, hubs: BoolArray) -> int:
    """Size of a level in the middle of the graph without its hubs."""
    # Two searches: the first finds a vertex at the rim, from where levels are narrow.
    far = _middle_level(indptr, indices, start, hubs)[0]
    return _middle_level(indptr, indices, far, hubs)[1]


def _minimum_degree(pattern: sp.csc_array) -> IntArray:
    """SuperLU's order. With a dominant diagonal the incomplete factorisation drops all else at once."""
    n = pattern.shape[0]
    dominant = sp.csc_array(pattern + sp.eye_array(n, format="csc") * (1e3 * n))
    # Nothing of the factor may be left when a fork goes on: see linalg/_symmetric.py.
    with forks_wait():
        order = np.argsort(
            spilu(
                dominant,
                drop_tol=1.0,
                fill_factor=1.0,
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            ).perm_c
        )
    return order.astype(np.int32)


@kernel
def _middle_level(indptr: IntArray, indices: IntArray, start: int, skipped: BoolArray) -> tuple[int, int]:
    """Last vertex of a breadth-first search that skips some vertices, and the size of its middle level."""
    n = len(indptr) - 1
    queue = np.empty(n, np.int32)
    seen = skipped.copy()
    level_ends = np.empty(n + 1, np.int32)
    queue[0] = start
    seen[start] = True
    used, first, n_levels = 1, 0, 0
    while first < used:
        last = used
        level_ends[n_levels] = last
        n_levels += 1
        for t in range(first, last):
            for e in range(indptr[queue[t]], indptr[queue[t] + 1]):
                j = indices[e]
                if not seen[j]:
                    seen[j] = True
                    queue[used] = j
                    used += 1
        first = last
    begin = 0
    for t in range(n_levels):
        if level_ends[t] > used // 2:
            return queue[used - 1], level_ends[t] - begin
        begin = level_ends[t]
    return queue[used - 1], used
