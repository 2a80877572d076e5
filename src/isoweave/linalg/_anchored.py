"""Poisson problems in which some vertices are held in place or pulled towards one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.linalg._laplacian import SolveResult
from isoweave.linalg._state import PoissonState, SolverChoice, factor


class AnchoredState:
    """A prepared matrix ``L + diag(pull)`` without the rows and columns of held vertices (eqs. 20, 21).

    Made by :func:`factor_anchored`; see :class:`SolverState`.

    Notes
    -----
    Held vertices are one more vertex, the ground, that all edges to them lead to, and a pull is an edge to
    the ground. What is left is a Laplacian again, hence every solver serves: its solution is fixed up to a
    constant, which is chosen to be zero on the ground.
    """

    def __init__(self, poisson: PoissonState | None, free: AnyArray, n: int) -> None:
        self._poisson, self._free, self._n = poisson, free, n
        held = SolverChoice("none", "every vertex is held", None)
        self.choice = held if poisson is None else poisson.choice
        self.notes: list[str] = [] if poisson is None else poisson.notes

    @property
    def solver(self) -> str:
        return "none" if self._poisson is None else self._poisson.solver

    @property
    def ladder(self) -> tuple[str, ...]:
        return () if self._poisson is None else self._poisson.ladder

    def move_to(self, ladder: tuple[str, ...], notes: list[str]) -> None:
        """As :meth:`SolverState.move_to`."""
        if self._poisson is not None:
            self._poisson.move_to(ladder, notes)

    def solve(self, rhs: FloatArray, *, tol: float | None = None) -> SolveResult:
        """As :meth:`PoissonState.solve`; held vertices stay at zero, whatever their rows of ``rhs``."""
        value = np.zeros((self._n, rhs.shape[1]))
        if self._poisson is None:
            return SolveResult(value, 0.0, 0, "none", "converged")
        block = np.empty((len(self._free) + 1, rhs.shape[1]))
        block[:-1] = rhs[self._free]
        block[-1] = -block[:-1].sum(axis=0)
        result = self._poisson.solve(block, tol=tol)
        value[self._free] = result.value[:-1] - result.value[-1]
        return replace(result, value=value)


def factor_anchored(
    laplacian: Any,
    held: AnyArray,
    pulled: AnyArray,
    pull: FloatArray,
    *,
    n_components: int,
    solver: str = "auto",
    team: ThreadTeam = ONE_THREAD,
    tol: float = 1e-10,
) -> AnchoredState:
    """Prepare a graph Laplacian with held and pulled vertices for many solves.

    Parameters
    ----------
    laplacian : sparse matrix of shape (n, n)
        Of a connected graph.
    held : int array of shape (h,)
        Vertices at which the solution is zero.
    pulled, pull : int and float64 arrays of shape (p,)
        Other vertices, and what is added to their diagonal entries, positive. Held and pulled ones together
        are at least one.
    solver, n_components, team, tol
        As in :func:`factor`.

    Examples
    --------
    A chain of three vertices, held at its ends:

    >>> import numpy as np, scipy.sparse as sp
    >>> path = sp.csr_array(np.array([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]]))
    >>> ends, none = np.array([0, 2]), np.array([], dtype=int)
    >>> state = factor_anchored(path, ends, none, np.array([]), n_components=1)
    >>> state.solve(np.array([[0.0], [1.0], [0.0]])).value.ravel()
    array([0. , 0.5, 0. ])
    """
    n = laplacian.shape[0]
    if len(held) + len(pulled) == 0:
        raise ValueError("At least one vertex must be held or pulled; for a free Laplacian use factor.")
    is_free = np.ones(n, dtype=np.bool_)
    is_free[held] = False
    free = np.flatnonzero(is_free)
    if len(free) == 0:
        return AnchoredState(None, free, n)
    ground = len(free)
    place = np.full(n, ground)
    place[free] = np.arange(ground)
    contraction = sp.csr_array((np.ones(n), (np.arange(n), place)), shape=(n, ground + 1))
    reduced = contraction.T @ sp.csr_array(laplacian) @ contraction
    if len(pulled):
        ends, to_ground = place[pulled], np.full(len(pulled), ground)
        rows = np.concatenate([ends, ends, to_ground, to_ground])
        columns = np.concatenate([ends, to_ground, ends, to_ground])
        springs = sp.csr_array(
            (np.concatenate([pull, -pull, -pull, pull]), (rows, columns)), shape=reduced.shape
        )
        reduced = reduced + springs
    poisson = factor(reduced, solver=solver, n_components=n_components, team=team, tol=tol)
    return AnchoredState(poisson, free, n)
