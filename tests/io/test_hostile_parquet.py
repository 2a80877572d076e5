"""Damaged and malicious Parquet files; pyarrow runs in a process of its own, and may crash there."""

from __future__ import annotations

import io
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoweave.io import InputFileError, _isolated, _open, _parquet, _worker, read_input
from isoweave.io._isolated import Frames

quick = pytest.mark.usefixtures("in_process")
REGRESSIONS = Path(__file__).parents[1] / "fuzz" / "regressions"


def parquet(table, **options):
    buffer = io.BytesIO()
    pq.write_table(pa.table(table), buffer, **options)
    return buffer.getvalue()


def write(folder, data, name="x.parquet"):
    path = folder / name
    path.write_bytes(data)
    return path


def varint(n):
    out = b""
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def zigzag(n):
    return varint(2 * n if n >= 0 else -2 * n - 1)


def element(name, children=None, kind=None):
    out, last = b"", 0
    for number, value in ((1, kind), (3, 0)):
        if value is not None:
            out, last = out + bytes([(number - last) << 4 | 5]) + zigzag(value), number
    out += bytes([(4 - last) << 4 | 8]) + varint(len(name)) + name
    if children is not None:
        out += bytes([1 << 4 | 5]) + zigzag(children)
    return out + b"\0"


def with_schema(elements):
    head = bytes([15 << 4 | 12]) + varint(len(elements))
    footer = b"\x15\x02\x19" + head + b"".join(elements) + b"\x16\x00\x19\x0c\0"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


@pytest.mark.parametrize("depth", [1, 20_000])
def test_nested_columns(tmp_path, depth):
    """Deep nests ended older versions of pyarrow by stack overflow."""
    data = with_schema([element(b"r", 1), *[element(b"g", 1)] * depth, element(b"x", None, 5)])
    with pytest.raises(InputFileError, match="column 'g' has type struct|damaged"):
        read_input(write(tmp_path, data))


@quick
@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1.0], [2.0]]), "column 'a' has type list"),
        (pa.array([{"a": 1}, {"a": 2}]), "column 'a' has type struct"),
        (pa.array([1, 2], pa.date32()), "has type date32"),
        (pa.array([b"a", b"b"]), "has type binary"),
        (pa.array([1, 2], pa.decimal128(5)), "has type decimal128"),
        (pa.array([1.0, None]), "has no value in row 1"),
        (pa.array(["a", None]), "has no value in row 1"),
        (pa.array([1.0, float("nan")]), "nan at row 1"),
        (pa.array([b"a", b"b"]).dictionary_encode(), "only numbers and text are read"),
    ],
)
def test_columns_that_hold_no_features(tmp_path, column, message):
    path = write(tmp_path, parquet({"a": column, "b": [1.0, 2.0]}))
    with pytest.raises(InputFileError, match=message):
        read_input(path)


@quick
def test_types_of_columns(tmp_path):
    table = {
        "id": pa.array(["p", "q"]).dictionary_encode(),
        "b": [True, False],
        "u": pa.array([2**64 - 1, 0], pa.uint64()),
        "h": pa.array(np.array([0.5, 2], np.float16)),
    }
    loaded = read_input(write(tmp_path, parquet(table)))
    assert loaded.names == ("p", "q")
    np.testing.assert_array_equal(loaded.features, [[1, 2.0**64, 0.5], [0, 0, 2]])


@quick
@pytest.mark.parametrize("options", [
    {}, {"use_dictionary": False}, {"row_group_size": 7}, {"data_page_size": 64}, {"compression": "zstd"},
    {"compression": "gzip"}, {"compression": "brotli"}, {"compression": "lz4"}, {"compression": "none"},
    {"data_page_version": "2.0"}, {"use_dictionary": False, "column_encoding": {"x": "BYTE_STREAM_SPLIT"}},
    {"use_dictionary": False, "column_encoding": {"id": "DELTA_LENGTH_BYTE_ARRAY"}},
    {"write_page_index": True}, {"store_schema": False}, {"version": "1.0"}, {"write_page_checksum": True},
])  # fmt: skip
def test_every_way_to_write(tmp_path, options):
    x = np.arange(100) % 7 / 3
    names = [f"n{k % 5}" for k in range(100)]
    path = write(tmp_path, parquet({"id": names, "x": x}, **options))
    loaded = read_input(path)
    assert loaded.names == tuple(names)
    np.testing.assert_array_equal(loaded.features, x[:, None])


