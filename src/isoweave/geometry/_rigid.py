"""The rigid motion that brings points nearest to others."""

from __future__ import annotations

import numpy as np

from isoweave._typing import FloatArray


def rigid_motion(
    source: FloatArray, target: FloatArray, weights: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Orthogonal Q and shift t with ``source @ Q + t`` nearest to ``target``, both (n, N).

    Reflections are allowed. Where the points do not determine Q (fewer than N + 1 of them, or in a plane)
    it rotates as little as possible. ``weights`` (n,) say how much every point counts.
    """
    if weights is None:
        a, b = source.mean(axis=0), target.mean(axis=0)
        cross = (source - a).T @ (target - b)
    else:
        share = weights / weights.sum()
        a, b = share @ source, share @ target
        cross = (source - a).T @ (share[:, None] * (target - b))
    size = np.abs(cross).max(initial=0.0)
    u, _, v = np.linalg.svd(cross + (1e-9 * size if size > 0 else 1.0) * np.eye(len(cross)))
    return u @ v, b - a @ (u @ v)
