"""Damaged and malicious tables, edge lists, labels and Matrix Market files."""

from __future__ import annotations

import contextlib
import time
import tracemalloc

import numpy as np
import pytest

from isoweave.io import InputFileError, _lines, read_input, read_labels

BANNER = b"%%MatrixMarket matrix coordinate real general\n"


def write(folder, data, name):
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize("code", [*range(9), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F])
def test_control_characters(tmp_path, code):
    """Python takes 0x0b, 0x0c and 0x1c to 0x1f for spaces; "1<0x1c>2" must not be two cells."""
    what = "NUL byte" if code == 0 else f"control character {code:#04x}"
    for name, data in (
        ("x.csv", b"1,2\n3,%c4\n" % code),
        ("x.txt", b"1 2\n3%c4\n" % code),
        ("x.edges", b"0 1 1\n0%c2 1\n" % code),
    ):
        with pytest.raises(InputFileError, match=f"line 2: {what}"):
            read_input(write(tmp_path, data, name))
    with pytest.raises(InputFileError, match=f"line 2: {what}"):
        read_input(write(tmp_path, BANNER + b"%% a comment %c\n2 2 1\n1 2 1\n" % code, "x.mtx"))


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u2028", "\u0085", "\u3000"])
def test_other_spaces_do_not_separate(tmp_path, space):
    with pytest.raises(InputFileError, match="line 2: .* is not a number"):
        read_input(write(tmp_path, f"1{space}2\n3{space}4\n", "x.txt"))
    loaded = read_input(write(tmp_path, f"New{space}York Boston 306\n", "x.edges"))
    assert loaded.names == (f"New{space}York", "Boston")
    with pytest.raises(InputFileError, match="line 3: "):
        read_input(write(tmp_path, BANNER + b"2 2 1\n1\xa02 1\n", "x.mtx"))


def test_carriage_returns(tmp_path):
    for name in ("x.csv", "x.txt"):
        with pytest.raises(InputFileError, match="line 1: carriage return inside a line"):
            read_input(write(tmp_path, b"1 2\r3 4\n", name))
    with pytest.raises(InputFileError, match="line 2: carriage return"):
        read_input(write(tmp_path, b"0 1 1\n1 2 1\r2 3 1\r\n", "x.edges"))
    np.testing.assert_array_equal(
        read_input(write(tmp_path, b"1 2\r\n3 4\r", "x.txt")).features, [[1, 2], [3, 4]]
    )
    graph = read_input(write(tmp_path, (BANNER + b"2 2 1\n1 2 5\n").replace(b"\n", b"\r\n"), "x.mtx")).graph
    np.testing.assert_array_equal(graph.toarray(), [[0, 5], [0, 0]])


def test_byte_order_marks(tmp_path):
    np.testing.assert_array_equal(
        read_input(write(tmp_path, b"\xef\xbb\xbf1,2\n", "x.csv")).features, [[1, 2]]
    )
    with pytest.raises(InputFileError, match="line 2: cell 1 holds '.ufeff3'"):
        read_input(write(tmp_path, b"1,2\n\xef\xbb\xbf3,4\n", "x.csv"))
    with pytest.raises(InputFileError, match="line 1: not UTF-8 text .byte 0|NUL byte"):
        read_input(write(tmp_path, "1,2\n".encode("utf-16"), "x.csv"))
    with pytest.raises(InputFileError, match="the file holds no rows"):
        read_input(write(tmp_path, b"\xef\xbb\xbf", "x.csv"))


