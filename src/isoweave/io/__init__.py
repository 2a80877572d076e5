"""Reading features, distance graphs and maps from files that may be damaged; writing maps."""

from isoweave.io._embedding import check_output_path, read_embedding, write_embedding
from isoweave.io._read import LoadedInput, read_input
from isoweave.io._source import InputFileError
from isoweave.io._text import match_names, read_anchors, read_columns, read_labels

__all__ = [
    "InputFileError",
    "LoadedInput",
    "check_output_path",
    "match_names",
    "read_anchors",
    "read_columns",
    "read_embedding",
    "read_input",
    "read_labels",
    "write_embedding",
]
