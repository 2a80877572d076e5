"""Poisson problems on graphs: factor a Laplacian once, solve for many right-hand sides.

``factor(laplacian).solve(rhs)`` is all that most callers need; :func:`factor_anchored` is the same with some
vertices held in place. Both return a :class:`PoissonState`.
"""

from isoweave.linalg._cholesky import (
    MAX_FILL as MAX_FILL,
    BlockCholesky as BlockCholesky,
    lowest_eigenvectors as lowest_eigenvectors,
    symmetric_solver as symmetric_solver,
)
from isoweave.linalg._laplacian import Laplacian as Laplacian, prepare_laplacian as prepare_laplacian
from isoweave.linalg._methods import SolveResult as SolveResult
from isoweave.linalg._multigrid import (
    COARSEST as COARSEST,
    LARGEST_INVERSE as LARGEST_INVERSE,
    LEAST_SHRINKING as LEAST_SHRINKING,
    MARGIN as MARGIN,
    MOST_LEVELS as MOST_LEVELS,
    POWER_STEPS as POWER_STEPS,
    SWEEPS as SWEEPS,
    Csr as Csr,
    hub_limit as hub_limit,
)
from isoweave.linalg._state import (
    FACTOR_TOL as FACTOR_TOL,
    SMALL_FACTOR as SMALL_FACTOR,
    AnchoredState as AnchoredState,
    PoissonState as PoissonState,
    SolverChoice as SolverChoice,
    choose_solver as choose_solver,
    factor as factor,
    factor_anchored as factor_anchored,
    factor_grounded as factor_grounded,
    small_choice as small_choice,
)