@pytest.mark.parametrize(
    "cell",
    [
        "1_000",
        "0x10",
        "0b1",
        "1e",
        "--1",
        "1.2.3",
        "\u0663",
        "\uff11",
        "1,5",
        "1;5",
        "1 5",
        "",
        "infinit",
        "1j",
    ],
)
def test_what_is_no_number(tmp_path, monkeypatch, cell):
    table, edges = f"1\t2\n3\t{cell}\n", f"0\t1\t2\n1\t2\t{cell}\n"
    ends = f"0\t1\t2\n1\t{cell}\t2\n"
    market = BANNER.decode() + f"30 30 2\n1 2 3\n2 {cell} 3\n"
    for block in (1 << 19, 4):  # in small blocks the last line takes the fast way
        monkeypatch.setattr(_lines, "_BLOCK_BYTES", block)
        for name, text in (("x.tsv", table), ("g.tsv", edges), ("g.tsv", ends), ("g.mtx", market)):
            with pytest.raises(InputFileError, match="line [24]: "):
                read_input(write(tmp_path, text, name), as_graph=name != "x.tsv")


@pytest.mark.parametrize("cell", ["nan", "NaN", "-nan", "inf", "-Infinity", "1e400", "-1e400", "9" * 400])
def test_what_is_not_finite(tmp_path, cell):
    with pytest.raises(InputFileError, match="line 2: cell 2 holds .*; features must be finite"):
        read_input(write(tmp_path, f"1,2\n3,{cell}\n", "x.csv"))
    with pytest.raises(InputFileError, match="line 2: distance .*; distances must be finite"):
        read_input(write(tmp_path, f"0 1 2\n1 2 {cell}\n", "x.edges"))
    with pytest.raises(InputFileError, match="distance .* between vertices 0 and 1"):
        read_input(write(tmp_path, BANNER + f"2 2 1\n1 2 {cell}\n".encode(), "x.mtx"))
    with pytest.raises(InputFileError, match="line 2: label .* of row 1 is neither a number nor a word"):
        read_labels(write(tmp_path, f"1\n{cell}\n", "y.csv"))


def test_tiny_and_long_numbers(tmp_path):
    text = "5e-324,1e-400," + "0" * 5000 + "1," + "0." + "3" * 5000 + "\n"
    expected = [[5e-324, 0.0, 1.0, 1 / 3]]
    np.testing.assert_array_equal(read_input(write(tmp_path, text, "x.csv")).features, expected)


@pytest.mark.parametrize("vertex", ["00000000000000000000000001", "+1", "0" * 5000 + "1"])
def test_vertices_with_leading_zeros(tmp_path, monkeypatch, vertex):
    """The same through the fast and the careful way, which differ in how they call int()."""
    path = write(tmp_path, f"0 2 1\n0 {vertex} 1\n1 2 3\n", "x.edges")
    whole = read_input(path).graph.toarray()
    monkeypatch.setattr(_lines, "_BLOCK_BYTES", 4)
    np.testing.assert_array_equal(read_input(path).graph.toarray(), whole)
    np.testing.assert_array_equal(whole, [[0, 1, 1], [1, 0, 3], [1, 3, 0]])


@pytest.mark.parametrize("vertex", ["9" * 5000, "-1", "-" + "9" * 5000, "2147483648", "99999999999"])
def test_vertices_out_of_range(tmp_path, vertex):
    for text, line in ((f"{vertex} 2 1\n", 1), (f"0 1 1\n0 {vertex} 1\n", 2)):
        with pytest.raises(InputFileError, match=f"line {line}: vertex .* is not a row number") as caught:
            read_input(write(tmp_path, text, "x.edges"))
        assert len(caught.value.reason) < 200


def test_messages_are_short_and_print(tmp_path):
    path = write(tmp_path, b"1,2\n3,\xc2\x9b31m" + b"x" * 100_000 + b"\n", "x.csv")
    with pytest.raises(InputFileError, match=r"line 2: cell 2 holds '\\x9b31mxxx") as caught:
        read_input(path)
    assert caught.value.reason.isprintable()
    assert len(caught.value.reason) < 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('1,2\n"3"x,4\n', "line 2: badly quoted"),
        ('1,2\n"3,4\n', "line 2: badly quoted"),
        ('1,2\n"3\n",4\n', "line 2: badly quoted"),
        ('a,b\n"' + "1" * 200_000 + '",2\n', "line 2: badly quoted cell .field larger"),
        ('""\n1\n', "line 2: '1' is not a number"),
        ('"a""b",c\n1\n', "line 2: expected 2 cells, found 1"),
    ],
)
def test_quotes(tmp_path, text, message):
    with pytest.raises(InputFileError, match=message):
        read_input(write(tmp_path, text, "x.csv"))


