"""Writers killed with SIGKILL: afterwards there is the old store or the new one, whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from isoweave._file_parts import temporary_name
from isoweave._files import write_text
from isoweave.persist import StoreError, read_store, write_store
from isoweave.persist._write import previous_name

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
HERE = Path(__file__).parent


def run(mode, folder, rounds=0, seed=0):
    paths = [str(HERE), *sys.path]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "crash_writer.py", mode, folder, str(rounds), str(seed)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        check=False,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_killed_at_every_system_call(tmp_path):
    found = run("calls", tmp_path)
    # Before the old store is moved aside, between the two renames, and afterwards.
    assert set(found) == {"1", "1 put back", "2"}
    assert sum(found.values()) > 75


def test_killed_at_every_system_call_of_the_first_write(tmp_path):
    found = run("calls-first", tmp_path)
    assert set(found) == {"none", "2"}


def test_killed_at_random(tmp_path):
    found = run("random", tmp_path, rounds=30, seed=int.from_bytes(os.urandom(4), "little"))
    assert sum(found.values()) == 30


@pytest.mark.slow
def test_killed_at_random_often(tmp_path):
    found = run("random", tmp_path, rounds=1000, seed=903)
    assert found["old"] > 10
    assert found["new"] > 10


def test_readers_and_writers_at_once(tmp_path):
    found = run("readers", tmp_path, rounds=60)
    assert found["reads"] > 20
    assert found["stores"] > 1


@pytest.fixture
def interrupted(tmp_path):
    """A store as it is between the two renames, and its path."""
    path = tmp_path / "store"
    write_store(path, "example", arrays={"x": np.arange(4)})
    path.rename(previous_name(path))
    return path


def test_previous_store_is_put_back_with_a_warning(interrupted):
    with pytest.warns(UserWarning, match="store: a writer was stopped .* the previous one has been put back"):
        store = read_store(interrupted)
    assert (store.arrays["x"] == np.arange(4)).all()
    assert [entry.name for entry in interrupted.parent.iterdir()] == ["store"]


def test_previous_store_is_read_where_it_is_if_it_cannot_be_put_back(interrupted, monkeypatch):
    def refuse(source, target):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "rename", refuse)
    assert (read_store(interrupted).arrays["x"] == np.arange(4)).all()
    assert not interrupted.exists()


def test_writer_puts_the_previous_store_back_first(interrupted, monkeypatch):
    real = os.rename

    def refuse_new(source, target):
        if source.name.endswith("isoweave-tmp") and target == interrupted:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "rename", refuse_new)
    with pytest.raises(OSError, match="no space is left on the device; what was there before is unchanged"):
        write_store(interrupted, "example")
    assert (read_store(interrupted).arrays["x"] == np.arange(4)).all()
    assert [entry.name for entry in interrupted.parent.iterdir()] == ["store"]


def test_a_complete_store_wins_over_the_previous_one(interrupted):
    store = interrupted.parent / "other"
    write_store(store, "example", arrays={"x": np.arange(9)})
    store.rename(interrupted)
    assert (read_store(interrupted).arrays["x"] == np.arange(9)).all()
    assert [entry.name for entry in interrupted.parent.iterdir()] == ["store"]


def test_remains_of_dead_writers_are_removed_and_of_living_ones_are_not(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    target = tmp_path / "y.csv"
    dead, living = temporary_name(target), temporary_name(target)
    dead.write_text("half")
    foreign = tmp_path / ".y.csv.notes"
    foreign.write_text("mine")
    with living.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_text(target, "all")
        assert {entry.name for entry in tmp_path.iterdir()} == {"y.csv", living.name, foreign.name}
    write_text(target, "all")
    assert {entry.name for entry in tmp_path.iterdir()} == {"y.csv", foreign.name}


def test_a_folder_locked_for_long_is_an_error(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr("isoweave.persist._write._LOCK_SECONDS", 0.02)
    path = tmp_path / "store"
    write_store(path, "example", scalars={"number": 1})
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="another process has kept the folder .* locked for 0.02 s"):
            write_store(path, "example", scalars={"number": 2})
        assert read_store(path).scalars == {"number": 1}
        assert [entry.name for entry in tmp_path.iterdir()] == ["store"]
    finally:
        os.close(fd)


def test_no_store_at_all(tmp_path):
    with pytest.raises(StoreError, match="none: there is no such store"):
        read_store(tmp_path / "none")
