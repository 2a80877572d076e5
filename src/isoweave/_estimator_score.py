"""The part of the estimator that scores new points, so that parameters can be searched."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from isoweave._parallel import thread_team

# The same number whatever n_neighbors is: scores of different n_neighbors must mean the same.
_SCORED_NEIGHBORS = 10


class ScoreMixin:
    """``score`` of :class:`isoweave.IsometricEmbedding`."""

    def score(self, X: Any, y: Any = None) -> float:
        """How well the map keeps the distances of new points to their neighbours; 0 is best.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, n_features) or (m, n_samples)
            As in :meth:`transform`; points that were not in the fit.
        y : ignored

        Returns
        -------
        float
            Minus the mean relative error of the distances from the placed points to their 10 nearest
            points of the fit (all that are stored, if X is sparse and ``metric="precomputed"``). Points
            that cannot be placed count with an error of 1, coinciding points not at all.

        Notes
        -----
        The 10 does not depend on ``n_neighbors``, so that ``GridSearchCV`` can search over it, and over
        ``frame_size``, ``shortcuts``, ``start`` and ``tol``. Scores under different metrics cannot be
        compared, and more dimensions hardly ever score lower: choose ``n_components`` where the score
        stops rising. With ``scale="geodesics"`` the map is larger than its edges on purpose, and scores
        lower for it. The score sees neighbourhoods; long distances are judged by
        :func:`isoweave.metrics.evaluate`.

        Examples
        --------
        >>> from isoweave import IsometricEmbedding
        >>> from isoweave.datasets import swiss_roll
        >>> X = swiss_roll(600, random_state=3).data
        >>> model = IsometricEmbedding(n_neighbors=8).fit(X[:500])
        >>> -0.1 < model.score(X[500:]) < 0
        True
        """
        check_is_fitted(self)
        estimator: Any = self
        coordinates = estimator._place(X).coordinates
        with thread_team(estimator.n_jobs) as team:
            placed, index = estimator._prepared(team)
            if index is None:
                bounds, neighbors, distances = estimator._given_distances(X, placed, _SCORED_NEIGHBORS)
                rows = np.repeat(np.arange(len(coordinates)), np.diff(bounds))
            else:
                X = validate_data(
                    estimator, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32]
                )
                neighbors, distances = index.neighbors(X, _SCORED_NEIGHBORS, team=team)
                rows = np.repeat(np.arange(len(coordinates)), neighbors.shape[1])
                neighbors, distances = neighbors.reshape(-1), distances.reshape(-1)
        apart = distances > 0
        if not apart.any():
            return 0.0
        rows, neighbors, distances = rows[apart], neighbors[apart], distances[apart]
        steps = coordinates[rows].astype(np.float64) - estimator.embedding_[neighbors]
        errors = np.abs(np.linalg.norm(steps, axis=1) - distances) / distances
        return -float(np.mean(np.where(np.isnan(errors), 1.0, errors)))