def test_long_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(_lines, "_MAX_LINE_BYTES", 1 << 16)
    blocks = _lines.read_blocks
    monkeypatch.setattr("isoweave.io._text.read_blocks", lambda path: blocks(path, max_line_bytes=1 << 16))
    monkeypatch.setattr(_lines, "_BLOCK_BYTES", 1 << 12)
    for data in (b"1," * (1 << 16), b"1,2\n" + b"3," * (1 << 15) + b"4\n" + b"5,6\n" * 9):
        with pytest.raises(InputFileError, match="line longer than 65536 bytes") as caught:
            read_input(write(tmp_path, data, "x.csv"))
        assert caught.value.line == 1 + data.startswith(b"1,2\n")
    assert read_input(write(tmp_path, b"1," * 30_000 + b"1\n", "x.csv")).features.shape == (1, 30_001)


def test_one_long_line_takes_linear_time(tmp_path):
    path = write(tmp_path, b"1" * (12 << 20), "x.csv")
    started = time.process_time()
    with pytest.raises(InputFileError, match="cell 1 holds inf"):
        read_input(path)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("piece", [b"\n", b"1\n", b'""\n', b",", b"a b 1\n", b"0 1 1\n"])
def test_a_lot_of_anything_is_quick_and_small(tmp_path, piece):
    data = piece * ((1 << 17) // len(piece))
    for name in ("x.csv", "x.txt", "x.edges", "x.mtx"):
        path = write(tmp_path, data, name)
        tracemalloc.start()
        started = time.process_time()
        with contextlib.suppress(InputFileError):
            read_input(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert time.process_time() - started < 5  # an eighth of a megabyte, and tracing takes most of it
        assert peak < 128 * len(data), f"{peak} bytes for {name} of {piece!r}"


def test_streaming(tmp_path):
    """Memory follows the result and a block, not the text."""
    path = tmp_path / "x.csv"
    with path.open("wb") as file:
        for _ in range(200):
            file.write(b"1.00000000000000000000000000000000000000000000000000\n" * 400)
    n_bytes = path.stat().st_size
    assert n_bytes > 4 << 20
    tracemalloc.start()
    assert read_input(path).n_rows == 80_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n_bytes + (2 << 20)


def test_one_long_name_beside_many_short(tmp_path):
    """As an array of text this would take 4 x 30,000 x 200,000 bytes."""
    long = "x" * 200_000
    edges = f"{long} v0 1\n" + "".join(f"v{k} v{k + 1} 1\n" for k in range(30_000))
    with pytest.raises(InputFileError, match="a name 'xxxx.* of 200000 characters is refused"):
        read_input(write(tmp_path, edges, "x.edges"))
    table = f"{long},1\n" + "".join(f"v{k},1\n" for k in range(30_000))
    with pytest.raises(InputFileError, match="of 200000 characters is refused"):
        read_input(write(tmp_path, table, "x.csv"))
    with pytest.raises(InputFileError, match="a label .* of 200000 characters is refused"):
        read_labels(write(tmp_path, f"{long}\n" + "a\n" * 30_000, "y.csv"))
    assert read_labels(write(tmp_path, f"{long}\na\n", "y.csv"))[0] == long


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "line 1: not a Matrix Market file"),
        (BANNER + b"%only\n%comments\n", "size line .* is missing"),
        (BANNER + b"2 2 1", "the file|1 entries declared, 0 found"),
        (BANNER + b"0 0 0\n1 1 1\n", r"entry \(1, 1\) is outside the 0 x 0"),
        (BANNER + b"2 2 1\n% late comment\n1 2 1\n", "line 3: '%' is not a positive integer"),
        (BANNER + b"2 2 1\n1 2 1 0\n", "line 3: expected: row column value"),
        (BANNER + b"2 2 999999999999999999\n", "too short for the 999999999999999999 entries"),
        (BANNER + b"2 2 99999999999999999999\n", "is not a positive integer"),
        (BANNER + b"2.0 2 1\n1 2 1\n", "'2.0' is not a positive integer"),
        (BANNER + b"1_0 2 1\n1 2 1\n", "'1_0' is not a positive integer"),
        (BANNER + b"2 2 1\n1 -2 1\n", "'-2' is not a positive integer"),
        (BANNER + b"2 2 1\n1 2 1+2j\n", "is not a number"),
        (BANNER + b"2000000 3 1\n1 2 1\n", "2000000 x 3 matrix with only 1 entries is refused"),
        (
            BANNER.replace(b"general", b"skew-symmetric") + b"2 2 1\n2 1 1\n",
            "'skew-symmetric' is not supported",
        ),
        (BANNER.replace(b"real", b"integer") + b"2 2 1\n1 2 1.5\n", "line 3: value '1.5' is not an integer"),
        (BANNER.replace(b"real", b"integer") + b"2 2 1\n1 2 inf\n", "line 3: value 'inf' is not an integer"),
        (BANNER.replace(b"coordinate", b"vector"), "layout 'vector' is not supported"),
        (BANNER.replace(b"real", b"\xc3\xa9"), "values of type .* are not supported"),
        (b"\xef\xbb\xbf" + BANNER + b"2 2 1\n1 2 1\n", "not a Matrix Market file"),
        (b"\n" + BANNER + b"2 2 1\n1 2 1\n", "line 1: not a Matrix Market file"),
    ],
)
def test_matrix_market(tmp_path, text, message):
    with pytest.raises(InputFileError, match=message):
        read_input(write(tmp_path, text, "x.mtx"))


