"""Reading features and distance graphs from files, writing embeddings."""

from isoweave.io._errors import InputFileError
from isoweave.io._read import LoadedInput, read_input
from isoweave.io._write import check_output_path, write_embedding

__all__ = ["InputFileError", "LoadedInput", "check_output_path", "read_input", "write_embedding"]
