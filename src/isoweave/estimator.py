"""The scikit-learn estimator."""

from __future__ import annotations

import copy
import os
import warnings
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from isoweave import graph as graphs, place as placing
from isoweave._memory import parse_memory_limit
from isoweave._parallel import ThreadTeam, thread_team
from isoweave._sklearn_callbacks import CallbackSupportMixin, watched
from isoweave._stages import arrays_of, graph_from
from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import as_array, check_integer, check_vertices
from isoweave.embed import embed, running
from isoweave.graph import NeighborGraph, graph_from_matrix
from isoweave.interop import distances_of
from isoweave.known import Anchors, check_known
from isoweave.optimise import ALONE, Record, Run
from isoweave.options import EmbeddingOptions, FitOptions, SearchOptions, documented, option, resolve_options
from isoweave.place import FinishedMap, Placement
from isoweave.result import Embedding

if TYPE_CHECKING:
    from isoweave.plot import View

# Neighbours that score looks at, whatever n_neighbors is: scores of different n_neighbors must mean the same.
_SCORED_NEIGHBORS = 10
_NUMBERS = [np.float64, np.float32]
# What a fit leaves that placing and growing use.
_FITTED = ("embedding", "graph", "n_components", "n_neighbors", "n_features_in", "component_labels")
# Attributes that the estimator takes over from the Embedding.
_KEPT = ("alignments", "energy", "relative_energy", "history", "n_iter", "status", "global_weight")


