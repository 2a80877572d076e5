"""The part of the estimator that places new points in a finished map."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted, validate_data

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import AnyArray, FloatArray
from isoweave.embedding import EmbeddingOptions
from isoweave.graph import NeighborIndex, build_index, graph_from_matrix
from isoweave.place import (
    FinishedMap,
    Placement,
    finished_map,
    nearest_columns,
    place_points,
    sparse_rows,
)

# What placing needs of every fitted estimator, made on first use. Beside the estimators and not in them: it
# is neither copied nor saved, and using an estimator does not change it.
_PREPARED: WeakKeyDictionary[Any, tuple[AnyArray, FinishedMap, NeighborIndex | None]] = WeakKeyDictionary()


class NewPointsMixin:
    """``place`` of :class:`isoweave.IsometricEmbedding`, and what ``transform`` stands on."""

    # Also part of a saved model, beside the attributes that end in "_".
    _stored_attributes_ = ("_fit_X",)

    def place(self, X: Any) -> Placement:
        """Place new points in the map, and say how well they fit.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, n_features) or (m, n_samples)
            Features as in the fit. With ``metric="precomputed"`` distances from the new points to those of
            the fit: sparse, every stored entry is used and stored zeros are coincidences; or dense, of
            which the ``n_neighbors`` smallest in every row are used.

        Returns
        -------
        Placement
            ``coordinates`` (what :meth:`transform` returns), ``residual`` (0 is an exact fit, infinite is a
            guess), ``n_iter``, ``n_used`` and ``n_given``.

        Notes
        -----
        The map stays as it is, and new points do not see each other: each gets the same bits alone or in
        any batch. A point at distance zero of a point of the fit gets that point's coordinates. The first
        call prepares a search among the points of the fit, which later calls use again.

        Examples
        --------
        >>> from sklearn.datasets import make_swiss_roll
        >>> from isoweave import IsometricEmbedding
        >>> X, _ = make_swiss_roll(600, random_state=3)
        >>> model = IsometricEmbedding(n_neighbors=8).fit(X[:500])
        >>> placement = model.place(X[500:])
        >>> placement.coordinates.shape, bool((placement.residual < 0.5).mean() > 0.9)
        ((100, 2), True)
        """
        check_is_fitted(self)
        return self._place(X)

    def _place(self, X: Any) -> Placement:
        estimator: Any = self
        with thread_team(estimator.n_jobs) as team:
            if estimator._is_precomputed():
                placed = self._prepared(team)[0]
                rows = self._given_distances(X, placed)
            else:
                X = validate_data(
                    estimator, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32]
                )
                placed, index = self._prepared(team)
                assert index is not None
                neighbors, distances = index.neighbors(X, estimator.n_neighbors_, team=team)
                bounds = np.arange(len(neighbors) + 1) * neighbors.shape[1]
                rows = bounds, neighbors.reshape(-1), distances.reshape(-1)
            placement = place_points(placed, *rows, team=team)
        lost = np.flatnonzero(np.isnan(placement.residual))
        if len(lost):
            shown = ", ".join(map(str, lost[:5])) + (", ..." if len(lost) > 5 else "")
            warnings.warn(
                f"{len(lost)} of {len(placement.residual)} new points (rows {shown}) have neighbours that "
                "are not in the map (components='largest'); their coordinates are NaN.",
                UserWarning,
                stacklevel=3,
            )
        return replace(placement, coordinates=placement.coordinates.astype(estimator.embedding_.dtype))

    def _given_distances(
        self, X: Any, placed: FinishedMap, k: int | None = None
    ) -> tuple[AnyArray, AnyArray, FloatArray]:
        """Checked distances in compressed rows; of dense ones the k smallest, by default n_neighbors."""
        estimator: Any = self
        if sp.issparse(X):
            # Entries are checked when they are placed, which keeps stored zeros.
            X = validate_data(
                estimator, X, reset=False, accept_sparse=True, dtype=None, ensure_all_finite=False
            )
            return sparse_rows(X)
        X = validate_data(estimator, X, reset=False, dtype=[np.float64, np.float32])
        if k is None:
            k = estimator.n_neighbors if estimator.n_neighbors_ is None else estimator.n_neighbors_
        firsts = np.unique(placed.representative, return_index=True)[1].astype(np.int32)
        return nearest_columns(X, firsts, k)

    def _prepared(self, team: ThreadTeam) -> tuple[FinishedMap, NeighborIndex | None]:
        estimator: Any = self
        found = _PREPARED.get(self)
        if found is not None and found[0] is estimator.embedding_:
            return found[1:]
        graph = graph_from_matrix(estimator.graph_)
        placed = finished_map(
            graph,
            estimator.embedding_,
            team=team,
            labels=estimator.component_labels_,
            keeps_lengths=keeps_lengths(estimator._options(estimator.n_components_, 0)),
        )
        index = None
        if not estimator._is_precomputed():
            index = build_index(self._features(), estimator.metric, estimator.metric_params, team=team)
        _PREPARED[self] = estimator.embedding_, placed, index
        return placed, index

    def _features(self) -> Any:
        """The features of the fit; a model may have been saved before they were kept."""
        features = getattr(self, "_fit_X", None)
        if features is None:
            raise ValueError("This model was saved without the features of its fit; fit it again.")
        return features

    def _check_stored_(self) -> None:
        """Refuse a loaded model whose parts do not fit together."""
        estimator: Any = self
        features = getattr(self, "_fit_X", None)
        if features is None:
            return
        if not hasattr(self, "embedding_"):
            raise ValueError("_fit_X: there is no embedding_ that belongs to it")
        shape = (len(estimator.embedding_), estimator.n_features_in_)
        if getattr(features, "shape", None) != shape:
            raise ValueError(f"_fit_X: must have the shape {shape}")
        values = features.data if sp.issparse(features) else features
        if values.dtype.kind != "f" or not np.isfinite(values).all():
            raise ValueError("_fit_X: must hold finite numbers")


def keeps_lengths(options: EmbeddingOptions) -> bool:
    """Whether maps made with these options have the size of their edges."""
    return options.scale == "edges" and options.calibrate == "rows"
