"""Long distances as an energy: the scale-free stress to the geodesics of a few landmarks."""

from __future__ import annotations

from dataclasses import dataclass

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

    @computed_once
    def _squares(self) -> float:
        return float(np.sum(self.geodesics * self.geodesics))

    def _sums(self, x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """``sum d g``, and for every vertex ``sum d^2`` and the pulls of the geodesics (eq. 25)."""
        from isoweave.engines import stress as kernels

        (n, n_components), n_landmarks = x.shape, len(self.landmarks)
        n_blocks = -(-n // _BLOCK)
        cross, squares, pulls = np.empty(n), np.empty(n), np.empty((n, n_components))
        at_landmarks = np.empty((n_blocks, n_landmarks, n_components))
        arrays = (x, self.landmarks, self.geodesics, cross, squares, pulls, at_landmarks)
        self.team.run(kernels.landmark_stress, n_blocks, _BLOCK, *arrays, grain=1)
        pulls[self.landmarks] += at_landmarks.sum(axis=0)
        return float(np.sum(cross)), squares, pulls

    def evaluate(self, x: FloatArray) -> Evaluation:
        cross, squares, pulls = self._sums(x)
        square = float(np.sum(squares))
        none = np.empty((0, *x.shape[1:] * 2))
        if cross == 0.0:
            return Evaluation(self.weight, np.zeros_like(x), none, np.zeros(len(x)))
        spring = self._spring(cross, square)
        # Towards all landmarks with their mean, and of the landmarks towards all vertices.
        half_gradient = len(self.landmarks) * x - x[self.landmarks].sum(axis=0)
        half_gradient[self.landmarks] += len(x) * x[self.landmarks] - x.sum(axis=0)
        half_gradient -= (square / cross) * pulls
        half_gradient *= spring
        value = self.weight * max(0.0, 1.0 - cross * cross / (square * self._squares))
        return Evaluation(value, half_gradient, none, np.full(len(x), value / len(x)))

    def _spring(self, cross: float, square: float) -> float:
        """Stiffness of every pair in the quadratic part that touches the energy from above."""
        return self.weight * (cross / square) ** 2 / self._squares

    def springs(self, x: FloatArray) -> FloatArray:
        """Diagonal of the quadratic part at ``x`` (eq. 26), shape (n,).

        What is left out of the metric has rank 2: it couples the mean of all vertices with that of the
        landmarks.
        """
        cross, squares, _ = self._sums(x)
        spring = self._spring(cross, float(np.sum(squares)))
        diagonal = np.full(len(x), spring * len(self.landmarks))
        diagonal[self.landmarks] += spring * len(x)
        return diagonal

    def laplacian(self) -> sp.csr_array:
        """Empty: the quadratic part is dense, and :meth:`springs` is its diagonal."""
        return sp.csr_array((len(self.geodesics),) * 2)

    def suspects(self) -> dict[str, AnyArray]:
        return {"geodesics of the landmarks": self.geodesics}
