"""Agreement with known coordinates, up to an affine map or a rigid motion, and with labels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from isoweave._typing import FloatArray
from isoweave.metrics._inputs import as_points, nearest, neighbor_count


class LabelScores(NamedTuple):
    """Agreement of the voted labels with the given ones; 1 is best."""

    accuracy: float
    nmi: float
    ari: float


def parameter_error(parameters: Any, embedding: Any) -> float:
    """Residual of the best affine map from the embedding to the parameters, over their variance.

    Parameters
    ----------
    parameters : array of shape (n, d)
        True intrinsic coordinates.
    embedding : array of shape (n, N)

    Returns
    -------
    float
        ``min_{B, c} ||P - Y B - c||_F^2 / ||P - mean||_F^2``, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from isoweave.metrics import parameter_error
    >>> p = np.random.default_rng(3).normal(size=(50, 2))
    >>> parameter_error(p, p @ [[2.0, 1.0], [0.0, 3.0]] + 5.0) < 1e-25
    True
    """
    y = _centred(as_points(embedding, "embedding"))
    p = _centred(as_points(parameters, "parameters", len(y)))
    variance = _variance(p, "parameters")
    # Only the column space of y matters; numerically null directions must not be fitted.
    u, s, _ = np.linalg.svd(y, full_matrices=False)
    u = u[:, s > s[0] * max(y.shape) * np.finfo(np.float64).eps] if s[0] > 0.0 else u[:, :0]
    residual = p - u @ (u.T @ p)
    return min(1.0, float(np.sum(residual**2)) / variance)


def procrustes_error(truth: Any, embedding: Any) -> float:
    """Residual of the best rigid motion of the embedding onto the truth, over the truth's variance.

    Translations, rotations and reflections are free, scaling is not. Where the dimensions differ the
    smaller one is padded with zeros.

    Parameters
    ----------
    truth : array of shape (n, d)
    embedding : array of shape (n, N)

    Returns
    -------
    float
        ``min_{R orthogonal, c} ||T - Y R - c||_F^2 / ||T - mean||_F^2``. A squared ratio: rounding
        alone leaves about 1e-30.

    Examples
    --------
    >>> import numpy as np
    >>> from isoweave.metrics import procrustes_error
    >>> t = np.random.default_rng(3).normal(size=(50, 2))
    >>> procrustes_error(t, t @ [[0.0, 1.0], [1.0, 0.0]] + 5.0) < 1e-28
    True
    >>> round(procrustes_error(t, 1.1 * t), 12)
    0.01
    """
    y = _centred(as_points(embedding, "embedding"))
    t = _centred(as_points(truth, "truth", len(y)))
    variance = _variance(t, "truth")
    width = max(t.shape[1], y.shape[1])
    t, y = (np.pad(points, ((0, 0), (0, width - points.shape[1]))) for points in (t, y))
    u, _, vt = np.linalg.svd(y.T @ t)
    # The residual itself, never ||T||^2 + ||Y||^2 - 2 sum(s), which cancels below 1e-16.
    return float(np.sum((t - y @ (u @ vt)) ** 2)) / variance


def _centred(points: FloatArray) -> FloatArray:
    """Subtract the mean twice: the second pass removes the rounding of a large offset's mean."""
    centred = points - points.mean(axis=0)
    centred -= centred.mean(axis=0)
    return centred


def _variance(points: FloatArray, name: str) -> float:
    variance = float(np.sum(points**2))
    if variance == 0.0:
        raise ValueError(f"{name} must not be constant: all {len(points)} rows are equal.")
    return variance


def label_scores(labels: Any, embedding: Any, *, n_neighbors: int) -> LabelScores:
    """Accuracy, normalised mutual information and adjusted Rand index of a neighbours' vote.

    Every point receives the label with the largest sum of weights among its k nearest others in the
    embedding. A neighbour at distance d weighs ``1 / (1 + exp(d / m))``, m the mean of all the
    distances to k nearest neighbours. Ties go to the label that sorts first.

    Parameters
    ----------
    labels : array of shape (n,)
        Integers, strings or booleans.
    embedding : array of shape (n, N)
    n_neighbors : int
        Number of voters k.

    Returns
    -------
    LabelScores
        Named tuple (accuracy, nmi, ari).
    """
    y = as_points(embedding, "embedding")
    n = len(y)
    given = np.asarray(labels)
    if given.shape != (n,):
        raise ValueError(f"labels must have shape ({n},), one per vertex, got {given.shape}.")
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        raise ValueError(
            f"labels must be known, got {given[~np.isfinite(given)][0]} at "
            f"{np.flatnonzero(~np.isfinite(given))[0]}."
        )
    k = neighbor_count(n_neighbors, n)
    classes, codes = np.unique(given, return_inverse=True)
    distances, neighbors = nearest(y, k)
    mean = distances.mean()
    weights = 1.0 / (1.0 + np.exp(distances / mean)) if mean > 0.0 else np.full((n, k), 0.5)
    votes = sp.coo_array(
        (weights.ravel(), (np.repeat(np.arange(n), k), codes[neighbors].ravel())), shape=(n, len(classes))
    )
    voted = np.asarray(votes.tocsr().argmax(axis=1)).ravel()
    return LabelScores(
        float(np.mean(voted == codes)),
        float(normalized_mutual_info_score(codes, voted)),
        float(adjusted_rand_score(codes, voted)),
    )
