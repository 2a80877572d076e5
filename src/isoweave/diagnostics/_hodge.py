"""The energy of a map, split by what it would take to remove it (docs/theory.md, eqs. D2 to D6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from isoweave._typing import BoolArray, FloatArray
from isoweave.diagnostics._cells import CellComplex
from isoweave.diagnostics._result import NO_ENERGY, EnergySplit
from isoweave.energy import EdgeEnergy
from isoweave.linalg import symmetric_solver
from isoweave.optimise import Problem

# Curls are projected out with this part of their mean square as regularisation: small against the smoothest
# curl a graph of a few thousand vertices can have (about 1e-4), large against rounding.
_REGULARISATION = 1e-9
_CONCENTRATED = 0.01


@dataclass(frozen=True, eq=False)
class Misfit:
    """Energy J(coordinates, alignments) before its irremovable part is split further.

    ``total``, ``disagreement``, ``irremovable`` and ``expected`` are those of :class:`EnergySplit`, not yet
    divided by ``mass``, the energy of the collapsed map.
    """

    mass: float
    total: float
    disagreement: float
    irremovable: float
    expected: float
    # The irremovable part on the undirected edges, times the roots of the weights; no exact part is left.
    form: FloatArray
    # Of the undirected edges, both directions together.
    weights: FloatArray

    @property
    def excess(self) -> float:
        return self.irremovable / self.expected if self.expected > 0.0 else 0.0


def measure_misfit(problem: Problem, alignments: FloatArray, coordinates: FloatArray) -> Misfit:
    """Take out of J what one Poisson solve would remove, and what the ends of the edges disagree about."""
    graph, energy = problem.graph, problem.frames
    if not isinstance(energy, EdgeEnergy):
        raise TypeError("The split of the energy is defined for the edge inner product only.")
    up = np.flatnonzero(graph.sources < graph.indices)
    down = graph.reverse[up]
    ends = graph.sources[up], graph.indices[up]
    w_up, w_down = energy.weights[up], energy.weights[down]
    weights = w_up + w_down
    safe = np.where(weights > 0.0, weights, 1.0)
    form = np.einsum("er,erc->ec", energy.frames.rows, alignments[graph.sources])
    both = (w_up * w_down / safe)[:, None] * (form[up] + form[down]) ** 2
    one_form = (w_up[:, None] * form[up] - w_down[:, None] * form[down]) / safe[:, None]
    best = problem.integrate(alignments)
    # With the roots of the weights in the values, inner products are plain ones.
    root = np.sqrt(weights)[:, None]
    misfit = root * (one_form - (coordinates[ends[1]] - coordinates[ends[0]]))
    closed = root * (one_form - (best[ends[1]] - best[ends[0]]))
    disagreement = float(np.sum(both))
    # Independent errors of the two directions go in equal parts into their sum and their difference; the
    # difference loses what a map can follow, n - 1 of E dimensions.
    paired = max(int(np.count_nonzero((w_up > 0.0) & (w_down > 0.0))), 1)
    free = max(int(np.count_nonzero(weights)) - (graph.n_vertices - 1), 0)
    return Misfit(
        mass=float(np.sum(energy.weights[:, None] * form * form)),
        total=disagreement + float(np.sum(misfit**2)),
        disagreement=disagreement,
        irremovable=float(np.sum(closed**2)),
        expected=disagreement * free / paired,
        form=closed,
        weights=weights,
    )


def split_misfit(misfit: Misfit, cells: CellComplex | None) -> EnergySplit:
    """Relative energies; without cells the irremovable part is left in one piece."""
    mass = misfit.mass
    if mass <= 0.0:
        return NO_ENERGY
    curl = loops = concentration = None
    if cells is not None:
        harmonic = np.sum(without_curl(misfit.form, cells.boundary, misfit.weights) ** 2, axis=1)
        loops = min(float(np.sum(harmonic)), misfit.irremovable)
        curl = (misfit.irremovable - loops) / mass
        most = np.sort(harmonic)[::-1][: max(1, int(_CONCENTRATED * len(harmonic)))]
        concentration = float(np.sum(most)) / loops if loops > 0.0 else 0.0
        loops /= mass
    return EnergySplit(
        total=misfit.total / mass,
        removable=max(misfit.total - misfit.disagreement - misfit.irremovable, 0.0) / mass,
        disagreement=misfit.disagreement / mass,
        irremovable=misfit.irremovable / mass,
        expected=misfit.expected / mass,
        curl=curl,
        loops=loops,
        concentration=concentration,
    )


def without_curl(form: FloatArray, boundary: sp.csr_array, weights: FloatArray) -> FloatArray:
    """Project 1-forms, in the unit of the weights' roots, on those whose curl around every cell is zero.

    ``form`` has no exact part. The span of the cells' loops, the columns of B, is removed by
    ``e (B B^T + e)^-1 form`` with a small e.
    """
    seen: BoolArray = weights > 0.0
    out = np.zeros_like(form)
    if not seen.all():
        # An edge that no frame sees has no value, and neither has the curl of its cells.
        blind = np.abs(boundary) @ (~seen).astype(float) > 0
        boundary = boundary[np.flatnonzero(~blind)][:, np.flatnonzero(seen)]
    loops = sp.csr_array(boundary @ sp.diags_array(1.0 / np.sqrt(weights[seen])))
    gram = sp.csr_array(loops.T @ loops)
    scale = float(gram.diagonal().mean()) if gram.nnz else 0.0
    if scale == 0.0:
        return form
    small = _REGULARISATION * scale
    with symmetric_solver(gram, small) as solve:
        out[seen] = small * solve(form[seen])
    return out
