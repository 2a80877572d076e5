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
from isoweave.iteration import Record, Run

# Parameters that come before the graph; those after it are the options.
_BEFORE_GRAPH = ("n_components", "n_neighbors", "metric", "metric_params", "components", "asymmetry")


class RunMixin:
    """A fit as a run that can be kept, watched and interrupted."""

    verbose: int
    checkpoint: Any
    on_interrupt: str
    n_neighbors_: int | None

    def _running(self, X: Any, options: EmbeddingOptions) -> AbstractContextManager[Run]:
        """The run of a fit to checked input."""

        def describe() -> tuple[Mapping[str, AnyArray], Mapping[str, Any]]:
            before = {name: getattr(self, name) for name in _BEFORE_GRAPH}
            return _arrays(X), {**option_values(options), **before}

        return running(Reporter(self.verbose), self.checkpoint, self.on_interrupt, describe)

    def _graph_and_dimension(self, X: Any, seed: int, run: Run) -> tuple[NeighborGraph, int]:
        """Graph of checked input and dimension of the map; sets ``n_neighbors_``."""
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
        n_components = estimator._dimension(X, graph) if estimator._is_auto() else estimator.n_components
        graph = estimator._joined(X, graph, estimator._options(n_components, seed))
        if not is_given:
            values = {"n_neighbors": self.n_neighbors_, "n_components": int(n_components)}
            run.keep("neighbours", lambda: Record(values, graph_arrays(graph)))
        return graph, n_components


def _arrays(X: Any) -> dict[str, AnyArray]:
    """Features or distances as arrays."""
    if not sp.issparse(X):
        return {"X": np.asarray(X)}
    rows = sp.csr_array(X)
    return {"X.data": rows.data, "X.indices": rows.indices, "X.indptr": rows.indptr}