@pytest.mark.parametrize("piece", [1 << 23, 100])
def test_batches_make_no_difference(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(_worker, "_PIECE_BYTES", piece)
    monkeypatch.setattr(_worker, "_WORDS_AT_ONCE", piece)
    x = np.arange(1000.0).reshape(-1, 2)
    names = [f"n{k % 50}" for k in range(500)]
    path = write(tmp_path, parquet({"id": names, "x": x[:, 0], "y": x[:, 1]}, row_group_size=70))
    output = io.BytesIO()
    _worker.produce("parquet", str(path), 1 << 20, output)
    output.seek(0)
    table = _parquet.table_from_frames(
        Frames(path, output, path.stat().st_size), _parquet._check_feature_columns
    )
    assert table.text["id"] == tuple(names)
    np.testing.assert_array_equal(np.column_stack(list(table.numbers.values())), x)


@quick
@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "RLE_DICTIONARY"])
def test_one_long_word_in_every_row(tmp_path, encoding):
    """25 GB of text in some kilobytes of file: the word is stored once, and repeated for nothing."""
    n = 250_000 if encoding == "RLE_DICTIONARY" else 5000
    words = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["x" * 100_000])
    options = {"store_schema": False}
    if encoding == "DELTA_BYTE_ARRAY":
        words = ["x" * 9000] * n
        options = {"use_dictionary": False, "column_encoding": {"id": encoding}}
    data = parquet({"id": words, "x": np.zeros(n)}, **options)
    assert len(data) < 20_000
    with pytest.raises(InputFileError, match="of .*00 characters is refused|far more memory"):
        read_input(write(tmp_path, data))


@quick
def test_rows_for_nothing(tmp_path):
    """Runs of equal values take no space: a small file may declare any number of rows."""
    data = parquet({f"c{k}": pa.array(np.zeros(600_000)) for k in range(30)})
    assert len(data) < 200_000
    with pytest.raises(InputFileError, match="600000 rows of 30 columns would take far more memory"):
        read_input(write(tmp_path, data))


@quick
def test_limit_is_that_of_all_readers(tmp_path, monkeypatch):
    data = parquet({"a": np.zeros(100_000)}, use_dictionary=False, compression="zstd")
    path = write(tmp_path, data)
    assert read_input(path).n_rows == 100_000
    monkeypatch.setattr(_isolated, "FREE_BYTES", 1000)
    monkeypatch.setattr(_open, "FREE_BYTES", 1000)
    with pytest.raises(InputFileError, match="100000 rows of 1 columns would take far more memory"):
        read_input(path)


def page_header(uncompressed, compressed):
    data_page = b"\x15\x04" + b"\x15\x00" * 3 + b"\0"
    return b"\x15\x00\x15" + zigzag(uncompressed) + b"\x15" + zigzag(compressed) + b"\x2c" + data_page + b"\0"


def test_a_page_that_lies_about_its_size(tmp_path):
    """The footer says some bytes, the page says 2 GiB, and pyarrow believes the page."""
    data = bytearray(parquet({"a": np.arange(500.0)}, use_dictionary=False, compression="zstd"))
    start = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).data_page_offset
    header = page_header(2**31 - 1, 40)
    data[start : start + len(header)] = header
    with pytest.raises(InputFileError, match="damaged"):
        read_input(write(tmp_path, bytes(data)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "damaged one"),
        (b"PAR1PAR1", "damaged one"),
        (b"PAR1" + b"\xff\xff\xff\xff" + b"PAR1", "damaged one"),
        (b"PARE" + bytes(4) + b"PARE", "damaged one"),
        (b"PAR1" + b"\x1c" * 4000 + struct.pack("<I", 4000) + b"PAR1", "damaged"),
        (with_schema([element(b"r", 2**31 - 1), element(b"x", None, 5)]), "damaged"),
        (with_schema([element(b"r")]), "damaged|no column of numbers among none"),
    ],
)
def test_bad_footers(tmp_path, data, message):
    with pytest.raises(InputFileError, match=message) as caught:
        read_input(write(tmp_path, data))
    assert caught.value.reason.isprintable()


