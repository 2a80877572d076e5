"""Files made by hand, in which every field can lie."""

from __future__ import annotations

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
    arrays = {
        "format": np.array(b"csr"),
        "shape": np.array([3, 3]),
        "data": np.ones(3),
        "indices": np.array([1, 2, 0]),
        "indptr": np.array([0, 1, 2, 3]),
    }
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
        fields = {
            "flags": 0,
            "method": method,
            "crc": zlib.crc32(body),
            "csize": len(packed),
            "size": len(body),
        }
        fields |= {"offset": len(out)} | (change if k == 0 else {})
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


def varint(n):
    out = b""
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def zigzag(n):
    return varint(2 * n if n >= 0 else -2 * n - 1)


def element(name, children=None, kind=None):
    """One entry of a Parquet schema."""
    out, last = b"", 0
    for number, value in ((1, kind), (3, 0)):
        if value is not None:
            out, last = out + bytes([(number - last) << 4 | 5]) + zigzag(value), number
    out += bytes([(4 - last) << 4 | 8]) + varint(len(name)) + name
    if children is not None:
        out += bytes([1 << 4 | 5]) + zigzag(children)
    return out + b"\0"


def with_schema(*elements):
    """A Parquet file without rows."""
    head = bytes([15 << 4 | 12]) + varint(len(elements))
    footer = b"\x15\x02\x19" + head + b"".join(elements) + b"\x16\x00\x19\x0c\0"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def page_header(uncompressed, compressed):
    data_page = b"\x15\x04" + b"\x15\x00" * 3 + b"\0"
    return b"\x15\x00\x15" + zigzag(uncompressed) + b"\x15" + zigzag(compressed) + b"\x2c" + data_page + b"\0"
