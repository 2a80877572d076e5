"""Local Euclidean frames: where every vertex sees its neighbours."""

from isoweave.geometry._frames import (
    SHORTEST_ROW as SHORTEST_ROW,
    LocalFrames as LocalFrames,
    calibrate_frames as calibrate_frames,
    edge_lengths as edge_lengths,
    local_stretch as local_stretch,
    neighborhood_volumes as neighborhood_volumes,
    rigid_motion as rigid_motion,
)
from isoweave.geometry._local_mds import (
    ALL_FRAME_LIMIT as ALL_FRAME_LIMIT,
    HUB_LIMIT as HUB_LIMIT,
    ROOM_PER_FRAME as ROOM_PER_FRAME,
    edges_between_hubs as edges_between_hubs,
    frame_size_by as frame_size_by,
    local_frames as local_frames,
    long_edges as long_edges,
    resolve_frame_size as resolve_frame_size,
    typical_degree as typical_degree,
    typical_degrees as typical_degrees,
)
