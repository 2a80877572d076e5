"""Graphs of known shape, drawn with explicit seeds."""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import ConvexHull, Delaunay

from isoweave.graph import graph_from_matrix, knn_graph


def nearest(distances, k):
    """The kNN graph of a dense matrix of distances."""
    n = len(distances)
    order = np.argsort(distances, axis=1)[:, 1 : k + 1]
    rows = np.repeat(np.arange(n), k)
    lengths = distances[rows, order.ravel()]
    return graph_from_matrix(sp.coo_array((lengths, (rows, order.ravel())), shape=(n, n)), asymmetry="min")


def sphere_points(n, seed, radius=1.0, lowest=-1.0):
    """Points of a sphere above ``lowest`` times its radius."""
    rng = np.random.default_rng(seed)
    z, angle = rng.uniform(lowest, 1.0, n), rng.uniform(0.0, 2.0 * np.pi, n)
    r = np.sqrt(1.0 - z * z)
    return radius * np.column_stack((r * np.cos(angle), r * np.sin(angle), z))


def sphere_graph(n, k, seed, radius=1.0, lowest=-1.0):
    """Points of a sphere with great-circle distances, and the graph."""
    points = sphere_points(n, seed, radius, lowest)
    cosines = np.clip(points @ points.T / radius**2, -1.0, 1.0)
    return points, nearest(radius * np.arccos(cosines), k)


def strip_graph(n, k, seed, *, twisted, length=12.0, width=2.0):
    """Places (u, v) and graph of a strip glued along its ends, straight (cylinder) or twisted (Möbius)."""
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(0.0, length, n), rng.uniform(-0.5 * width, 0.5 * width, n)
    sides = {turns: -1.0 if twisted and turns else 1.0 for turns in (-1, 0, 1)}
    ways = [np.hypot(u[:, None] - u - t * length, v[:, None] - side * v) for t, side in sides.items()]
    return np.column_stack((u, v)), nearest(np.min(ways, axis=0), k)


def flat_torus_graph(n, k, seed, sides=(1.0, 1.0)):
    """A rectangle glued along both pairs of sides, with exact distances."""
    places = np.random.default_rng(seed).uniform(size=(n, 2)) * sides
    gaps = np.abs(places[:, None] - places)
    return nearest(np.linalg.norm(np.minimum(gaps, np.array(sides) - gaps), axis=2), k)


def plane_graph(n, k, seed):
    """Points of the unit square and their graph."""
    points = np.random.default_rng(seed).uniform(size=(n, 2))
    return points, knn_graph(points, k)


def annulus_graph(n, k, seed, inner=0.6):
    rng = np.random.default_rng(seed)
    r, angle = np.sqrt(rng.uniform(inner**2, 1.0, n)), rng.uniform(0.0, 2.0 * np.pi, n)
    return knn_graph(np.column_stack((r * np.cos(angle), r * np.sin(angle))), k)


def tree_graph(n, seed):
    rng = np.random.default_rng(seed)
    child = np.arange(1, n)
    parent = (rng.random(n - 1) * child).astype(int)
    return graph_from_matrix(sp.coo_array((rng.uniform(0.5, 1.5, n - 1), (child, parent)), shape=(n, n)))


def path_graph(n):
    return graph_from_matrix(sp.diags_array([np.ones(n - 1)], offsets=[1], shape=(n, n)).tocoo())


def grid_graph(side):
    """Unit squares without diagonals."""
    line, one = sp.diags_array([np.ones(side - 1)], offsets=[1], shape=(side, side)), sp.eye_array(side)
    return graph_from_matrix(sp.coo_array(sp.kron(line, one) + sp.kron(one, line)))


def road_graph(n, seed, part=0.3):
    """Places in the unit square, and roads between them: a tree, and a part of the other short ways."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(size=(n, 2))
    sides = np.sort(Delaunay(points).simplices[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    rows, cols = np.unique(sides, axis=0).T
    lengths = np.linalg.norm(points[rows] - points[cols], axis=1)
    tree = sp.csr_array(minimum_spanning_tree(sp.csr_array((lengths, (rows, cols)), shape=(n, n))))
    taken = rng.random(len(lengths)) < part * (lengths < 2.2 / np.sqrt(n))
    others = sp.csr_array((lengths[taken], (rows[taken], cols[taken])), shape=(n, n))
    return points, sp.csr_array(others.maximum(tree))


def hull_mesh(n, seed):
    """Random points of a sphere, and the graph of the triangles of their hull."""
    points = sphere_points(n, seed)
    sides = np.sort(ConvexHull(points).simplices[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    rows, cols = np.unique(sides, axis=0).T
    lengths = np.linalg.norm(points[rows] - points[cols], axis=1)
    return points, graph_from_matrix(sp.coo_array((lengths, (rows, cols)), shape=(n, n)))
