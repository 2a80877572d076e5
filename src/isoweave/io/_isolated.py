"""The other end of ``_worker.py``: starting it, and reading what it sends without believing it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from isoweave._typing import AnyArray
from isoweave.io._arrays import read_npy_stream
from isoweave.io._errors import InputFileError, quoted
from isoweave.io._names import check_words
from isoweave.io._open import FREE_BYTES, MAX_EXPANSION, check_expansion, open_input

_WORKER = Path(__file__).with_name("_worker.py")
_MAX_NAME = 16
_MAX_ERROR = 600
# Processor seconds of the worker: for its start, and one more per megabyte. Waiting is limited more
# generously, because a busy machine is no fault of the file.
_CPU_SECONDS = 4
_WAIT_FACTOR = 10


@contextmanager
def frames_of(path: Path, what: str) -> Iterator[Frames]:
    """The frames a worker makes of a file; it ends with the block, whatever it is doing."""
    with open_input(path) as (_, size):
        max_bytes = max(FREE_BYTES, MAX_EXPANSION * size)
        seconds = _CPU_SECONDS + (size >> 20)
        # -P: a file of the current folder must not be taken for a module. The environment keeps libhdf5
        # from loading plugins that a file asks for, BLAS from starting threads, and pyarrow from setting
        # aside memory that counts against the limit.
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder),
            "HDF5_PLUGIN_PRELOAD": "::",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore",
            "ARROW_DEFAULT_MEMORY_POOL": "system",
        }
        # A list of arguments and no shell: the file's name, the only one from outside, is never parsed.
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", str(_WORKER), what, str(path.absolute()), str(max_bytes), str(seconds)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        clock = threading.Timer(_WAIT_FACTOR * seconds, process.kill)
        clock.daemon = True
        clock.start()
        try:
            assert process.stdout is not None
            with process.stdout as stream:
                yield Frames(path, stream, size)
        finally:
            clock.cancel()
            process.kill()
            process.wait()


class Frames:
    """What comes from a worker, frame by frame.

    The worker may have been taken over by the file it reads, so every size is checked again.
    """

    def __init__(self, path: Path, stream: IO[bytes], file_size: int) -> None:
        self.path = path
        self.file_size = file_size
        self._stream = stream
        self._length = 0
        self._total = 0

    def next(self) -> str:
        """Name of the next frame; a frame that reports an error raises it."""
        start = self._stream.read(1)
        name = self._stream.read(min(start[0], _MAX_NAME)).decode("latin-1") if start else ""
        self._length = int.from_bytes(self._stream.read(8), "little")
        if not name:
            # Out of memory or time, or a crash of the library.
            raise self.fault("the process that read it broke down")
        if name == "error":
            text = self._stream.read(min(self._length, _MAX_ERROR)).decode("utf-8", "replace")
            raise InputFileError(self.path, "".join(c if c.isprintable() else "?" for c in text) or "damaged")
        self._total += self._length
        check_expansion(self.path, self._total, self.file_size, "what this file holds")
        return name

    def expect(self, name: str) -> None:
        """Go to the next frame, which must have this name."""
        found = self.next()
        if found != name:
            raise self.fault(f"{quoted(found)} instead of {name}")

    def array(self, label: str) -> AnyArray:
        """The array that the current frame announces and the following bring."""
        n_bytes = int.from_bytes(self._stream.read(min(self._length, 8)), "little")
        check_expansion(self.path, self._total + n_bytes, self.file_size, "what this file holds")
        self._length = 0
        array = read_npy_stream(self.path, self, n_bytes, f"{label}: ")
        if self._length:
            raise self.fault("an array that is too long")
        return array

    def read(self, size: int) -> bytes:
        """The next bytes of an array, at least one of them."""
        while self._length == 0:
            self.expect("part")
        data = self._stream.read(min(size, self._length))
        if not data:
            raise self.fault("the process that read it broke down")
        self._length -= len(data)
        return data

    def words(self) -> tuple[str, ...]:
        """The words of the current frame."""
        text = io.BytesIO()
        while text.tell() < self._length:
            piece = self._stream.read(min(self._length - text.tell(), 1 << 20))
            if not piece:
                raise self.fault("the process that read it broke down")
            text.write(piece)
        raw = text.getvalue()
        # A string is an object of 50 bytes and more, however short it is.
        check_expansion(self.path, 64 * raw.count(b"\0"), self.file_size, "the text of this file")
        try:
            words = raw.decode("utf-8").split("\0")
        except UnicodeDecodeError as error:
            raise InputFileError(self.path, f"text that is not UTF-8 ({error.reason})") from error
        if words.pop():
            raise self.fault("text without an end")
        check_words(self.path, words, len(words), self.file_size)
        return tuple(words)

    def fault(self, why: str) -> InputFileError:
        """An error for frames that no sound file gives."""
        return InputFileError(self.path, f"the file is damaged ({why})")
