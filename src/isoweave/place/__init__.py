"""New points in a finished map, and maps that grow with their graph."""

from isoweave.place._place import (
    FinishedMap as FinishedMap,
    Placement as Placement,
    embed_again as embed_again,
    finished_map as finished_map,
    nearest_columns as nearest_columns,
    neighbors_apart as neighbors_apart,
    place_points as place_points,
    settle_on as settle_on,
    sparse_rows as sparse_rows,
    warm_start as warm_start,
)
