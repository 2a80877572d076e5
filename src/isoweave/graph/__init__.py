"""From features or a matrix of local distances to a checked distance graph."""

from __future__ import annotations

from isoweave.graph._components import bridge_components, connected_components, pack_components
from isoweave.graph._dimension import choose_n_components, intrinsic_dimension, intrinsic_dimension_graph
from isoweave.graph._duplicates import merge_duplicates
from isoweave.graph._euclidean import block_rows, nearest_of_all
from isoweave.graph._geodesics import geodesic_neighbors, geodesics, geodesics_from, nearest_entries
from isoweave.graph._graph import (
    NeighborGraph,
    edge_distortion,
    edge_keys,
    is_edge,
    keep_edges,
    positions_of,
    subgraph,
)
from isoweave.graph._index import TREE_DIMENSIONS, NeighborIndex, build_index
from isoweave.graph._knn import knn_from_distances, knn_graph
from isoweave.graph._order import local_order, renumber, rows_by_length, sums_of_lengths
from isoweave.graph._prepared import PreparedGraph, members_of, normalise_lengths, prepare_graph
from isoweave.graph._shortcuts import ShortcutReport, bypass_doubtful, drop_shortcuts
from isoweave.graph._validate import assemble_graph, counting_argsort, graph_from_matrix

__all__ = [
    "TREE_DIMENSIONS",
    "NeighborGraph",
    "NeighborIndex",
    "PreparedGraph",
    "ShortcutReport",
    "assemble_graph",
    "block_rows",
    "bridge_components",
    "build_index",
    "bypass_doubtful",
    "choose_n_components",
    "connected_components",
    "counting_argsort",
    "drop_shortcuts",
    "edge_distortion",
    "edge_keys",
    "geodesic_neighbors",
    "geodesics",
    "geodesics_from",
    "graph_from_matrix",
    "intrinsic_dimension",
    "intrinsic_dimension_graph",
    "is_edge",
    "keep_edges",
    "knn_from_distances",
    "knn_graph",
    "local_order",
    "members_of",
    "merge_duplicates",
    "nearest_entries",
    "nearest_of_all",
    "normalise_lengths",
    "pack_components",
    "positions_of",
    "prepare_graph",
    "renumber",
    "rows_by_length",
    "subgraph",
    "sums_of_lengths",
]
