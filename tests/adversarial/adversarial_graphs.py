"""Builders of small hostile graphs: every one returns a scipy sparse matrix of distances."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

SMALLEST = 5e-324


def matrix_of(edges, n, lengths=1.0, form=sp.coo_array):
    """Matrix of the pairs, stored in one direction; ``lengths`` is a number or one number per pair."""
    edges = list(edges)
    rows = [i for i, _ in edges]
    cols = [j for _, j in edges]
    values = np.resize(np.asarray(lengths, dtype=float), len(edges))
    return form((values, (rows, cols)), shape=(n, n))


def euclidean(points, pairs=None):
    """Pairs of points (all of them if none are given) at their distances."""
    points = np.asarray(points, dtype=float).reshape(len(points), -1)
    pairs = list(combinations(range(len(points)), 2) if pairs is None else pairs)
    i, j = np.array(pairs).T
    return matrix_of(pairs, len(points), np.sqrt(((points[i] - points[j]) ** 2).sum(axis=1)))


def nearest_pairs(points, k):
    distances = cdist(points, points)
    np.fill_diagonal(distances, np.inf)
    near = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return sorted({(min(i, int(j)), max(i, int(j))) for i in range(len(points)) for j in near[i]})


def path_pairs(n):
    return [(i, i + 1) for i in range(n - 1)]


def cycle_pairs(n):
    return [(i, (i + 1) % n) for i in range(n)]


def star_pairs(n):
    return [(0, i) for i in range(1, n)]


def clique_pairs(first, n):
    return list(combinations(range(first, first + n), 2))


def path(n, lengths=1.0):
    return matrix_of(path_pairs(n), n, lengths)


def cycle(n, lengths=1.0):
    return matrix_of(cycle_pairs(n), n, lengths)


def star(n, lengths=1.0):
    return matrix_of(star_pairs(n), n, lengths)


def complete(n, lengths=1.0):
    return matrix_of(clique_pairs(0, n), n, lengths)


def lattice(*shape):
    return np.array(list(product(*map(range, shape))), dtype=float)


def grid(*shape, reach=1.0):
    """Lattice points joined up to a distance: 1 is the grid, 1.5 adds the diagonals of squares."""
    points = lattice(*shape)
    distances = cdist(points, points)
    return euclidean(points, [(i, j) for i, j in combinations(range(len(points)), 2)
                              if distances[i, j] <= reach + 1e-9])  # fmt: skip


def torus_grid(a, b):
    number = np.arange(a * b).reshape(a, b)
    right, down = np.roll(number, -1, axis=1), np.roll(number, -1, axis=0)
    return matrix_of(
        [*zip(number.flat, right.flat, strict=True), *zip(number.flat, down.flat, strict=True)], a * b
    )


def binary_tree(depth):
    n = 2 ** (depth + 1) - 1
    return matrix_of([((i - 1) // 2, i) for i in range(1, n)], n, 1.0 + 0.1 * (np.arange(1, n) % 3))


def random_tree(n, seed):
    rng = np.random.default_rng(seed)
    return matrix_of([(int(rng.integers(i)), i) for i in range(1, n)], n, rng.uniform(0.5, 2.0, n - 1))


def caterpillar(spine, legs):
    pairs = path_pairs(spine) + [(i, spine + i * legs + leg) for i in range(spine) for leg in range(legs)]
    return matrix_of(pairs, spine * (1 + legs))


def spider(legs, length):
    pairs = [
        (0 if step == 0 else 1 + leg * length + step - 1, 1 + leg * length + step)
        for leg in range(legs)
        for step in range(length)
    ]
    return matrix_of(pairs, 1 + legs * length)


def barbell(size, bridge):
    """Two cliques joined by a path with ``bridge`` edges."""
    n = 2 * size + bridge - 1
    chain = [size - 1, *range(2 * size, n), size]
    return matrix_of(clique_pairs(0, size) + clique_pairs(size, size) + list(zip(chain, chain[1:])), n)  # noqa: B905, RUF007


def lollipop(size, tail):
    pairs = clique_pairs(0, size) + [(size - 1 + i, size + i) for i in range(tail)]
    return matrix_of(pairs, size + tail)


def wheel(n):
    return matrix_of([(0, i) for i in range(1, n)] + [(i, i % (n - 1) + 1) for i in range(1, n)], n)


def hypercube(dimension):
    n = 2**dimension
    return matrix_of([(i, i ^ (1 << b)) for i in range(n) for b in range(dimension) if i < i ^ (1 << b)], n)


def ring_of_cliques(count, size):
    pairs = [pair for c in range(count) for pair in clique_pairs(c * size, size)]
    return matrix_of(pairs + [(c * size, ((c + 1) % count) * size + 1) for c in range(count)], count * size)


def petersen():
    pairs = cycle_pairs(5) + [(i, i + 5) for i in range(5)] + [(5 + i, 5 + (i + 2) % 5) for i in range(5)]
    return matrix_of(pairs, 10)


def ladder(n, twisted=False, closed=False):
    pairs = path_pairs(n) + [(n + i, n + j) for i, j in path_pairs(n)] + [(i, n + i) for i in range(n)]
    if closed:
        pairs += [(n - 1, n), (2 * n - 1, 0)] if twisted else [(n - 1, 0), (2 * n - 1, n)]
    return matrix_of(pairs, 2 * n)


def bipartite(a, b, lengths=1.0):
    return matrix_of([(i, a + j) for i in range(a) for j in range(b)], a + b, lengths)


def multipartite(parts, size):
    n = parts * size
    return matrix_of([(i, j) for i, j in combinations(range(n), 2) if i // size != j // size], n)


def circulant(n, steps):
    return matrix_of([(i, (i + s) % n) for s in steps for i in range(n)], n)


def random_regular(n, degree, seed):
    """Union of random cycles: every vertex has the degree, repeated pairs aside."""
    rng = np.random.default_rng(seed)
    pairs = set()
    for _ in range(degree // 2):
        order = rng.permutation(n).tolist()
        pairs |= {(min(i, j), max(i, j)) for i, j in zip(order, order[1:] + order[:1], strict=True)}
    return matrix_of(sorted(pairs), n)


def plane_points(n, seed):
    return np.random.default_rng(seed).uniform(size=(n, 2)) * np.sqrt(n)


def plane(n, k, seed):
    points = plane_points(n, seed)
    return euclidean(points, nearest_pairs(points, k))


def hubs(n, count, seed):
    """Points of the plane and hubs among them that see all the others at their distance."""
    points = plane_points(n, seed)
    pairs = set(nearest_pairs(points, 6))
    pairs |= {(min(h, j), max(h, j)) for h in range(count) for j in range(n) if j != h}
    return euclidean(points, sorted(pairs))


def sphere(n, k):
    """Fibonacci points of the unit sphere."""
    z = 1.0 - (2.0 * np.arange(n) + 1.0) / n
    angle = np.pi * (1.0 + np.sqrt(5.0)) * np.arange(n)
    points = np.column_stack([np.sqrt(1 - z * z) * np.cos(angle), np.sqrt(1 - z * z) * np.sin(angle), z])
    return euclidean(points, nearest_pairs(points, k))


def icosahedron():
    g = (1.0 + np.sqrt(5.0)) / 2.0
    points = np.array([np.roll((0.0, a, b * g), r) for r in range(3) for a in (-1, 1) for b in (-1, 1)])
    distances = cdist(points, points)
    return euclidean(points, [(i, j) for i, j in combinations(range(12), 2) if distances[i, j] < 2.1])


def disjoint(*matrices):
    return sp.coo_array(sp.block_diag(matrices))


def with_isolated(matrix, count):
    coo = sp.coo_array(matrix)
    n = coo.shape[0] + count
    return sp.coo_array((coo.data, (coo.row, coo.col)), shape=(n, n))


def with_twins(matrix, vertices):
    """Every one of the vertices gets a duplicate, joined to it by a stored zero."""
    coo = sp.coo_array(matrix)
    n = coo.shape[0]
    rows, cols = np.r_[coo.row, vertices], np.r_[coo.col, n + np.arange(len(vertices))]
    return sp.coo_array(
        (np.r_[coo.data, np.zeros(len(vertices))], (rows, cols)), shape=(n + len(vertices),) * 2
    )


def scaled(matrix, factor):
    coo = sp.coo_array(matrix)
    return sp.coo_array((coo.data * factor, (coo.row, coo.col)), shape=coo.shape)


def with_lengths(matrix, lengths):
    coo = sp.coo_array(matrix)
    return sp.coo_array(
        (np.resize(np.asarray(lengths, dtype=float), coo.nnz), (coo.row, coo.col)), shape=coo.shape
    )


def with_edges(matrix, edges):
    """The matrix and some more (i, j, length)."""
    coo = sp.coo_array(matrix)
    i, j, lengths = zip(*edges, strict=True)
    return sp.coo_array((np.r_[coo.data, lengths], (np.r_[coo.row, i], np.r_[coo.col, j])), shape=coo.shape)
