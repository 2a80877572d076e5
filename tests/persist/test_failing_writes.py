"""Every system call of every writer fails once, with every error a disk has: nothing is ever lost."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import subprocess
import sys
from copy import copy

import numpy as np
import pytest

from failing_calls import SPACE_KINDS, Calls, fail_with
from isoweave._files import WriteError, append_text, write_text
from isoweave.io import write_embedding
from isoweave.persist import load, read_store, save, write_store
from packed_store import replace

CODES = {
    "ENOSPC": "no space is left on the device",
    "EDQUOT": "the disk quota is used up",
    "EROFS": "the file system is read-only",
    "EIO": "the device failed",
}
UNCHANGED = "what was there before is unchanged"
COMPLETE = "the file is complete, but may not survive a power failure"
OLD, NEW = np.random.default_rng(31).normal(size=(2, 60, 2))
NAMES = tuple(f"point {i}" for i in range(60))


EVERY = (*((name, False) for name in CODES), ("ENOSPC", True), ("EDQUOT", True))


def fates(operation, reset, least_calls, ways=EVERY):
    """Run an operation with its first, second, ... call failing, until none is left to fail.

    Once with that call alone failing, for every code; once as on a full disk, with all that follow too.
    """
    for name, is_lasting in ways:
        kinds = {"kinds": SPACE_KINDS} if is_lasting else {}
        for number in itertools.count(1):
            reset()
            calls = Calls(number, fail_with(getattr(errno, name)), is_lasting=is_lasting, **kinds)
            error = None
            with calls.active():
                try:
                    operation()
                except OSError as caught:
                    error = caught
            if not calls.has_acted:
                assert error is None
                assert is_lasting or number > least_calls, f"only {calls.seen}"
                break
            if error is not None:
                assert type(error) is WriteError
                assert error.errno == getattr(errno, name)
                assert CODES[name] in str(error)
                assert "\n" not in str(error)
            yield error


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".parquet"])
def test_embedding_files(tmp_path, suffix):
    path = tmp_path / f"y{suffix}"
    contents = {}
    for key, embedding in (("new", NEW), ("old", OLD)):
        write_embedding(path, embedding, names=NAMES)
        contents[key] = path.read_bytes()

    def write():
        write_embedding(path, NEW, names=NAMES)

    outcomes = set()
    # open folder and file, write, fsync, close, rename, fsync folder, close two
    for error in fates(write, lambda: replace(path, contents["old"]), 8):
        assert list(tmp_path.iterdir()) == [path]
        is_complete = error is None or COMPLETE in str(error)
        assert is_complete or UNCHANGED in str(error)
        assert error is None or str(error).startswith(f"cannot write {path}: ")
        assert path.read_bytes() == contents["new" if is_complete else "old"]
        outcomes.add((is_complete, error is None))
    assert outcomes == {(True, True), (True, False), (False, False)}


def test_large_files_are_written_in_pieces(tmp_path):
    path = tmp_path / "y.npy"
    large = np.random.default_rng(5).normal(size=(200_000, 2))
    n_failed = 0
    for error in fates(lambda: write_embedding(path, large), lambda: replace(path, b"old"), 10):
        n_failed += error is not None and COMPLETE not in str(error)
        assert (path.stat().st_size == 3) == (error is not None and COMPLETE not in str(error))
        assert list(tmp_path.iterdir()) == [path]
    assert n_failed > 30


def test_nothing_appears_where_nothing_was(tmp_path):
    path = tmp_path / "page.html"
    text = "<p>all</p>" * 10_000
    for error in fates(lambda: write_text(path, text), lambda: path.unlink(missing_ok=True), 8):
        if error is None or COMPLETE in str(error):
            assert path.read_text() == text
        else:
            assert UNCHANGED not in str(error)
            assert list(tmp_path.iterdir()) == []


def test_appended_lines(tmp_path):
    path = tmp_path / "log.jsonl"
    for error in fates(lambda: append_text(path, "two\n"), lambda: replace(path, b"one\n"), 4):
        assert path.read_text() == ("one\ntwo\n" if error is None else "one\n")


def listing(folder):
    return sorted(entry.name for entry in folder.iterdir())


def write_numbered(path, number):
    arrays = {"x": np.full(3000, number), "y": np.full((40, 2), number / 7)}
    write_store(path, "example", scalars={"number": number}, arrays=arrays)


def read_numbered(path):
    store = read_store(path, "example")
    number = store.scalars["number"]
    assert (store.arrays["x"] == number).all()
    assert (store.arrays["y"] == number / 7).all()
    return number


def test_stores(tmp_path):
    path = tmp_path / "store"

    def reset():
        write_numbered(path, 1)
        # Whatever an earlier round could not remove has been removed by now.
        assert listing(tmp_path) == ["store"]

    outcomes = set()
    for error in fates(lambda: write_numbered(path, 2), reset, 25):
        if error is None:
            assert read_numbered(path) == 2
        else:
            assert listing(tmp_path) == ["store"]
            assert UNCHANGED in str(error)
            assert str(error).startswith(f"cannot write {path}: ")
            assert read_numbered(path) == 1
        outcomes.add(error is None)
    assert outcomes == {True, False}


def test_first_store(tmp_path):
    path = tmp_path / "store"

    def reset():
        shutil.rmtree(path, ignore_errors=True)

    for error in fates(lambda: write_numbered(path, 2), reset, 20):
        if error is None:
            assert read_numbered(path) == 2
        else:
            assert listing(tmp_path) == []
            assert UNCHANGED not in str(error)


def test_saved_model(tmp_path, fitted):
    path = tmp_path / "model"
    changed = copy(fitted)
    changed.energy_ = fitted.energy_ + 1.0
    for error in fates(lambda: save(changed, path), lambda: save(fitted, path), 40, [("EDQUOT", False)]):
        found = load(path).energy_
        assert found == (changed.energy_ if error is None else fitted.energy_)


LIMITED = """
import resource, sys
import numpy as np
from isoweave.io import write_embedding
from isoweave.persist import write_store
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
large = np.random.default_rng(5).normal(size=(50_000, 2))
for name in sys.argv[1:]:
    try:
        if name.endswith("store"):
            write_store(name, "example", arrays={"x": large})
        else:
            write_embedding(name, large)
    except OSError as error:
        print(error)
