"""Known positions as an energy and as a constraint, and sums of energies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from isoweave._lazy import computed_once
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.energy._frames import Energy, Evaluation
from isoweave.geometry import rigid_motion

# How much a hard anchor counts beside soft ones when the embedding is laid on them: what the hard ones leave
# open, the soft ones decide.
_HARD_SHARE = 1e3


@dataclass(frozen=True, eq=False)
class AnchorEnergy:
    """Known positions of some vertices: soft ones pull, hard ones hold (eqs. 20, 21).

    Attributes
    ----------
    vertices : int array of shape (a,)
        Different from each other, at least one.
    positions : float64 array of shape (a, N)
    weights : float64 array of shape (a,)
        Positive. Infinite: the vertex stays there (hard). Finite: ``weight |x - position|^2`` is added
        (soft).
    n_vertices : int
        Of the graph.
    """

    vertices: AnyArray
    positions: FloatArray
    weights: FloatArray
    n_vertices: int
    mass = 0.0

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

    def evaluate(self, x: FloatArray) -> Evaluation:
        """The pulls of the soft anchors."""
        away = x[self.pulled] - self.positions[~self.is_hard]
        half_gradient, energies = np.zeros_like(x), np.zeros(len(x))
        half_gradient[self.pulled] = self.pull[:, None] * away
        squares = self.pull[:, None] * away * away
        energies[self.pulled] = squares.sum(axis=1)
        return Evaluation(float(np.sum(squares)), half_gradient, np.empty((0, *x.shape[1:] * 2)), energies)

    def laplacian(self) -> sp.csr_array:
        """The pulls of the soft anchors on the diagonal; isoweave.linalg.factor_anchored holds the hard."""
        return sp.csr_array(sp.diags_array(np.bincount(self.pulled, self.pull, self.n_vertices)))

    def suspects(self) -> dict[str, AnyArray]:
        return {"anchor positions": self.positions}

    def settle(self, x: FloatArray) -> FloatArray:
        """Copy with the hard anchors in their positions."""
        settled = x.copy()
        settled[self.held] = self.positions[self.is_hard]
        return settled

    def lay_on(self, x: FloatArray) -> FloatArray:
        """The embedding moved rigidly, mirrored if need be, to where it is nearest to the anchors."""
        largest = float(self.pull.max(initial=1.0))
        weights = np.where(self.is_hard, _HARD_SHARE * largest, self.weights)
        rotation, shift = rigid_motion(x[self.vertices], self.positions, weights)
        return x @ rotation + shift


@dataclass(frozen=True, eq=False)
class Sum:
    """The sum of energies; rotations are those of the first."""

    terms: Sequence[Energy]

    @property
    def mass(self) -> float:
        return float(sum(term.mass for term in self.terms))

    def evaluate(self, x: FloatArray) -> Evaluation:
        first, *others = (term.evaluate(x) for term in self.terms)
        energy, half_gradient, energies = first.energy, first.half_gradient, first.energies
        for other in others:
            energy += other.energy
            half_gradient += other.half_gradient
            energies = energies + other.energies
        return Evaluation(energy, half_gradient, first.alignments, energies)

    def laplacian(self) -> sp.csr_array:
        total = self.terms[0].laplacian()
        for term in self.terms[1:]:
            total = total + term.laplacian()
        return sp.csr_array(total)

    def suspects(self) -> dict[str, AnyArray]:
        return {name: array for term in self.terms for name, array in term.suspects().items()}
