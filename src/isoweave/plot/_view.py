"""A picture for the eye of a map of many dimensions: t-SNE held in place by the order of its distances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_real
from isoweave.embed import embed_graph
from isoweave.graph import NeighborGraph, knn_graph, nearest_entries, subgraph
from isoweave.plot._points import plot_embedding
from isoweave.result import as_embedding

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Early iterations gather clusters, later ones arrange their inside, as is usual for t-SNE.
_EARLY_STEPS, _LATE_STEPS, _EXAGGERATION = 200, 400, 12.0
# Neighbours attract each other by how many of so many nearest in the map they share, a little without any;
# pairs that are compared at once.
_LISTED, _WITHOUT, _COMPARED = 15, 0.02, 200_000
# Landmarks of a step, of whose distances to all points the order counts: so many pairs, if they are that few.
_PAIRS, _FEWEST, _MOST = 200_000, 10, 40
# Barnes-Hut is faster for few points, interpolation on a grid for many.
_FEW = 10_000
# By so much principal axes must be ahead in rank correlation to take the place of an isometric map.
_CLEARLY = 0.05
# What the picture keeps is measured from so many points, and for so many neighbours.
_ROWS, _NEIGHBORS = 500, 15


@dataclass(frozen=True, eq=False, repr=False)
class View:
    """A picture of a map, and what it keeps.

    Attributes
    ----------
    coordinates : float64 array of shape (n, 2)
        NaN where the map has no coordinates. The unit means nothing.
    kept : dict
        ``neighbors``: share of the 15 nearest points in the map that are among the 15 nearest in the picture.
        ``trust``: trustworthiness, 1 if no point has false neighbours. ``spearman``: rank correlation of
        the distances in the map and in the picture.
    n_components : int
        Dimension of the map.
    """

    coordinates: FloatArray
    kept: dict[str, float]
    n_components: int

    @property
    def caption(self) -> str:
        """What is seen, in one line."""
        return (
            f"view of a {self.n_components}-dimensional map (t-SNE held by the order of its distances; "
            f"not to scale): keeps {self.kept['neighbors']:.0%} of neighbours, "
            f"trust {self.kept['trust']:.2f}, rank correlation of distances {self.kept['spearman']:.2f}"
        )

    def __repr__(self) -> str:
        return f"<{self.caption}>"

    def plot(self, color: Any = None, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the picture with :func:`plot_embedding`, its caption below; returns the axes."""
        ax = plot_embedding(self.coordinates, color, ax, **options)
        ax.set(xticks=[], yticks=[])
        ax.set_xlabel(self.caption, fontsize="x-small", wrap=True)
        return ax


def view(
    result: Any, *, graph: Any = None, pull: float = 0.05, perplexity: float = 30.0, random_state: int = 0
) -> View:
    """Arrange the points of a map in the plane for the eye: clusters apart, places still meaningful.

    Neighbours are the nearest along the measured graph and those in the map. They attract each other as in
    t-SNE (openTSNE, extra ``view``), the more so the more of their nearest in the map they share. The picture
    starts from a flat map: the isometric one, or the two principal axes of the map where these keep the order
    of its distances clearly better. Every step also pulls neighbours together towards that order: distances
    to a few landmarks are rearranged into the order they have in the map (rank images, as in nonmetric
    scaling; holding t-SNE in place is the idea of DREAMS, Kury, Kobak and Damrich 2025).
    Distances are not to scale: look at the picture for clusters, their insides and their places, and at
    the map for distances.

    Parameters
    ----------
    result : Embedding, fitted estimator, file of one, or array of shape (n, N)
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Measured distances, for plain coordinates. Without any, neighbours are those in the map, and the
        picture starts from its principal axes.
    pull : float
        From 0, t-SNE alone, to 1, hardly more than the order of distances.
    perplexity : float
        Number of neighbours that attract a point, at most a third of the points.
    random_state : int

    Returns
    -------
    View
    """
    try:
        from openTSNE import TSNEEmbedding, affinity
        from openTSNE.nearest_neighbors import PrecomputedNeighbors
    except ImportError as error:
        raise ImportError("A view needs openTSNE: pip install 'isoweave[view]'.") from error

    pull = check_real("pull", pull, minimum=0.0, maximum=1.0)
    perplexity = check_real("perplexity", perplexity, minimum=1.0)
    source = as_embedding(result, graph)
    placed = np.flatnonzero(source.is_placed)
    if len(placed) < 4:
        raise ValueError(f"A view needs at least 4 points that have coordinates, got {len(placed)}.")
    points = source.coordinates[placed]
    measured = None if source.graph is None else source.kept_graph("view")
    if measured is not None and len(placed) < source.n_points:
        measured = subgraph(measured, placed)
    reference = _flat(points, measured)
    perplexity = min(perplexity, (len(points) - 1) / 3)
    ways = [PrecomputedNeighbors(*_nearest(points, way, int(3 * perplexity))) for way in (measured, None)]
    usual = [affinity.PerplexityBasedNN(None, perplexity=perplexity, n_jobs=1, knn_index=w).P for w in ways]
    attraction = _weighed(usual[0] + usual[1], _nearest(points, None, min(_LISTED, len(points) - 1))[0])
    affinities = affinity.PrecomputedAffinities(attraction)
    method = "bh" if len(points) < _FEW else "fft"
    embedding = TSNEEmbedding(
        1e-2 * reference, affinities, negative_gradient_method=method, n_jobs=1, random_state=random_state
    )

    move = _pulled(points, attraction, pull, random_state)
    every = {"callbacks": move, "callbacks_every_iters": 1} if pull > 0 else {}
    embedding.optimize(_EARLY_STEPS, exaggeration=_EXAGGERATION, momentum=0.5, inplace=True, **every)
    embedding.optimize(_LATE_STEPS, momentum=0.8, inplace=True, **every)
    picture = np.full((source.n_points, 2), np.nan)
    picture[placed] = np.asarray(embedding)
    return View(picture, _kept(points, picture[placed]), source.n_components)


