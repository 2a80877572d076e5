"""From features or a matrix of local distances to a checked distance graph."""

from isoweave.graph._assembly import settled as settled
from isoweave.graph._components import (
    PreparedGraph as PreparedGraph,
    bridge_components as bridge_components,
    check_ratio as check_ratio,
    connected_components as connected_components,
    geodesic_neighbors as geodesic_neighbors,
    members_of as members_of,
    merge_duplicates as merge_duplicates,
    normalise_lengths as normalise_lengths,
    pack_boxes as pack_boxes,
    pack_components as pack_components,
    prepare_graph as prepare_graph,
)
from isoweave.graph._denoise import NeighborhoodMeans as NeighborhoodMeans
from isoweave.graph._euclidean import block_rows as block_rows, nearest_of_all as nearest_of_all
from isoweave.graph._features import check_sizes as check_sizes
from isoweave.graph._graph import (
    NeighborGraph as NeighborGraph,
    assemble_graph as assemble_graph,
    checked_sparse as checked_sparse,
    edge_distortion as edge_distortion,
    edge_keys as edge_keys,
    edges_of as edges_of,
    geodesics as geodesics,
    geodesics_from as geodesics_from,
    graph_from_matrix as graph_from_matrix,
    is_edge as is_edge,
    join_along as join_along,
    keep_edges as keep_edges,
    knn_from_distances as knn_from_distances,
    local_order as local_order,
    nearest_entries as nearest_entries,
    positions_of as positions_of,
    renumber as renumber,
    row_starts as row_starts,
    rows_by_length as rows_by_length,
    subgraph as subgraph,
    sums_of_lengths as sums_of_lengths,
)
from isoweave.graph._index import (
    FEWEST_GROWN as FEWEST_GROWN,
    TREE_DIMENSIONS as TREE_DIMENSIONS,
    build_index as build_index,
    check_search_memory as check_search_memory,
    estimate_dimension as estimate_dimension,
    intrinsic_dimension as intrinsic_dimension,
    intrinsic_dimension_graph as intrinsic_dimension_graph,
    knn_graph as knn_graph,
)
from isoweave.graph._shortcuts import (
    ShortcutRule as ShortcutRule,
    are_paths as are_paths,
    bypass_doubtful as bypass_doubtful,
    detour_limits as detour_limits,
    drop_shortcuts as drop_shortcuts,
    longer_than_detours as longer_than_detours,
    rejoining_edges as rejoining_edges,
    shared_neighborhood as shared_neighborhood,
)
