"""isoweave: weave local distances into one Euclidean map.

The two ways in are :class:`IsometricEmbedding` (scikit-learn style, features or a distance graph) and
:func:`embed_graph` (a sparse distance graph). Everything else is a stage that can be used by hand:
``isoweave.graph``, ``frames``, ``operators``, ``solvers``, ``iteration``, ``embedding``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isoweave.embedding import Embedding, embed_graph
    from isoweave.estimator import IsometricEmbedding

__version__ = "0.1.0"

__all__ = ["Embedding", "IsometricEmbedding", "__version__", "embed_graph"]

_HOMES = {
    "Embedding": "isoweave.embedding",
    "embed_graph": "isoweave.embedding",
    "IsometricEmbedding": "isoweave.estimator",
}


def __getattr__(name: str) -> Any:
    """Import public names on first use: ``import isoweave`` itself costs next to nothing."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'isoweave' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
