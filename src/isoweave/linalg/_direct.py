"""Cholesky factors of grounded Laplacians: one vertex per component is held at zero."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from isoweave._parallel import ThreadTeam, single_blas_thread
from isoweave._typing import FloatArray
from isoweave.linalg._cholesky import MAX_FILL, analyse, factorise, substitute
from isoweave.linalg._laplacian import Laplacian, PreparationError


class _Factored(ABC):
    """What both factors do with a right-hand side."""

    name: str
    refines = True
    _laplacian: Laplacian
    _team: ThreadTeam

    def attempt(self, rhs: FloatArray, guess: FloatArray | None, goal: FloatArray) -> tuple[FloatArray, int]:
        """Solve for all columns, or improve ``guess`` by one step of iterative refinement."""
        if guess is None:
            return self._substitute(rhs), 0
        residual = self._laplacian.residual(rhs, guess, self._team)[0]
        return guess + self._substitute(residual), 1

    @abstractmethod
    def _substitute(self, rhs: FloatArray) -> FloatArray: ...


class Direct(_Factored):
    """The factorisation of :mod:`isoweave.linalg._cholesky`."""

    name = "direct"

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

    def _substitute(self, rhs: FloatArray) -> FloatArray:
        return substitute(self._symbolic, self._values, rhs, self._team)


class Cholmod(_Factored):
    """SuiteSparse's factorisation, for those who have scikit-sparse."""

    name = "cholmod"

    def __init__(self, laplacian: Laplacian, team: ThreadTeam) -> None:
        try:
            from sksparse import cholmod
        except ImportError as error:
            raise ImportError(
                "solver='cholmod' needs scikit-sparse: run `pip install isoweave[cholmod]` (it is built from "
                "source and needs SuiteSparse's headers), or use solver='direct'."
            ) from error
        self._laplacian, self._team = laplacian, team
        self._free = np.setdiff1d(np.arange(laplacian.n), laplacian.ground)
        # One reduced to nothing (isolated vertices only) has the zero solution.
        self._solve: Callable[[FloatArray], FloatArray] = np.zeros_like
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

    def _substitute(self, rhs: FloatArray) -> FloatArray:
        value = np.zeros_like(rhs)
        with single_blas_thread():
            value[self._free] = self._solve(rhs[self._free])
        return value
