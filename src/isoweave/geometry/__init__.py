"""Local Euclidean frames: where every vertex sees its neighbours."""

from isoweave.geometry._frames import (
    SHORTEST_ROW,
    LocalFrames,
    calibrate_frames,
    local_stretch,
    neighborhood_volumes,
    rigid_motion,
)
from isoweave.geometry._local_mds import (
    ALL_FRAME_LIMIT,
    HUB_LIMIT,
    local_frames,
    long_edges,
    resolve_frame_size,
)

__all__ = [
    "ALL_FRAME_LIMIT",
    "HUB_LIMIT",
    "SHORTEST_ROW",
    "LocalFrames",
    "calibrate_frames",
    "local_frames",
    "local_stretch",
    "long_edges",
    "neighborhood_volumes",
    "resolve_frame_size",
    "rigid_motion",
]