def test_matrix_market_without_its_last_line_feed(tmp_path):
    graph = read_input(write(tmp_path, BANNER + b"2 2 2\n1 2 5\n2 1 5", "x.mtx")).graph
    np.testing.assert_array_equal(graph.toarray(), [[0, 5], [5, 0]])


@pytest.mark.parametrize("n_bytes", [1, 7, 64, 1000])
def test_blocks_make_no_difference(tmp_path, monkeypatch, n_bytes):
    """The fast way through a block, the careful way, and every cut between blocks: one result."""
    rng = np.random.default_rng(31)
    low = np.arange(200)
    lines = [
        f"{i} {i + k} {d!r}"
        for k in (1, 2)
        for i, d in zip(low.tolist(), rng.random(200).tolist(), strict=True)
    ]
    lines.insert(50, "# in the middle")
    lines.insert(90, "")
    lines[120] = lines[120].replace(" ", "\t ")
    edges = write(tmp_path, "i j d\n" + "\n".join(lines), "x.edges")
    entries = [f"{i + 2} {i + 1} {i}" for i in range(200)]
    entries.insert(100, "")
    market = write(
        tmp_path,
        "%%MatrixMarket matrix coordinate integer symmetric\n% \xe9\n201 201 200\n"
        + "\n".join(entries)
        + "\n",
        "x.mtx",
    )
    expected = [read_input(path).graph.toarray() for path in (edges, market)]
    monkeypatch.setattr(_lines, "_BLOCK_BYTES", n_bytes)
    for path, whole in zip((edges, market), expected, strict=True):
        np.testing.assert_array_equal(read_input(path).graph.toarray(), whole)
    bad = write(tmp_path, "\n".join([*lines, "7 8 x"]), "bad.edges")
    with pytest.raises(InputFileError, match=f"line {len(lines) + 1}: distance 'x' is not a number"):
        read_input(bad)
    bad = write(tmp_path, market.read_text().replace("\n150 149 ", "\n150 999 "), "bad.mtx")
    with pytest.raises(InputFileError, match=r"line 153: entry \(150, 999\) is outside"):
        read_input(bad)
