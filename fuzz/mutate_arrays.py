"""Changes of bytes, of text, of arrays and of zip archives of arrays."""

from __future__ import annotations

import io
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Sequence


def _unescaped(word: str) -> bytes:
    """A word with its escapes for control characters made bytes."""
    return word.encode().decode("unicode_escape").encode("latin-1") if "\\" in word else word.encode()


_INTEGERS = (0, 1, -1, 2, 3, 127, 128, 255, 256, 32767, 65535, 10**6, 2**31 - 1, 2**31, -(2**31), 2**32 - 1)
LONG_INTEGERS = (*_INTEGERS, 2**62, 2**63 - 1, -(2**63), -2, 2**53 + 1)
# What replaces a number where a number is expected: nearly all of these look like one.
_NUMBERS = """
nan inf -inf 1e400 1e-400 -1 -0 0 1 2 +1 1_0 1_000 0x10 ٣ 1. .5 1e0 1e5 1E+2 1e-320 00001 2147483647
2147483648 4294967296 9223372036854775807 18446744073709551616 99999999999999999999 0.1 1,5 1;2 1.5x 1+2j
"""
_NUMBER_TOKENS = [token.encode() for token in _NUMBERS.split()]
_NUMBER_TOKENS += [b"0" * 25 + b"1", b"0" * 5000 + b"1", b"9" * 400, b"", b'"1"']
_WORDS = r"""
1e １ 0x1p3 . - % %% # %%MatrixMarket matrix coordinate array real integer pattern complex general symmetric
skew-symmetric hermitian true None Köln \x00 \r \r\n \n \n\n \t \x20 , ,, " "" "," \xff \x85 \xa0 \x0b \x0c
\x1c \x1a \x1b[31m \xef\xbb\xbf \xc2\xa0 \xc2\x85 \xe2\x80\xa8
"""
_TEXT_TOKENS = _NUMBER_TOKENS + [_unescaped(word) for word in _WORDS.split()]
_TEXT_TOKENS += [b"9" * 5000, b"1 " * 300, b"1," * 300, b"\n" * 300, b"x" * 3000]
_NUMBER = re.compile(rb"[+-]?[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?")
_TYPE_NAMES = """
<f8 >f8 <f4 <f2 <f16 >f16 <i8 >i8 <u8 <i4 |i1 |u1 |b1 |O <U1 >U3 <U0 |S1 |S0 |V8 <M8[D] <m8 <c16 <U99999999 f8
|f8 <i3 ? <g <U536870911 |S2147483647 float64 <f8,<f8 O8
"""
_TYPES = _TYPE_NAMES.split()
_SIZE_NAMES = "0 1 2 3 5 15 -1 1L 10000000 4611686018427387904 10101010101010101010101010101 True 1.0"
_SIZES = ["", *_SIZE_NAMES.split()]
_ARRAY_NAMES = "X data features format shape indices indptr row col embedding vertex_names labels y"
_STEMS = ["", "../a", "a/b", "\x1b[31m", *_ARRAY_NAMES.split()]


