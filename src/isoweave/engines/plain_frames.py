"""Nearest vertices and local frames in plain Python and numpy, for small problems: the bits of the kernels.

Frames are made for a block of vertices at a time, vertices last in every array: numpy then adds up the other
axes one entry after the other, as the kernels do.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from scipy.linalg.lapack import dsyevd
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from isoweave.engines.plain import TIE, repeat_and_count

# Eigenvalues below this part of the largest one are rounding noise: the local rank is lower.
RANK_TOLERANCE = 1e-10
# Vectors iterated beside the wanted ones: what converges slowest is then not among the wanted.
EXTRA_VECTORS = 2
MAX_SWEEPS = 40
TOLERANCE = 1e-11
# Vertices at once, and distances from them to all; those of which the matrices stay in a processor's cache.
_AT_ONCE, _MOST_DISTANCES, _IN_CACHE = 512, 2**21, 64

# Vertices that tell how far to search.
_SAMPLE = 8


class Nearest:
    """Searches for the vertices nearest along a graph of positive lengths, by scipy within a radius.

    Distances are the shortest sums from a vertex outwards, whatever the order in which they are found.
    """

    def __init__(self, indptr: Any, indices: Any, lengths: Any, n_wanted: int, most: int, tie: float) -> None:
        n = len(indptr) - 1
        self._matrix, self._n = csr_array((lengths, indices, indptr), shape=(n, n)), n
        self._n_wanted, self._most, self._tie = min(n_wanted, n), min(most, n), tie
        # What most vertices need is told by a few.
        some = dijkstra(self._matrix, indices=np.unique(np.linspace(0, n - 1, _SAMPLE).astype(np.int32)))
        last = np.partition(some, self._n_wanted - 1, axis=1)[:, self._n_wanted - 1]
        self._radius = 1.25 * float(np.median(last))

    def around(self, vertices: Any) -> tuple[list[list[int]], list[list[float]]] | None:
        """As :func:`isoweave.engines.paths.settle`; None where two are as far and their order is open."""
        radius, count = self._radius, min(self._most + 1, self._n)
        distances = dijkstra(self._matrix, indices=vertices, limit=radius)
        while True:
            last = np.partition(distances, self._n_wanted - 1, axis=1)[:, self._n_wanted - 1]
            missing = np.flatnonzero(~(last * max(self._tie, 1.0) <= radius))
            if len(missing) == 0 or radius == inf:
                break
            radius = 2.0 * radius if radius < 1e3 * self._radius else inf
            distances[missing] = dijkstra(self._matrix, indices=vertices[missing], limit=radius)
        near = np.argpartition(distances, count - 1, axis=1)[:, :count]
        there = np.take_along_axis(distances, near, axis=1)
        order = np.argsort(there, axis=1)
        near, there = np.take_along_axis(near, order, axis=1), np.take_along_axis(there, order, axis=1)
        reach = np.full(len(there), inf)
        if self._n_wanted < self._most:
            reach = there[:, self._n_wanted - 1] * self._tie
        within = (there <= reach[:, None]) & np.isfinite(there)
        within[:, self._most :] = False
        # The next one may be as far as the last.
        if ((there[:, 1:] == there[:, :-1]) & within[:, :-1]).any():
            return None
        counts = within.sum(axis=1).tolist()
        pairs = zip(near.tolist(), there.tolist(), counts, strict=True)
        found = [(vertices[:size], lengths[:size]) for vertices, lengths, size in pairs]
        return [v for v, _ in found], [d for _, d in found]


def nearest_lists(indptr: Any, indices: Any, lengths: Any, columns: Any, distances: Any) -> bool:
    """As :func:`isoweave.engines.paths.nearest_lists`; False where vertices are as far as others."""
    n, width = columns.shape[0], columns.shape[1] + 1
    columns[:], distances[:] = -1, inf
    nearest = Nearest(indptr, indices, lengths, width, width, 0.0)
    step = _at_once(n)
    for first in range(0, n, step):
        found = nearest.around(np.arange(first, min(first + step, n)))
        if found is None:
            return False
        for i, (vertices, lengths_to) in enumerate(zip(*found, strict=True), first):
            columns[i, : len(vertices) - 1], distances[i, : len(vertices) - 1] = vertices[1:], lengths_to[1:]
    return True


def local_mds(
    indptr: Any, indices: Any, lengths: Any, near_indices: Any, near_lengths: Any, frame_size: int,
    room_size: int, frame: Any, spectrum: Any, included: Any,
) -> bool:  # fmt: skip
    """As the kernel of the same name, without hubs; False where vertices are as far as others."""
    n, n_components, longest = len(indptr) - 1, frame.shape[1], int(np.diff(indptr).max())
    nearest = Nearest(indptr, near_indices, near_lengths, room_size, room_size + frame_size, TIE)
    neighbors, bounds, sources = (
        near_indices.tolist(),
        indptr.tolist(),
        np.repeat(np.arange(n), np.diff(indptr)),
    )
    # The neighbours are the first in a frame, in order of length.
    place = np.lexsort((near_indices, sources)) - indptr[sources]
    edges, step = (indptr, indices, lengths), _at_once(n)
    included[:] = True
    for first in range(0, n, step):
        last = min(first + step, n)
        found = nearest.around(np.arange(first, last))
        if found is None:
            return False
        # Rooms end with a vertex that no path leads to.
        rooms, n_frame = (
            np.full((room_size + frame_size + longest, last - first), n),
            np.empty(last - first, int),
        )
        for at, near in enumerate(zip(*found, strict=True)):
            own = neighbors[bounds[first + at] : bounds[first + at + 1]]
            room, n_frame[at] = _gather([first + at, *own], frame_size, *near)
            rooms[: len(room), at] = room
        rooms = rooms[: np.count_nonzero((rooms < n).any(axis=1))]
        gram = _gram_matrices(_shortest_paths(edges, rooms, int(n_frame.max())), n_frame - 1)
        below = np.tril_indices(len(gram))
        squares = gram[below] * gram[below] * np.where(below[0] == below[1], 1.0, 2.0)[:, None]
        values, vectors = _leading_pairs(gram, n_frame - 1, n_components)
        spectrum[first:last, n_components] = _sum(squares)
        spectrum[first:last, :n_components] = np.maximum(values, 0.0).T
        mine = slice(bounds[first], bounds[last])
        sizes = spectrum[sources[mine], :n_components]
        row = vectors[place[mine], :, sources[mine] - first] * np.sqrt(sizes)
        frame[mine] = np.where(sizes > RANK_TOLERANCE * sizes[:, :1], row, 0.0)
    return True


def _gather(
    room: list[int], frame_size: int, found: list[int], distances: list[float]
) -> tuple[list[int], int]:
    """The vertices of a frame, then those that paths may lead through; how many the former are."""
    # First those in the room, then the nearest ones until the frame is full, with those as far as the last.
    seen = set(room)
    reach = inf if len(room) < frame_size else -1.0
    for v, d in zip(found, distances, strict=True):
        if d > reach:
            break
        if v not in seen:
            room.append(v)
            seen.add(v)
        if len(room) >= frame_size and reach == inf:
            reach = d * TIE
    return room + [v for v in found if v not in seen], len(room)


def _at_once(n: int) -> int:
    return min(_AT_ONCE, max(_MOST_DISTANCES // max(n, 1), 1))


def _lengths_between(edges: tuple[Any, Any, Any], rooms: Any, place: Any) -> Any:
    """Lengths of the edges inside each room, a column: 0 from a vertex to itself, infinite without an edge.

    ``place`` (n, b) is scratch, -1 everywhere before and after.
    """
    (indptr, indices, lengths), size = edges, len(rooms)
    dense = np.full((size, size, rooms.shape[1]), inf)
    at, room = np.nonzero(rooms < len(indptr) - 1)
    vertices = rooms[at, room]
    place[vertices, room] = at
    dense[at, at, room] = 0.0
    which, along = repeat_and_count(indptr[vertices + 1] - indptr[vertices])
    edge = indptr[vertices][which] + along
    to = place[indices[edge], room[which]]
    inside = to >= 0
    which, edge = which[inside], edge[inside]
    dense[at[which], to[inside], room[which]] = lengths[edge]
    place[vertices, room] = -1
    return dense


def _shortest_paths(edges: tuple[Any, Any, Any], rooms: Any, n_frame: int) -> Any:
    """Floyd-Warshall among the first vertices of each room, a column, through all of them, the last first."""
    found, size = np.empty((n_frame, n_frame, rooms.shape[1])), len(rooms)
    place = np.full((len(edges[0]) - 1, min(_IN_CACHE, rooms.shape[1])), -1, dtype=np.int32)
    for lo in range(0, rooms.shape[1], _IN_CACHE):
        some = rooms[:, lo : lo + _IN_CACHE]
        dense, sums = _lengths_between(edges, some, place), np.empty((size, size, some.shape[1]))
        for k in range(size - 1, -1, -1):
            width = max(k, n_frame)
            through, part = dense[:width, k].copy(), dense[:width, :width]
            np.minimum(part, np.add(through[:, None], through, out=sums[:width, :width]), out=part)
        found[:, :, lo : lo + _IN_CACHE] = dense[:n_frame, :n_frame]
    return found


def _gram_matrices(dense: Any, sizes: Any) -> Any:
    """With the origin at the first vertex (eq. 2); zero beyond the ``sizes``."""
    inside = np.arange(len(dense) - 1)[:, None] < sizes
    squares = np.where(inside, dense[1:, 0] * dense[1:, 0], 0.0)
    both = inside[:, None] & inside
    between = np.where(both, dense[1:, 1:] * dense[1:, 1:], 0.0)
    return np.where(both, 0.5 * (squares[:, None] + squares - between), 0.0)


def _sum(values: Any) -> Any:
    """Over the first axis, one entry after the other."""
    # Where one vertex is left, the axis is contiguous, and numpy would sum in pairs.
    return np.add.accumulate(values, axis=0)[-1] if values[0].size == 1 else np.add.reduce(values, axis=0)


def _leading_pairs(matrix: Any, sizes: Any, n_wanted: int) -> tuple[Any, Any]:
    """Largest eigenvalues (N, b) and vectors (m, N, b), zero where there are fewer."""
    values, vectors, settled = block_iteration(matrix, sizes, n_wanted)
    for i in np.flatnonzero(~settled):
        m = sizes[i]
        some, all_vectors, failed = dsyevd(matrix[:m, :m, i], lower=1)
        if failed:
            raise np.linalg.LinAlgError("Eigenvalues did not converge.")
        count = min(m, n_wanted)
        values[:, i], vectors[:, :, i] = 0.0, 0.0
        values[:count, i], vectors[:m, :count, i] = some[::-1][:count], all_vectors[:, ::-1][:, :count]
    return values, vectors


def block_iteration(matrix: Any, sizes: Any, n_wanted: int) -> tuple[Any, Any, Any]:
    """As :func:`isoweave.engines.small.block_iteration` of matrices (m, m, b), zero beyond their sizes."""
    m, block = len(matrix), n_wanted + EXTRA_VECTORS
    values, vectors = np.zeros((n_wanted, len(sizes))), np.zeros((m, n_wanted, len(sizes)))
    settled = np.zeros(len(sizes), dtype=bool)
    active = np.flatnonzero(3 * block < sizes)
    with np.errstate(all="ignore"):
        if len(active) < len(sizes):
            matrix = np.take(matrix, active, axis=2)
        rows, power, alive = _start(matrix, sizes[active], block)
        for sweep in range(MAX_SWEEPS):
            if len(active) == 0:
                break
            for c in range(block):
                before = _sum(rows[c] * rows[c])
                # Gram-Schmidt, twice.
                _project_out(rows, c)
                square = _project_out(rows, c)
                alive &= square > 1e-24 * before
                rows[c] *= 1.0 / np.sqrt(square)
            image, part = np.zeros_like(rows), np.empty_like(rows)
            for k in range(m):
                image += np.multiply(rows[:, k, None], matrix[k], out=part)
            if sweep % 3 == 2:
                done = _rayleigh_ritz(rows, image, power, n_wanted)
                alive &= done[1][-1] > 0.0
                met = alive & done[0]
                values[:, active[met]], vectors[:, :, active[met]] = done[1][:, met], done[2][:, :, met]
                settled[active[met]] = (done[3] < done[1][-1] * done[1][-1])[met]
                alive &= ~met
                if not alive.all():
                    # An index instead would leave them in another order in memory.
                    matrix, image = (np.compress(alive, a, axis=2) for a in (matrix, image))
                    active, power, alive = active[alive], power[alive], alive[alive]
            rows = image
    return values, vectors, settled


def _start(matrix: Any, sizes: Any, block: int) -> tuple[Any, Any, Any]:
    """Columns of largest diagonal after projecting out the ones taken; sums of squares; what can go on."""
    m, _, count = matrix.shape
    weight = np.where(np.arange(m)[:, None] < sizes, matrix[np.arange(m), np.arange(m)], -inf)
    power = _sum((matrix * matrix).reshape(m * m, count)) if count else np.zeros(0)
    rows, each, alive = np.empty((block, m, count)), np.arange(count), np.ones(count, dtype=bool)
    for c in range(block if count else 0):
        best = np.argmax(weight, axis=0)
        rows[c] = matrix[best, :, each].T
        square = _project_out(rows, c)
        alive &= square > 0.0
        norm = np.sqrt(square)
        rows[c] /= norm
        weight -= norm * rows[c] * rows[c]
        weight[best, each] = -inf
    return rows, power, alive


def _project_out(rows: Any, c: int) -> Any:
    """Take the directions of the rows before c out of row c; what is left of its squared length."""
    for p in range(c):
        rows[c] -= _sum(rows[c] * rows[p]) * rows[p]
    return _sum(rows[c] * rows[c])


def _rayleigh_ritz(rows: Any, image: Any, power: Any, n_wanted: int) -> tuple[Any, Any, Any, Any]:
    """Whether pairs are eigenpairs; the largest values and their vectors; squares of the values not seen."""
    block, m, count = rows.shape
    small, each = np.empty((block, block, count)), np.arange(count)
    for p in range(block):
        for q in range(p + 1):
            small[p, q] = small[q, p] = _sum(rows[p] * image[q])
    diagonal, rotation = _jacobi(small)
    order = np.argsort(-diagonal, axis=0, kind="stable")[:n_wanted]
    values, vectors = np.take_along_axis(diagonal, order, axis=0), np.empty((m, n_wanted, count))
    worst = np.zeros(count)
    for c in range(n_wanted):
        turn = rotation[:, order[c], each]
        x = _sum(rows * turn[:, None])
        y = _sum(image * turn[:, None]) - values[c] * x
        vectors[:, c] = x
        worst = np.maximum(worst, np.sqrt(_sum(y * y)))
    for c in range(block):
        power = power - diagonal[c] * diagonal[c]
    return worst <= TOLERANCE * values[0], values, vectors, power


def _jacobi(matrix: Any) -> tuple[Any, Any]:
    """As :func:`isoweave.engines.small.jacobi_eigh` of matrices (n, n, b): values (n, b) and vectors."""
    n = len(matrix)
    # The matrix above its vectors: both have their columns turned.
    both = np.zeros((2 * n, *matrix.shape[1:]))
    both[:n], both[np.arange(n, 2 * n), np.arange(n)] = matrix, 1.0
    columns, matrix = both.swapaxes(0, 1), both[:n]
    running = np.ones(matrix.shape[2], dtype=bool)
    for _ in range(30):
        off = total = np.zeros(matrix.shape[2])
        for p in range(n):
            total = total + matrix[p, p] * matrix[p, p]
            for q in range(p):
                off = off + matrix[p, q] * matrix[p, q]
        running &= off > 1e-32 * total
        if not running.any():
            break
        for p in range(n - 1):
            for q in range(p + 1, n):
                turning = running & (matrix[p, q] != 0.0)
                theta = 0.5 * (matrix[q, q] - matrix[p, p]) / np.where(turning, matrix[p, q], 1.0)
                t = 1.0 / (np.abs(theta) + np.sqrt(1.0 + theta * theta))
                t = np.where(theta < 0.0, -t, t)
                c = 1.0 / np.sqrt(1.0 + t * t)
                c, s = np.where(turning, c, 1.0), np.where(turning, t * c, 0.0)
                for a in (columns, matrix):
                    x, y = a[p], a[q]
                    a[p], a[q] = c * x - s * y, s * x + c * y
    return np.diagonal(matrix).T, both[n:]
