"""A run kept in parts: a folder with a file of every rank, and an index that names those in force.

Parts hold vertices by the caller's numbers, so that another number of ranks can go on with them. The index is
replaced last: whatever happens while parts are written, those it names are complete.
"""

from __future__ import annotations

import errno
import os
import re
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._files import atomic_write, write_error
from isoweave._typing import AnyArray
from isoweave.cluster._share import CallerRows, Share
from isoweave.optimise import Interrupt, Record
from isoweave.persist import Checkpoint, CheckpointError, Journal, Store, StoreError, is_at, lock, write_store

_INDEX_KIND, _PART_KIND = "checkpoint in parts", "part of a checkpoint"
# What a record has a row of for every vertex; its other arrays are the same on all ranks.
_BY_VERTEX = re.compile(r"x|preconditioned|coordinates|alignments|stretch|pairs\.\d+")
_COMPONENT = re.compile(r"component-(\d+)\.")


class ClusterJournal(Journal):
    """Keeps the slots of a :class:`isoweave.optimise.Run`; every method is called by all ranks alike."""

    def __init__(
        self, checkpoint: Checkpoint, share: Share, rows: CallerRows, fields: Mapping[str, Any]
    ) -> None:
        super().__init__(Path(checkpoint.path), fields, checkpoint.every)
        self._share, self._rows, self._ranks = share, rows, share.ranks
        self._generation = self._n_parts = 0
        self._is_made, self._held = False, -1
        try:
            with self._ranks.together():
                if self._ranks.rank == 0:
                    self._occupy()
            with self._ranks.together():
                self._meet(checkpoint.resume)
        except BaseException:
            self.close()
            raise
        self.is_resumed = bool(self._stored)

    def load(self, slot: str) -> Record | None:
        """What an earlier run has kept, on the ranks that have its vertices now."""
        found = self._stored.get(slot)
        if found is None:
            return None
        ids, arrays = self._read(slot, found["arrays"])
        vertices = self._rows.vertices(ids)
        to, own = self._share.owner_of(vertices), self._vertices(slot)
        (at,) = self._ranks.send(to, vertices)
        place = np.searchsorted(own, at)
        result: dict[str, AnyArray] = {}
        for name in found["arrays"]:
            if _BY_VERTEX.fullmatch(name):
                (values,) = self._ranks.send(to, arrays[name])
                with self._ranks.together():
                    if not np.array_equal(np.sort(at), own):
                        raise CheckpointError(self.path, f"does not hold every vertex ({slot}).")
                result[name] = np.empty_like(values)
                result[name][place] = values
            else:
                result[name] = self._ranks.comm.bcast(arrays.get(name))
        return Record(found["values"], result)

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
        if not failures and ranks.rank == 0:
            slots = {s: {"values": dict(r.values), "arrays": list(r.arrays)} for s, r in records.items()}
            content = {"generation": generation, "parts": ranks.size, "slots": slots}
            content |= {"fingerprint": self._fields, "finished": self._is_finished}
            try:
                _refuse_others(self.path / "index", _INDEX_KIND)
                with atomic_write(self.path / "index") as file:
                    write_store(file, _INDEX_KIND, content, {})
            except OSError as error:
                failures = [str(write_error(error, self.path / "index"))]
        failures = ranks.comm.bcast(failures)
        if failures and ranks.rank == 0:
            warnings.warn(f"The checkpoint was not written; the fit continues: {failures[0]}", stacklevel=2)
        # Parts that the index does not name any more, or not yet.
        self._remove(generation if failures else self._generation)
        if not failures:
            self._generation, self._n_parts = generation, ranks.size
        self._wait(started)
        return not failures

    def finish(self) -> None:
        """The run has come to its end; one too short for a single write leaves nothing behind."""
        if self._generation:
            self.forget("component-")
            self._is_finished = True
            self.write()
        self.close()

    def close(self) -> None:
        if self._is_made and not self._generation:
            with suppress(OSError):
                self.path.rmdir()
        if self._held >= 0:
            os.close(self._held)
        self._is_made, self._held = False, -1

    def _occupy(self) -> None:
        """Make the folder if there is none, and lock it; the lock ends with the process."""
        while self._held < 0:
            try:
                with suppress(FileExistsError):
                    self.path.mkdir()
                    self._is_made = True
                held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError as error:
                if self.path.parent.is_dir() and not self.path.is_symlink():
                    continue  # somebody has removed it in between
                raise write_error(error, self.path) from error
            except NotADirectoryError as error:
                said = "is not a folder; engine='petsc' keeps a run in parts."
                raise CheckpointError(self.path, said) from error
            except OSError as error:
                raise write_error(error, self.path) from error
            is_locked = lock(held)
            if is_locked and is_at(self.path, held):
                self._held = held
                return
            os.close(held)
            if not is_locked:
                raise CheckpointError(self.path, "is in use by another process.")

    def _part(self, generation: int, rank: int, size: int) -> Path:
        return self.path / f"state-{generation}-part-{rank:05d}-of-{size:05d}"

    def _remove(self, generation: int) -> None:
        """Remove this rank's share of the parts of a generation, by however many ranks."""
        for path in self.path.glob(f"state-{generation}-part-*"):
            match = re.fullmatch(r"state-\d+-part-(\d+)-of-\d+", path.name)
            if match is None or int(match[1]) % self._ranks.size != self._ranks.rank:
                continue
            with suppress(OSError, StoreError), Store.open(path, _PART_KIND) as store:
                if store.content.get("generation") == generation:
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
            for name, array in record.arrays.items():
                if _BY_VERTEX.fullmatch(name):
                    assert len(array) == len(own), (
                        f"{slot}/{name} has {len(array)} rows for {len(own)} vertices"
                    )
                elif self._ranks.rank:
                    continue
                arrays[f"{slot}/{name}"] = np.asarray(array)
        path = self._part(generation, self._ranks.rank, self._ranks.size)
        _refuse_others(path, _PART_KIND)
        with atomic_write(path) as file:
            write_store(file, _PART_KIND, {"generation": generation}, arrays)

    def _read(self, slot: str, names: list[str]) -> tuple[AnyArray, dict[str, AnyArray]]:
        """Rows of the parts that this rank reads, by name, and the caller's numbers of their vertices."""
        found: dict[str, list[AnyArray]] = {name: [] for name in ("ids", *names)}
        with self._ranks.together():
            # A rank without any part still has to know what rows look like.
            numbers = range(self._ranks.rank, self._n_parts, self._ranks.size)
            for number in numbers or (0,):
                path = self._part(self._generation, number, self._n_parts)
                with Store.open(path, _PART_KIND) as store:
                    arrays = store.arrays(mmap=True)
                for name in found:
                    array = arrays.get(f"{slot}/{name}")
                    if array is None and (_BY_VERTEX.fullmatch(name) or name == "ids"):
                        raise StoreError(path, f"arrays.{slot}/{name}", "is missing")
                    if array is not None:
                        found[name].append(array if number in numbers or array.ndim == 0 else array[:0])
                # Ranks send each other rows of these: they must be of the vertices, and as many.
                (ids, *_), n = found["ids"][-1:], self._rows.n_vertices
                fits = ids.dtype == np.int64 and ids.ndim == 1 and ((ids >= 0) & (ids < n)).all()
                rows = [arrays[-1] for name, arrays in found.items() if _BY_VERTEX.fullmatch(name)]
                if not fits or any(array.shape[:1] != ids.shape for array in rows):
                    raise StoreError(path, f"arrays.{slot}", "does not have a row for each of its vertices")
        joined = {
            name: arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
            for name, arrays in found.items()
            if arrays
        }
        return joined.pop("ids"), joined

    def _meet(self, resume: bool) -> None:
        """Decide what becomes of what the folder holds."""
        index = self.path / "index"
        if not index.exists():
            if any(self.path.iterdir()):
                raise CheckpointError(self.path, "is a folder that holds no checkpoint; it is left alone.")
            return
        try:
            with Store.open(index, _INDEX_KIND) as store:
                content = store.content
                store.arrays()
        except StoreError as error:
            raise CheckpointError(self.path, f"is damaged ({error}); remove it to start afresh.") from error
        slots: Any = content.get("slots")
        sizes: list[Any] = [content.get(name) for name in ("generation", "parts")]
        is_whole = isinstance(slots, dict) and isinstance(content.get("fingerprint"), dict)
        is_whole &= all(type(size) is int and 0 < size < 2**31 for size in sizes)
        if not is_whole or not all(map(_is_slot, slots.values())):
            raise CheckpointError(self.path, f"is damaged ({index}: content); remove it to start afresh.")
        self._generation, self._n_parts = sizes
        if not resume:
            self._check_finished(not slots or content.get("finished") is True)
            return
        self._check_run(content["fingerprint"], "folder")
        self._stored = dict(slots)


def _is_slot(value: Any) -> bool:
    """Whether the index says of a slot what it has to."""
    match value:
        case {"values": dict(), "arrays": list(names)}:
            return all(isinstance(name, str) for name in names)
    return False


def _refuse_others(path: Path, kind: str) -> None:
    """Raise if a name is taken by what is not one of our files."""
    if os.path.lexists(path):
        try:
            with Store.open(path, kind):
                pass
        except StoreError as error:
            raise FileExistsError(errno.EEXIST, "another file has its name", path) from error


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
