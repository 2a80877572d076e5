"""Sparse Cholesky factors of grounded Laplacians."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isoweave._parallel import ThreadTeam, single_blas_thread
from isoweave._typing import FloatArray
from isoweave.linalg._base import MAX_FILL, Laplacian, PreparationError
from isoweave.linalg._cholesky import analyse, factorise, substitute


class Direct:
    """Cholesky factor of the Laplacian with one vertex per component held at zero."""

    name = "direct"
    refines = True

    def __init__(self, laplacian: Laplacian, team: ThreadTeam) -> None:
        plan = laplacian.elimination
        if plan.fill > MAX_FILL:
            raise PreparationError(f"the Cholesky factor would hold more than {MAX_FILL:,} entries")
        self._laplacian, self._team = laplacian, team
        self._symbolic = analyse(plan)
        try:
            # BLAS threads would fight over thousands of small products, and change the rounding.
            with single_blas_thread():
                self._values, failed = factorise(
                    self._symbolic, laplacian.indptr, laplacian.indices, laplacian.data
                )
        except MemoryError as error:
            raise PreparationError("not enough memory for the Cholesky factor") from error
        if failed >= 0:
            raise PreparationError(f"the Laplacian is not positive definite at vertex {failed}")

    def attempt(self, rhs: FloatArray, guess: FloatArray | None, goal: FloatArray) -> tuple[FloatArray, int]:
        """Solve for all columns, or improve ``guess`` by one step of iterative refinement."""
        if guess is None:
            return substitute(self._symbolic, self._values, rhs, self._team), 0
        residual = self._laplacian.residual(rhs, guess, self._team)[0]
        return guess + substitute(self._symbolic, self._values, residual, self._team), 1


class Cholmod:
    """The same with SuiteSparse's factorisation, for those who have scikit-sparse."""

    name = "cholmod"
    refines = True

    def __init__(self, laplacian: Laplacian, team: ThreadTeam) -> None:
        try:
            from sksparse import cholmod
        except ImportError as error:
            raise ImportError(
                "solver='cholmod' needs scikit-sparse: run `pip install isoweave[cholmod]` (it is built from "
                "source and needs SuiteSparse's headers), or use solver='direct'."
            ) from error
        self._laplacian, self._team = laplacian, team
        free = np.ones(laplacian.n, dtype=bool)
        free[laplacian.ground] = False
        self._free = np.flatnonzero(free)
        # One reduced to nothing (isolated vertices only) has the zero solution.
        self._solve: Callable[[FloatArray], FloatArray] | None = None
        if len(self._free) == 0:
            return
        matrix = laplacian.to_matrix()[self._free][:, self._free].tocsc()
        try:
            with single_blas_thread():
                # scikit-sparse 0.5 renamed everything.
                if hasattr(cholmod, "cho_factor"):
                    self._solve = cholmod.cho_factor(matrix, lower=True, order="amd").solve
                else:
                    self._solve = cholmod.cholesky(matrix, ordering_method="amd")
        except (cholmod.CholmodError, MemoryError) as error:
            raise PreparationError(f"CHOLMOD failed: {error}") from error

    def attempt(self, rhs: FloatArray, guess: FloatArray | None, goal: FloatArray) -> tuple[FloatArray, int]:
        """Solve for all columns, or improve ``guess`` by one step of iterative refinement."""
        with single_blas_thread():
            if guess is None:
                return self._substitute(rhs), 0
            residual = self._laplacian.residual(rhs, guess, self._team)[0]
            return guess + self._substitute(residual), 1

    def _substitute(self, rhs: FloatArray) -> FloatArray:
        value = np.zeros_like(rhs)
        if self._solve is not None:
            value[self._free] = self._solve(rhs[self._free])
        return value
