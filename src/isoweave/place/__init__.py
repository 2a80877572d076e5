"""New points in a finished map, and maps that grow with their graph."""

from isoweave.place._grow import embed_again, settle_on, warm_start
from isoweave.place._place import (
    FinishedMap,
    Placement,
    finished_map,
    nearest_columns,
    place_points,
    sparse_rows,
)

__all__ = [
    "FinishedMap",
    "Placement",
    "embed_again",
    "finished_map",
    "nearest_columns",
    "place_points",
    "settle_on",
    "sparse_rows",
    "warm_start",
]
