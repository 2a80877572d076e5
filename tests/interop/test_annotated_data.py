"""AnnData in and out, and scanpy's neighbour matrices."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.neighbors import kneighbors_graph

import isoweave
from isoweave import IsometricEmbedding, embed_graph, from_anndata, to_anndata
from isoweave.datasets import s_curve
from isoweave.graph import knn_graph
from isoweave.interop import map_of_anndata
from isoweave.io import read_annotations
from isoweave.report import write_report

CELLS = s_curve(150, random_state=821).data


def scanpy_distances(dtype=np.float64):
    """As scanpy.pp.neighbors leaves them: every row its own nearest cells, in one direction."""
    return sp.csr_matrix(kneighbors_graph(CELLS, 8, mode="distance")).astype(dtype)


def stand_in(**obsp):
    """What the two functions use of an AnnData object."""
    names = pd.Index([f"cell{i}" for i in range(150)])
    return SimpleNamespace(obsp=obsp, obsm={}, uns={}, obs_names=names, n_obs=150)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_directions_are_joined(dtype):
    adata = stand_in(distances=scanpy_distances(dtype))
    assert (adata.obsp["distances"] != adata.obsp["distances"].T).nnz > 0
    distances, names = from_anndata(adata)
    expected = knn_graph(CELLS, 8).to_matrix()
    assert names[:2] == ("cell0", "cell1")
    np.testing.assert_array_equal(distances.indices, expected.indices)
    np.testing.assert_allclose(distances.data, expected.data, rtol=1e-6)
    # Searches may measure a pair twice.
    matrix = scanpy_distances()
    adata = stand_in(distances=(matrix + 1e-4 * sp.tril(matrix)).tocsr())
    assert from_anndata(adata).distances.nnz == expected.nnz
    with pytest.raises(ValueError, match="disagree"):
        from_anndata(adata, asymmetry="error")


def test_maps_go_back():
    adata = stand_in(distances=scanpy_distances())
    result = embed_graph(from_anndata(adata).distances)
    to_anndata(adata, result)
    np.testing.assert_array_equal(adata.obsm["X_isoweave"], result.coordinates)
    facts = {"status": result.status, "relative_energy": result.relative_energy, "n_iter": result.n_iter}
    assert adata.uns["isoweave"] == facts
    model = IsometricEmbedding(metric="precomputed").fit(adata.obsp["distances"])
    to_anndata(adata, model, key_added="X_other")
    np.testing.assert_array_equal(adata.obsm["X_other"], result.coordinates)  # it takes the matrix as it is
    assert adata.uns["other"]["status"] == "converged"
    to_anndata(adata, result.coordinates[:, :1], key_added="line")
    assert adata.obsm["line"].shape == (150, 1)
    assert "line" not in adata.uns


ERRORS = [
    (lambda adata: from_anndata(adata, "umap"), ValueError, r"no 'umap'; it has \['connectivities', 'dense"),
    (lambda adata: from_anndata(adata, "connectivities"), ValueError, "similarities"),
    (lambda adata: from_anndata(adata, "dense"), TypeError, "is a ndarray, not a sparse matrix"),
    (lambda adata: from_anndata(CELLS), TypeError, "Expected an AnnData object, got ndarray"),
    (lambda adata: to_anndata(CELLS, CELLS), TypeError, "Expected an AnnData object, got ndarray"),
    (lambda adata: to_anndata(adata, CELLS[1:]), ValueError, r"shape \(149, 3\), but adata has 150 obs"),
]


def test_errors():
    adata = stand_in(distances=scanpy_distances(), connectivities=scanpy_distances(), dense=np.eye(150))
    for call, error, message in ERRORS:
        with pytest.raises(error, match=message):
            call(adata)
    assert adata.obsm == {}


def annotated():
    adata = stand_in(distances=scanpy_distances(), connectivities=scanpy_distances())
    adata.obsm["X_pca"] = CELLS
    adata.uns["neighbors"] = {"distances_key": "distances", "connectivities_key": "connectivities"}
    adata.X = CELLS[:, :2]
    adata.copy = lambda: annotated()
    return adata


def test_called_like_the_tools_of_scanpy():
    adata = annotated()
    assert isoweave.tl.embed(adata) is None
    np.testing.assert_array_equal(
        adata.obsm["X_isoweave"], embed_graph(from_anndata(adata).distances).coordinates
    )
    assert adata.uns["isoweave"]["params"] == {"distances_key": "distances", "n_components": 2}
    assert adata.uns["isoweave"]["status"] == "converged"
    isoweave.tl.embed(adata, 3, use_rep="X_pca", key_added="map", n_neighbors=9)
    model = IsometricEmbedding(3, n_neighbors=9).fit(CELLS)
    np.testing.assert_array_equal(adata.obsm["X_map"], model.embedding_)
    assert adata.uns["map"]["params"] == {"use_rep": "X_pca", "n_neighbors": 9, "n_components": 3}
    before = annotated()
    del before.obsp["distances"]
    before.uns.clear()
    assert "X_isoweave" in isoweave.tl.embed(annotated(), copy=True).obsm
    isoweave.tl.embed(before, n_neighbors=9)
    assert before.uns["isoweave"]["params"]["use_rep"] == "X_pca"


WRONG = [
    ({"use_rep": "X_umap"}, ValueError, r"no 'X_umap'; it has \['X_pca'\]"),
    ({"use_rep": "X_pca", "neighbors_key": "neighbors"}, ValueError, "give one of them"),
    ({"neighbors_key": "other"}, ValueError, "uns has no 'other'"),
    ({"metric": "precomputed"}, TypeError, "metric"),
]


@pytest.mark.parametrize(("options", "error", "message"), WRONG)
def test_what_tools_refuse(options, error, message):
    adata = annotated()
    with pytest.raises(error, match=message):
        isoweave.tl.embed(adata, **options)
    assert list(adata.obsm) == ["X_pca"]
    with pytest.raises(TypeError, match="Expected an AnnData object, got ndarray"):
        isoweave.tl.embed(CELLS)


def test_estimators_say_what_to_call():
    cells = type("AnnData", (), {"__module__": "anndata._core.anndata"})()
    for metric in ("euclidean", "precomputed"):
        with pytest.raises(TypeError, match=r"call isoweave.tl.embed\(adata\)"):
            IsometricEmbedding(metric=metric).fit(cells)
    with pytest.raises(TypeError, match=r"call isoweave.tl.embed\(adata\), or pass adata.obsp"):
        isoweave.embed_graph(cells)


def test_reports_of_annotated_data(tmp_path):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(CELLS.astype(np.float32))
    adata.obs_names = [f"cell{i}" for i in range(150)]
    adata.var_names = ["CD3D", "NKG7", "LYZ"]
    adata.obs["type"] = pd.Categorical(["B", "T"] * 75)
    adata.obsm["X_pca"] = CELLS
    page = tmp_path / "cells.html"
    with pytest.raises(
        ValueError, match=r"obsm has no 'X_isoweave'; it has \['X_pca'\]. Run isoweave.tl.embed"
    ):
        write_report(adata, page)
    isoweave.tl.embed(adata, n_neighbors=8)
    found, columns = map_of_anndata(adata, ["type", "LYZ"])
    model = IsometricEmbedding(n_neighbors=8).fit(CELLS)
    np.testing.assert_array_equal(found.coordinates, model.embedding_)
    assert (found.graph.to_matrix() != model.graph_).nnz == 0
    np.testing.assert_allclose(columns["LYZ"], CELLS[:, 2], rtol=1e-6)
    text = write_report(adata, page, columns=["LYZ", "type"], diagnosis=False).read_text()
    assert all(f'"{name}"' in text for name in ("LYZ", "type", "cell149"))
    for wrong, error in ((["CD8A"], ValueError), ([3], TypeError)):
        with pytest.raises(error, match="obs"):
            write_report(adata, page, columns=wrong)
    adata.obsp["distances"] = scanpy_distances()
    adata.uns["neighbors"] = {"distances_key": "distances"}
    isoweave.tl.embed(adata)
    assert map_of_anndata(adata)[0].graph.n_edges == knn_graph(CELLS, 8).n_edges
    # The command reads the same from a file.
    adata.write_h5ad(tmp_path / "cells.h5ad")
    columns, names = read_annotations(tmp_path / "cells.h5ad", ["NKG7"])
    assert names == tuple(adata.obs_names)
    assert columns["type"].tolist() == adata.obs["type"].tolist()
    np.testing.assert_allclose(columns["NKG7"], CELLS[:, 1], rtol=1e-6)


def test_with_anndata_itself(tmp_path):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(CELLS.astype(np.float32))
    adata.obs_names = [f"cell{i}" for i in range(150)]
    adata.obsp["distances"] = scanpy_distances()
    distances, names = from_anndata(adata)
    assert names == tuple(adata.obs_names)
    result = embed_graph(distances)
    to_anndata(adata, result)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    np.testing.assert_array_equal(again.obsm["X_isoweave"], result.coordinates)
    assert again.uns["isoweave"]["status"] == result.status
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    assert (from_anndata(backed).distances != distances).nnz == 0
    backed.file.close()
