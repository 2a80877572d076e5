"""Damaged and malicious .npy and .npz files."""

from __future__ import annotations

import io
import resource
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave.io import InputFileError, _arrays, _open, read_coordinates, read_input, read_labels


def npy(descr="<f8", shape="(2, 2)", body=bytes(32), order="False", version=1, length=None, header=None):
    text = (
        header
        if header is not None
        else f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n"
    )
    raw = text.encode("latin-1")
    size = len(raw) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + size.to_bytes(2 if version == 1 else 4, "little") + raw + body


def npz(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members:
            archive.writestr(f"{name}.npy", data)
    return path


def write(folder, data, name="x.npy"):
    path = folder / name
    path.write_bytes(data)
    return path


def test_the_header_made_here_is_good(tmp_path):
    for version in (1, 2):
        np.testing.assert_array_equal(
            read_input(write(tmp_path, npy(version=version))).features, np.zeros((2, 2))
        )


@pytest.mark.parametrize(
    "header",
    [
        "{'shape': (2, 2), 'descr': '<f8', 'fortran_order': False}",
        '{"descr": "<f8", "fortran_order": False, "shape": (2, 2)}',
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 2L), }",
        "  {'descr':'<f8','fortran_order':False,'shape':(2,2,),}   \n",
    ],
)
def test_headers_of_other_writers(tmp_path, header):
    assert read_input(write(tmp_path, npy(header=header))).n_rows == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npy(shape="(-2, -2)"), "damaged header: .*-2, -2"),
        (npy(shape="(2)"), "damaged header: shape '2'"),
        (npy(shape="(2.0, 2)"), "damaged header"),
        (npy(shape="(True, 4)"), "damaged header"),
        (npy(shape="(4, 1_0)"), "damaged header"),
        (npy(shape="[2, 2]"), "damaged header"),
        (npy(shape="(" + "1, " * 40 + ")", body=bytes(8)), "damaged header: shape"),
        (npy(shape="(999999999999999999, 999999999999999999)"), "is refused"),
        (npy(shape="(0, 999999999999999999, 9999)", body=b""), "is refused"),
        (npy(shape="(0, 99999999999999999999)", body=b""), "damaged header: shape"),
        (npy(shape="(2, 3)"), "needs 48 bytes of data, the file has 32"),
        (npy(shape="(2, 1)"), "needs 16 bytes of data, the file has 32"),
        (npy(shape="()", body=bytes(8)), r"got shape \(\)"),
        (npy("|O", body=b"cos\nsystem\n(S'true'\ntR."), "holds Python objects"),
        (npy("O"), "holds Python objects"),
        (npy("<M8[D]"), "arrays of type '<M8.D.' are not read"),
        (npy("<m8"), "are not read"),
        (npy("|V8"), "are not read"),
        (npy("<c16", "(2, 1)"), "expected real numbers, the array has dtype complex128"),
        (npy("<U0", "(9999999, 9999999)", b""), "arrays of type '<U0' are not read"),
        (npy("|S0", "(9999999, 9999999)", b""), "are not read"),
        (npy("<U9999999999"), "are not read"),
        (npy("<f7"), "are not read"),
        (npy("float64"), "are not read"),
        (npy("<f8,<f8"), "are not read"),
        (npy("\\x3cf8"), "damaged header"),
        (npy(header="[('a', '<f8')]"), "damaged header"),
        (
            npy(header="{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4,), }"),
            "structured arrays",
        ),
        (npy(header="{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (2, 2)}"), "damaged"),
        (npy(header="{'descr': '<f8', 'fortran_order': False}"), "has 2"),
        (npy(header="{'descr': '<f8' 'fortran_order': False, 'shape': (2, 2)}"), "damaged header"),
        (npy(header="{" * 60_000), "damaged header"),
        (npy(header="{'descr': " + "-" * 60_000), "damaged header"),
        (npy(header="{'descr': " + "(" * 60_000 + "}"), "damaged header"),
        (npy(order="1"), "damaged header"),
        (npy(version=3), r"format version \(3, 0\) is not supported"),
        (npy(version=9), "is not supported"),
        (npy(version=2, length=2**32 - 1), "a header of 4294967295 bytes is refused"),
        (npy(length=65535), "it is cut short"),
        (npy(length=0), "damaged header"),
        (b"\x93NUMPY", "not a .npy array"),
        (b"\x80\x04\x95pickle", "not a .npy array"),
    ],
)
def test_bad_npy(tmp_path, data, message):
    path = write(tmp_path, data)
    with pytest.raises(InputFileError, match=message):
        read_input(path)
    for read in (read_coordinates, read_labels):
        try:
            read(path)
        except InputFileError:
            continue


