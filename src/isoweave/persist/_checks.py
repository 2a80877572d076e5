"""What must hold between the parts of a loaded embedding or estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave.graph import NeighborGraph
from isoweave.result import Embedding


def check_embedding(result: Embedding) -> None:
    """Raise ValueError, with the field first, unless the fields fit each other."""
    if not isinstance(result.graph, NeighborGraph):
        raise ValueError(f"graph: must be a NeighborGraph, found {type(result.graph).__name__}")
    n = result.graph.n_vertices
    coordinates = _numbers("coordinates", result.coordinates, "f", (n, None))
    n_components = coordinates.shape[1]
    _numbers("alignments", result.alignments, "f", (n, n_components, n_components))
    _numbers("stretch", result.stretch, "f", (n, n_components))
    _indices("component_labels", result.component_labels, (n,), n)
    _indices("dropped_edges", result.dropped_edges, (None, 2), n)
    for name, kind in _EMBEDDING_TYPES.items():
        _is_a(name, getattr(result, name), kind)


_EMBEDDING_TYPES: dict[str, Any] = {
    "energy": (float, np.floating),
    "relative_energy": (float, np.floating),
    "n_iter": (int, np.integer),
    "history": tuple,
    "status": str,
    "start": str,
    "solver": str,
}
_FITTED_TYPES: dict[str, Any] = {
    "energy_": (float, np.floating),
    "relative_energy_": (float, np.floating),
    "n_iter_": (int, np.integer),
    "n_components_": (int, np.integer),
    "n_features_in_": (int, np.integer),
    "n_neighbors_": (int, np.integer, type(None)),
    "history_": tuple,
    "status_": str,
}


def check_fitted(attributes: dict[str, Any]) -> None:
    """The same for the fitted attributes of an estimator, as far as they are there.

    What other attributes an estimator has is its own to check (``_check_stored_``).
    """
    if "embedding_" not in attributes:
        return
    n, n_components = _numbers("embedding_", attributes["embedding_"], "f", (None, None)).shape
    for name, shape in (("alignments_", (n, n_components, n_components)), ("stretch_", (n, n_components))):
        if name in attributes:
            _numbers(name, attributes[name], "f", shape)
    for name, index_shape in (("component_labels_", (n,)), ("dropped_edges_", (None, 2))):
        if name in attributes:
            _indices(name, attributes[name], index_shape, n)
    if "graph_" in attributes:
        graph = attributes["graph_"]
        if not sp.issparse(graph) or graph.shape != (n, n):
            raise ValueError(f"graph_: must be a sparse matrix of shape {(n, n)}")
    for name, kinds in _FITTED_TYPES.items():
        if name in attributes:
            _is_a(name, attributes[name], kinds)
    if attributes.get("n_components_", n_components) != n_components:
        raise ValueError(f"n_components_: must be {n_components}, found {attributes['n_components_']}")
    if attributes.get("n_neighbors_") is not None and attributes["n_neighbors_"] < 1:
        raise ValueError(f"n_neighbors_: must be positive, found {attributes['n_neighbors_']}")


def _is_a(name: str, value: Any, kinds: Any) -> None:
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise ValueError(f"{name}: cannot be of type {type(value).__name__}")


def _numbers(name: str, value: Any, kind: str, shape: tuple[int | None, ...]) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype.kind != kind:
        found = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(
            f"{name}: must be an array of {'integers' if kind == 'i' else 'floats'}, found {found}"
        )
    if value.ndim != len(shape) or any(
        wanted not in (None, size) for wanted, size in zip(shape, value.shape, strict=True)
    ):
        wanted_shape = "x".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name}: must have the shape {wanted_shape}, found {value.shape}")
    return value


def _indices(name: str, value: Any, shape: tuple[int | None, ...], n: int) -> None:
    _numbers(name, value, "i", shape)
    if value.size and (value.min() < 0 or value.max() >= n):
        raise ValueError(f"{name}: must lie in 0 .. {n - 1}, found {value.min()} to {value.max()}")
