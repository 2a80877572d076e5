"""Files that are no files, that change, or that are of the wrong kind, for every reader."""

import os
import signal
import stat
from functools import partial

import numpy as np
import pytest

from isoweave import io
from isoweave.io import InputFileError, _text, read_columns, read_embedding, read_input, read_labels

SUFFIXES = [".npy", ".npz", ".csv", ".tsv", ".txt", ".edges", ".mtx", ".parquet", ".h5ad"]
# What reads more than one suffix, and those it leaves to others.
READERS = {
    read_input: (),
    read_embedding: (".edges",),
    read_labels: (".npz", ".edges", ".mtx", ".parquet", ".h5ad"),
    read_columns: (".npy", ".npz", ".txt", ".edges", ".mtx", ".parquet", ".h5ad"),
    partial(io.read_anchors, n_vertices=4): (".npy", ".npz", ".edges", ".mtx", ".parquet", ".h5ad"),
}


@pytest.fixture
def no_waiting():
    """A reader that waits for a pipe would wait for ever."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the reader waits"))
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def refused(path, match):
    for read, others in READERS.items():
        if path.suffix not in others:
            with pytest.raises(InputFileError, match=match) as caught:
                read(path)
            assert caught.value.path == path


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.usefixtures("in_process", "no_waiting")
@pytest.mark.skipif(os.name != "posix", reason="pipes and devices of POSIX")
def test_what_is_no_file(tmp_path, suffix):
    empty, none, folder, pipe, zero, loop = (tmp_path / f"{kind}{suffix}" for kind in "enfpzl")
    empty.touch()
    folder.mkdir()
    os.mkfifo(pipe)
    zero.symlink_to("/dev/zero")
    loop.symlink_to(loop)
    refused(empty, ".")
    refused(none, "no such file")
    refused(folder, "is a folder, not a file")
    refused(pipe, "is not a regular file")
    refused(zero, "is not a regular file")
    refused(loop, "cannot be read .*symbolic links")


def test_errors_of_the_system_are_translated(put, tmp_path, monkeypatch):
    def denied(*_):
        raise PermissionError(13, "Permission denied")

    def too_much(*_, **__):
        raise MemoryError

    refused(tmp_path / "a\0b.npy", "is not a file name")
    path = put("x.npy", lambda path: np.save(path, np.ones((3, 2))))
    with monkeypatch.context() as patch:
        patch.setattr("isoweave.io._source.os.open", denied)
        refused(path, "cannot be read .Permission denied")
    monkeypatch.setattr(np, "empty", too_much)
    refused(path, "too large for this machine's memory")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_nothing_is_left_open_or_changed_and_links_are_followed(put, tmp_path):
    put("x.npy", lambda path: np.save(path, np.ones((3, 2)))).chmod(0o400)
    (tmp_path / "link.npy").symlink_to(tmp_path / "x.npy")
    put("bad.csv", "1,2\nx,y\n")
    (tmp_path / "dir.npy").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        assert read_input(tmp_path / "link.npy").n_rows == 3
        for name in ("bad.csv", "dir.npy"):
            with pytest.raises(InputFileError):
                read_input(tmp_path / name)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert stat.S_IMODE((tmp_path / "x.npy").stat().st_mode) == 0o400


@pytest.mark.parametrize("change", ["longer", "shorter", "touched", "endless"])
def test_text_file_that_changes(put, monkeypatch, change):
    """The size at the beginning is the limit, however fast somebody appends."""
    path = put("x.edges", "".join(f"{k} {k + 1} 1\n" for k in range(20_000)))
    real, calls = _text._decoded, []

    def interfere(*arguments):
        calls.append(1)
        if change == "endless" or (change == "longer" and len(calls) == 3):
            with path.open("a") as file:
                file.write("5000 5001 1\n")
        elif len(calls) == 3 and change == "shorter":
            os.truncate(path, 200_000)
        elif len(calls) == 3:
            os.utime(path, ns=(1, 1))
        return real(*arguments)

    monkeypatch.setattr(_text, "_decoded", interfere)
    with pytest.raises(InputFileError, match="the file changed while it was read|expected 3 cells"):
        read_input(path)
    assert len(calls) < 30_000
