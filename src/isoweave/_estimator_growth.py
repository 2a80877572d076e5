"""The part of the estimator that goes on from a finished map when points or edges have come or gone."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted, validate_data

from isoweave._estimator_points import keeps_lengths
from isoweave._parallel import thread_team
from isoweave._typing import AnyArray, FloatArray
from isoweave.embedding import Embedding, EmbeddingOptions, embed
from isoweave.embedding._report import Reporter
from isoweave.embedding._running import running
from isoweave.graph import NeighborGraph
from isoweave.optimise import Run
from isoweave.optimise._starts import ENDED_EARLY
from isoweave.place import settle_on, warm_start

logger = logging.getLogger("isoweave")

# Patches of new points that reach far out of the old map can fold; then the misfit rises by more than
# other points of the same data explain, and a fresh start is tried as well.
_WORSE = 1.2


class GrowthMixin:
    """``add_samples`` and ``update_graph`` of :class:`isoweave.IsometricEmbedding`."""

    def add_samples(self, X: Any) -> Any:
        """Fit again with more points, beginning with the map there is.

        New points are placed in the map, the graph of nearest neighbours is made anew from all points, and
        the optimiser goes on from there: the quality of a fresh fit in fewer steps. Should the misfit
        (``relative_energy_``) rise by a fifth or more, a fresh start is tried too and the better map kept.
        The result is moved rigidly so that the points there were stay where they were, as far as their
        distances allow.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, n_features)
            Appended to the points of the fit, whose rows come first in ``embedding_``.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        estimator: Any = self
        if estimator._is_precomputed():
            raise ValueError("add_samples is for features; with metric='precomputed' use update_graph.")
        more = validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        fitted = estimator._features()
        if sp.issparse(fitted) or sp.issparse(more):
            both = sp.vstack([sp.csr_array(fitted), sp.csr_array(more)], format="csr")
        else:
            both = np.vstack([fitted, more])
        before = dict(vars(self))
        try:
            seed = estimator._seed()
            graph = estimator._graph_of(both, seed)
            self._solve_again(both, graph, np.arange(fitted.shape[0]), seed)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def update_graph(self, X: Any, kept: Any = None) -> Any:
        """Fit a changed graph, beginning with the map there is.

        Vertices and edges may have come, gone, or changed their lengths. Vertices that stay begin where they
        are, new ones are placed by their neighbours, and the optimiser goes on from there. Should the misfit
        (``relative_energy_``) rise by a fifth or more, a fresh start is tried too and the better map kept.
        The result is moved rigidly so that what was there stays where it was, as far as its distances allow.

        Parameters
        ----------
        X : sparse matrix of shape (m, m), or dense matrix of all distances
            The whole new graph, as in :meth:`fit`.
        kept : int array of shape (k,) or bool array of shape (n_samples,), default=None
            The vertices of the fitted graph that are still there: they are the first k vertices of the new
            graph, in this order, and all after them are new. None keeps all.

        Returns
        -------
        self

        Examples
        --------
        A ring of towns loses one and gains two:

        >>> import numpy as np
        >>> from isoweave import IsometricEmbedding
        >>> from isoweave.graph import knn_graph
        >>> towns = np.random.default_rng(5).normal(size=(42, 2))
        >>> model = IsometricEmbedding(metric="precomputed").fit(knn_graph(towns[:40], 8).to_matrix())
        >>> after = knn_graph(towns[1:], 8).to_matrix()
        >>> model.update_graph(after, kept=np.arange(1, 40)).embedding_.shape
        (41, 2)
        """
        check_is_fitted(self)
        estimator: Any = self
        if not estimator._is_precomputed():
            raise ValueError(
                "update_graph is for metric='precomputed'; for points with features use add_samples."
            )
        stays = _checked_kept(kept, len(estimator.embedding_))
        before = dict(vars(self))
        try:
            seed = estimator._seed()
            X, graph = estimator._distance_graph(X, seed)
            if len(stays) > graph.n_vertices:
                raise ValueError(
                    f"{len(stays)} vertices are kept, but the new graph has only {graph.n_vertices}. Name "
                    "those that are left with kept=."
                )
            self._solve_again(X, graph, stays, seed)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _solve_again(self, X: Any, graph: NeighborGraph, kept: AnyArray, seed: int) -> None:
        """Embed a graph whose first vertices are the kept ones of the fitted map."""
        estimator: Any = self
        options = estimator._options(estimator.n_components_, seed)
        if not isinstance(options.start, str):
            # It was for the vertices there were.
            options = replace(options, start="auto")
        graph = estimator._joined(X, graph, options)
        previous = np.full((graph.n_vertices, estimator.n_components_), np.nan)
        previous[: len(kept)] = estimator.embedding_[kept]

        def embed_rest(part: NeighborGraph) -> FloatArray:
            return embed(part, options, n_jobs=estimator.n_jobs).coordinates

        known = previous.copy()
        with thread_team(estimator.n_jobs) as team:
            if not keeps_lengths(options):
                placed, _ = estimator._prepared(team)
                known[: len(kept)] /= placed.factors[placed.representative[kept]][:, None]
            start = warm_start(graph, known, team=team, embed_rest=embed_rest)
        with running(Reporter(estimator.verbose), None, estimator.on_interrupt) as run:
            result = self._better(graph, options, start, run)
        assert result.alignments is not None and result.component_labels is not None
        coordinates, alignments = settle_on(
            previous, result.coordinates, result.alignments, result.component_labels
        )
        estimator._keep(X, graph, replace(result, coordinates=coordinates, alignments=alignments))

    def _better(
        self, graph: NeighborGraph, options: EmbeddingOptions, start: FloatArray, run: Run
    ) -> Embedding:
        """The map that a warm start leads to, or that of a fresh one where it folded."""
        estimator: Any = self
        watch = {"n_jobs": estimator.n_jobs, "callback": estimator.callback, "run": run}
        result = embed(graph, replace(options, start=start), **watch)
        is_worse = float(result.relative_energy or 0.0) > _WORSE * estimator.relative_energy_ + 1e-9
        if not is_worse or result.status in ENDED_EARLY:
            return result
        logger.info(
            "misfit rose from %.3g to %.3g: fitting afresh too",
            estimator.relative_energy_,
            result.relative_energy,
        )
        return min(result, embed(graph, options, **watch), key=lambda found: float(found.energy or 0.0))


def _checked_kept(kept: Any, n: int) -> AnyArray:
    """Indices of the vertices that are kept."""
    if kept is None:
        return np.arange(n)
    array = np.asarray(kept)
    if array.dtype == np.bool_:
        if array.shape != (n,):
            raise ValueError(f"kept as a mask must have the shape ({n},), got {array.shape}.")
        return np.flatnonzero(array)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise TypeError(
            f"kept must be an array of indices or a mask, got shape {array.shape} and dtype {array.dtype}."
        )
    array = array.astype(np.int64)
    if len(array) and (array.min() < 0 or array.max() >= n):
        raise ValueError(f"kept must name vertices in 0 .. {n - 1}, got {array.min()} to {array.max()}.")
    if len(np.unique(array)) < len(array):
        values, counts = np.unique(array, return_counts=True)
        raise ValueError(f"kept names vertex {values[counts > 1][0]} more than once.")
    return array
