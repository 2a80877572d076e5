"""Differential, divergence and Laplacian for a family of inner products."""

from isoweave.energy._inner_product import (
    EDGE_WEIGHTS,
    EdgeInnerProduct,
    InnerProduct,
    RankInnerProduct,
    edge_inner_product,
    rank_inner_product,
)
from isoweave.energy._operators import (
    apply_laplacian,
    build_differential,
    build_laplacian,
    differences,
    divergence,
)

__all__ = [
    "EDGE_WEIGHTS",
    "EdgeInnerProduct",
    "InnerProduct",
    "RankInnerProduct",
    "apply_laplacian",
    "build_differential",
    "build_laplacian",
    "differences",
    "divergence",
    "edge_inner_product",
    "rank_inner_product",
]
