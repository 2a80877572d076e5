"""Long distances as an energy: the scale-free stress to the geodesics of a few landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._lazy import computed_once
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.energy._energies import Evaluation

_BLOCK = 512


@dataclass(frozen=True, eq=False)
class GlobalEnergy:
    """``weight`` times the stress ``S = 1 - (sum d g)^2 / (sum d^2 sum g^2)`` (eq. 24).

    d are distances in the embedding and g the geodesics from every landmark to every vertex. S does not see
    the scale of the embedding, which the frames decide.

    Attributes
    ----------
    landmarks : int32 array of shape (l,)
    geodesics : float64 array of shape (n, l)
    weight : float
    team : ThreadTeam
    """

    landmarks: AnyArray
    geodesics: FloatArray
    weight: float
    team: ThreadTeam
    mass = 0.0

    # Up to ``_total``: what differs where vertices are in shares (:mod:`isoweave.cluster`) or on a device.
    @property
    def xp(self) -> Any:
        """numpy, or what stands for it on the device."""
        return np

    @property
    def n_vertices(self) -> int:
        return len(self.geodesics)

    @property
    def _own(self) -> tuple[Any, AnyArray]:
        """Which landmarks are rows of ``x``, and which rows."""
        return slice(None), self.landmarks

    def _with_landmarks(self, x: FloatArray) -> tuple[FloatArray, AnyArray]:
        """The vertices, perhaps with landmarks behind them, and where the landmarks are."""
        return x, self.landmarks

    def _sum(self, values: Any) -> Any:
        """Of a number or a small array over all shares."""
        return values

    def _column_sums(self, x: FloatArray) -> FloatArray:
        return self._sum(x.sum(axis=0))

    def _total(self, values: FloatArray) -> float:
        return float(self._sum(np.sum(values)))

    @computed_once
    def squares(self) -> float:
        """Sum of the squared geodesics."""
        return self._total(self.geodesics * self.geodesics)

    def _sums(self, x: FloatArray) -> tuple[float, float, FloatArray, FloatArray]:
        """``sum d g``, ``sum d^2``, for every vertex the pulls of the geodesics (eq. 25); the landmarks."""
        from isoweave.engines import stress as kernels

        (n, n_components), n_landmarks = x.shape, len(self.landmarks)
        points, at = self._with_landmarks(x)
        n_blocks = -(-n // _BLOCK)
        cross, squares, pulls = np.empty(n), np.empty(n), np.empty((n, n_components))
        at_landmarks = np.empty((n_blocks, n_landmarks, n_components))
        arrays = (points, at, self.geodesics, cross, squares, pulls, at_landmarks)
        self.team.run(kernels.landmark_stress, n_blocks, _BLOCK, *arrays, grain=1)
        which, rows = self._own
        pulls[rows] += self._sum(at_landmarks.sum(axis=0))[which]
        return self._total(cross), self._total(squares), pulls, points[at]

    def evaluate(self, x: FloatArray) -> Evaluation:
        cross, square, pulls, places = self._sums(x)
        none = self.xp.empty((0, *x.shape[1:] * 2))
        if cross == 0.0:
            return Evaluation(self.weight, self.xp.zeros_like(x), none, self.xp.zeros(len(x)))
        # Towards all landmarks with their mean, and of the landmarks towards all vertices.
        half_gradient = len(self.landmarks) * x - places.sum(axis=0)
        which, rows = self._own
        half_gradient[rows] += self.n_vertices * places[which] - self._column_sums(x)
        half_gradient -= (square / cross) * pulls
        half_gradient *= self._spring(cross, square)
        value = self.weight * max(0.0, 1.0 - cross * cross / (square * self.squares))
        return Evaluation(value, half_gradient, none, self.xp.full(len(x), value / self.n_vertices))

    def _spring(self, cross: float, square: float) -> float:
        """Stiffness of every pair in the quadratic part that touches the energy from above."""
        return self.weight * (cross / square) ** 2 / self.squares

    def springs(self, x: FloatArray) -> FloatArray:
        """Diagonal of the quadratic part at ``x`` (eq. 26), shape (n,).

        What is left out of the metric has rank 2: it couples the mean of all vertices with that of the
        landmarks.
        """
        spring = self._spring(*self._sums(x)[:2])
        diagonal = self.xp.full(len(x), spring * len(self.landmarks))
        diagonal[self._own[1]] += spring * self.n_vertices
        return diagonal

    def laplacian(self) -> sp.csr_array:
        """Empty: the quadratic part is dense, and :meth:`springs` is its diagonal."""
        return sp.csr_array((len(self.geodesics),) * 2)

    def suspects(self) -> dict[str, AnyArray]:
        return {"geodesics of the landmarks": self.geodesics}
