"""From a seed to a hostile file: for every target the changes that get past its first checks."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from mutate_arrays import elements as changed_elements, havoc, npy, npz, text


def parquet(data: bytes, rng: random.Random) -> bytes:
    """Changes in the footer, whose length is then put right, in the pages, or anywhere."""
    length = int.from_bytes(data[-8:-4], "little")
    if data[-4:] != b"PAR1" or length > len(data) - 12 or rng.random() < 0.1:
        return havoc(data, rng)
    pages, footer = data[: -8 - length], data[-8 - length : -8]
    if rng.random() < 0.5:
        footer = havoc(footer, rng)
    else:
        # Most of a small file's pages are headers: keep their length, so that offsets stay right.
        changed = bytearray(pages)
        for _ in range(1 << rng.randrange(4)):
            at = rng.randrange(4, len(changed)) if len(changed) > 4 else 0
            changed[at : at + 1] = bytes(
                [rng.choice((changed[at] ^ (1 << rng.randrange(8)), rng.randrange(256)))]
            )
        pages = bytes(changed)
    return pages + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def graph(data: bytes, rng: random.Random) -> bytes:
    """Numbers of the arrays replaced by neighbours and by extremes, so that most of a matrix stays right."""
    if rng.random() < 0.2 or len(data) < 12:
        return havoc(data, rng)
    # After the head: three arrays, each with its length in two bytes.
    parts, at = [], 7
    width = 8 if data[1] % 2 else 4
    for size in (width, width, 8):
        count = int.from_bytes(data[at : at + 2], "little")
        parts.append(data[at + 2 : at + 2 + count * size])
        at += 2 + count * size
    which = rng.randrange(3)
    parts[which] = changed_elements(parts[which], (width, width, 8)[which], rng)
    if rng.random() < 0.1:
        parts[which] = parts[which][: -rng.choice((width, 2 * width))]
    head = bytearray(data[:7])
    if rng.random() < 0.1:
        head[rng.randrange(7)] = rng.randrange(8)
    counts = [len(part) // size for part, size in zip(parts, (width, width, 8), strict=True)]
    return bytes(head) + b"".join(
        (count % 65536).to_bytes(2, "little") + part for count, part in zip(counts, parts, strict=True)
    )


_JSON_WORDS = """
null true false NaN Infinity -1 0 1 1e400 18446744073709551616 [] {} "" "../x" "\\ud800" "F64" "BOOL"
"1" "estimator" [1] [1,2] {"a":1} "csr_array" "{}" "[]"
"""
_JSON_TOKENS = [word.encode() for word in _JSON_WORDS.split()] + [b"[" * 3000, b"9" * 5000]


def store(data: bytes, rng: random.Random) -> bytes:
    """A saved model with its header or its arrays changed, mostly with the checksum made right again.

    The first byte says how it is used (``tests/persist/attacker.py``).
    """
    end = 9 + int.from_bytes(data[1:9], "little")
    if end > len(data) or rng.random() < 0.05:
        return havoc(data, rng)
    header, body = data[9:end], data[end:]
    if rng.random() < 0.6:
        header = _json(header, rng)
    else:
        body = havoc(body, rng)
    return bytes([rng.choice((0, 1, 1, 1, 3, 3))]) + len(header).to_bytes(8, "little") + header + body


def _json(data: bytes, rng: random.Random) -> bytes:
    """A value changed for another, or a few bytes."""
    if rng.random() < 0.3:
        return havoc(data, rng, _JSON_TOKENS)
    starts = [at + 1 for at, byte in enumerate(data) if byte == ord(":")]
    if not starts:
        return text(data, rng)
    start = rng.choice(starts)
    ends = [end for end in (data.find(b",", start), data.find(b"}", start)) if end >= 0]
    return data[:start] + rng.choice(_JSON_TOKENS) + data[min(ends, default=len(data)) :]


MUTATORS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "npy": npy,
    "npz_dense": npz,
    "npz_sparse": npz,
    "mtx": text,
    "text": text,
    "parquet": parquet,
    "parquet_worker": parquet,
    "graph": graph,
    "map": npz,
    "columns": text,
    "anchors": text,
    "store": store,
}


def mutated(target: str, corpus: Sequence[bytes], rng: random.Random) -> bytes:
    """One input for a target, from its seeds."""
    mutate = MUTATORS.get(target, havoc)
    data = mutate(rng.choice(corpus), rng)
    while rng.random() < 0.3:
        data = mutate(data, rng)
    if rng.random() < 0.03:
        other = rng.choice(corpus)
        data = data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
    return data
