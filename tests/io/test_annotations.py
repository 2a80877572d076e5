"""Columns of obs and genes of .h5ad files, as anndata writes them, and damaged."""

import h5py
import numpy as np
import pytest

from isoweave.io import InputFileError, read_annotations

CODES = np.array([1, 0, -1, 1], dtype=np.int8)
COUNTS = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 3.0], [4.0, 5.0, 0.0]])


def annotated(path, layout="dense", change=None):
    """Four cells and three genes, in the layout of anndata 0.10."""
    with h5py.File(path, "w") as file:
        obs, var = file.create_group("obs"), file.create_group("var")
        for group, names in ((obs, ["a", "b", "c", "d"]), (var, ["CD3D", "NKG7", "LYZ"])):
            group.attrs["_index"] = "_index"
            group["_index"] = np.array(names, dtype=h5py.string_dtype())
        obs.attrs["column-order"] = ["type", "n", "word", "good", "odd"]
        kind = obs.create_group("type")
        kind["codes"] = CODES
        kind["categories"] = np.array(["B", "T <b>"], dtype=h5py.string_dtype())
        obs["n"] = np.array([3, 1, 4, 1])
        obs["word"] = np.array(["x", "y", "", "z"], dtype=h5py.string_dtype())
        obs["good"] = np.array([True, False, True, True])
        obs["odd"] = np.zeros((4, 2))  # no column of one number each
        if layout == "dense":
            file["X"] = COUNTS
        else:
            at = np.nonzero(COUNTS) if layout == "csr" else np.nonzero(COUNTS.T)[::-1]
            outer, inner = at if layout == "csr" else at[::-1]
            x = file.create_group("X")
            x.attrs["encoding-type"], x.attrs["shape"] = f"{layout}_matrix", [4, 3]
            x["data"], x["indices"] = COUNTS[at], inner
            n = 4 if layout == "csr" else 3
            x["indptr"] = np.concatenate(([0], np.cumsum(np.bincount(outer, minlength=n))))
        if change is not None:
            change(file)
    return path


@pytest.mark.parametrize("layout", ["dense", "csr", "csc"])
def test_columns_and_genes(tmp_path, in_process, layout):
    columns, names = read_annotations(annotated(tmp_path / "c.h5ad", layout), ["LYZ", "NKG7"])
    assert names == ("a", "b", "c", "d")
    assert list(columns) == ["type", "n", "word", "good", "LYZ", "NKG7"]
    assert columns["type"].tolist() == ["T <b>", "B", None, "T <b>"]
    assert columns["n"].tolist() == [3, 1, 4, 1]
    assert columns["word"].tolist() == ["x", "y", "", "z"]
    assert columns["good"].tolist() == [True, False, True, True]
    assert columns["LYZ"].tolist() == [0, 0, 3, 0]
    assert columns["NKG7"].tolist() == [2, 0, 0, 5]


def test_in_a_process_of_its_own(tmp_path):
    assert list(read_annotations(annotated(tmp_path / "c.h5ad"))[0]) == ["type", "n", "word", "good"]


def replaced(place, values):
    def change(file):
        del file[place]
        file[place] = values

    return change


def without_obs(file):
    del file["obs"]


DAMAGED = [
    (replaced("obs/type/codes", np.array([0, 7, 0, 0])), "codes beyond its 2 categories"),
    (replaced("obs/n", np.arange(3)), "different lengths"),
    (replaced("X/indptr", np.array([0, 9, 2, 3, 5])), "do not fit together"),
    (replaced("X/indices", np.array([0, 1])), "do not fit together"),
    (replaced("X/indices", np.array([1, 0, 2, 0, 10**6])), "do not fit together"),
    (without_obs, "there is no obs"),
]


@pytest.mark.parametrize(("change", "match"), DAMAGED)
def test_damaged(tmp_path, in_process, change, match):
    path = annotated(tmp_path / "c.h5ad", "csr", change)
    with pytest.raises(InputFileError, match=match):
        read_annotations(path, ["CD3D"])


def test_a_gene_that_is_not_there(tmp_path, in_process):
    with pytest.raises(InputFileError, match="no gene 'CD8A' among the 3 of var"):
        read_annotations(annotated(tmp_path / "c.h5ad"), ["CD8A"])