def test_long_double_that_overflows(tmp_path):
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("this machine has no extended precision")
    np.save(tmp_path / "x.npy", np.full((2, 2), np.longdouble("1e4000")))
    with pytest.raises(InputFileError, match="inf at row 0, column 0"):
        read_input(tmp_path / "x.npy")


def test_long_double_with_impossible_bits(tmp_path):
    body = bytes(8) + b"\xff\x7f" + bytes(6) + b"\xff" * 48
    with pytest.raises(InputFileError, match="at row 0, column 0"):
        read_input(write(tmp_path, npy("<f16", "(2, 2)", body)))


def test_booleans_that_are_neither(tmp_path):
    path = write(tmp_path, npy("|b1", "(2, 2)", b"\x00\x01\x02\xff"))
    np.testing.assert_array_equal(read_input(path).features, [[0, 1], [1, 1]])
    labels = read_labels(write(tmp_path, npy("|b1", "(4,)", b"\x00\x01\x02\xff")))
    np.testing.assert_array_equal(labels.view(np.uint8), [0, 1, 1, 1])


def test_integers_keep_their_values(tmp_path):
    path = write(tmp_path, npy(">u8", "(1, 2)", (2**64 - 1).to_bytes(8, "big") + (3).to_bytes(8, "big")))
    np.testing.assert_array_equal(read_input(path).features, [[2.0**64, 3]])


@pytest.mark.parametrize("code", [0x110000, 0x7FFFFFFF, 0xD800, 0xDFFF])
@pytest.mark.parametrize("endian", ["<", ">"])
def test_text_with_no_characters(tmp_path, code, endian):
    """Such text crashed readers with SystemError, or made names that cannot be printed."""
    text = npy(f"{endian}U1", "(1,)", struct.pack(f"{endian}L", code))
    path = npz(
        tmp_path / "x.npz", [("embedding", npy(shape="(1, 1)", body=bytes(8))), ("vertex_names", text)]
    )
    with pytest.raises(InputFileError, match=f"entry 0 holds {code:#x}, which is no character"):
        read_coordinates(path)
    with pytest.raises(InputFileError, match="which is no character"):
        read_labels(write(tmp_path, text))
    sparse = [
        ("format", npy(f"{endian}U1", "()", struct.pack(f"{endian}L", code))),
        ("shape", npy("<i8", "(2,)", bytes(16))),
    ]
    with pytest.raises(InputFileError, match="sparse format '' is not supported"):
        read_input(npz(tmp_path / "y.npz", sparse))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (np.array("x"), r"expected 3 names, got <U1 of shape \(\)"),
        (np.array(["x"]), r"of shape \(1,\)"),
        (np.array([["x"] * 3]), r"of shape \(1, 3\)"),
        (np.array([1j] * 3), "got complex128"),
        (np.array([b"\xff"] * 3), "names that are not UTF-8 text"),
    ],
)
def test_names_that_do_not_fit(tmp_path, names, message):
    np.savez(tmp_path / "x.npz", embedding=np.ones((3, 2)), vertex_names=names)
    with pytest.raises(InputFileError, match=message):
        read_coordinates(tmp_path / "x.npz")


def test_names_of_other_types(tmp_path):
    for names in (np.array([b"a", b"b"]), np.array(["a", "b"]), np.array([1, 2])):
        np.savez(tmp_path / "x.npz", embedding=np.ones((2, 2)), vertex_names=names)
        assert read_coordinates(tmp_path / "x.npz").names in (("a", "b"), ("1", "2"))


def test_labels_must_be_finite(tmp_path):
    np.save(tmp_path / "y.npy", np.array([1.0, np.nan]))
    with pytest.raises(InputFileError, match="label nan of row 1"):
        read_labels(tmp_path / "y.npy")


# Archives.


