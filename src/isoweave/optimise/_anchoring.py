"""Vertices whose places are known, in the energy and in its starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._lazy import computed_once
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray
from isoweave.optimise._rigid import rigid_motion

# How much a hard anchor counts beside soft ones when the map is laid on them: what the hard ones leave open,
# the soft ones decide.
_HARD_SHARE = 1e3


@dataclass(frozen=True, eq=False)
class Anchoring:
    """Known places of some vertices of a connected graph.

    Attributes
    ----------
    vertices : int array of shape (a,)
        Different from each other, at least one.
    places : float64 array of shape (a, N)
    weights : float64 array of shape (a,)
        Positive. Infinite: the vertex stays there (hard). Finite: it is pulled there by
        ``weight |phi - place|^2`` (soft).
    """

    vertices: IntArray
    places: FloatArray
    weights: FloatArray

    @computed_once
    def is_hard(self) -> BoolArray:
        return np.isinf(self.weights)

    @property
    def held(self) -> AnyArray:
        """Vertices with hard anchors."""
        return self.vertices[self.is_hard]

    @property
    def pulled(self) -> AnyArray:
        """Vertices with soft anchors."""
        return self.vertices[~self.is_hard]

    @property
    def pull(self) -> FloatArray:
        """Weights of the soft anchors."""
        return self.weights[~self.is_hard]

    def settle(self, coordinates: FloatArray) -> FloatArray:
        """Copy with the hard anchors where they belong."""
        settled = coordinates.copy()
        settled[self.held] = self.places[self.is_hard]
        return settled

    def add(self, energy: float, half_gradient: FloatArray, coordinates: FloatArray) -> float:
        """Energy with the soft anchors added; ``half_gradient`` is completed in place (eq. 21).

        It becomes zero at hard anchors, which cannot move.
        """
        away = coordinates[self.pulled] - self.places[~self.is_hard]
        half_gradient[self.pulled] += self.pull[:, None] * away
        half_gradient[self.held] = 0.0
        return energy + float(np.sum(self.pull[:, None] * away * away))

    def lay_on(self, coordinates: FloatArray) -> FloatArray:
        """The map moved rigidly, mirrored if need be, to where it is nearest to the anchors."""
        largest = float(self.pull.max(initial=1.0))
        weights = np.where(self.is_hard, _HARD_SHARE * largest, self.weights)
        rotation, shift = rigid_motion(coordinates[self.vertices], self.places, weights)
        return coordinates @ rotation + shift
