"""Files made by hand, in which every field can lie."""

import io
import struct
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def npy(descr="<f8", shape="(2, 2)", body=bytes(32), order="False", version=1, length=None, header=None):
    """The bytes of a .npy file."""
    text = header or f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n"
    raw = text.encode("latin-1")
    size = len(raw) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + size.to_bytes(2 if version == 1 else 4, "little") + raw + body


def saved(**arrays):
    """Writes a .npz archive; without a name, a .npy file."""
    if "" in arrays:
        return lambda path: np.save(path, arrays[""], allow_pickle=True)
    return lambda path: np.savez(path, **{key: value for key, value in arrays.items() if value is not None})


def sparse(**change):
    """Writes a sparse matrix as scipy does, with some arrays changed or left out (None)."""
    arrays = {"format": np.array(b"csr"), "shape": np.array([3, 3]), "data": np.ones(3)}
    arrays |= {"indices": np.array([1, 2, 0]), "indptr": np.array([0, 1, 2, 3])}
    return saved(**arrays | change)


def stored(name="X.npy", body=None):
    """A member for :func:`raw_zip`: name, data, what is written of them, method."""
    body = npy() if body is None else body
    return name, body, body, 0


def deflated(body, name="X.npy"):
    packer = zlib.compressobj(9, wbits=-15)
    return name, body, packer.compress(body) + packer.flush(), 8


def raw_zip(*members, start=b"", **change):
    """A zip archive; ``change`` replaces fields of its first member."""
    out, directory = bytearray(start), bytearray()
    for k, (name, body, packed, method) in enumerate(members):
        fields = {"flags": 0, "method": method, "crc": zlib.crc32(body), "csize": len(packed)}
        fields |= {"size": len(body), "offset": len(out)} | (change if k == 0 else {})
        raw = name.encode()
        values = [fields[key] for key in ("flags", "method", "crc", "csize", "size")]
        common = struct.pack("<5H3L2H", 20, *values[:2], 0, 33, *values[2:], len(raw), 0)
        out += b"PK\x03\x04" + common + raw + packed
        tail = struct.pack("<3H2L", 0, 0, 0, 0, fields["offset"])
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + common + tail + raw
    end = struct.pack("<4H2LH", 0, 0, len(members), len(members), len(directory), len(out), 0)
    return bytes(out + directory + b"PK\x05\x06" + end)


def parquet(table, **options):
    """The bytes of a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(pa.table(table), buffer, **options)
    return buffer.getvalue()
