"""
Single cells
============

Cells that differentiate along branches, made up by the script, through the objects that scanpy uses:
the distances of neighbours are read from ``obsp`` and the map is written to ``obsm``.
"""

# %%
# A trunk that splits into two branches, each cell with 200 noisy genes. Genes respond smoothly to how far
# a cell has come on its branch.

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_matrix
from sklearn.decomposition import PCA
from sklearn.neighbors import kneighbors_graph

from isoweave import IsometricEmbedding, from_anndata, to_anndata

rng = np.random.default_rng(3)
n_cells, n_genes = 900, 200
branch = rng.integers(0, 3, size=n_cells)
along = rng.uniform(size=n_cells)
arms = np.array([[1.0, 0.0], [-0.5, 0.85], [-0.5, -0.85]])
state = along[:, None] * arms[branch] + rng.normal(scale=0.03, size=(n_cells, 2))
loadings = rng.normal(size=(2, n_genes))
expression = 3 * state @ loadings + rng.normal(scale=0.4, size=(n_cells, n_genes))

# %%
# What ``sc.pp.pca`` and ``sc.pp.neighbors`` would do, by scikit-learn. Without the package anndata a plain
# object with the same attributes stands in.

components = PCA(10, random_state=0).fit_transform(expression)
distances = csr_matrix(kneighbors_graph(components, 15, mode="distance"))
try:
    from anndata import AnnData

    adata = AnnData(expression.astype(np.float32))
    adata.obs_names = [f"cell{i}" for i in range(n_cells)]
except ImportError:
    names = [f"cell{i}" for i in range(n_cells)]
    adata = SimpleNamespace(n_obs=n_cells, obs_names=names, obsp={}, obsm={}, uns={})
adata.obsp["distances"] = distances

# %%
# Each row of the matrix holds the nearest cells of one cell; ``from_anndata`` makes it
# symmetric. It can also be given to the estimator as it is.

graph, names = from_anndata(adata)
model = IsometricEmbedding(n_components=2, metric="precomputed").fit(graph)
to_anndata(adata, model)
print("obsm has", sorted(adata.obsm), "and uns['isoweave'] has", sorted(adata.uns["isoweave"]))

# %%
# Distances along a branch are kept: how far a cell lies from the centre of the map follows how far it has
# come.

Y = adata.obsm["X_isoweave"]
centre = Y[along < 0.05].mean(axis=0)
correlation = np.corrcoef(np.linalg.norm(Y - centre, axis=1), along)[0, 1]
print(f"correlation of the distance from the centre with the progress of a cell: {correlation:.3f}")

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
axes[0].scatter(*Y.T, c=branch, cmap="tab10", vmin=-0.5, vmax=9.5, s=6)
axes[0].set_title("branch")
drawn = axes[1].scatter(*Y.T, c=along, s=6)
axes[1].set_title("progress")
figure.colorbar(drawn, ax=axes[1], shrink=0.8)
for ax in axes:
    ax.set_aspect("equal")

plt.show()
