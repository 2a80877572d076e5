"""A run kept in parts: a folder with a file of every rank, and an index that names those in force.

Parts hold vertices by the caller's numbers, so that another number of ranks can go on with them. The index is
an ordinary checkpoint, of the first rank, with all that has no rows of vertices. It is replaced last:
whatever happens while parts are written, those it names are complete.
"""

from __future__ import annotations

import errno
import os
import re
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._files import atomic_write, write_error
from isoweave._typing import AnyArray
from isoweave.cluster._share import CallerRows, Share
from isoweave.optimise import Interrupt, Record
from isoweave.persist import (
    Checkpoint,
    CheckpointError,
    FileJournal,
    Journal,
    Store,
    StoreError,
    write_store,
)

_INDEX, _PART_KIND = "index", "part of a checkpoint"
# What a record has a row of for every vertex; its other arrays are the same on all ranks.
_BY_VERTEX = re.compile(r"x|preconditioned|coordinates|alignments|stretch|pairs\.\d+")
_COMPONENT = re.compile(r"component-(\d+)\.")


class PartsIndex(FileJournal):
    """The index of a run in parts: what all ranks share, and in the slot "parts" which these are."""

    kind, whole = "checkpoint in parts", "folder"


class ClusterJournal(Journal):
    """Keeps the slots of a :class:`isoweave.optimise.Run`; every method is called by all ranks alike."""

    def __init__(
        self, checkpoint: Checkpoint, share: Share, rows: CallerRows, fields: Mapping[str, Any]
    ) -> None:
        super().__init__(Path(checkpoint.path), fields, checkpoint.every)
        self._share, self._rows, self._ranks = share, rows, share.ranks
        self._index: PartsIndex | None = None  # on the first rank
        self._is_made, found = False, None
        try:
            with self._ranks.together():
                if self._ranks.rank == 0:
                    self._index = self._opened(checkpoint.resume)
                    found = self._in_force(self._index)
        except BaseException:
            self.close()
            raise
        self._generation, self._n_parts, self._stored = self._ranks.comm.bcast(found)
        self.is_resumed = bool(self._stored)

    def load(self, slot: str) -> Record | None:
        """What an earlier run has kept, on the ranks that have its vertices now."""
        found = self._stored.get(slot)
        if found is None:
            return None
        record, names = found
        ids, *arrays = self._read(slot, names)
        vertices = self._rows.fetch(ids, self._rows.vertex)
        to, own = self._share.owner_of(vertices), self._vertices(slot)
        (at,) = self._ranks.send(to, vertices)
        order = np.argsort(at)
        with self._ranks.together():
            if not np.array_equal(at[order], own):
                raise ValueError(f"It does not hold every vertex ({slot}).")
        rows = {
            name: self._ranks.send(to, array)[0][order] for name, array in zip(names, arrays, strict=True)
        }
        return Record(record.values, {**record.arrays, **rows})

    def is_due(self) -> bool:
        """Whether to write now, by the clock of the first rank."""
        return bool(self._ranks.comm.bcast(time.monotonic() >= self._next))

    def write(self) -> bool:
        """Write what is kept; a part that cannot be written is a warning, and the run goes on."""
        started, ranks, generation = time.monotonic(), self._ranks, self._generation + 1
        records = {slot: make() for slot, make in self._kept.items()}
        failure = None
        try:
            self._write_part(generation, records)
        except OSError as error:
            failure = str(write_error(error, self._part(generation, ranks.rank, ranks.size)))
        failures = [text for text in ranks.gather(failure) if text]
        is_written = not failures
        if failures and ranks.rank == 0:
            warnings.warn(f"The checkpoint was not written; the fit continues: {failures[0]}", stacklevel=2)
        elif self._index is not None:
            rows = {slot: [*filter(_BY_VERTEX.fullmatch, record.arrays)] for slot, record in records.items()}
            parts = Record({"generation": generation, "parts": ranks.size, "rows": rows})
            self._index.forget("")
            for slot, record in {"parts": parts, **records}.items():
                shared = {k: a for k, a in record.arrays.items() if k not in rows.get(slot, ())}
                self._index.keep(slot, partial(Record, record.values, shared))
            is_written = self._index.write()
        if ranks.comm.bcast(is_written):
            self._generation, self._n_parts = generation, ranks.size
        self._remove_others()
        self._wait(started)
        return self._generation == generation

    def finish(self) -> None:
        """The run has come to its end; one too short for a single write leaves nothing behind."""
        if self._generation:
            self.forget("component-")
            if self.write() and self._index is not None:
                self._index.finish()
        self.close()

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
        if self._is_made:
            with suppress(OSError):  # there is something in it
                self.path.rmdir()
        self._index, self._is_made = None, False

    def _opened(self, resume: bool) -> PartsIndex:
        """The index, which nobody else can open until the process ends; the folder, if there is none."""
        try:
            with suppress(FileExistsError):
                self.path.mkdir()
                self._is_made = True
            names = os.listdir(self.path)
        except NotADirectoryError as error:
            said = "is not a folder; engine='petsc' keeps a run in parts."
            raise CheckpointError(self.path, said) from error
        except OSError as error:
            raise write_error(error, self.path) from error
        if names and _INDEX not in names:
            raise CheckpointError(self.path, "is a folder that holds no checkpoint; it is left alone.")
        return PartsIndex(self.path / _INDEX, self._fields, every=None, resume=resume)

    def _in_force(self, index: PartsIndex) -> tuple[int, int, dict[str, tuple[Record, list[str]]]]:
        """The number of the generation and of its parts; every slot with the arrays that the parts have."""
        parts = index.load("parts")
        if parts is None:
            return 0, 0, {}
        try:
            generation, n_parts = (parts.value(name, int) for name in ("generation", "parts"))
            names = parts.value("rows", dict)
            slots = {slot: (record, names[slot]) for slot in names if (record := index.load(slot))}
            sizes_fit = 0 < generation < 2**31 and 0 < n_parts < 2**31
            if not sizes_fit or len(slots) < len(names) or not all(type(v) is list for v in names.values()):
                raise ValueError("parts and slots do not go together")
        except ValueError as error:
            raise CheckpointError(self.path, f"is damaged ({error}); remove it to start afresh.") from error
        return generation, n_parts, slots

    def _part(self, generation: int, rank: int, size: int) -> Path:
        return self.path / f"state-{generation}-part-{rank:05d}-of-{size:05d}"

    def _remove_others(self) -> None:
        """Remove this rank's share of the parts that the index does not name."""
        for path in self.path.glob("state-*-part-*"):
            match = re.fullmatch(r"state-(\d+)-part-(\d+)-of-\d+", path.name)
            if match is None or int(match[2]) % self._ranks.size != self._ranks.rank:
                continue
            if int(match[1]) != self._generation:
                with suppress(OSError, StoreError), Store.open(path, _PART_KIND):
                    path.unlink(missing_ok=True)

    def _vertices(self, slot: str) -> AnyArray:
        """Owned vertices that the arrays of a slot have rows for."""
        share, match = self._share, _COMPONENT.match(slot)
        return share.own if match is None else share.own[share.component == int(match[1])]

    def _write_part(self, generation: int, records: Mapping[str, Record]) -> None:
        arrays: dict[str, AnyArray] = {}
        for slot, record in records.items():
            own = self._vertices(slot)
            arrays[f"{slot}/ids"] = self._share.caller_ids[own - self._share.start]
            for name in filter(_BY_VERTEX.fullmatch, record.arrays):
                array = arrays[f"{slot}/{name}"] = np.asarray(record.arrays[name])
                assert len(array) == len(own), f"{slot}/{name} has {len(array)} rows for {len(own)} vertices"
        path = self._part(generation, self._ranks.rank, self._ranks.size)
        if os.path.lexists(path):
            try:
                with Store.open(path, _PART_KIND):
                    pass
            except StoreError as error:
                raise FileExistsError(errno.EEXIST, "another file has its name", path) from error
        with atomic_write(path) as file:
            write_store(file, _PART_KIND, {}, arrays)

    def _read(self, slot: str, names: list[str]) -> list[AnyArray]:
        """Of the parts that this rank reads, the caller's numbers of their vertices, and these arrays."""
        found: list[list[AnyArray]] = []
        with self._ranks.together():
            # A rank without any part still has to know what rows look like.
            numbers = range(self._ranks.rank, self._n_parts, self._ranks.size)
            for number in numbers or (0,):
                path = self._part(self._generation, number, self._n_parts)
                with Store.open(path, _PART_KIND) as store:
                    arrays = store.arrays(mmap=True)
                empty = np.empty(())
                ids, *rows = (arrays.get(f"{slot}/{name}", empty) for name in ("ids", *names))
                # Ranks send each other rows of these: they must be of the vertices, and as many.
                fits = ids.dtype == np.int64 and ids.ndim == 1 and all(a.shape[:1] == ids.shape for a in rows)
                if not fits or ((ids < 0) | (ids >= self._rows.n_vertices)).any():
                    raise StoreError(path, f"arrays.{slot}", "does not have a row for each of its vertices")
                found.append([array if number in numbers else array[:0] for array in (ids, *rows)])
        return [a[0] if len(a) == 1 else np.concatenate(a) for a in zip(*found, strict=True)]


class ClusterInterrupt(Interrupt):
    """Ctrl-C on one rank is a request to all: they agree on it after every step."""

    def __init__(self, ranks: Any, mode: str = "raise") -> None:
        self._ranks, self._agreed, self._noted = ranks, False, False
        super().__init__(mode)

    @property
    def is_asked(self) -> bool:  # type: ignore[override]
        return self._agreed

    @is_asked.setter
    def is_asked(self, value: bool) -> None:
        self._noted = self._noted or value

    @property
    def ending(self) -> str:
        self._agreed = self._agreed or any(self._ranks.gather(self._noted))
        return "interrupted" if self._agreed else ""