def raw_zip(members, *, start=b"", change=None):
    """A zip written by hand, so that every field can lie: ``change(fields, k)`` edits those of member k."""
    out, directory = bytearray(start), bytearray()
    for k, (name, body, packed, method) in enumerate(members):
        fields = {
            "flags": 0,
            "method": method,
            "crc": zlib.crc32(body),
            "csize": len(packed),
            "size": len(body),
            "offset": len(out),
        }
        if change is not None:
            change(fields, k)
        raw = name.encode()
        common = struct.pack(
            "<5H3L2H",
            20,
            fields["flags"],
            fields["method"],
            0,
            33,
            fields["crc"],
            fields["csize"],
            fields["size"],
            len(raw),
            0,
        )
        out += b"PK\x03\x04" + common + raw + packed
        directory += (
            b"PK\x01\x02"
            + struct.pack("<H", 20)
            + common
            + struct.pack("<3H2L", 0, 0, 0, 0, fields["offset"])
            + raw
        )
    return bytes(
        out
        + directory
        + b"PK\x05\x06"
        + struct.pack("<4H2LH", 0, 0, len(members), len(members), len(directory), len(out), 0)
    )


def stored(name="X.npy", body=None):
    body = npy() if body is None else body
    return name, body, body, 0


def deflated(body, name="X.npy"):
    packer = zlib.compressobj(9, wbits=-15)
    return name, body, packer.compress(body) + packer.flush(), 8


def setting(**values):
    return lambda fields, k: fields.update(values) if k == 0 else None


def test_the_archive_made_here_is_good(tmp_path):
    for member in (stored(), deflated(npy())):
        path = write(tmp_path, raw_zip([member], start=b"a program that unpacks itself"), "x.npz")
        assert read_input(path).n_rows == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (raw_zip([stored()], change=setting(crc=1)), "Bad CRC-32"),
        (raw_zip([deflated(npy())], change=setting(crc=1)), "Bad CRC-32"),
        (raw_zip([stored()], change=setting(size=2**31)), "its two sizes differ"),
        (raw_zip([deflated(npy())], change=setting(size=2**31)), "compressed bytes cannot become"),
        (raw_zip([deflated(npy())], change=setting(size=len(npy()) + 8)), "needs 32 bytes of data, .* 40"),
        (raw_zip([deflated(npy(shape="(2, 3)"))], change=setting(size=len(npy()) + 16)), "data are missing"),
        (raw_zip([deflated(npy())], change=setting(csize=2**31)), "in the archive's directory"),
        (raw_zip([stored()], change=setting(flags=1)), "it is encrypted"),
        (raw_zip([stored()], change=setting(method=12)), "compression method 12 is not read"),
        (raw_zip([stored()], change=setting(method=14)), "compression method 14 is not read"),
        (raw_zip([stored()], change=setting(method=9)), "compression method 9 is not read"),
        (raw_zip([stored()], change=setting(method=8, csize=len(npy()))), "damaged .npz archive"),
        (raw_zip([stored(), stored()]), "array 'X': there are two of that name"),
        (raw_zip([stored(), stored("Y.npy")], change=setting(offset=80)), "overlaps the one before it"),
        (raw_zip([stored(f"{k}.npy", b"") for k in range(5000)]), "5000 members; at most 4096"),
        (raw_zip([stored("X.npy", b"")]), "array 'X': not a .npy array"),
        (raw_zip([stored("\x1b[31mX.npy", b"")]), r"array '\\x1b\[31mX': not"),
        (raw_zip([]), "found nothing readable"),
        (raw_zip([stored("X.npy", npy("|O"))]), "found nothing readable"),
        (raw_zip([stored("readme.txt", b"hello")]), "found nothing readable"),
        (b"PK\x05\x06" + bytes(18), "found nothing readable"),
        (b"PK\x05\x06" + b"\xff" * 18, "not a .npz archive"),
        (raw_zip([stored()])[:-30], "not a .npz archive"),
    ],
)  # fmt: skip
def test_bad_archives(tmp_path, data, message):
    path = write(tmp_path, data, "x.npz")
    with pytest.raises(InputFileError, match=message):
        read_input(path)


def test_an_archive_in_an_archive_is_not_opened(tmp_path):
    inner = raw_zip([stored()])
    with pytest.raises(InputFileError, match="found nothing readable"):
        read_input(write(tmp_path, raw_zip([stored("inner.npz", inner)]), "x.npz"))


def test_overlapping_members_share_no_bomb(tmp_path):
    """Many entries of the directory that point to the same compressed data."""
    data = raw_zip(
        [deflated(npy()), deflated(npy(), "Y.npy")], change=lambda fields, _: fields.update(offset=0)
    )
    with pytest.raises(InputFileError, match="overlaps the one before it|damaged"):
        read_input(write(tmp_path, data, "x.npz"))