def havoc(data: bytes, rng: random.Random, tokens: Sequence[bytes] = (), start: int = 0) -> bytes:
    """A few random changes of bytes, from ``start`` on."""
    out = bytearray(data)
    for _ in range(1 << rng.randrange(4)):
        size = len(out) - start
        at = start + rng.randrange(size) if size > 0 else len(out)
        choice = rng.randrange(9)
        if choice == 0 and size > 0:
            out[at] ^= 1 << rng.randrange(8)
        elif choice == 1 and size > 0:
            out[at] = rng.randrange(256)
        elif choice == 2:
            out[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif choice == 3:
            del out[at : at + rng.randrange(1, 1 + max(1, size // 4))]
        elif choice == 4:
            piece = out[at : at + rng.randrange(1, 65)]
            where = start + rng.randrange(size + 1) if size >= 0 else len(out)
            out[where:where] = piece * rng.choice((1, 1, 2, 20))
        elif choice == 5:
            width = rng.choice((1, 2, 4, 8))
            value = rng.choice(LONG_INTEGERS) % (1 << 8 * width)
            out[at : at + width] = value.to_bytes(width, rng.choice(("little", "big")))
        elif choice == 6 and tokens:
            out[at : at + rng.choice((0, 0, 1, 4))] = rng.choice(tokens)
        elif choice == 7 and size > 0:
            out[at] = (out[at] + rng.choice((-1, 1))) % 256
        elif choice == 8:
            del out[at:]
    return bytes(out)


def text(data: bytes, rng: random.Random) -> bytes:
    """Lines and numbers changed for others; sometimes bytes too."""
    for _ in range(rng.randrange(1, 4)):
        lines = data.split(b"\n")
        choice = rng.randrange(7)
        at = rng.randrange(len(lines))
        if choice == 0:
            lines.insert(at, rng.choice(lines))
        elif choice == 1:
            del lines[at]
        elif choice == 2:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif choice in (3, 4) and (numbers := list(_NUMBER.finditer(data))):
            found = rng.choice(numbers)
            value = rng.choice(_NUMBER_TOKENS)
            if rng.random() < 0.3 and found[0].isdigit() and len(found[0]) < 19:
                value = str(max(0, int(found[0]) + rng.choice((-1, 1, 2)))).encode()
            lines = (data[: found.start()] + value + data[found.end() :]).split(b"\n")
        elif choice == 5:
            lines[at] = lines[at].replace(
                *rng.choice(((b" ", b","), (b",", b" "), (b",", b"\t"), (b" ", b"")))
            )
        elif choice == 6:
            lines[at] = havoc(lines[at], rng, _TEXT_TOKENS)
        data = b"\n".join(lines)
    return havoc(data, rng, _TEXT_TOKENS) if rng.random() < 0.3 else data


def elements(body: bytes, width: int, rng: random.Random) -> bytes:
    """Some numbers of an array replaced: by extremes, by neighbours, by each other."""
    count = len(body) // width if width else 0
    if count == 0:
        return havoc(body, rng)
    out = bytearray(body)
    at = rng.randrange(count)
    if rng.random() < 0.03 and width == 8 and count > 3:
        # Two steps of nearly 2**63: every difference is positive, and their sum wraps around.
        at = rng.randrange(1, count - 2)
        return body[: 8 * at] + struct.pack("<2q", 2**63 - 1, -2) + body[8 * at + 16 :]
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        old = int.from_bytes(out[at * width : (at + 1) * width], "little")
        other = rng.randrange(count) * width
        new = rng.choice(
            (
                old + 1,
                old - 1,
                rng.randrange(8),
                count,
                rng.choice(LONG_INTEGERS),
                rng.choice(LONG_INTEGERS),
                int.from_bytes(out[other : other + width], "little"),
                rng.choice((0x7FF0000000000000, 0xFFF8000000000001, 0xBFF0000000000000, 0xD800, 0x110000)),
            )
        )
        out[at * width : (at + 1) * width] = (new % (1 << 8 * width)).to_bytes(width, "little")
        # The next one mostly follows: row pointers are wrong in pairs.
        at = (at + 1) % count if rng.random() < 0.7 else rng.randrange(count)
    return bytes(out)


def retyped(body: bytes, rng: random.Random) -> tuple[str, str, bytes]:
    """Another type and shape that the same data fit exactly."""
    if rng.random() < 0.03:
        return rng.choice(("<U0", "|S0", "|V0")), f"({10 ** rng.randrange(19)},)", b""
    width = rng.choice((1, 2, 4, 8, 12, 16))
    kind = rng.choice(
        {
            1: ("|i1", "|u1", "|b1", "|S1"),
            2: ("<i2", ">u2", "<f2", "|S2"),
            4: ("<i4", ">i4", "<f4", "<U1", ">U1", "|S4", "|V4"),
            8: ("<i8", "<u8", ">i8", "<f8", ">f8", "<U2", "|S8", "<M8[D]", "<c8", "|O8", "|O"),
            12: ("<U3", "|S12", "<f12"),
            16: ("<f16", ">f16", "<c16", "<U4"),
        }[width]
    )
    count = rng.choice((len(body) // width, 0, 1, 2, 3, rng.randrange(1 + len(body) // width)))
    body = body[: count * width]
    big = rng.choice(("999999999999999999", "4611686018427387904", "3", "1"))
    shapes = [f"({count},)", f"({count}, 1)", f"(1, {count})", f"({count}, 1, 1)"]
    shapes += [f"({count // k}, {k})" for k in (2, 3, 5) if count % k == 0]
    if count == 0:
        shapes += [f"(0, {big})", f"({big}, 0, {big})"]
    if count == 1:
        shapes.append("()")
    return kind, rng.choice(shapes), body


def npy(data: bytes, rng: random.Random) -> bytes:
    """The header written anew with other entries, or the bytes behind it changed."""
    length = int.from_bytes(data[8:10], "little")
    if data[:7] != b"\x93NUMPY\x01" or len(data) < 10 + length or rng.random() < 0.1:
        return havoc(data, rng)
    header, body = data[10 : 10 + length].decode("latin-1"), data[10 + length :]
    choice = rng.random()
    if choice < 0.4:
        found = re.search(r"'[<>|=]?[biufcSU]([0-9]+)'", header)
        width = int(found[1]) if found else 1
        return data[: 10 + length] + elements(body, 4 if "U" in header else width % 64, rng)
    if choice < 0.45:
        return data[: 10 + length] + havoc(body, rng)
    if choice < 0.75:
        kind, shape, body = retyped(body, rng)
        order = rng.choice(("True", "False"))
        raw = f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
        return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + body
    change = rng.randrange(6)
    if change == 0:
        header = re.sub(r"'descr': '[^']*'", lambda _: f"'descr': {rng.choice(_TYPES)!r}", header)
    elif change == 1:
        sizes = ", ".join(rng.choice(_SIZES) for _ in range(rng.randrange(4)))
        header = re.sub(r"\([^)]*\)", lambda _: f"({sizes}{rng.choice((',', ''))})", header)
    elif change == 2:
        header = re.sub("True|False", lambda _: rng.choice(("True", "False", "0", "None")), header)
    elif change == 3:
        header = havoc(header.encode("latin-1"), rng).decode("latin-1")
    elif change == 4:
        header = header.strip() + " " * rng.choice((0, 1, 100, 9000)) + rng.choice(("\n", "", "}", "["))
    else:
        entries = re.findall(r"'\w+': (?:'[^']*'|\([^)]*\)|\w+)", header)
        rng.shuffle(entries)
        header = "{" + ", ".join(entries[: rng.randrange(2, 4)]) + rng.choice(("}", ", }", ",", "}}"))
    version = rng.choice((1, 1, 1, 2, 3))
    raw = header.encode("latin-1", "replace")
    size = len(raw) if rng.random() < 0.9 else rng.choice(_INTEGERS) % 65536
    return b"\x93NUMPY" + bytes([version, 0]) + size.to_bytes(2 if version == 1 else 4, "little") + raw + body


def npz(data: bytes, rng: random.Random) -> bytes:
    """Members changed inside and zipped again with right checksums; sometimes the archive itself changed."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:  # a seed that is damaged already
        return havoc(data, rng)
    if not members or rng.random() < 0.15:
        return havoc(data, rng, (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"))
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(members))
        name, body = members[at]
        choice = rng.randrange(8)
        if choice < 5:
            members[at] = (name, npy(body, rng))
        elif choice == 5:
            members.insert(at, rng.choice(members))
        elif choice == 6 and len(members) > 1:
            del members[at]
        elif choice == 7:
            members[at] = (rng.choice(_STEMS) + ".npy", body)
    return zipped(members, rng)


def zipped(members: Sequence[tuple[str, bytes]], rng: random.Random) -> bytes:
    """A zip archive written by hand, mostly right: each field may lie."""

    def lie(value: int, bits: int) -> int:
        return value if rng.random() < 0.985 else rng.choice(LONG_INTEGERS) % (1 << bits)

    out, directory = bytearray(), bytearray()
    for name, body in members:
        raw = name.encode("utf-8")
        is_deflated = rng.random() < 0.5
        packer = zlib.compressobj(9, wbits=-15)
        packed = packer.compress(body) + packer.flush() if is_deflated else body
        if rng.random() < 0.02:
            packed = havoc(packed, rng)
        sizes = (lie(zlib.crc32(body), 32), lie(len(packed), 32), lie(len(body), 32))
        fields = (lie(20, 16), lie(0x800, 16), lie(8 * is_deflated, 16), 0, 33, *sizes, len(raw), 0)
        offset = lie(len(out), 32)
        out += b"PK\x03\x04" + struct.pack("<5H3L2H", *fields) + raw + packed
        central = struct.pack("<6H3L5H2L", 20, *fields[:-1], 0, 0, 0, 0, 0, offset)
        directory += b"PK\x01\x02" + central + raw
    counts = (lie(len(members), 16), lie(len(members), 16), lie(len(directory), 32), lie(len(out), 32))
    end = struct.pack("<4H2LH", 0, 0, *counts, 0)
    return bytes(out + directory + b"PK\x05\x06" + end)