"""


def test_a_limit_the_system_sets(tmp_path):
    """The same with a failure of the kernel's own making, in the middle of the data."""
    pytest.importorskip("resource")
    names = ["y.npz", "y.npy", "y.csv", "y.parquet", "store"]
    for name in names[:-1]:
        write_embedding(tmp_path / name, OLD)
    write_numbered(tmp_path / "store", 1)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *names],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    reason = "the file would be larger than is allowed; what was there before is unchanged"
    assert done.stdout.splitlines() == [f"cannot write {name}: {reason}." for name in names]
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_a_file_is_synced_before_it_gets_its_name_and_its_folder_afterwards(tmp_path):
    calls = Calls(10**9, None)
    with calls.active():
        write_text(tmp_path / "y.txt", "text")
    wanted = ["write", "fsync", "close", "replace", "fsync"]
    assert [kind for kind in calls.seen if kind != "open"][: len(wanted)] == wanted


def test_every_file_of_a_store_is_synced(tmp_path):
    """Files, the new folder, and the folder that holds it: 2 arrays, manifest, checksum, 2 folders."""
    calls = Calls(10**9, None)
    with calls.active():
        write_numbered(tmp_path / "store", 1)
    assert calls.seen.count("fsync") == 6
    last = len(calls.seen) - calls.seen[::-1].index("fsync")
    assert calls.seen[:last].count("rename") == 1
    assert calls.seen[: calls.seen.index("rename")].count("fsync") == 5
