from __future__ import annotations

import json
import os
import stat

import numpy as np
import pandas as pd
import pytest

from isoweave.io import check_output_path, read_input, write_embedding
from isoweave.io._write import atomic_write

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


def test_failure_keeps_the_old_file(tmp_path):
    path = tmp_path / "y.npy"
    path.write_text("old")

    def write_half_and_fail():
        with atomic_write(path) as file:
            file.write(b"half")
            file.flush()
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        write_half_and_fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_name_appears_only_when_complete(tmp_path):
    path = tmp_path / "y.npy"
    with atomic_write(path) as file:
        file.write(b"all")
        assert not path.exists()
    assert path.read_bytes() == b"all"


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
    with pytest.raises(ValueError, match="folder .*none does not exist"):
        check_output_path(tmp_path / "none" / "y.npz")
    (tmp_path / "y.npz").mkdir()
    with pytest.raises(ValueError, match="it is a folder"):
        check_output_path(tmp_path / "y.npz")
