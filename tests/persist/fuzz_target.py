"""A target for fuzzers: any bytes as a store, which must load or raise StoreError.

``target(data)`` takes bytes whose first one says how they are used: 0, the packed files as they are; 1, with
the manifest's checksum made right; 2, with all checksums made right, so that the checks behind them are
reached. The rest is a packed store. ``seeds()`` gives inputs to start from.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from pathlib import Path

from isoweave.embedding import Embedding
from isoweave.persist import StoreError, load
from packed_store import pack, read_files, seal, unpack, with_manifest, write_files

SAMPLES = Path(__file__).parent / "samples"
# In memory where there is such a file system.
_SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
# Longer names the file system may refuse before the loader sees them.
_LONGEST_NAME = 200


def seeds():
    """Every sample store, used in each of the three ways."""
    stores = sorted(path.parent for path in SAMPLES.glob("*/*/manifest.json"))
    return [bytes([mode]) + pack(read_files(path)) for path in stores for mode in range(3)]


def target(data):
    """Load a store made of the bytes; returns what was loaded, or the StoreError."""
    if not data:
        return None
    files = unpack(data[1:])
    if data[0] % 3 == 1:
        files = with_manifest(files, files.get("manifest.json", b""))
    elif data[0] % 3 == 2:
        files = seal(files)
    folder = Path(tempfile.mkdtemp(prefix="isoweave-fuzz-", dir=_SCRATCH))
    try:
        kept = {name: data for name, data in files.items() if len(name.encode()) < _LONGEST_NAME}
        write_files(folder / "store", kept)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                loaded = load(folder / "store", mmap=bool(data[0] & 4))
            except StoreError as error:
                message = str(error)
                if "\n" in message or len(message) > 1000 + len(str(folder)):
                    raise AssertionError(f"not one short line: {message[:2000]}") from error
                return error
        # What loads can be used: its parts fit each other.
        if isinstance(loaded, Embedding):
            loaded.graph.to_matrix().sum()
        else:
            repr(loaded)
        return loaded
    finally:
        shutil.rmtree(folder)
