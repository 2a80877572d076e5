"""The part of the estimator that makes its distance graph."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from isoweave._validation import check_integer
from isoweave.embedding import EmbeddingOptions
from isoweave.graph import (
    NeighborGraph,
    bridge_components,
    choose_n_components,
    connected_components,
    graph_from_matrix,
    intrinsic_dimension,
    intrinsic_dimension_graph,
    knn_from_distances,
    knn_graph,
)
from isoweave.interop import distances_of


class GraphMixin:
    """From features or distances to a graph, as the parameters of the estimator say."""

    metric: Any
    metric_params: dict[str, Any] | None
    n_neighbors: int
    components: str
    asymmetry: str
    n_jobs: int | None
    n_neighbors_: int | None

    def _is_precomputed(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "precomputed"

    def _distance_graph(self, X: Any, seed: int) -> tuple[Any, NeighborGraph]:
        """Validated input and its graph; sets ``n_neighbors_``."""
        X = self._checked_input(X)
        if self._is_given_graph(X):
            self.n_neighbors_ = None
            return X, graph_from_matrix(X, asymmetry=self.asymmetry)
        return X, self._graph_of(X, seed)

    def _is_given_graph(self, X: Any) -> bool:
        return self._is_precomputed() and sp.issparse(X)

    def _checked_input(self, X: Any) -> Any:
        """Input as the later stages need it."""
        if self._is_precomputed():
            X = distances_of(X)
        if self._is_given_graph(X):
            # Entries are checked by graph_from_matrix, which names the first bad one and keeps stored zeros.
            return validate_data(
                self,
                X,
                accept_sparse=True,
                dtype=None,
                ensure_min_samples=0,
                ensure_min_features=0,
                ensure_all_finite=False,
            )
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2
        )

    def _graph_of(self, X: Any, seed: int) -> NeighborGraph:
        """Graph of nearest neighbours of checked features or distances; sets ``n_neighbors_``."""
        k = self.n_neighbors
        if k >= X.shape[0]:
            k = X.shape[0] - 1
            warnings.warn(
                f"n_neighbors={self.n_neighbors} is not smaller than n_samples={X.shape[0]}; "
                f"{k} neighbours are used.",
                UserWarning,
                stacklevel=4,
            )
        self.n_neighbors_ = k
        if self._is_precomputed():
            return knn_from_distances(X, k)
        return knn_graph(
            X,
            k,
            metric=self.metric,
            metric_params=self.metric_params,
            n_jobs=self.n_jobs,
            random_state=seed,
        )

    def _dimension(self, X: Any, graph: NeighborGraph) -> int:
        """Intrinsic dimension of the data, never more than its points can span."""
        if self._is_precomputed():
            value = intrinsic_dimension_graph(graph)
        else:
            value = intrinsic_dimension(
                X, metric=self.metric, metric_params=self.metric_params, n_jobs=self.n_jobs
            )
        return min(choose_n_components(value), graph.n_vertices - 1)

    def _joined(self, X: Any, graph: NeighborGraph, options: EmbeddingOptions) -> NeighborGraph:
        """The graph, its components bridged if that is asked for."""
        if self.components != "bridge" or connected_components(graph)[0] == 1:
            return graph
        if self._is_precomputed():
            raise ValueError(
                "components='bridge' needs features to measure distances between components, but "
                "metric='precomputed' was given. Use components='separate', 'largest' or 'error'."
            )
        return bridge_components(
            graph,
            X,
            metric=self.metric,
            metric_params=self.metric_params,
            n_bridges=options.n_components + 1,
        )