def test_a_byte_that_aborts_pyarrow(tmp_path):
    """pyarrow 26 ends the process in the metadata of this file, 15 reads it; the reader must survive both."""
    path = write(tmp_path, (REGRESSIONS / "parquet" / "aborts_in_metadata.parquet").read_bytes())
    if int(pa.__version__.split(".")[0]) < 26:
        with suppress(InputFileError):
            read_input(path)
        return
    with pytest.raises(InputFileError, match="damaged"):
        read_input(path)


@quick
def test_folder_names_are_no_columns(tmp_path):
    """Data sets in several files keep values in the names of folders; a single file has none there."""
    (tmp_path / "year=2020").mkdir()
    path = write(tmp_path / "year=2020", parquet({"a": [1.0, 2.0]}))
    np.testing.assert_array_equal(read_input(path).features, [[1], [2]])


@quick
def test_two_columns_of_one_name(tmp_path):
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    with pytest.raises(InputFileError, match="two columns are named 'a'"):
        read_input(write(tmp_path, parquet(table)))


# The worker itself.


def test_a_worker_that_crashes(tmp_path, monkeypatch):
    path = write(tmp_path, parquet({"a": [1.0, 2.0]}))
    program = tmp_path / "worker.py"
    monkeypatch.setattr(_isolated, "_WORKER", program)
    for code in ("import os; os.abort()", "import os; os.write(1, b'\\x07colu')"):
        program.write_text(code)
        with pytest.raises(
            InputFileError, match="the file is damaged .*broke down|'colu' instead of columns"
        ):
            read_input(path)


def test_a_worker_that_never_ends(tmp_path, monkeypatch):
    path = write(tmp_path, parquet({"a": [1.0, 2.0]}))
    program = tmp_path / "worker.py"
    program.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(_isolated, "_WORKER", program)
    monkeypatch.setattr(_isolated, "_WAIT_FACTOR", 0.25)
    with pytest.raises(InputFileError, match="broke down"):
        read_input(path)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize("code", ["while True: pass", "x = bytearray(1 << 33)"])
def test_limits_of_the_worker(tmp_path, monkeypatch, code):
    path = write(tmp_path, parquet({"a": [1.0, 2.0]}))
    program = tmp_path / "worker.py"
    text = _isolated._WORKER.read_text().replace("    produce(", f"    {code}\n    produce(", 1)
    assert code in text
    program.write_text(text)
    monkeypatch.setattr(_isolated, "_WORKER", program)
    monkeypatch.setattr(_isolated, "_CPU_SECONDS", 1)
    # Only the limits can end it.
    monkeypatch.setattr(_isolated, "_WAIT_FACTOR", 60)
    started = time.monotonic()
    with pytest.raises(InputFileError, match="broke down"):
        read_input(path)
    assert time.monotonic() - started < 55


def test_modules_of_the_current_folder_are_not_imported(tmp_path, monkeypatch):
    path = write(tmp_path, parquet({"a": [1.0, 2.0]}))
    for name in ("pyarrow.py", "numpy.py", "io.py"):
        (tmp_path / name).write_text("import os; os._exit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert read_input(path).n_rows == 2


def test_no_process_is_left(tmp_path):
    import threading

    path = write(tmp_path, parquet({"a": ["x"], "b": ["y"]}))
    before = threading.active_count()
    with pytest.raises(InputFileError, match="column 'b' holds text"):
        read_input(path)
    assert threading.active_count() <= before + 1
