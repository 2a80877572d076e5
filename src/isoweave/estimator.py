"""The scikit-learn estimator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import validate_data

from isoweave._typing import AnyArray
from isoweave._validation import check_integer
from isoweave.embedding import embed, resolve_options
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


class IsometricEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Map whose Euclidean distances match the distances of neighbours and the geodesics beyond.

    Local Euclidean frames are scaled from the distances around every point and woven into one map by
    minimising the mismatch between the map's differences and the rotated frames. Everything stays sparse.

    Parameters
    ----------
    n_components : int or "auto", default=2
        Dimension of the map. "auto" estimates the intrinsic dimension from the ratios of the two nearest
        distances.
    n_neighbors : int, default=10
        Neighbours per point, for features and for a dense distance matrix. Clipped to ``n_samples - 1`` with
        a warning.
    metric : str or callable, default="euclidean"
        Any metric of scikit-learn. "precomputed": X is a sparse graph of distances, used as it is
        (stored zeros are duplicates), or a dense matrix of all distances, of which ``n_neighbors`` per
        point are used.
    metric_params : dict, default=None
    preset : {"default", "paper"}, default="default"
        "paper" is the method as published, for comparison.
    start : {"auto", "landmark", "synchronised", "coarse", "identity"} or array, default="auto"
        Where the optimisation begins; an array has shape (n_samples, n_components).
    solver : {"auto", "direct", "cholmod", "amg", "jacobi", "ic"}, default="auto"
    inner_product : {"auto", "edge", "paper"}, default="auto"
    frame_size : "auto", "all", int or float, default="auto"
        Points per local frame; a float is a multiple of the number of neighbours, "auto" is 2.5.
    calibrate : bool or {"auto", "rows", "vertices", "none"}, default="auto"
        Rescale the frames to the measured distances.
    scale : {"edges", "geodesics"}, default="edges"
        Whether the overall size follows the distances of neighbours or the shortest paths.
    shortcuts : {"auto", "drop", "keep"}, default="auto"
        Remove edges that short-circuit the data.
    components : {"separate", "largest", "bridge", "error"}, default="separate"
        What to do when the graph is disconnected.
    asymmetry : {"error", "max", "min", "mean"}, default="error"
        For a precomputed graph whose two directions of an edge differ by more than rounding.
    tol : float, default=None
        Iterations end when one more sweep would change the map by less than ``tol`` times the misfit that is
        left; None is 0.03 (1e-7 on the alignments, the paper's rule, with ``preset="paper"``).
    max_iter : int, default=None
        None is 500 (1000 with ``preset="paper"``).
    n_jobs : int, default=None
        Threads; None and -1 take all cores. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds what is random: approximate neighbours, projections of hull volumes. None is a fixed seed.
    verbose : int, default=0
    callback : callable, default=None
        Called after every step with an object that has ``stage``, ``iteration``, ``energy``,
        ``gradient_norm`` and ``coordinates``; returning True stops the iteration.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
    graph_ : scipy.sparse.csr_array of shape (n_samples, n_samples)
        The symmetric graph of distances.
    alignments_ : array of shape (n_samples, n_components, n_components)
    energy_ : float
    relative_energy_ : float
        Energy over that of the collapsed map: 0 is an exact isometry. Its root is the misfit of the edges.
    history_ : tuple of StepRecord
    n_iter_ : int
    status_ : str
        "converged", "stalled", "max_iter" or "stopped".
    component_labels_ : int array of shape (n_samples,)
    stretch_ : array of shape (n_samples, n_components)
        Singular values of the local differential; 1 where lengths are kept.
    dropped_edges_ : int array of shape (n_dropped, 2)
    n_components_ : int
        Dimension of the map, estimated if asked for.
    n_neighbors_ : int or None
        Neighbours used; None for a graph given as it is.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from isoweave import IsometricEmbedding
    >>> X, _ = make_swiss_roll(500, random_state=3)
    >>> IsometricEmbedding(n_components=2, n_neighbors=8).fit_transform(X).shape
    (500, 2)
    """

    def __init__(
        self,
        n_components: int | str = 2,
        *,
        n_neighbors: int = 10,
        metric: Any = "euclidean",
        metric_params: dict[str, Any] | None = None,
        preset: str = "default",
        start: Any = "auto",
        solver: str = "auto",
        inner_product: str = "auto",
        frame_size: int | float | str = "auto",
        calibrate: bool | str = "auto",
        scale: str = "edges",
        shortcuts: bool | str = "auto",
        components: str = "separate",
        asymmetry: str = "error",
        tol: float | None = None,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.metric_params = metric_params
        self.preset = preset
        self.start = start
        self.solver = solver
        self.inner_product = inner_product
        self.frame_size = frame_size
        self.calibrate = calibrate
        self.scale = scale
        self.shortcuts = shortcuts
        self.components = components
        self.asymmetry = asymmetry
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Any, y: Any = None) -> IsometricEmbedding:
        """Embed X; the result is in ``embedding_``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features) or (n_samples, n_samples)
            Features, or distances with ``metric="precomputed"``.
        y : ignored

        Returns
        -------
        self
        """
        seed = _seed(self.random_state)
        # Options are checked before any work, with a placeholder where the dimension is still
        # to be estimated.
        auto = isinstance(self.n_components, str) and self.n_components == "auto"
        self._options(1 if auto else self.n_components, seed)
        X, graph = self._distance_graph(X, seed)
        n_components = self._dimension(X, graph) if auto else self.n_components
        options = self._options(n_components, seed)
        if self.components == "bridge" and connected_components(graph)[0] > 1:
            graph = self._bridged(X, graph, options.n_components)
        result = embed(graph, options, n_jobs=self.n_jobs, verbose=self.verbose, callback=self.callback)
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
        self.embedding_ = result.coordinates.astype(dtype, copy=False)
        self.graph_ = graph.to_matrix()
        self.alignments_ = result.alignments
        self.energy_ = result.energy
        self.relative_energy_ = result.relative_energy
        self.history_ = result.history
        self.n_iter_ = result.n_iter
        self.status_ = result.status
        self.component_labels_ = result.component_labels
        self.stretch_ = result.stretch
        self.dropped_edges_ = result.dropped_edges
        self.n_components_ = options.n_components
        return self

    def fit_transform(self, X: Any, y: Any = None) -> AnyArray:
        """Embed X and return the map, shape (n_samples, n_components)."""
        return self.fit(X).embedding_

    def _options(self, n_components: Any, seed: int) -> Any:
        return resolve_options(
            n_components,
            preset=self.preset,
            start=self.start,
            solver=self.solver,
            inner_product=self.inner_product,
            frame_size=self.frame_size,
            calibrate=self.calibrate,
            scale=self.scale,
            shortcuts=self.shortcuts,
            components=self.components,
            tol=self.tol,
            max_iter=self.max_iter,
            seed=seed,
        )

    def _distance_graph(self, X: Any, seed: int) -> tuple[Any, NeighborGraph]:
        """Validated input and its graph; sets ``n_neighbors_``."""
        precomputed = isinstance(self.metric, str) and self.metric == "precomputed"
        if precomputed and sp.issparse(X):
            # Entries are checked by graph_from_matrix, which names the first bad one and keeps stored zeros.
            X = validate_data(
                self,
                X,
                accept_sparse=True,
                dtype=None,
                ensure_min_samples=0,
                ensure_min_features=0,
                ensure_all_finite=False,
            )
            self.n_neighbors_ = None
            return X, graph_from_matrix(X, asymmetry=self.asymmetry)
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=2)
        self.n_neighbors_ = self.n_neighbors
        if self.n_neighbors >= X.shape[0]:
            self.n_neighbors_ = X.shape[0] - 1
            warnings.warn(
                f"n_neighbors={self.n_neighbors} is not smaller than n_samples={X.shape[0]}; "
                f"{self.n_neighbors_} neighbours are used.",
                UserWarning,
                stacklevel=3,
            )
        if precomputed:
            return X, knn_from_distances(X, self.n_neighbors_)
        return X, knn_graph(
            X,
            self.n_neighbors_,
            metric=self.metric,
            metric_params=self.metric_params,
            n_jobs=self.n_jobs,
            random_state=seed,
        )

    def _dimension(self, X: Any, graph: NeighborGraph) -> int:
        """Intrinsic dimension of the data, never more than its points can span."""
        if isinstance(self.metric, str) and self.metric == "precomputed":
            value = intrinsic_dimension_graph(graph)
        else:
            value = intrinsic_dimension(
                X, metric=self.metric, metric_params=self.metric_params, n_jobs=self.n_jobs
            )
        return min(choose_n_components(value), graph.n_vertices - 1)

    def _bridged(self, X: Any, graph: NeighborGraph, n_components: int) -> NeighborGraph:
        if isinstance(self.metric, str) and self.metric == "precomputed":
            raise ValueError(
                "components='bridge' needs features to measure distances between components, but "
                "metric='precomputed' was given. Use components='separate', 'largest' or 'error'."
            )
        return bridge_components(
            graph, X, metric=self.metric, metric_params=self.metric_params, n_bridges=n_components + 1
        )

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = isinstance(self.metric, str) and self.metric == "precomputed"
        tags.input_tags.positive_only = tags.input_tags.pairwise
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _seed(random_state: Any) -> int:
    """A fixed seed for None, the number itself for an integer, otherwise a draw."""
    if random_state is None:
        return 0
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(check_integer("random_state", random_state, minimum=0))
    draw: AnyArray = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=1)
    return int(draw[0])
