"""Files that are no files, that change, or that are of the wrong kind, for every reader."""

from __future__ import annotations

import os
import signal
import stat
import threading

import numpy as np
import pytest

from isoweave.io import InputFileError, _lines, _open, read_coordinates, read_input, read_labels

SUFFIXES = [".npy", ".npz", ".csv", ".tsv", ".txt", ".edges", ".mtx", ".parquet"]
READERS = [read_input, read_coordinates, read_labels]

posix = pytest.mark.skipif(os.name != "posix", reason="pipes, devices and permissions of POSIX")


@pytest.fixture
def no_waiting():
    """A reader that waits for a pipe would wait for ever."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the reader waits"))
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def refused(path, match, readers=READERS):
    for read in readers:
        if path.suffix == ".edges" and read is not read_input:
            continue
        if path.suffix in (".mtx", ".parquet") and read is read_labels:
            continue
        with pytest.raises(InputFileError, match=match) as caught:
            read(path)
        assert caught.value.path == path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_empty_file(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    path.touch()
    refused(path, ".")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_file_and_folder(tmp_path, suffix):
    refused(tmp_path / f"none{suffix}", "no such file")
    (tmp_path / f"folder{suffix}").mkdir()
    refused(tmp_path / f"folder{suffix}", "is a folder, not a file")


@posix
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_pipe(tmp_path, suffix, no_waiting):
    path = tmp_path / f"x{suffix}"
    os.mkfifo(path)
    refused(path, "is not a regular file")


@posix
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_device_behind_a_link(tmp_path, suffix, no_waiting):
    path = tmp_path / f"x{suffix}"
    path.symlink_to("/dev/zero")
    refused(path, "is not a regular file")


@posix
def test_link_to_itself(tmp_path):
    path = tmp_path / "x.npy"
    path.symlink_to(path)
    refused(path, "cannot be read .*symbolic links")


def test_link_to_a_good_file(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    (tmp_path / "y.npy").symlink_to(tmp_path / "x.npy")
    assert read_input(tmp_path / "y.npy").n_rows == 3


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_permission(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    path.touch()
    path.chmod(0)
    refused(path, "cannot be read .Permission denied")


def test_permission_error_is_translated(tmp_path, monkeypatch):
    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(_open.os, "open", denied)
    refused(tmp_path / "x.npy", "cannot be read .Permission denied")


def test_name_with_a_nul(tmp_path):
    refused(tmp_path / "a\0b.npy", "is not a file name")


def test_no_descriptor_is_left_open(tmp_path):
    folder = "/proc/self/fd"
    if not os.path.isdir(folder):
        pytest.skip("needs /proc")
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    (tmp_path / "bad.csv").write_text("1,2\nx,y\n")
    (tmp_path / "dir.npy").mkdir()
    before = len(os.listdir(folder))
    for _ in range(50):
        read_input(tmp_path / "x.npy")
        for name in ("bad.csv", "dir.npy"):
            with pytest.raises(InputFileError):
                read_input(tmp_path / name)
    assert len(os.listdir(folder)) <= before + 1


def test_memory_error_is_translated(tmp_path, monkeypatch):
    def too_much(*_, **__):
        raise MemoryError

    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    monkeypatch.setattr(np, "empty", too_much)
    refused(tmp_path / "x.npy", "too large for this machine's memory")


@pytest.mark.parametrize("change", ["longer", "shorter", "touched"])
def test_text_file_that_changes(tmp_path, monkeypatch, change):
    path = tmp_path / "x.edges"
    path.write_text("".join(f"{k} {k + 1} 1\n" for k in range(2000)))
    monkeypatch.setattr(_lines, "_BLOCK_BYTES", 256)
    real, calls = _lines._block, []

    def interfere(*arguments):
        calls.append(1)
        if len(calls) == 3:
            if change == "longer":
                with path.open("a") as file:
                    file.write("5000 5001 1\n" * 1000)
            elif change == "shorter":
                os.truncate(path, 4000)
            else:
                os.utime(path, ns=(1, 1))
        return real(*arguments)

    monkeypatch.setattr(_lines, "_block", interfere)
    with pytest.raises(InputFileError, match="the file changed while it was read|expected 3 cells"):
        read_input(path)


@posix
def test_a_file_that_never_ends(tmp_path, monkeypatch, no_waiting):
    """Somebody appends faster than we read: the size at the beginning is the limit."""
    path = tmp_path / "x.csv"
    path.write_bytes(b"1,2\n" * 1000)
    monkeypatch.setattr(_lines, "_BLOCK_BYTES", 512)
    real = _lines._block

    def append(*arguments):
        with path.open("ab") as file:
            file.write(b"3,4\n" * 1000)
        return real(*arguments)

    monkeypatch.setattr(_lines, "_block", append)
    with pytest.raises(InputFileError, match="changed while it was read"):
        read_input(path)


def test_readers_in_threads(tmp_path):
    """Nothing is shared between readings."""
    path = tmp_path / "x.edges"
    path.write_text("".join(f"{k} {k + 1} {k}\n" for k in range(500)))
    results = []
    threads = [threading.Thread(target=lambda: results.append(read_input(path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for loaded in results:
        np.testing.assert_array_equal(loaded.graph.toarray(), results[0].graph.toarray())


@posix
def test_modes_of_the_file_are_not_changed(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.ones((3, 2)))
    path.chmod(0o400)
    read_input(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
