"""What holds a data set; manifolds sampled at random with their parameters, sensor networks, false edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from scipy.special import gammaln
from sklearn.utils import check_random_state

from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_integer, check_real
from isoweave.graph import geodesics, graph_from_matrix


@dataclass(frozen=True, eq=False)
class Dataset:
    """Feature vectors (n, D) and whatever is known about them.

    ``parameters`` (n, d) are the intrinsic coordinates each point was made from, or its measured pose, for
    :func:`isoweave.metrics.parameter_error`. Where they are ``isometric`` their distances are the manifold's
    geodesics: they are the embedding to be recovered up to a rigid motion. ``labels`` (n,) are integers.
    """

    name: str
    data: FloatArray
    parameters: FloatArray | None = None
    labels: AnyArray | None = None
    label_names: tuple[str, ...] | None = None
    isometric: bool = False

    @property
    def truth(self) -> FloatArray | None:
        """``parameters`` where they are isometric, for ``procrustes_error``; otherwise None."""
        return self.parameters if self.isometric else None

    @property
    def n_samples(self) -> int:
        return len(self.data)


@dataclass(frozen=True, eq=False)
class GraphDataset:
    """A symmetric distance graph (n, n), whose stored entries, zeros included, are its edges.

    ``truth`` (n, d) are the positions of its vertices in the unit of the edge lengths, ``anchors`` (a,) the
    vertices whose positions are given to the method (sensor networks).
    """

    name: str
    graph: sp.csr_array
    truth: FloatArray | None
    anchors: AnyArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @property
    def n_vertices(self) -> int:
        return int(self.graph.shape[0])


def swiss_roll(
    n_samples: int = 1500, *, noise: float = 0.0, height: float = 21.0, random_state: Any = None
) -> Dataset:
    """A rectangle rolled up along the spiral r = t.

    With u and v uniform on [0, 1], ``t = 1.5 pi (1 + 2 u)`` and a point is ``(t cos t, height v, t sin t)``,
    as in scikit-learn. ``parameters`` is isometric: arc length of the spiral from t = 0, and height.
    ``noise`` is the standard deviation on every coordinate; sheets are about 6 apart.

    >>> roll = swiss_roll(100, random_state=7)
    >>> roll.data.shape, roll.truth.shape
    ((100, 3), (100, 2))
    """
    rng = _source(n_samples, noise, random_state)
    t = 1.5 * np.pi * (1.0 + 2.0 * rng.uniform(size=n_samples))
    y = height * rng.uniform(size=n_samples)
    data = np.column_stack([t * np.cos(t), y, t * np.sin(t)])
    arc = 0.5 * (t * np.sqrt(1.0 + t * t) + np.arcsinh(t))
    return Dataset("swiss_roll", _noisy(data, noise, rng), np.column_stack([arc, y]), isometric=True)


def s_curve(n_samples: int = 1500, *, noise: float = 0.0, random_state: Any = None) -> Dataset:
    """A rectangle bent into two opposite circular arcs of radius 1 (an S), as in scikit-learn.

    With ``t`` uniform on [-3 pi / 2, 3 pi / 2] and ``y`` on [0, 2], a point is
    ``(sin t, y, sign(t) (cos t - 1))``; (t, y) is isometric. See :func:`swiss_roll`.
    """
    rng = _source(n_samples, noise, random_state)
    t = 3.0 * np.pi * (rng.uniform(size=n_samples) - 0.5)
    y = 2.0 * rng.uniform(size=n_samples)
    data = np.column_stack([np.sin(t), y, np.sign(t) * (np.cos(t) - 1.0)])
    return Dataset("s_curve", _noisy(data, noise, rng), np.column_stack([t, y]), isometric=True)


def sphere(
    n_samples: int = 1500, *, radius: float = 1.0, noise: float = 0.0, random_state: Any = None
) -> Dataset:
    """Points uniform on a sphere in R^3, which has no isometric embedding in the plane.

    ``parameters`` of the result holds the noise-free positions (n, 3). See :func:`swiss_roll`.
    """
    rng = _source(n_samples, noise, random_state)
    position = rng.normal(size=(n_samples, 3))
    position *= radius / np.linalg.norm(position, axis=1, keepdims=True)
    return Dataset("sphere", _noisy(position, noise, rng), position)


def flat_torus(n_samples: int = 1500, *, noise: float = 0.0, random_state: Any = None) -> Dataset:
    """The product of circles of radius 2 and 1 in R^4: ``(2 cos u, 2 sin u, cos v, sin v)``.

    It is flat, but no smooth isometric embedding in R^3 exists. ``parameters`` of the result is (u, v) in
    [0, 2 pi)^2, which the paper scores against. See :func:`swiss_roll`.
    """
    rng = _source(n_samples, noise, random_state)
    u, v = 2.0 * np.pi * rng.uniform(size=(2, n_samples))
    data = np.column_stack([2.0 * np.cos(u), 2.0 * np.sin(u), np.cos(v), np.sin(v)])
    return Dataset("flat_torus", _noisy(data, noise, rng), np.column_stack([u, v]))


def klein_bottle(n_samples: int = 1500, *, noise: float = 0.0, random_state: Any = None) -> Dataset:
    """The bottle figure of the Klein bottle in R^3, which passes through itself.

    With (u, v) uniform on [0, 2 pi)^2 and ``r = 4 (1 - cos(u) / 2)``, a point is

    * ``x = 6 cos u (1 + sin u) + r cos u cos v``, ``y = 16 sin u + r sin u cos v`` for u <= pi,
    * ``x = 6 cos u (1 + sin u) - r cos v``, ``y = 16 sin u`` for u > pi,
    * ``z = r sin v``.

    ``parameters`` of the result is (u, v); the paper scores against Isomap's embedding instead, and prints
    ``1 - sin(u) / 2`` for r in x only. We take that for a misprint: with the cosine in all three every circle
    of constant u has one radius, and Isomap's F1 at k = 8 is the paper's .81. See :func:`swiss_roll`.
    """
    rng = _source(n_samples, noise, random_state)
    u, v = 2.0 * np.pi * rng.uniform(size=(2, n_samples))
    r = 4.0 * (1.0 - 0.5 * np.cos(u))
    body = u <= np.pi
    x = 6.0 * np.cos(u) * (1.0 + np.sin(u)) + r * np.cos(v) * np.where(body, np.cos(u), -1.0)
    y = 16.0 * np.sin(u) + r * np.cos(v) * np.where(body, np.sin(u), 0.0)
    data = np.column_stack([x, y, r * np.sin(v)])
    return Dataset("klein_bottle", _noisy(data, noise, rng), np.column_stack([u, v]))


def difficult(n_samples: int = 1500, *, noise: float = 0.0, random_state: Any = None) -> Dataset:
    """The "difficult" set of the dimensionality-reduction toolbox: 5-D, curved, in R^10.

    From t uniform on [0, 1]^5 the coordinates are cos t1, tanh 3 t2, t1 + t3, t4 sin t2, sin(t1 + t5),
    t5 cos t2, t5 + t4, t2, t3 t4, t1. ``parameters`` of the result is t. See :func:`swiss_roll`.
    """
    rng = _source(n_samples, noise, random_state)
    t = rng.uniform(size=(n_samples, 5))
    t1, t2, t3, t4, t5 = t.T
    curved = [np.cos(t1), np.tanh(3.0 * t2), t1 + t3, t4 * np.sin(t2), np.sin(t1 + t5), t5 * np.cos(t2)]
    data = np.column_stack([*curved, t5 + t4, t2, t3 * t4, t1])
    return Dataset("difficult", _noisy(data, noise, rng), t)


def _source(n_samples: int, noise: float, random_state: Any) -> np.random.RandomState:
    """Check what every generator takes and return its source of randomness."""
    check_integer("n_samples", n_samples, minimum=1)
    check_real("noise", noise, minimum=0)
    # A fresh generator, not numpy's global one, when nothing is asked for.
    return np.random.RandomState() if random_state is None else check_random_state(random_state)


def _noisy(data: FloatArray, noise: float, rng: np.random.RandomState) -> FloatArray:
    """Add noise last, so that a noisy set has the parameters of the clean one with its seed."""
    return data + noise * rng.normal(size=data.shape) if noise else data.copy()


def sensor_network(
    n_samples: int = 500,
    *,
    radius: float | None = None,
    n_anchors: int = 4,
    noise: float = 0.0,
    n_dims: int = 2,
    hole: float = 0.0,
    random_state: Any = None,
) -> GraphDataset:
    """Sensors uniform in the unit cube that measure their distances to those within a radius.

    By default the ``radius`` gives a sensor far from the border 20 neighbours on average. The positions of
    ``n_anchors`` sensors, chosen at random, are known. A distance is multiplied by ``1 + noise * g``, g
    standard normal, and at least by 0.01. A ``hole`` is the radius, under 0.5, of a ball about the centre
    without sensors: shortest paths make a detour.
    """
    rng = _source(n_samples, noise, random_state)
    check_integer("n_dims", n_dims, minimum=1)
    check_integer("n_anchors", n_anchors, minimum=0, maximum=n_samples)
    check_real("hole", hole, minimum=0, maximum=0.5, include_maximum=False)
    if radius is None:
        log_ball = 0.5 * n_dims * np.log(np.pi) - gammaln(0.5 * n_dims + 1.0)
        volume = 1.0 - (np.exp(log_ball) * hole**n_dims if hole else 0.0)
        radius = float(np.exp((np.log(20.0 * volume / n_samples) - log_ball) / n_dims))
    check_real("radius", radius, minimum=0, include_minimum=False)
    truth = rng.uniform(size=(n_samples, n_dims))
    while hole:
        inside = np.linalg.norm(truth - 0.5, axis=1) < hole
        if not inside.any():
            break
        truth[inside] = rng.uniform(size=(np.count_nonzero(inside), n_dims))
    pairs = cKDTree(truth).query_pairs(radius, output_type="ndarray")
    # The tree's order is its own business; sorted pairs tie each draw of noise to its edge.
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    lengths = np.linalg.norm(truth[pairs[:, 0]] - truth[pairs[:, 1]], axis=1)
    if noise:
        lengths = lengths * np.maximum(1.0 + noise * rng.normal(size=len(pairs)), 0.01)
    anchors = np.sort(rng.choice(n_samples, size=n_anchors, replace=False))
    return GraphDataset("sensor_network", symmetric_graph(pairs, lengths, n_samples), truth, anchors)


def add_shortcuts(
    graph: Any, data: AnyArray, n_shortcuts: int, *, detour: float = 5.0, random_state: Any = None
) -> tuple[sp.csr_array, AnyArray]:
    """Add edges between points (n, D) near in space but far apart along the graph (n, n).

    From a random vertex the shortcut goes to the point nearest in space among those whose distance along the
    graph is more than ``detour`` times the distance in space, which is its length. Returns the graph and the
    added edges (n_shortcuts, 2), smaller vertex first; a ValueError where there are fewer such vertices.
    """
    rng = _source(max(1, n_shortcuts), 0.0, random_state)
    checked = graph_from_matrix(graph)
    points = np.asarray(data, dtype=np.float64)
    n = checked.n_vertices
    if points.ndim != 2 or len(points) != n:
        raise ValueError(f"data must have shape ({n}, D), one row per vertex, got {points.shape}.")
    found: dict[tuple[int, int], float] = {}
    for i in rng.permutation(n):
        if len(found) == n_shortcuts:
            break
        straight = np.linalg.norm(points - points[i], axis=1)
        along = geodesics(checked, int(i))
        straight[~(np.isfinite(along) & (along > detour * straight))] = np.inf
        j = int(np.argmin(straight))
        if np.isfinite(straight[j]):
            found[min(int(i), j), max(int(i), j)] = float(straight[j])
    if len(found) < n_shortcuts:
        far = f"a point whose distance along the graph is over {detour:g} times that in space"
        said = f"n_shortcuts = {n_shortcuts} asked for, but only {len(found)} vertices have {far}"
        raise ValueError(f"{said}; lower detour.")
    edges = np.array(list(found), dtype=np.intp).reshape(-1, 2)
    pairs = np.vstack([np.column_stack([checked.sources, checked.indices]), edges])
    lengths = np.concatenate([checked.lengths, list(found.values())])
    return symmetric_graph(pairs, lengths, n), edges


def symmetric_graph(pairs: AnyArray, lengths: AnyArray, n: int) -> sp.csr_array:
    """Both directions of every edge in CSR with sorted columns; of a repeated pair the shortest counts."""
    values = np.asarray(lengths, dtype=np.float64)
    once = sp.coo_array((values, (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return graph_from_matrix(once, asymmetry="min", rtol=0.0).to_matrix()