@documented(SearchOptions, FitOptions)
@dataclass(eq=False, repr=False)
class IsometricEmbedding(  # type: ignore[misc]
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    FitOptions,
    SearchOptions,
):
    """Embedding whose Euclidean distances match the distances of neighbours and the geodesics beyond.

    Parameters
    ----------
    n_components : int or "auto", default=2
        Dimension of the embedding; "auto" estimates the intrinsic dimension.
    {options}

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
    graph_ : scipy.sparse.csr_array of shape (n_samples, n_samples)
        The symmetric graph of distances.
    alignments_, energy_, relative_energy_, history_, n_iter_, status_, global_weight_
    component_labels_, stretch_, dropped_edges_
        As in :class:`isoweave.Embedding`.
    n_components_ : int
        Dimension of the embedding, estimated if asked for.
    n_neighbors_ : int or None
        Neighbours used; None for a graph given as it is.
    n_features_in_ : int

    Notes
    -----
    The estimator keeps the features it was fitted on, for new points: the array itself, not a copy, so do not
    write into it.
    """

    n_components: int | str = option(2, "Dimension, or auto.", kind='int or "auto"', flag="n")

    def fit(self, X: Any, y: Any = None, *, anchors: Any = None, weights: Any = None) -> Self:
        """Embed X; the result is in ``embedding_``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features) or (n_samples, n_samples)
            Features, or distances with ``metric="precomputed"``; then also a graph of networkx or igraph
            whose edge attribute "weight" is the length.
        y : ignored
        anchors : isoweave.Anchors, default=None
            Points whose positions are known; with ``n_components="auto"`` they give the dimension.
        weights : sparse matrix of shape (n, n), array of shape (n,), or isoweave.Weights, default=None
            As in :func:`embed_graph`; not scikit-learn's ``sample_weight``: a point of weight 2 is not two.
        """
        # Checked before any work; a dimension that is still to be estimated counts as one.
        options = self._options(1 if _is(self.n_components, "auto") else self.n_components)
        edges = None if self._is_precomputed() else getattr(weights, "edges", weights)
        if edges is not None and (sp.issparse(edges) or as_array("weights", edges).ndim == 2):
            raise ValueError("edge weights need metric='precomputed'; with features, fit builds the graph.")
        X = self._checked_input(X)

        def describe() -> tuple[dict[str, AnyArray], dict[str, Any]]:
            before = {f.name: getattr(self, f.name) for f in fields(SearchOptions)}
            given = {**arrays_of("X", X), **arrays_of("anchors", anchors), **arrays_of("weights", weights)}
            return given, {**options.fingerprint(), **before, "n_components": self.n_components}

        with watched(self, X) as callback, running(options, describe, callback) as run:
            graph, n_components = self._graph_and_dimension(X, options.seed, run, anchors)
            options = self._options(n_components, options.seed)
            known = check_known(graph, options, anchors, weights)
            self._keep(X, graph, embed(graph, options, known, run))
        return self

    def fit_transform(self, X: Any, y: Any = None, **known: Any) -> AnyArray:
        """Embed X and return the embedding, shape (n_samples, n_components); keywords as in :meth:`fit`."""
        return self.fit(X, **known).embedding_

    def graph_of(self, X: Any) -> tuple[NeighborGraph, int]:
        """The graph that :meth:`fit` would embed, and its dimension."""
        model, seed = copy.copy(self), self._options(1).seed
        return model._graph_and_dimension(model._checked_input(X), seed, ALONE, None)

    def transform(self, X: Any) -> AnyArray:
        """Coordinates of new points in the map, which does not change; see :meth:`place`.

        X has shape (m, n_features), or with ``metric="precomputed"`` (m, n_samples), distances to the points
        of the fit. A point of the fit gets its own row of ``embedding_``.
        """
        return self.place(X).coordinates

    def place(self, X: Any) -> Placement:
        """Place new points in the map, and say how well they fit.

        X holds features as in the fit, or with ``metric="precomputed"`` distances from the new points to
        those of the fit: sparse, every stored entry is used and stored zeros are duplicates; or dense, of
        which the ``n_neighbors`` smallest in every row are used. The Placement has ``coordinates``,
        ``residual`` (0 is an exact fit, infinite is a guess), ``n_iter``, ``n_used`` and ``n_given``. New
        points do not influence each other: each gets the same bits alone or in any batch.
        """
        check_is_fitted(self)
        with thread_team(self.n_jobs) as team:
            rows = self._neighbors_of(X, self.n_neighbors_ or self.n_neighbors, team)
            placement = self._placement(*rows, team=team)
        return replace(placement, coordinates=placement.coordinates.astype(self.embedding_.dtype))

    def score(self, X: Any, y: Any = None) -> float:
        """How well the map keeps the distances of new points to their neighbours; 0 is best.

        Minus the mean relative error of the distances from the placed points to their 10 nearest points of
        the fit (all that are stored, if X is sparse and ``metric="precomputed"``). Points of the fit are
        placed as if they were new, so that scores of both mean the same. Points that cannot be placed count
        with an error of 1, coinciding points not at all.

        The 10 does not depend on ``n_neighbors``, so that ``GridSearchCV`` can search over it. Scores under
        different metrics cannot be compared, and more dimensions hardly ever score lower: choose
        ``n_components`` where the score stops rising.
        """
        check_is_fitted(self)
        given, k = self._is_given_graph(X), self.n_neighbors_ or self.n_neighbors
        with thread_team(self.n_jobs) as team:
            found = self._neighbors_of(X, max(k, _SCORED_NEIGHBORS) + 1, team)
            rows, rank, neighbors, distances = placing.neighbors_apart(*found)
            if not len(rows):
                return 0.0
            used = (rank < k) | given
            bounds = np.concatenate(([0], np.cumsum(np.bincount(rows[used]))))
            placed = self._placement(bounds, neighbors[used], distances[used], team=team)
        scored = (rank < _SCORED_NEIGHBORS) | given
        steps = placed.coordinates[rows[scored]] - np.asarray(self.embedding_, np.float64)[neighbors[scored]]
        errors = np.abs(np.linalg.norm(steps, axis=1) - distances[scored]) / distances[scored]
        return -float(np.mean(np.where(np.isnan(errors), 1.0, errors)))

    def add_samples(self, X: Any) -> Self:
        """Fit again with more points, starting from the current map.

        X, of shape (m, n_features), is appended to the points of the fit, whose rows come first in
        ``embedding_``. New points are placed in the map, the neighbour graph is rebuilt, and the optimiser
        continues from there. Should the misfit (``relative_energy_``) rise by a fifth or more, a fresh start
        is tried too and the better one kept. Old points stay where they were, as far as distances allow.
        """
        check_is_fitted(self)
        if self._is_precomputed():
            raise ValueError("add_samples is for features; with metric='precomputed' use update_graph.")
        more = validate_data(self, X, reset=False, accept_sparse="csr", dtype=_NUMBERS)
        fitted = self._features()
        if sp.issparse(fitted) or sp.issparse(more):
            both = sp.vstack([sp.csr_array(fitted), sp.csr_array(more)], format="csr")
        else:
            both = np.vstack([fitted, more])
        return self._grow(copy.copy(self), both, np.arange(fitted.shape[0]))

    def update_graph(self, X: Any, kept: Any = None) -> Self:
        """Fit a changed graph, starting from the current map.

        X is the whole new graph, as in :meth:`fit`: vertices and edges may have come, gone, or changed their
        lengths. ``kept`` (numbers, or a mask of shape (n_samples,); None: all) are the vertices still there:
        they are the first of the new graph, in this order, and start where they are. All after them are new
        and placed by their neighbours; the optimiser continues from there, as in :meth:`add_samples`.
        """
        check_is_fitted(self)
        if not self._is_precomputed():
            raise ValueError("update_graph is for metric='precomputed'; for features use add_samples.")
        n = len(self.embedding_)
        stays = np.arange(n) if kept is None else check_vertices("kept", kept, n)
        fresh = copy.copy(self)
        return self._grow(fresh, fresh._checked_input(X), stays)

    def view(self, **options: Any) -> View:
        """A picture of clusters, held in place by a flat map: :func:`isoweave.plot.view`."""
        from isoweave.plot import view

        return view(self, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save parameters and what was fitted in one file of plain arrays; see :func:`isoweave.save`.

        A ``callback`` is left out, with a warning; a function given as ``metric`` cannot be stored.
        """
        from isoweave.persist import save

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Load an estimator that was saved; nothing in the file is executed.

        ``mmap`` maps the arrays, read-only, instead of reading them into memory. A file that is damaged, or
        holds something else, raises :class:`isoweave.persist.StoreError`, a ValueError.
        """
        from isoweave.persist import load_model

        return load_model(cls, path, mmap=mmap)

    def _options(self, n_components: Any, seed: int | None = None) -> EmbeddingOptions:
        given = {f.name: getattr(self, f.name) for f in fields(FitOptions)}
        return resolve_options(n_components, seed=seed, **given)

    def _metric_and_params(self) -> dict[str, Any]:
        return {"metric": self.metric, "metric_params": self.metric_params}

    def _is_precomputed(self) -> bool:
        return _is(self.metric, "precomputed")

    def _is_given_graph(self, X: Any) -> bool:
        return self._is_precomputed() and sp.issparse(X)

    def _checked_input(self, X: Any) -> Any:
        """Input as the later stages need it."""
        X = distances_of(X, self._is_precomputed())
        if self._is_given_graph(X):
            # Entries are checked by graph_from_matrix, which names the first bad one and keeps stored zeros.
            unchecked: Any = {"ensure_min_samples": 0, "ensure_min_features": 0, "ensure_all_finite": False}
            return validate_data(self, X, accept_sparse=True, dtype=None, **unchecked)
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        return validate_data(self, X, accept_sparse="csr", dtype=_NUMBERS, ensure_min_samples=2)

    def _graph_of(self, X: Any, seed: int) -> NeighborGraph:
        """Graph of checked features or distances; sets ``n_neighbors_``."""
        if self._is_given_graph(X):
            self.n_neighbors_ = None
            return graph_from_matrix(X, asymmetry=self.asymmetry)
        (n, d), given = X.shape, self.n_neighbors
        self.n_neighbors_ = k = min(given, n - 1)
        if k < given:
            said = f"n_neighbors={given} is not smaller than n_samples={n}; {k} neighbours are used."
            warnings.warn(said, UserWarning, stacklevel=4)
        if self._is_precomputed():
            return graphs.knn_from_distances(X, k)
        if sp.issparse(X):
            d = min(d, max(2 * X.nnz, 2**25) // n)
        graphs.check_search_memory(n, d, k, parse_memory_limit(self.memory_limit), self.n_jobs)
        if self._options(1).engine in ("cuda", "auto"):
            from isoweave.cuda import knn_on_device

            if (found := knn_on_device(X, k, **self._metric_and_params())) is not None:
                return found
        return graphs.knn_graph(X, k, n_jobs=self.n_jobs, random_state=seed, **self._metric_and_params())

    def _means(self, X: Any) -> graphs.NeighborhoodMeans:
        search = self._metric_and_params() | {"memory_limit": parse_memory_limit(self.memory_limit)}
        return graphs.NeighborhoodMeans(X, self.denoise, n_jobs=self.n_jobs, **search)

    def _graph_and_dimension(self, X: Any, seed: int, run: Run, anchors: Any) -> tuple[NeighborGraph, int]:
        """Graph of checked input and dimension of the embedding; sets ``n_neighbors_``."""
        stored = run.load("neighbours")
        if stored is not None:
            self.n_neighbors_ = int(stored.value("n_neighbors", int))
            return graph_from(stored), int(stored.value("n_components", int))
        if not self._is_given_graph(X):
            run.stage("neighbours")
        X = self._means(X).points
        graph = self._graph_of(X, seed)
        n_components: Any = self.n_components
        if _is(n_components, "auto"):
            n_components = self._dimension(X, graph, anchors)
        if not self._is_precomputed():
            graphs.check_sizes(X, n_components, self.n_neighbors, self.metric)
        graph = self._joined(X, graph, n_components)
        if not self._is_given_graph(X):
            values = {"n_neighbors": self.n_neighbors_, "n_components": int(n_components)}
            run.keep("neighbours", lambda: Record(values, arrays_of("graph", graph)))
        return graph, n_components

    def _dimension(self, X: Any, graph: NeighborGraph, anchors: Any) -> int:
        """Dimension of the anchors, or of the data, at most what its points and columns can span."""
        if isinstance(anchors, Anchors) and np.ndim(anchors.positions) == 2:
            return int(np.shape(anchors.positions)[1])
        try:
            if self._is_precomputed():
                value = graphs.intrinsic_dimension_graph(graph)
            else:
                value = graphs.intrinsic_dimension(X, n_jobs=self.n_jobs, **self._metric_and_params())
        except ValueError as error:
            raise ValueError(f"n_components='auto' finds no dimension: {error} Give a number.") from error
        n_columns = graph.n_vertices if self._is_precomputed() else X.shape[1]
        return min(max(1, round(value)), graph.n_vertices - 1, n_columns)

    def _joined(self, X: Any, graph: NeighborGraph, n_components: int) -> NeighborGraph:
        """The graph, its components bridged if that is asked for."""
        if self.components != "bridge" or graphs.connected_components(graph)[0] == 1:
            return graph
        if self._is_precomputed():
            raise ValueError(
                "components='bridge' needs features to measure distances between components, but "
                "metric='precomputed' was given. Use components='separate', 'largest' or 'error'."
            )
        return graphs.bridge_components(graph, X, n_bridges=n_components + 1, **self._metric_and_params())

    def _keep(self, X: Any, graph: NeighborGraph, result: Embedding) -> None:
        """Set the fitted attributes."""
        dtype = np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64
        self._fit_X = None if self._is_precomputed() else X
        # What placing needs, made by the first call that needs it.
        self._lookup: dict[str, Any] = {}
        self.embedding_ = result.coordinates.astype(dtype, copy=False)
        self.graph_ = graph.to_matrix()
        self.n_components_ = result.n_components
        for name in (*_KEPT, "component_labels", "stretch", "dropped_edges"):
            setattr(self, f"{name}_", getattr(result, name))

    def _placement(self, *rows: AnyArray, team: ThreadTeam) -> Placement:
        placement = placing.place_points(self._placed(team), *rows, team=team)
        lost = np.flatnonzero(np.isnan(placement.residual))
        if len(lost):
            shown = ", ".join(map(str, lost[:5])) + (", ..." if len(lost) > 5 else "")
            said = f"{len(lost)} of {len(placement.residual)} new points (rows {shown}) have neighbours that "
            said += "are not in the map (components='largest'); their coordinates are NaN."
            warnings.warn(said, UserWarning, stacklevel=4)
        return placement

    def _neighbors_of(self, X: Any, k: int, team: ThreadTeam) -> tuple[AnyArray, AnyArray, FloatArray]:
        """The k nearest points of the fit (all that are stored in a sparse matrix) in compressed rows."""
        if not self._is_precomputed():
            X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=_NUMBERS)
            lookup = self.__dict__.setdefault("_lookup", {})
            if "index" not in lookup:
                means = lookup["means"] = self._means(self._features())
                lookup["index"] = graphs.build_index(means.points, team=team, **self._metric_and_params())
            X = lookup["means"].move(X)
            neighbors, distances = lookup["index"].neighbors(X, k, team=team)
            bounds = np.arange(len(neighbors) + 1) * neighbors.shape[1]
            return bounds, neighbors.reshape(-1), distances.reshape(-1)
        if sp.issparse(X):
            # Entries are checked when they are placed, which keeps stored zeros.
            X = validate_data(self, X, reset=False, accept_sparse=True, dtype=None, ensure_all_finite=False)
            return placing.sparse_rows(X)
        X = validate_data(self, X, reset=False, dtype=_NUMBERS)
        firsts = np.unique(self._placed(team).representative, return_index=True)[1].astype(np.int32)
        return placing.nearest_columns(X, firsts, k)

    def _placed(self, team: ThreadTeam) -> FinishedMap:
        lookup = self.__dict__.setdefault("_lookup", {})
        if "map" not in lookup:
            graph, labels = graph_from_matrix(self.graph_), self.component_labels_
            keeps = self._options(self.n_components_, 0).keeps_lengths
            made = placing.finished_map(graph, self.embedding_, team=team, labels=labels, keeps_lengths=keeps)
            lookup["map"] = made
        return lookup["map"]

    def _features(self) -> Any:
        """The features of the fit; a model may have been saved without them."""
        features = getattr(self, "_fit_X", None)
        if features is None:
            raise ValueError("This model was saved without the features of its fit; fit it again.")
        return features

    def _grow(self, fresh: Self, X: Any, kept: AnyArray) -> Self:
        """Embed points of which the first are the kept ones of the map; what fails, fails on the copy."""
        options = fresh._options(self.n_components_)
        points = fresh._means(X).points
        graph = fresh._joined(points, fresh._graph_of(points, options.seed), self.n_components_)
        if len(kept) > graph.n_vertices:
            said = f"{len(kept)} vertices are kept, but the new graph has only {graph.n_vertices}"
            raise ValueError(f"{said}. List the remaining ones with kept=.")
        previous = np.full((graph.n_vertices, self.n_components_), np.nan)
        previous[: len(kept)] = self.embedding_[kept]
        with thread_team(self.n_jobs) as team:
            placed = None if options.keeps_lengths else self._placed(team)
            factors = None if placed is None else placed.factors[placed.representative[kept]]
            result = placing.embed_again(graph, options, previous, self.relative_energy_, factors, team=team)
        fresh._keep(X, graph, result)
        self.__dict__.update(fresh.__dict__)
        return self

    def _check_stored(self) -> None:
        """Refuse a loaded model whose parts do not fit together."""
        features = getattr(self, "_fit_X", None)
        missing = [name for name in (*_FITTED, "relative_energy") if not hasattr(self, f"{name}_")]
        if features is None and len(missing) > len(_FITTED):
            return
        if missing:
            raise ValueError(f"{missing[0]}_ is missing")
        # Of parameters that no fit of these would have had.
        self._options(self.n_components_, 0)
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        shape = (len(self.embedding_), self.n_features_in_)
        if self._is_precomputed() and (features is not None or shape[0] != shape[1]):
            raise ValueError("metric: 'precomputed', but the fit was of features")
        if features is None:
            return
        if getattr(features, "shape", None) != shape:
            raise ValueError(f"_fit_X: must have the shape {shape}")
        values = features.data if sp.issparse(features) else features
        if values.dtype.kind != "f" or not np.isfinite(values).all():
            raise ValueError("_fit_X: must hold finite numbers")

    def __getstate__(self) -> dict[str, Any]:
        # What placing has prepared can be made again.
        return {name: value for name, value in super().__getstate__().items() if name != "_lookup"}

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = tags.input_tags.positive_only = self._is_precomputed()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _is(value: Any, word: str) -> bool:
    """Whether it is this word; other parameters may be arrays."""
    return isinstance(value, str) and value == word
