"""Local Euclidean frames: brought to the measured lengths, compared with a map, their volumes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lgamma, pi

import numpy as np
import scipy.sparse as sp
from scipy.spatial import ConvexHull, QhullError

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import BoolArray, FloatArray
from isoweave.graph import NeighborGraph, row_starts

# A row this much shorter than its edge points nowhere in particular; stretching it would amplify rounding.
SHORTEST_ROW = 1e-6
# Above this dimension hulls are computed of projections only: their cost grows exponentially.
KUBOTA_DIMENSION = 7
_KUBOTA_PROJECTIONS = 8
_ROWS_AT_ONCE, _VERTICES_AT_ONCE = 2**16, 4096


@dataclass(frozen=True, eq=False)
class LocalFrames:
    """Local Euclidean coordinates of every vertex's neighbours, in the order of the graph's edges.

    ``rows[e]`` is E_i[j] for the stored edge e = (i, j): where j lies as seen from i, in axes that belong to
    i alone (eq. 3). Directions a neighbourhood does not have are zero. Only hubs leave edges out: a frame
    holds the nearest neighbours up to a limit, and the other end of the edge has a row for it.
    """

    rows: FloatArray  #: Shape (m, N).
    included: BoolArray  #: Edges that have a row, shape (m,).
    spectrum: FloatArray  #: Leading eigenvalues of the local Gram matrices, largest first, shape (n, N).
    fidelity: FloatArray  #: Part of the Gram matrices that N directions explain, in 0 .. 1, shape (n,).
    inverse: FloatArray | None = None  #: V S^(-1/2) of the neighbours (eq. 4), shape (m, N), if asked for.

    @property
    def n_components(self) -> int:
        return self.rows.shape[1]


def calibrate_frames(
    graph: NeighborGraph, frames: LocalFrames, mode: str = "rows", *, team: ThreadTeam = ONE_THREAD
) -> LocalFrames:
    """Rescale the frames so that neighbours lie at the distances that were measured (eq. 5).

    Shortest paths zig-zag, which inflates the frames (2.3 % on a swiss roll at k = 10); projecting to N
    directions shortens them. The edges at i itself are measured, so they say what the lengths should be.

    ``mode`` is "rows" to give every row the length of its edge, "vertices" for one factor per frame, the
    least-squares fit of its rows to its edges, or "none".
    """
    if mode == "none":
        return frames
    if mode == "rows":
        out = np.empty_like(frames.rows)

        def rescale(start: int, stop: int) -> None:
            lengths, rows = graph.lengths[start:stop], frames.rows[start:stop]
            norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
            usable = norms > SHORTEST_ROW * lengths
            factors = np.divide(lengths, norms, out=np.ones_like(norms), where=usable)
            np.multiply(rows, factors[:, None], out=out[start:stop])

        team.run(rescale, len(out), grain=_ROWS_AT_ONCE)
        return replace(frames, rows=out)
    norms = np.sqrt(np.einsum("ij,ij->i", frames.rows, frames.rows))
    if mode == "vertices":
        starts = graph.indptr[:-1][graph.degrees > 0]
        cross, square = np.zeros(graph.n_vertices), np.zeros(graph.n_vertices)
        products = np.where(frames.included, norms * graph.lengths, 0.0)
        cross[graph.degrees > 0] = np.add.reduceat(products, starts)
        square[graph.degrees > 0] = np.add.reduceat(norms * norms, starts)
        factors = np.divide(cross, square, out=np.ones_like(cross), where=square > 0)[graph.sources]
    else:
        raise ValueError(f"calibrate must be one of ('rows', 'vertices', 'none'), got {mode!r}.")
    return replace(frames, rows=frames.rows * factors[:, None])


def local_stretch(
    graph: NeighborGraph, frames: LocalFrames, coordinates: FloatArray, *, team: ThreadTeam = ONE_THREAD
) -> FloatArray:
    """Singular values of the local differential, shape (n, N), largest first (eq. 17).

    The differential M_i is the least-squares fit ``E_i M_i = dphi_i``; an isometry has all values 1.
    Directions that a neighbourhood does not have carry no information and are given the value 1.
    """
    # Made here: in the ranges every thread would make its own.
    (n, width), sources, x = coordinates.shape, graph.sources, coordinates
    stretch = np.empty((n, width))

    def fit(start: int, stop: int) -> None:
        for lo in range(start, stop, _VERTICES_AT_ONCE):
            hi = min(lo + _VERTICES_AT_ONCE, stop)
            edges = graph.indptr[lo] + np.flatnonzero(frames.included[graph.indptr[lo] : graph.indptr[hi]])
            i, rows = sources[edges], frames.rows[edges]
            gram, cross = np.empty((2, hi - lo, width, width))
            # A product with ones adds up the edges of a vertex one after the other.
            at = np.arange(len(edges), dtype=np.int32), row_starts(i - lo, hi - lo)
            sums = sp.csr_array((np.ones(len(edges)), *at), shape=(hi - lo, len(edges)))
            with np.errstate(all="ignore"):
                steps = x[graph.indices[edges]] - x[i]
                for r in range(width):
                    gram[:, r] = sums @ (rows[:, r : r + 1] * rows)
                    cross[:, r] = sums @ (rows[:, r : r + 1] * steps)
            values, vectors = np.linalg.eigh(gram)
            present = values > 1e-10 * np.maximum(values[:, -1:], np.finfo(float).tiny)
            inverse = np.where(present, 1.0 / np.where(present, values, 1.0), 0.0)
            differential = (vectors * inverse[:, None, :]) @ (vectors.transpose(0, 2, 1) @ cross)
            found = np.linalg.svd(differential, compute_uv=False)
            # Absent directions come out as the smallest singular values, zero; they are the last ones.
            stretch[lo:hi] = np.where(np.arange(width) < present.sum(axis=1)[:, None], found, 1.0)

    team.run(fit, n, grain=_VERTICES_AT_ONCE)
    return stretch


def edge_lengths(graph: NeighborGraph, x: FloatArray, team: ThreadTeam = ONE_THREAD) -> FloatArray:
    """Of the edges in an embedding, shape (m,); so many at once that their differences take little memory."""
    sources, lengths = graph.sources, np.empty(len(graph.indices))

    def measure(start: int, stop: int) -> None:
        for lo in range(start, stop, _ROWS_AT_ONCE):
            at = slice(lo, min(lo + _ROWS_AT_ONCE, stop))
            steps = x[graph.indices[at]] - x[sources[at]]
            lengths[at] = np.sqrt(np.einsum("ec,ec->e", steps, steps))

    team.run(measure, len(lengths), grain=_ROWS_AT_ONCE)
    return lengths


def rigid_motion(
    source: FloatArray, target: FloatArray, weights: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Orthogonal Q and shift t with ``source @ Q + t`` nearest to ``target``, both (n, N).

    Reflections are allowed. Where the points do not determine Q (fewer than N + 1 of them, or in a plane)
    it rotates as little as possible. ``weights`` (n,) say how much every point counts.
    """
    if weights is None:
        a, b = source.mean(axis=0), target.mean(axis=0)
        cross = (source - a).T @ (target - b)
    else:
        share = weights / weights.sum()
        a, b = share @ source, share @ target
        cross = (source - a).T @ (share[:, None] * (target - b))
    size = np.abs(cross).max(initial=0.0)
    u, _, v = np.linalg.svd(cross + (1e-9 * size if size > 0 else 1.0) * np.eye(len(cross)))
    return u @ v, b - a @ (u @ v)


