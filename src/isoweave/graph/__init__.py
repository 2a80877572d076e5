"""From features or a matrix of local distances to a checked distance graph."""

from __future__ import annotations

from isoweave.graph._components import bridge_components, connected_components, pack_components, subgraph
from isoweave.graph._densify import geodesic_neighbors
from isoweave.graph._detours import bypass_doubtful
from isoweave.graph._dimension import choose_n_components, intrinsic_dimension, intrinsic_dimension_graph
from isoweave.graph._duplicates import merge_duplicates
from isoweave.graph._edges import edge_distortion, edge_keys, is_edge, positions_of
from isoweave.graph._euclidean import block_rows, nearest_of_all
from isoweave.graph._geodesics import geodesics
from isoweave.graph._graph import NeighborGraph
from isoweave.graph._index import NeighborIndex, build_index, choose_knn_search
from isoweave.graph._knn import knn_from_distances, knn_graph
from isoweave.graph._order import local_order, renumber, rows_by_length, sums_of_lengths
from isoweave.graph._prepared import PreparedGraph, members_of, normalise_lengths, prepare_graph
from isoweave.graph._shortcuts import ShortcutReport, drop_shortcuts, keep_edges, shared_neighborhood
from isoweave.graph._validate import graph_from_matrix

__all__ = [
    "NeighborGraph",
    "NeighborIndex",
    "PreparedGraph",
    "ShortcutReport",
    "block_rows",
    "bridge_components",
    "build_index",
    "bypass_doubtful",
    "choose_knn_search",
    "choose_n_components",
    "connected_components",
    "drop_shortcuts",
    "edge_distortion",
    "edge_keys",
    "geodesic_neighbors",
    "geodesics",
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
    "nearest_of_all",
    "normalise_lengths",
    "pack_components",
    "positions_of",
    "prepare_graph",
    "renumber",
    "rows_by_length",
    "shared_neighborhood",
    "subgraph",
    "sums_of_lengths",
]
