"""The whole pipeline as functions: a distance graph in, an :class:`Embedding` out."""

from isoweave.embedding._embed import embed, embed_graph
from isoweave.embedding._forecast import ResourceEstimate, StageEstimate, estimate_resources
from isoweave.embedding._known import check_known
from isoweave.embedding._options import EmbeddingOptions, resolve_options
from isoweave.result import Embedding

__all__ = [
    "Embedding",
    "EmbeddingOptions",
    "ResourceEstimate",
    "StageEstimate",
    "check_known",
    "embed",
    "embed_graph",
    "estimate_resources",
    "resolve_options",
]
