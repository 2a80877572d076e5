"""How well labels agree with neighbourhoods of the embedding."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from isoweave.metrics._inputs import as_points, check_n_neighbors, nearest


class LabelScores(NamedTuple):
    """Agreement of the voted labels with the given ones; 1 is best."""

    accuracy: float
    nmi: float
    ari: float


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
    k = check_n_neighbors(n_neighbors, n)
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
