from __future__ import annotations

import errno
import json
import os
import stat
import threading

import numpy as np
import pandas as pd
import pytest

from isoweave.io import check_output_path, read_input, write_embedding

EMBEDDING = np.random.default_rng(5).normal(size=(4, 2)) * [1e-9, 1e9]
NAMES = ("a", "b, c", 'say "d"', "é")


def test_npz_holds_everything(tmp_path):
    write_embedding(
        tmp_path / "y.npz",
        EMBEDDING,
        names=NAMES,
        parameters={"n_components": 2, "start": "auto", "metric": None},
        energy=1.5,
        status="converged",
        component_labels=np.zeros(4, dtype=np.int32),
        dropped_edges=np.empty((0, 2), dtype=np.int32),
    )
    with np.load(tmp_path / "y.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["embedding"], EMBEDDING)
        assert tuple(file["vertex_names"]) == NAMES
        assert json.loads(str(file["parameters"])) == {"n_components": 2, "start": "auto", "metric": None}
        assert file["energy"] == 1.5
        assert str(file["status"]) == "converged"
        assert file["component_labels"].dtype == np.int32
        assert file["dropped_edges"].shape == (0, 2)


def test_npz_is_reproducible(tmp_path):
    for name in ("a.npz", "b.npz"):
        write_embedding(tmp_path / name, EMBEDDING, energy=2.0)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_objects_are_refused_and_leave_nothing(tmp_path):
    with pytest.raises(TypeError, match="energy cannot be stored without pickling"):
        write_embedding(tmp_path / "y.npz", EMBEDDING, energy=object())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
@pytest.mark.parametrize("names", [None, NAMES])
def test_round_trip(tmp_path, suffix, names):
    path = tmp_path / f"y{suffix}"
    write_embedding(path, EMBEDDING, names=names, energy=1.0)
    loaded = read_input(path)
    np.testing.assert_array_equal(loaded.features, EMBEDDING)
    assert loaded.names == (None if suffix == ".npy" else names)


def test_columns(tmp_path):
    write_embedding(tmp_path / "y.csv", EMBEDDING, names=NAMES)
    write_embedding(tmp_path / "y.parquet", EMBEDDING, names=NAMES)
    for frame in (pd.read_csv(tmp_path / "y.csv"), pd.read_parquet(tmp_path / "y.parquet")):
        assert list(frame.columns) == ["vertex", "x1", "x2"]
        assert tuple(frame["vertex"]) == NAMES


def test_large_tables_are_written_in_blocks(tmp_path):
    embedding = np.random.default_rng(6).normal(size=(25_003, 2))
    write_embedding(tmp_path / "y.csv", embedding, names=[str(i) for i in range(len(embedding))])
    head, *rows = (tmp_path / "y.csv").read_text().splitlines()
    assert head == "vertex,x1,x2"
    assert rows == [f"{i},{x!r},{y!r}" for i, (x, y) in enumerate(embedding.tolist())]


def test_archives_open_with_numpy(tmp_path):
    """Whatever the order and type: the archive is made by hand, as numpy makes it."""
    arrays = {"a": np.asfortranarray(np.eye(3)[:, :2]), "b": np.array("text"), "c": np.array(2.5)}
    write_embedding(tmp_path / "y.npz", EMBEDDING, **arrays)
    np.savez(tmp_path / "z.npz", embedding=EMBEDDING, **arrays)
    assert (tmp_path / "y.npz").read_bytes() == (tmp_path / "z.npz").read_bytes()


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".parquet"])
def test_failure_keeps_the_old_file(tmp_path, monkeypatch, suffix):
    """Every call that can fail is made to fail in tests/persist/test_failing_writes.py."""
    path = tmp_path / f"y{suffix}"
    path.write_text("old")

    def fail(fd):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"y\.\w+: no space is left .*; what was there before is unchanged\.$"):
        write_embedding(path, EMBEDDING, names=NAMES)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".parquet"])
def test_pipes_get_the_same_bytes(tmp_path, suffix):
    file, pipe = tmp_path / f"file{suffix}", tmp_path / f"pipe{suffix}"
    write_embedding(file, EMBEDDING, names=NAMES)
    os.mkfifo(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_embedding(pipe, EMBEDDING, names=NAMES)
    reader.join(timeout=30)
    assert found == [file.read_bytes()]


def test_permissions_follow_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        write_embedding(tmp_path / "y.npy", EMBEDDING)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "y.npy").stat().st_mode) == 0o640


def test_symbolic_link_keeps_pointing(tmp_path):
    (tmp_path / "link.npy").symlink_to(tmp_path / "real.npy")
    write_embedding(tmp_path / "link.npy", EMBEDDING)
    assert (tmp_path / "link.npy").is_symlink()
    np.testing.assert_array_equal(np.load(tmp_path / "real.npy"), EMBEDDING)


def test_output_is_checked_early(tmp_path):
    with pytest.raises(ValueError, match=r"y\.txt: the suffix must be one of \.npz, \.npy, \.csv, \.parquet"):
        check_output_path(tmp_path / "y.txt")
    with pytest.raises(OSError, match="folder .*none does not exist"):
        check_output_path(tmp_path / "none" / "y.npz")
    (tmp_path / "y.npz").mkdir()
    with pytest.raises(OSError, match="it is a folder"):
        check_output_path(tmp_path / "y.npz")
    with pytest.raises(OSError, match="the name is too long"):
        check_output_path(tmp_path / f"{'x' * 300}.npz")
    assert check_output_path(tmp_path / "z.npz") == tmp_path / "z.npz"
