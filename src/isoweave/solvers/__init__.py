"""Poisson problems on graphs: factor a Laplacian once, solve for many right-hand sides."""

from isoweave.solvers._anchored import AnchoredState, factor_anchored
from isoweave.solvers._auto import SolverChoice, choose_solver
from isoweave.solvers._base import SolveResult
from isoweave.solvers._state import PoissonState, factor_laplacian

__all__ = [
    "AnchoredState",
    "PoissonState",
    "SolveResult",
    "SolverChoice",
    "choose_solver",
    "factor_anchored",
    "factor_laplacian",
]
