"""Local Euclidean frames: where every vertex sees its neighbours."""

from isoweave.geometry._calibration import CALIBRATIONS, calibrate_frames
from isoweave.geometry._frames import LocalFrames
from isoweave.geometry._local_mds import ALL_FRAME_LIMIT, HUB_LIMIT, local_frames, resolve_frame_size
from isoweave.geometry._volumes import VOLUMES, neighborhood_volumes

__all__ = [
    "ALL_FRAME_LIMIT",
    "CALIBRATIONS",
    "HUB_LIMIT",
    "VOLUMES",
    "LocalFrames",
    "calibrate_frames",
    "local_frames",
    "neighborhood_volumes",
    "resolve_frame_size",
]
