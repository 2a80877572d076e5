"""Manifolds sampled at random, returned together with the parameters of every point."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from isoweave._typing import FloatArray
from isoweave.datasets._dataset import Dataset


def swiss_roll(
    n_samples: int = 1500, *, noise: float = 0.0, height: float = 21.0, random_state: Any = None
) -> Dataset:
    """A rectangle rolled up along the spiral r = t.

    With u and v uniform on [0, 1], ``t = 1.5 pi (1 + 2 u)`` and a point is
    ``(t cos t, height * v, t sin t)``, as in scikit-learn.

    Parameters
    ----------
    n_samples : int
    noise : float
        Standard deviation of the Gaussian noise added to every coordinate. Neighbouring sheets are
        about 6 apart; noise far below that keeps the shape, noise near it makes shortcuts.
    height : float
    random_state : int, RandomState or None

    Returns
    -------
    Dataset
        ``parameters`` is isometric: arc length of the spiral from t = 0, and height.

    Examples
    --------
    >>> from isoweave.datasets import swiss_roll
    >>> roll = swiss_roll(100, random_state=7)
    >>> roll.data.shape, roll.truth.shape
    ((100, 3), (100, 2))
    """
    rng = check_common(n_samples, noise, random_state)
    t = 1.5 * np.pi * (1.0 + 2.0 * rng.uniform(size=n_samples))
    y = height * rng.uniform(size=n_samples)
    data = np.column_stack([t * np.cos(t), y, t * np.sin(t)])
    arc = 0.5 * (t * np.sqrt(1.0 + t * t) + np.arcsinh(t))
    return Dataset("swiss_roll", _noisy(data, noise, rng), np.column_stack([arc, y]), isometric=True)


def s_curve(n_samples: int = 1500, *, noise: float = 0.0, random_state: Any = None) -> Dataset:
    """A rectangle bent into two opposite circular arcs of radius 1 (an S), as in scikit-learn.

    With ``t`` uniform on [-3 pi / 2, 3 pi / 2] and ``y`` on [0, 2], a point is
    ``(sin t, y, sign(t) (cos t - 1))``. See :func:`swiss_roll` for the parameters; ``parameters`` of
    the result is (t, y), which is isometric.
    """
    rng = check_common(n_samples, noise, random_state)
    t = 3.0 * np.pi * (rng.uniform(size=n_samples) - 0.5)
    y = 2.0 * rng.uniform(size=n_samples)
    data = np.column_stack([np.sin(t), y, np.sign(t) * (np.cos(t) - 1.0)])
    return Dataset("s_curve", _noisy(data, noise, rng), np.column_stack([t, y]), isometric=True)


def sphere(
    n_samples: int = 1500, *, radius: float = 1.0, noise: float = 0.0, random_state: Any = None
) -> Dataset:
    """Points uniform on a sphere in R^3; no isometric embedding in the plane exists.

    ``parameters`` of the result holds the noise-free positions (n, 3). See :func:`swiss_roll` for the
    other parameters.
    """
    rng = check_common(n_samples, noise, random_state)
    position = rng.normal(size=(n_samples, 3))
    position *= radius / np.linalg.norm(position, axis=1, keepdims=True)
    return Dataset("sphere", _noisy(position, noise, rng), position)


def flat_torus(n_samples: int = 1500, *, noise: float = 0.0, random_state: Any = None) -> Dataset:
    """The product of circles of radius 2 and 1 in R^4: ``(2 cos u, 2 sin u, cos v, sin v)``.

    It is flat, but no smooth isometric embedding in R^3 exists. ``parameters`` of the result is
    (u, v) in [0, 2 pi)^2, which the paper scores against. See :func:`swiss_roll` for the parameters.
    """
    rng = check_common(n_samples, noise, random_state)
    u, v = 2.0 * np.pi * rng.uniform(size=(2, n_samples))
    data = np.column_stack([2.0 * np.cos(u), 2.0 * np.sin(u), np.cos(v), np.sin(v)])
    return Dataset("flat_torus", _noisy(data, noise, rng), np.column_stack([u, v]))


def klein_bottle(n_samples: int = 1500, *, noise: float = 0.0, random_state: Any = None) -> Dataset:
    """The bottle figure of the Klein bottle in R^3, which passes through itself.

    With (u, v) uniform on [0, 2 pi)^2 and ``r = 4 (1 - cos(u) / 2)``, a point is

    * ``x = 6 cos u (1 + sin u) + r cos u cos v``, ``y = 16 sin u + r sin u cos v`` for u <= pi,
    * ``x = 6 cos u (1 + sin u) - r cos v``, ``y = 16 sin u`` for u > pi,
    * ``z = r sin v``.

    ``parameters`` of the result is (u, v); the paper scores against Isomap's embedding instead. See
    :func:`swiss_roll` for the parameters.

    Notes
    -----
    The paper prints ``1 - sin(u) / 2`` for r in x only, taken here for a misprint: with the cosine in
    all three coordinates, as in the usual figure, every circle of constant u has one radius. Isomap's
    F1 at k = 8 leans the same way (paper .81; cosine .81, sine .83, means of 8 samplings) but does not
    settle it, and under either reading Isomap's stress is .065 where the paper prints .09.
    """
    rng = check_common(n_samples, noise, random_state)
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
    t5 cos t2, t5 + t4, t2, t3 t4, t1. ``parameters`` of the result is t. See :func:`swiss_roll` for the
    parameters.
    """
    rng = check_common(n_samples, noise, random_state)
    t = rng.uniform(size=(n_samples, 5))
    t1, t2, t3, t4, t5 = t.T
    data = np.column_stack(
        [
            np.cos(t1),
            np.tanh(3.0 * t2),
            t1 + t3,
            t4 * np.sin(t2),
            np.sin(t1 + t5),
            t5 * np.cos(t2),
            t5 + t4,
            t2,
            t3 * t4,
            t1,
        ]
    )
    return Dataset("difficult", _noisy(data, noise, rng), t)


def check_common(n_samples: int, noise: float, random_state: Any) -> np.random.RandomState:
    """Check what every generator takes and return its source of randomness."""
    if isinstance(n_samples, bool) or not isinstance(n_samples, (int, np.integer)):
        raise TypeError(f"n_samples must be an integer, got {n_samples!r}.")
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}.")
    if not 0.0 <= noise < np.inf:
        raise ValueError(f"noise must be a finite standard deviation >= 0, got {noise!r}.")
    # A fresh generator, not numpy's global one, when nothing is asked for.
    return np.random.RandomState() if random_state is None else check_random_state(random_state)


def _noisy(data: FloatArray, noise: float, rng: np.random.RandomState) -> FloatArray:
    """Add noise last, so that a noisy set has the parameters of the clean one with its seed."""
    return data + noise * rng.normal(size=data.shape) if noise else data.copy()
