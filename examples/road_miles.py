"""
A country's map from road miles
===============================

The towns of an island, mapped from nothing but the road miles between towns a short drive apart. Roads bend,
so the miles are longer than the straight lines; the map still shows where the towns are.
"""

# %%
# An outline, towns inside it, and roads: two towns are joined if no third lies in the circle between
# them. Every road is 5 to 30 % longer than the straight line. The island is invented.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from matplotlib.path import Path
from scipy.spatial import cKDTree, procrustes

from isoweave import IsometricEmbedding, from_networkx

east = [0, 2, 5, 6, 8, 8.5, 7, 7.5, 5.5, 4.5, 3.2, 2.5, 0.5, 1.5, 0.3]
north = [1, 0, 0.5, 2, 2.2, 4, 5, 7, 8.5, 6.5, 6.3, 8, 7, 4.5, 3]
outline = np.column_stack([east, north]) * 40
rng = np.random.default_rng(5)
candidates = rng.uniform(outline.min(axis=0), outline.max(axis=0), size=(420, 2))
towns = candidates[Path(outline).contains_points(candidates)]

roads = nx.Graph()
roads.add_nodes_from(range(len(towns)))
tree = cKDTree(towns)
for i, j in tree.query_pairs(70):
    middle, length = (towns[i] + towns[j]) / 2, np.linalg.norm(towns[i] - towns[j])
    if len(tree.query_ball_point(middle, length / 2 * 0.999)) == 0:
        roads.add_edge(i, j, weight=length * rng.uniform(1.05, 1.3))
print(f"{len(towns)} towns, {roads.number_of_edges()} roads")

# %%
# The table of miles has the pairs less than 75 miles apart along the roads; it is a graph again.

table = nx.Graph()
table.add_nodes_from(roads)
for i, reached in nx.all_pairs_dijkstra_path_length(roads, cutoff=75):
    table.add_weighted_edges_from((i, j, miles) for j, miles in reached.items() if i < j)
miles, names = from_networkx(table)

# %%
# The map. For an exact map of flat data, take a smaller ``tol`` than usual.

model = IsometricEmbedding(n_components=2, metric="precomputed", tol=0.003).fit(miles)
true, found, error = procrustes(towns[list(names)], model.embedding_)
print(f"{miles.nnz // 2} of {len(towns) * (len(towns) - 1) // 2} pairs known")
print(f"squared distance to the true map, over its variance: {error:.4f}")

# %%
# Straight lines lead from where a town is to where the map puts it. Distances do not determine north, so the
# map was rotated; it was also scaled, since roads are longer than straight lines.

figure, ax = plt.subplots(figsize=(5, 5), layout="constrained")
for i, j in roads.edges:
    ax.plot(*true[[i, j]].T, color="0.85", linewidth=0.8, zorder=0)
for here, there in zip(true, found, strict=True):
    ax.plot(*np.array([here, there]).T, color="tab:red", linewidth=0.8)
ax.scatter(*true.T, s=8, color="black", label="towns and roads")
ax.scatter(*found.T, s=8, color="tab:red", label="map from road miles")
ax.set_aspect("equal")
ax.legend()

plt.show()