def test_zip_bomb_is_refused_before_it_is_inflated(tmp_path):
    n = 30_000_000
    body = npy("|i1", f"({n // 10}, 10)", bytes(n))
    path = write(tmp_path, raw_zip([deflated(body)]), "x.npz")
    del body
    size = path.stat().st_size
    assert size < 100_000
    tracemalloc.start()
    started = time.process_time()
    with pytest.raises(InputFileError, match=f"would take {8 * n} bytes in memory, from a file of {size}"):
        read_input(path)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    assert time.process_time() - started < 1


def test_what_compresses_well_is_read_within_the_limit(tmp_path):
    zeros = np.zeros((100_000, 20), dtype=np.float32)
    np.savez_compressed(tmp_path / "x.npz", X=zeros)
    assert (tmp_path / "x.npz").stat().st_size < zeros.nbytes / 500
    np.testing.assert_array_equal(read_input(tmp_path / "x.npz").features, zeros)


def test_limit_grows_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(_open, "FREE_BYTES", 1000)
    array = np.zeros((100, 100))
    np.savez_compressed(tmp_path / "x.npz", X=array, ballast=np.random.default_rng(5).normal(size=100))
    assert read_input(tmp_path / "x.npz").n_rows == 100
    np.savez_compressed(tmp_path / "y.npz", X=array)
    monkeypatch.setattr(_open, "MAX_EXPANSION", 50)
    with pytest.raises(InputFileError, match="more than 50 times a file's size .* numpy.savez"):
        read_input(tmp_path / "y.npz")


def test_a_member_that_is_shorter_than_it_says_fills_nothing(tmp_path, monkeypatch):
    """The memory of the declared size is set aside, but never touched."""
    n = 1 << 22
    header = npy("<f8", f"({n}, 4)", b"")
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(header + bytes(1 << 18)) + packer.flush() + bytes(1 << 18)
    body_size = len(header) + 32 * n
    data = raw_zip([("X.npy", b"", packed, 8)], change=setting(size=body_size))
    path = write(tmp_path, data, "x.npz")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputFileError, match="bytes of data are missing|damaged"):
        read_input(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 << 10  # of 128 MiB declared


# Sparse matrices.


def sparse(folder, **change):
    arrays = {
        "format": np.array(b"csr"),
        "shape": np.array([3, 3]),
        "data": np.ones(3),
        "indices": np.array([1, 2, 0]),
        "indptr": np.array([0, 1, 2, 3]),
    } | change
    np.savez(folder / "a.npz", **{key: value for key, value in arrays.items() if value is not None})
    return folder / "a.npz"


def test_row_pointers_that_wrap_around(tmp_path):
    """Differences of these are 2**63 - 1, 2**63 - 1 and 5, none negative: numpy.repeat wrote past its end.

    The reader that did so ended with a segmentation fault, hence the other process.
    """
    path = sparse(tmp_path, indptr=np.array([0, 2**63 - 1, -2, 3]))
    code = (
        f"from isoweave.io import read_input\ntry:\n    read_input({str(path)!r})\n"
        "except ValueError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "'indptr' must rise from 0 to 3" in done.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indptr": np.array([0, 2**64 - 1, 2**64 - 1, 3], dtype=np.uint64)}, "must rise"),
        ({"indptr": np.array([0, 4, 4, 3])}, "must rise"),
        ({"indptr": np.array([0, -1, 2, 3])}, "must rise"),
        ({"indptr": np.array([], dtype=np.int64)}, "must rise from 0 to 3 over 4 values; it has 0"),
        ({"indptr": np.array([], dtype=np.int64), "format": None, "shape": None}, "outside 0 to -1"),
        (
            {
                "indptr": np.zeros(0, int),
                "data": np.ones(0),
                "indices": np.zeros(0, int),
                "format": None,
                "shape": None,
            },
            "must rise from 0 to 0 over 1 values; it has 0",
        ),
        ({"indices": np.array([0, 2**63, 1], dtype=np.uint64)}, "holds 9223372036854775808 at position 1"),
        ({"indices": np.array([0, 2**32, 1])}, "outside 0 to 2"),
        ({"indices": np.array([0, 127, 1], dtype=np.int8)}, "holds 127"),
        ({"data": np.array([1, np.inf, 1])}, "distance inf between"),
        ({"data": np.ones((3, 1))}, "must be 1-D numbers"),
        ({"data": np.array(["a", "b", "c"])}, "must be 1-D numbers, got <U1"),
        ({"shape": np.array([2**62, 2**62])}, "is refused"),
        ({"shape": np.array([2**64 - 1, 3], dtype=np.uint64)}, "is refused"),
        ({"shape": np.array(["a", "b"])}, "must be two sizes, got <U1"),
        ({"shape": np.array([3.0, 3.0])}, "must be two sizes"),
        ({"shape": np.array([1000, 3])}, "over 1001 values; it has 4"),
        ({"shape": np.array([-3, 3])}, "got -3 x 3"),
        ({"format": np.array("csr" * 1000)}, "is not supported"),
        ({"format": np.array(["csr", "csr"])}, "is not supported"),
        ({"format": np.array(7)}, "format 'int64 of shape ..' is not supported"),
    ],
)
def test_bad_sparse(tmp_path, change, message):
    with pytest.raises(InputFileError, match=message):
        read_input(sparse(tmp_path, **change))


