"""The scikit-learn estimator."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from isoweave._estimator_callbacks import CallbacksMixin
from isoweave._estimator_graph import GraphMixin
from isoweave._estimator_growth import GrowthMixin
from isoweave._estimator_points import NewPointsMixin
from isoweave._estimator_run import RunMixin
from isoweave._estimator_score import ScoreMixin
from isoweave._typing import AnyArray
from isoweave._validation import check_integer
from isoweave.embedding import Embedding, EmbeddingOptions, check_known, embed, resolve_options
from isoweave.graph import NeighborGraph


class IsometricEmbedding(
    ScoreMixin,
    GrowthMixin,
    NewPointsMixin,
    RunMixin,
    CallbacksMixin,
    GraphMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
):
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
    refine : {"none", "distances"}, default="none"
        "distances" goes on from the finished map to the least squares of the edges' lengths: better where the
        data do lie in ``n_components`` dimensions, above all if distances were measured with errors; worse on
        closed surfaces in too few dimensions.
    tol : float, default=None
        Iterations end when one more sweep would change the map by less than ``tol`` times the misfit that is
        left; None is 0.03 (1e-7 on the alignments, the paper's rule, with ``preset="paper"``).
    max_iter : int, default=None
        None is 500 (1000 with ``preset="paper"``).
    n_jobs : int, default=None
        Threads; None and -1 take all cores. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds what is random: approximate neighbours, projections of hull volumes. None is a fixed seed.
    memory_limit : float or str, default=None
        Refuse with a MemoryError, before the work begins, a fit whose process would grow beyond this: bytes,
        or text as "4GB". None is 90 % of what the machine or its container allows, "none" no limit.
    verbose : int, default=0
        1 prints what was found on the way, 2 also every stage, and about once a second the step, the misfit
        and the time left. All of it goes to the logger "isoweave" too.
    callback : callable, default=None
        Called after every step with an object that has ``stage``, ``iteration``, ``energy``,
        ``gradient_norm`` and ``coordinates``; returning True stops the iteration.
    checkpoint : isoweave.Checkpoint, default=None
        Where :meth:`fit` keeps its state, and whether it goes on from there.
    on_interrupt : {"raise", "return"}, default="raise"
        What Ctrl-C does: raise KeyboardInterrupt (with a checkpoint: after the step, once the state is
        written), or end the fit with the best map so far and ``status_="interrupted"``. A second Ctrl-C
        raises at once.

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
        "converged", "stalled", "max_iter", "stopped" (by the callback) or "interrupted" (by Ctrl-C).
    component_labels_ : int array of shape (n_samples,)
    stretch_ : array of shape (n_samples, n_components)
        Singular values of the local differential; 1 where lengths are kept.
    dropped_edges_ : int array of shape (n_dropped, 2)
    n_components_ : int
        Dimension of the map, estimated if asked for.
    n_neighbors_ : int or None
        Neighbours used; None for a graph given as it is.
    n_features_in_ : int

    Notes
    -----
    :meth:`transform` and :meth:`place` put new points into the finished map; :meth:`add_samples` and
    :meth:`update_graph` go on from it when points or edges have come or gone. For them the estimator keeps
    the features it was fitted on: the array itself, not a copy, so do not write into it.

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
        refine: str = "none",
        tol: float | None = None,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        memory_limit: float | str | None = None,
        verbose: int = 0,
        callback: Any = None,
        checkpoint: Any = None,
        on_interrupt: str = "raise",
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
        self.refine = refine
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.callback = callback
        self.checkpoint = checkpoint
        self.on_interrupt = on_interrupt

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        edge_weights: Any = None,
        vertex_weights: Any = None,
        anchors: Any = None,
        anchor_positions: Any = None,
        anchor_weight: Any = None,
    ) -> IsometricEmbedding:
        """Embed X; the result is in ``embedding_``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features) or (n_samples, n_samples)
            Features, or distances with ``metric="precomputed"``; then also a graph of networkx or igraph
            whose edge attribute "weight" is the length.
        y : ignored
        edge_weights : sparse matrix or array of shape (n_samples, n_samples), default=None
            How far to trust every distance of a precomputed graph: positive, with the pattern of X.
        vertex_weights : array of shape (n_samples,), default=None
            How much the surroundings of every point count, positive. (Not scikit-learn's ``sample_weight``: a
            point of weight 2 is not two points.)
        anchors : int array of shape (a,) or bool array of shape (n_samples,), default=None
            Points whose positions in the map are known; the map is then in their coordinates.
        anchor_positions : array of shape (a, n_components), default=None
            In the order of ``anchors``; with ``n_components="auto"`` they say the dimension.
        anchor_weight : float or array of shape (a,), default=None
            None or infinite: anchors stay exactly there; finite: they are pulled there. See
            :func:`isoweave.embed_graph`.

        Returns
        -------
        self
        """
        seed = self._seed()
        # Options are checked before any work, with a placeholder where the dimension is still
        # to be estimated.
        if edge_weights is not None and not self._is_precomputed():
            raise ValueError(
                "edge_weights are for metric='precomputed'; from features the graph is only made in fit."
            )
        options = self._options(1 if self._is_auto() else self.n_components, seed)
        X = self._checked_input(X)
        given = {
            "edge_weights": edge_weights,
            "vertex_weights": vertex_weights,
            "anchors": anchors,
            "anchor_positions": anchor_positions,
            "anchor_weight": anchor_weight,
        }
        with self._running(X, options, given) as run, self._watched(X) as callback:
            graph, n_components = self._graph_and_dimension(X, seed, run, anchor_positions)
            options = self._options(n_components, seed)
            known = check_known(graph, options.n_components, **given)
            result = embed(graph, options, n_jobs=self.n_jobs, callback=callback, run=run, known=known)
            self._keep(X, graph, result)
        return self

    def fit_transform(self, X: Any, y: Any = None, **known: Any) -> AnyArray:
        """Embed X and return the map, shape (n_samples, n_components); keywords as in :meth:`fit`."""
        return self.fit(X, **known).embedding_

    def transform(self, X: Any) -> AnyArray:
        """Coordinates of new points in the map, which stays as it is; see :meth:`place`.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, n_features) or (m, n_samples)
            Features, or with ``metric="precomputed"`` distances to the points of the fit.

        Returns
        -------
        array of shape (m, n_components)
            A point of the fit gets its own row of ``embedding_``.
        """
        check_is_fitted(self)
        return self._place(X).coordinates

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save parameters and what was fitted as one file; see :func:`isoweave.save`."""
        from isoweave.persist import save_model

        save_model(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Load an estimator that was saved; see :func:`isoweave.load`."""
        from isoweave.persist import load_model

        return load_model(cls, path, mmap=mmap)

    def _keep(self, X: Any, graph: NeighborGraph, result: Embedding) -> None:
        """Set the fitted attributes."""
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
        self._fit_X = None if self._is_precomputed() else X
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
        self.n_components_ = result.coordinates.shape[1]

    def _options(self, n_components: Any, seed: int) -> EmbeddingOptions:
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
            memory_limit=self.memory_limit,
            refine=self.refine,
        )

    def _is_auto(self) -> bool:
        return isinstance(self.n_components, str) and self.n_components == "auto"

    def _seed(self) -> int:
        """A fixed seed for None, the number itself for an integer, otherwise a draw."""
        state = self.random_state
        if state is None:
            return 0
        if isinstance(state, int | np.integer) and not isinstance(state, bool):
            return int(check_integer("random_state", state, minimum=0))
        draw: AnyArray = check_random_state(state).randint(np.iinfo(np.int32).max, size=1)
        return int(draw[0])

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._is_precomputed()
        tags.input_tags.positive_only = tags.input_tags.pairwise
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
