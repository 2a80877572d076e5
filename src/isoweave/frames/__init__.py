"""Local Euclidean frames: where every vertex sees its neighbours."""

from isoweave.frames._calibration import CALIBRATIONS, calibrate_frames
from isoweave.frames._frames import LocalFrames
from isoweave.frames._local_mds import local_frames, resolve_frame_size
from isoweave.frames._volumes import VOLUMES, neighborhood_volumes

__all__ = [
    "CALIBRATIONS",
    "VOLUMES",
    "LocalFrames",
    "calibrate_frames",
    "local_frames",
    "neighborhood_volumes",
    "resolve_frame_size",
]
