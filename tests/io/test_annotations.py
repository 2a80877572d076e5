"""Columns of obs and genes of .h5ad files, as anndata writes them, and damaged."""

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from isoweave.io import InputFileError, read_annotations, read_input

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
            matrix = sp.csr_array(COUNTS).asformat(layout)
            x = file.create_group("X")
            x.attrs["encoding-type"], x.attrs["shape"] = f"{layout}_matrix", [4, 3]
            for part in ("data", "indices", "indptr"):
                x[part] = getattr(matrix, part)
        if change is not None:
            change(file)
    return path


@pytest.mark.parametrize("layout", ["dense", "csr", "csc"])
def test_columns_and_genes(tmp_path, in_process, layout):
    columns, names = read_annotations(annotated(tmp_path / "c.h5ad", layout), ["LYZ", "NKG7"])
    assert names == ("a", "b", "c", "d")
    expected = {"type": ["T <b>", "B", None, "T <b>"], "n": [3, 1, 4, 1], "word": ["x", "y", "", "z"]}
    expected |= {"good": [True, False, True, True], "LYZ": [0, 0, 3, 0], "NKG7": [2, 0, 0, 5]}
    assert [(name, values.tolist()) for name, values in columns.items()] == list(expected.items())


def test_in_a_process_of_its_own(tmp_path):
    assert list(read_annotations(annotated(tmp_path / "c.h5ad"))[0]) == ["type", "n", "word", "good"]
    assert read_input(tmp_path / "c.h5ad").names == ("a", "b", "c", "d")


def replaced(place, values):
    def change(file):
        del file[place]
        file[place] = values

    return change


DAMAGED = [
    (replaced("obs/type/codes", np.array([0, 7, 0, 0])), "codes beyond its 2 categories"),
    (replaced("obs/n", np.arange(3)), "different lengths"),
    (replaced("X/indptr", np.array([0, 9, 2, 3, 5])), "do not fit together"),
    (replaced("X/indices", np.array([0, 1])), "do not fit together"),
    (replaced("X/indices", np.array([1, 0, 2, 0, 10**6])), "do not fit together"),
    (lambda file: file.__delitem__("obs"), "there is no obs"),
    (lambda file: file.__delitem__("var"), "var has no names of genes"),
    (replaced("var/_index", ["CD8A", "NKG7", "LYZ"]), "no gene 'CD3D' among the 3 of var"),
]


@pytest.mark.parametrize(("change", "match"), DAMAGED)
def test_damaged(tmp_path, in_process, change, match):
    path = annotated(tmp_path / "c.h5ad", "csr", change)
    with pytest.raises(InputFileError, match=match):
        read_annotations(path, ["CD3D"])
