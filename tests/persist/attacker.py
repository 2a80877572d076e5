"""Stored files taken apart and put together as an attacker would, and a target for fuzzers.

``target(data)`` loads what it is given, which must work or raise StoreError. The first byte says how the rest
is used: 0 as it is, 1 with the checksum made right so that the checks behind it are reached; 2 and 3 are the
same with mapped arrays.
"""

import hashlib
import io
import json
import os
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np

from isoweave import Embedding
from isoweave.persist import StoreError, load, write_store
from isoweave.persist._store import DTYPES as TYPES

SAMPLES = Path(__file__).parent / "samples"
# In memory where there is such a file system.
SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def take_apart(data):
    """Header (its content parsed too) and the bytes behind it."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"]["content"] = json.loads(header["__metadata__"]["content"])
    return header, data[8 + length :]


def put_together(header, body):
    """A file of any header and any bytes, with a checksum that is right."""
    if isinstance(header, dict) and isinstance(header.get("__metadata__"), dict):
        metadata = {**header["__metadata__"]}
        if not isinstance(metadata.get("content"), str):
            metadata["content"] = json.dumps(metadata.get("content"))
        header = {**header, "__metadata__": metadata}
        if metadata.get("sha256") is not None:
            metadata["sha256"] = "0" * 64
            metadata["sha256"] = hashlib.sha256(json.dumps(header).encode() + body).hexdigest()
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def arrays_of(header, body):
    """The arrays of a file by name."""
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    return {
        name: np.frombuffer(body[slice(*e["data_offsets"])], TYPES[e["dtype"]]).reshape(e["shape"])
        for name, e in entries.items()
    }


def with_arrays(header, arrays):
    """A sealed file with the metadata of another and these arrays."""
    metadata, file = header["__metadata__"], io.BytesIO()
    write_store(file, metadata["kind"], metadata["content"], arrays)
    return file.getvalue()


def seeds():
    """Every sample, used in each of the four ways."""
    return [bytes([way]) + path.read_bytes() for path in sorted(SAMPLES.iterdir()) for way in range(4)]


def target(data):
    """Load a file of these bytes, which works or raises StoreError."""
    if not data:
        return
    way, data = data[0] % 4, data[1:]
    if way % 2:
        with suppress(Exception):  # whatever is wrong with it, the reader is to find out
            data = put_together(*take_apart(data))
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        path = Path(folder) / "file"
        path.write_bytes(data)
        try:
            loaded = load(path, mmap=way > 1)
        except StoreError as error:
            message = str(error)
            if "\n" in message or len(message) > 1000 + len(folder):
                raise AssertionError(f"not one short line: {message[:2000]}") from error
            return
        # What loads can be used: its parts fit each other.
        if isinstance(loaded, Embedding):
            loaded.graph.to_matrix().sum()
        else:
            repr(loaded)