def test_format_as_text(tmp_path):
    assert read_input(sparse(tmp_path, format=np.array("csr"))).graph.nnz == 3
    assert read_input(sparse(tmp_path, format=np.array(["csr"]))).graph.nnz == 3


def test_repeated_entries_stay(tmp_path):
    graph = read_input(sparse(tmp_path, indices=np.array([1, 1, 0]), indptr=np.array([0, 2, 2, 3]))).graph
    np.testing.assert_array_equal(graph.indices, [1, 1, 0])


def test_order_of_entries_against_numpy(tmp_path):
    rng = np.random.default_rng(17)
    row, col, data = rng.integers(0, 40, 300), rng.integers(0, 40, 300), rng.random(300)
    np.savez(
        tmp_path / "a.npz", format=np.array(b"coo"), shape=np.array([40, 40]), row=row, col=col, data=data
    )
    graph = read_input(tmp_path / "a.npz").graph
    order = np.lexsort((col, row))
    np.testing.assert_array_equal(graph.indices, col[order])
    np.testing.assert_array_equal(graph.data, data[order])


def test_hardly_filled_features_are_refused(tmp_path):
    """A kilobyte must not become gigabytes of zeros."""
    sp.save_npz(tmp_path / "a.npz", sp.csr_array((30_000, 30_001)))
    with pytest.raises(InputFileError, match=r"shape \(30000, 30001\), held dense, would take 7200240000"):
        read_input(tmp_path / "a.npz")
    sp.save_npz(tmp_path / "a.npz", sp.csr_array((300, 301)))
    assert read_input(tmp_path / "a.npz").features.shape == (300, 301)


def test_many_empty_rows_are_refused(tmp_path):
    """Entries that compress to nothing must not pay for row pointers of gigabytes."""
    n = 300_000
    arrays = {"format": np.array(b"coo"), "shape": np.array([20_000_000] * 2), "data": np.ones(n)}
    np.savez_compressed(tmp_path / "a.npz", row=np.zeros(n, int), col=np.zeros(n, int), **arrays)
    with pytest.raises(InputFileError, match="a 20000000 x 20000000 matrix would take 320000000 bytes"):
        read_input(tmp_path / "a.npz")


def test_square_array_in_blocks(tmp_path, monkeypatch):
    from isoweave.io import _features

    dense = np.random.default_rng(9).integers(0, 3, size=(23, 23))
    np.save(tmp_path / "d.npy", dense)
    whole = read_input(tmp_path / "d.npy", as_graph=True).graph
    monkeypatch.setattr(_features, "_BLOCK_VALUES", 60)
    blocks = read_input(tmp_path / "d.npy", as_graph=True).graph
    np.testing.assert_array_equal(whole.toarray(), dense)
    for key in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(whole, key), getattr(blocks, key))
    np.save(tmp_path / "d.npy", dense[:5])
    with pytest.raises(InputFileError, match="needs a square matrix, got 5 x 23"):
        read_input(tmp_path / "d.npy", as_graph=True)


def test_header_reader_agrees_with_numpy(tmp_path):
    rng = np.random.default_rng(23)
    for dtype in ("<f8", ">f4", "<i2", ">u4", "|i1", "|b1", "<U3", "|S4", "<f2"):
        for shape in ((), (3,), (2, 3), (0, 4), (2, 1, 2)):
            for order in "CF":
                array = np.asarray((rng.random(shape) * 50).astype(dtype), order=order)
                buffer = io.BytesIO()
                np.save(buffer, array)
                path = write(tmp_path, buffer.getvalue())
                found = _arrays.read_npy(path)
                assert found.dtype == array.dtype
                assert found.shape == array.shape
                np.testing.assert_array_equal(found, array)
