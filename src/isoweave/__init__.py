"""isoweave: weave local distances into one Euclidean map.

The entry points are :class:`IsometricEmbedding` (scikit-learn style, features or a distance graph) and
:func:`embed_graph` (a sparse distance graph). The stages can be called by hand: ``isoweave.graph``,
``geometry``, ``energy``, ``linalg``, ``optimise``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isoweave import tl as tl
    from isoweave.diagnostics import Diagnosis as Diagnosis, diagnose as diagnose
    from isoweave.embed import embed_graph as embed_graph
    from isoweave.estimator import IsometricEmbedding as IsometricEmbedding
    from isoweave.forecast import (
        ResourceEstimate as ResourceEstimate,
        estimate_resources as estimate_resources,
    )
    from isoweave.graph import geodesic_neighbors as geodesic_neighbors
    from isoweave.interop import (
        from_anndata as from_anndata,
        from_geopandas as from_geopandas,
        from_igraph as from_igraph,
        from_networkx as from_networkx,
        to_anndata as to_anndata,
    )
    from isoweave.known import Anchors as Anchors, Weights as Weights
    from isoweave.optimise import NumericalError as NumericalError, UnsolvedError as UnsolvedError
    from isoweave.persist import (
        Checkpoint as Checkpoint,
        CheckpointError as CheckpointError,
        load as load,
        save as save,
    )
    from isoweave.result import Embedding as Embedding, as_embedding as as_embedding

__version__ = "0.1.0"

_ROOMS = {
    "diagnostics": ("Diagnosis", "diagnose"),
    "embed": ("embed_graph",),
    "estimator": ("IsometricEmbedding",),
    "forecast": ("ResourceEstimate", "estimate_resources"),
    "graph": ("geodesic_neighbors",),
    "interop": ("from_anndata", "from_geopandas", "from_igraph", "from_networkx", "to_anndata"),
    "known": ("Anchors", "Weights"),
    "optimise": ("NumericalError", "UnsolvedError"),
    "persist": ("Checkpoint", "CheckpointError", "load", "save"),
    "result": ("Embedding", "as_embedding"),
}
_HOMES = {name: f"isoweave.{room}" for room, names in _ROOMS.items() for name in names}
# Reached without an import of their own, as isoweave.report.write_report.
_MODULES = ("cluster", "datasets", "graph", "io", "metrics", "parametric", "plot", "report", "tl")
__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """Import public names on first use: ``import isoweave`` itself costs next to nothing."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"isoweave.{name}")
    raise AttributeError(f"module 'isoweave' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__", *_MODULES]
