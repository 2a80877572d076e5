"""The part of the estimator that keeps its run: what defines it, and its neighbours as a stage."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.embedding._options import EmbeddingOptions
from isoweave.embedding._records import graph_arrays, graph_from
from isoweave.embedding._report import Reporter
from isoweave.embedding._running import option_values, running
from isoweave.graph import NeighborGraph, graph_from_matrix
from isoweave.optimise import Record, Run

# Parameters that come before the graph; those after it are the options.
_BEFORE_GRAPH = ("n_components", "n_neighbors", "metric", "metric_params", "components", "asymmetry")


class RunMixin:
    """A fit as a run that can be kept, watched and interrupted."""

    verbose: int
    checkpoint: Any
    on_interrupt: str
    n_neighbors_: int | None

    def _running(
        self, X: Any, options: EmbeddingOptions, given: Mapping[str, Any]
    ) -> AbstractContextManager[Run]:
        """The run of a fit to checked input and what else is given, None where nothing is."""

        def describe() -> tuple[Mapping[str, AnyArray], Mapping[str, Any]]:
            before = {name: getattr(self, name) for name in _BEFORE_GRAPH}
            inputs = _arrays("X", X)
            for name, value in given.items():
                inputs |= {} if value is None else _arrays(name, value)
            return inputs, {**option_values(options), **before}

        return running(Reporter(self.verbose), self.checkpoint, self.on_interrupt, describe)

    def _graph_and_dimension(
        self, X: Any, seed: int, run: Run, anchor_positions: Any
    ) -> tuple[NeighborGraph, int]:
        """Graph of checked input and dimension of the map, perhaps that of anchors; sets ``n_neighbors_``."""
        estimator: Any = self
        stored = run.load("neighbours")
        if stored is not None:
            self.n_neighbors_ = int(stored.value("n_neighbors", int))
            return graph_from(stored), int(stored.value("n_components", int))
        is_given = estimator._is_given_graph(X)
        if is_given:
            self.n_neighbors_ = None
            graph = graph_from_matrix(X, asymmetry=estimator.asymmetry)
        else:
            run.stage("neighbours")
            graph = estimator._graph_of(X, seed)
        n_components = estimator.n_components
        if estimator._is_auto():
            is_told = np.ndim(anchor_positions) == 2
            n_components = np.shape(anchor_positions)[1] if is_told else estimator._dimension(X, graph)
        graph = estimator._joined(X, graph, estimator._options(n_components, seed))
        if not is_given:
            values = {"n_neighbors": self.n_neighbors_, "n_components": int(n_components)}
            run.keep("neighbours", lambda: Record(values, graph_arrays(graph)))
        return graph, n_components


def _arrays(name: str, value: Any) -> dict[str, AnyArray]:
    """An array or sparse matrix as arrays."""
    if not sp.issparse(value):
        return {name: np.asarray(value)}
    rows = sp.csr_array(value)
    return {f"{name}.data": rows.data, f"{name}.indices": rows.indices, f"{name}.indptr": rows.indptr}
