"""Poisson problems on graphs: factor a Laplacian once, solve for many right-hand sides.

``factor(laplacian).solve(rhs)`` is all that most callers need; :func:`factor_anchored` is the same with some
vertices held in place. Both return a :class:`PoissonState`.
"""

from isoweave.linalg._cholesky import MAX_FILL, MAX_FILL_RATIO, analyse, lowest_eigenvectors, symmetric_solver
from isoweave.linalg._laplacian import Laplacian, SolveResult, prepare_laplacian
from isoweave.linalg._state import (
    AnchoredState,
    PoissonState,
    SolverChoice,
    choose_solver,
    factor,
    factor_anchored,
)

__all__ = [
    "MAX_FILL",
    "MAX_FILL_RATIO",
    "AnchoredState",
    "Laplacian",
    "PoissonState",
    "SolveResult",
    "SolverChoice",
    "analyse",
    "choose_solver",
    "factor",
    "factor_anchored",
    "lowest_eigenvectors",
    "prepare_laplacian",
    "symmetric_solver",
]
