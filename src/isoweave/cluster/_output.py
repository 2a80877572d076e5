"""Writing the map to one file or in parts, in the caller's order; no rank ever holds all of it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from isoweave._files import atomic_write, check_writable, write_arrays, write_error
from isoweave._typing import AnyArray
from isoweave.cluster._share import CallerRows, ElsewhereError, Ranks
from isoweave.io import as_columns, check_output_path, write_table

_ROWS_AT_ONCE = 1 << 18


def is_folder(path: Path) -> bool:
    """Whether a map goes into a folder of parts: a name without a suffix, or of a folder."""
    return path.is_dir() or not path.suffix


def part_of(path: Path, ranks: Ranks) -> Path:
    """The file of this rank in a folder of parts."""
    return path / f"part-{ranks.rank:05d}-of-{ranks.size:05d}.npz"


@contextmanager
def checked_output(ranks: Ranks, path: Path) -> Iterator[None]:
    """Refuse an output that could not be written, before hours are spent computing it in the block.

    A folder is made at once, so that every rank can try it; it goes if the block fails with nothing in it.
    """
    made = False
    try:
        with ranks.together():
            if ranks.rank == 0:
                if not is_folder(path):
                    check_output_path(path)
                elif not path.is_dir():
                    try:
                        path.mkdir()
                    except OSError as error:
                        raise write_error(error, path) from error
                    made = True
                elif any(path.iterdir()):
                    raise ValueError(
                        f"cannot write {path}: the folder is not empty; name another, or empty it."
                    )
        if is_folder(path):
            with ranks.together():
                check_writable(part_of(path, ranks))
        yield
    except BaseException:
        if made:
            with suppress(OSError):
                path.rmdir()
        raise


def write_map(
    path: Path, rows: CallerRows, columns: Mapping[str, AnyArray], facts: Mapping[str, Any]
) -> None:
    """Write a map: ``columns`` has ``embedding`` and other arrays with a row for each of this rank's rows.

    A name without suffix is a folder with a part of every rank. In .npz files there are all columns and
    facts, in .npy, .csv and .parquet the coordinates.
    """
    ranks, suffix = rows.ranks, path.suffix.lower()
    if is_folder(path):
        own = rows.offsets[ranks.rank : ranks.rank + 2]
        try:
            with ranks.together(), atomic_write(part_of(path, ranks)) as file:
                write_arrays(file, {**columns, "rows": own, "n_rows": rows.offsets[-1], **_plain(facts)})
        except Exception as error:
            if isinstance(error, ElsewhereError):
                part_of(path, ranks).unlink(missing_ok=True)  # half a map is none
            ranks.comm.Barrier()  # before the folder goes, its parts have gone
            raise
        return
    points = columns["embedding"]
    if ranks.rank:
        for array in columns.values() if suffix == ".npz" else (points,):
            for _ in _blocks(ranks, array):
                pass
        return
    with atomic_write(path) as file:
        if suffix == ".npz":
            with zipfile.ZipFile(file, "w") as archive:
                for name, array in {**columns, **_plain(facts)}.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        if name in columns:
                            _write_npy(member, rows, array)
                        else:
                            np.lib.format.write_array(member, array, allow_pickle=False)
        elif suffix == ".npy":
            _write_npy(file, rows, points)
        else:
            write_table(file, suffix, map(as_columns, _blocks(ranks, points)))


def _plain(facts: Mapping[str, Any]) -> dict[str, AnyArray]:
    """Facts as arrays without Python objects."""
    return {k: np.asarray(json.dumps(v, default=str) if isinstance(v, dict) else v) for k, v in facts.items()}


def _blocks(ranks: Ranks, array: AnyArray) -> Iterator[AnyArray]:
    """Rows of one rank after the other, some at a time, on the first; none on the others, which send them."""
    for rank, count in enumerate(ranks.gather(len(array))):
        for start in range(0, count, _ROWS_AT_ONCE):
            block = array[start : start + _ROWS_AT_ONCE] if rank == ranks.rank else array[:0]
            yield ranks.send(np.zeros(len(block), dtype=np.int64), block)[0]


def _write_npy(file: IO[bytes], rows: CallerRows, array: AnyArray) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False}
    np.lib.format.write_array_header_1_0(file, header | {"shape": (rows.n_vertices, *array.shape[1:])})
    for block in _blocks(rows.ranks, array):
        file.write(block.tobytes())
