"""isoweave: weave local distances into one Euclidean map.

The entry points are :class:`IsometricEmbedding` (scikit-learn style, features or a distance graph) and
:func:`embed_graph` (a sparse distance graph). The stages can be called by hand: ``isoweave.graph``,
``geometry``, ``energy``, ``linalg``, ``optimise``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isoweave.diagnostics import Diagnosis, diagnose
    from isoweave.embed import embed_graph
    from isoweave.estimator import IsometricEmbedding
    from isoweave.forecast import ResourceEstimate, estimate_resources
    from isoweave.graph import geodesic_neighbors
    from isoweave.interop import from_anndata, from_igraph, from_networkx, to_anndata
    from isoweave.known import Anchors, Weights
    from isoweave.optimise import NumericalError, UnsolvedError
    from isoweave.persist import Checkpoint, CheckpointError, load, save
    from isoweave.result import Embedding, as_embedding

__version__ = "0.1.0"

__all__ = [
    "Anchors",
    "Checkpoint",
    "CheckpointError",
    "Diagnosis",
    "Embedding",
    "IsometricEmbedding",
    "NumericalError",
    "ResourceEstimate",
    "UnsolvedError",
    "Weights",
    "__version__",
    "as_embedding",
    "diagnose",
    "embed_graph",
    "estimate_resources",
    "from_anndata",
    "from_igraph",
    "from_networkx",
    "geodesic_neighbors",
    "load",
    "save",
    "to_anndata",
]

_HOMES = {
    "Checkpoint": "isoweave.persist",
    "CheckpointError": "isoweave.persist",
    "Diagnosis": "isoweave.diagnostics",
    "diagnose": "isoweave.diagnostics",
    "embed_graph": "isoweave.embed",
    "ResourceEstimate": "isoweave.forecast",
    "estimate_resources": "isoweave.forecast",
    "geodesic_neighbors": "isoweave.graph",
    "Anchors": "isoweave.known",
    "Weights": "isoweave.known",
    "Embedding": "isoweave.result",
    "as_embedding": "isoweave.result",
    "IsometricEmbedding": "isoweave.estimator",
    "from_anndata": "isoweave.interop",
    "from_igraph": "isoweave.interop",
    "from_networkx": "isoweave.interop",
    "to_anndata": "isoweave.interop",
    "NumericalError": "isoweave.optimise",
    "UnsolvedError": "isoweave.optimise",
    "load": "isoweave.persist",
    "save": "isoweave.persist",
}


def __getattr__(name: str) -> Any:
    """Import public names on first use: ``import isoweave`` itself costs next to nothing."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'isoweave' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
