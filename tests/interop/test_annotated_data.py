"""AnnData in and out, and scanpy's neighbour matrices."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.neighbors import kneighbors_graph

from isoweave import IsometricEmbedding, embed_graph, from_anndata, to_anndata
from isoweave.datasets import s_curve
from isoweave.graph import knn_graph

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
