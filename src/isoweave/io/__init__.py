"""Reading features, distance graphs and what embeddings are compared with; writing embeddings."""

from isoweave.io._anchors import read_anchors
from isoweave.io._columns import Columns, read_columns
from isoweave.io._errors import InputFileError
from isoweave.io._read import LoadedInput, read_input
from isoweave.io._reference import Coordinates, match_names, read_coordinates, read_labels
from isoweave.io._stored import HistoryStep, StoredEmbedding, read_embedding
from isoweave.io._write import check_output_path, write_embedding

__all__ = [
    "Columns",
    "Coordinates",
    "HistoryStep",
    "InputFileError",
    "LoadedInput",
    "StoredEmbedding",
    "check_output_path",
    "match_names",
    "read_anchors",
    "read_columns",
    "read_coordinates",
    "read_embedding",
    "read_input",
    "read_labels",
    "write_embedding",
]
