"""Reading features, distance graphs and maps from files that may be damaged; writing maps."""

from isoweave.io._embedding import (
    as_columns as as_columns,
    check_output_path as check_output_path,
    read_embedding as read_embedding,
    write_embedding as write_embedding,
    write_table as write_table,
)
from isoweave.io._ranges import open_edges as open_edges
from isoweave.io._read import (
    LoadedInput as LoadedInput,
    read_annotations as read_annotations,
    read_input as read_input,
)
from isoweave.io._source import InputFileError as InputFileError
from isoweave.io._text import (
    match_names as match_names,
    read_anchors as read_anchors,
    read_columns as read_columns,
    read_labels as read_labels,
)