def neighborhood_volumes(
    graph: NeighborGraph, frames: LocalFrames, mode: str = "equal", *, seed: int = 20240
) -> FloatArray:
    """Weight of every vertex in the paper's inner product, with mean one.

    ``mode="hull"``: the volume of the convex hull of the vertex and its neighbours in the local frame, for
    N > 7 the mean volume of projections to 7 dimensions (drawn by ``seed``), turned into an N-volume as
    Kubota's formula does for a ball. A flat neighbourhood gets the smallest positive volume: with zero its
    vertex would be invisible.
    """
    n = graph.n_vertices
    if mode == "equal":
        return np.ones(n)
    if mode != "hull":
        raise ValueError(f"volumes must be one of ('equal', 'hull'), got {mode!r}.")
    dimension = frames.n_components
    target = min(dimension, KUBOTA_DIMENSION)
    projections = [np.eye(dimension)]
    if dimension > target:
        rng = np.random.default_rng(seed)
        draws = (rng.standard_normal((dimension, target)) for _ in range(_KUBOTA_PROJECTIONS))
        projections = [np.linalg.qr(draw)[0] for draw in draws]
    volumes = np.zeros(n)
    for i in range(n):
        points = np.vstack((np.zeros(dimension), frames.rows[graph.indptr[i] : graph.indptr[i + 1]]))
        volumes[i] = np.mean([_hull_volume(points @ p) for p in projections])
    if target < dimension:
        # A ball of radius r has projections of volume k_t r^t: r gives the N-volume k_N r^N.
        log_radius = np.log(np.maximum(volumes, 1e-300)) - _log_unit_ball(target)
        inflated = np.exp(_log_unit_ball(dimension) + log_radius * dimension / target)
        volumes = np.where(volumes > 0, inflated, 0.0)
    positive = volumes[volumes > 0]
    if positive.size == 0:
        return np.ones(n)
    volumes = np.maximum(volumes, positive.min())
    return volumes / volumes.mean()


def _log_unit_ball(dimension: int) -> float:
    return 0.5 * dimension * np.log(pi) - lgamma(0.5 * dimension + 1.0)


def _hull_volume(points: FloatArray) -> float:
    """Volume of the convex hull; zero when the points lie in a hyperplane or are too few."""
    if points.shape[1] == 1:
        return float(np.ptp(points))
    try:
        return float(ConvexHull(points).volume)
    except QhullError:
        return 0.0