def _pulled(
    points: FloatArray, attraction: Any, pull: float, random_state: int
) -> Callable[[int, float, FloatArray], None]:
    """Moves a picture, in place and neighbours together, towards the order of distances among the points."""
    rng, n = np.random.default_rng(random_state), len(points)
    average = _scaled_rows(attraction)
    sizes = np.sum(points**2, axis=1)
    n_landmarks = min(n, max(_FEWEST, min(_PAIRS // n, _MOST)))

    def move(_iteration: int, _error: float, moving: FloatArray) -> None:
        landmarks = rng.choice(n, n_landmarks, replace=False)
        far = sizes[:, None] + sizes[landmarks] - 2.0 * points @ points[landmarks].T
        steps = moving[:, None] - moving[landmarks]
        seen = np.sqrt(np.sum(steps**2, axis=2))
        wanted = np.empty(seen.size)
        wanted[np.argsort(far, axis=None)] = np.sort(seen, axis=None)
        longer = wanted.reshape(seen.shape) / np.maximum(seen, 1e-9) - 1.0
        moves = 2.0 * pull / n_landmarks * np.einsum("il,ilk->ik", longer, steps)
        # By half: averages alone can turn differences of neighbours around and let them grow.
        moving += 0.5 * (moves + average @ moves)

    return move


def _nearest(points: FloatArray, graph: NeighborGraph | None, k: int) -> tuple[AnyArray, FloatArray]:
    """The k nearest along the graph, and their distances; those in the map if some vertices have fewer."""
    shape = (len(points), k)
    _, columns, distances = nearest_entries(knn_graph(points, k) if graph is None else graph, k)
    if graph is not None and columns.size < len(points) * k:
        return _nearest(points, None, k)
    return columns.reshape(shape), distances.reshape(shape)


def _weighed(affinities: Any, near: AnyArray) -> Any:
    """Affinities times the overlap of the nearest of two points (Jaccard); symmetric, of sum 1."""
    n, k = near.shape
    lists = np.column_stack((np.arange(n), near)).astype(np.int32)
    members = sp.csr_array((np.ones(lists.size), lists.ravel(), (k + 1) * np.arange(n + 1)), shape=(n, n))
    pairs = sp.coo_array(affinities)
    shared = np.empty(len(pairs.data))
    for begin in range(0, len(shared), _COMPARED):
        some = slice(begin, begin + _COMPARED)
        shared[some] = (members[pairs.row[some]] * members[pairs.col[some]]).sum(axis=1)
    weights = pairs.data * (_WITHOUT + shared / (2 * (k + 1) - shared))
    rows = _scaled_rows(sp.csr_array((weights, (pairs.row, pairs.col)), shape=(n, n)))
    return sp.csr_matrix((rows + rows.T) / (2 * n))


def _scaled_rows(matrix: Any) -> Any:
    return sp.csr_array(sp.diags_array(1.0 / np.asarray(matrix.sum(axis=1)).ravel()) @ matrix)


def _flat(points: FloatArray, graph: NeighborGraph | None) -> FloatArray:
    """The flat map that the picture starts from, centred and of unit size, shape (n, 2).

    The isometric one, or the principal axes if these keep the order of the map's distances clearly better:
    where two dimensions are far too few, an isometric map of the plane is folded.
    """
    centred = points - points.mean(axis=0)
    flat = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    if points.shape[1] > 2 and graph is not None:
        isometric = embed_graph(graph.to_matrix(), n_components=2, shortcuts="keep").coordinates
        if _kept(points, flat)["spearman"] < _kept(points, isometric)["spearman"] + _CLEARLY:
            flat = isometric
    flat = np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))
    flat = flat - flat.mean(axis=0)
    return flat / (flat.std() or 1.0)


def _kept(points: FloatArray, picture: FloatArray) -> dict[str, float]:
    """What the picture keeps of the map, from sampled rows."""
    from scipy.spatial.distance import cdist

    from isoweave.metrics import GeodesicRows, spearman, trustworthiness

    n = len(points)
    k = min(_NEIGHBORS, (n - 1) // 2)
    rows = np.sort(np.random.default_rng(0).choice(n, min(n, _ROWS), replace=False))
    apart = [cdist(x[rows], x) for x in (points, picture)]
    for distances in apart:
        # The point itself comes first, also among duplicates.
        distances[np.arange(len(rows)), rows] = -1.0
    near = [np.argsort(distances, axis=1, kind="stable")[:, 1 : k + 1] for distances in apart]
    shares = [np.isin(ours, seen).mean() for ours, seen in zip(*near, strict=True)]
    far = GeodesicRows(rows, apart[0])
    trust = trustworthiness(far, picture, n_neighbors=k)
    return {"neighbors": float(np.mean(shares)), "trust": trust, "spearman": spearman(far, picture)}
