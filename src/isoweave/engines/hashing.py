"""Compiled kernels that hash the rows of a matrix."""

from __future__ import annotations

import numpy as np

from isoweave.engines.compile import helper, kernel


@helper
def _mix(x):
    """Finaliser of splitmix64: every bit of the result depends on every bit of ``x``."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def hash_rows(start, stop, bits, seed, hashes):
    """Hash of each row's bit patterns."""
    for i in range(start, stop):
        h = seed
        for j in range(bits.shape[1]):
            h = _mix(h + bits[i, j] + np.uint64(0x9E3779B97F4A7C15))
        hashes[i] = h


@kernel
def hash_sparse_rows(start, stop, bits, indices, indptr, seed, hashes):
    """Hash of each row's stored entries, their columns and bit patterns."""
    for i in range(start, stop):
        h = seed
        for e in range(indptr[i], indptr[i + 1]):
            h = _mix(h + np.uint64(indices[e]) + np.uint64(0x9E3779B97F4A7C15))
            h = _mix(h + bits[e])
        hashes[i] = h
