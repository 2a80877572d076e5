"""Poisson problems on graphs: factor a Laplacian once, solve for many right-hand sides."""

from isoweave.linalg._anchored import AnchoredState, factor_anchored
from isoweave.linalg._auto import SolverChoice, choose_solver
from isoweave.linalg._base import SolveResult
from isoweave.linalg._state import PoissonState, factor_laplacian

__all__ = [
    "AnchoredState",
    "PoissonState",
    "SolveResult",
    "SolverChoice",
    "choose_solver",
    "factor_anchored",
    "factor_laplacian",
]
