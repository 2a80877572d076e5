"""Poisson problems on the device: conjugate gradients with a multigrid cycle, or the diagonal.

Smoothed aggregation: the neighbourhoods of a maximal set of vertices three steps apart become the vertices of
the next level. Vectors and products of the iteration are float64; the cycle, which only shapes the direction
of its steps, is float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from isoweave.cuda._graph import DeviceGraph, column_dots, long_rows, n_chunks
from isoweave.linalg import (
    COARSEST,
    LARGEST_INVERSE,
    LEAST_SHRINKING,
    MARGIN,
    MOST_LEVELS,
    POWER_STEPS,
    SWEEPS,
    Csr,
    SolverChoice,
    SolveResult,
    hub_limit,
)

# Largest relative residual of a column. The CPU's factor leaves nothing; with this much, energies of finished
# embeddings agree to ten digits (docs/gpu.md).
TOLERANCE = 1e-10
_MOST_ITERATIONS = {"amg": 300, "jacobi": 0}
_MAX_RESTARTS = 4
# From this dimension on neighbourhood graphs are so well connected that the diagonal does.
_WELL_CONDITIONED = 8
# A relative residual that the optimiser can work with.
_USABLE = 1e-5


class _Rows(NamedTuple):
    """A sparse matrix as products take it: with the number and a list of its long rows."""

    indptr: Any
    indices: Any
    data: Any
    n_long: int
    long: Any

    @classmethod
    def of(cls, xp: Any, matrix: Csr, kind: str = "float64") -> _Rows:
        found = long_rows(xp, matrix.indptr)
        return cls(matrix.indptr, matrix.indices, matrix.data.astype(kind, copy=False), len(found), found)

    @property
    def n(self) -> int:
        return len(self.indptr) - 1


@dataclass(frozen=True, eq=False)
class _DeviceLevel:
    """One level of the cycle, in float32, with the right-hand side and the solution of the next level."""

    matrix: _Rows
    prolong: _Rows
    restrict: _Rows
    inverse: Any
    weights: tuple[float, ...]
    x: Any
    y: Any
    rhs: Any
    correction: Any


class DeviceSolver:
    """The Laplacian of weights on the edges of a connected graph, plus a diagonal, prepared for many solves.

    ``both`` (m,) are the weights of both directions, ``more`` (n,) the diagonal. Has what
    :class:`isoweave.linalg.PoissonState` has.
    """

    def __init__(self, graph: DeviceGraph, both: Any, width: int, more: Any = None) -> None:
        self._device, self._width, self._is_free = graph.device, width, more is None
        xp, n, m = graph.device.xp, graph.n_vertices, len(graph.indices)
        matrix = Csr(xp.empty(n + 1, xp.int32), xp.empty(n + m, xp.int32), xp.empty(n + m))
        kernels = self._device.module("multigrid.cu")
        kernels.each("laplacian", n + 1, n, graph.indptr, graph.indices, both, more, *matrix)
        self._matrix, diagonal = _Rows.of(xp, matrix), _diagonal(self._device, matrix)
        if not bool((diagonal > 0).all()):
            raise RuntimeError("a vertex has no edge with a weight")
        self._norm = 2.0 * float(diagonal.max())
        well = width >= _WELL_CONDITIONED
        reason = "on the device, " + ("many dimensions are well conditioned" if well else "few dimensions")
        self.choice = SolverChoice("jacobi" if well else "amg", reason)
        self.notes: list[str] = []
        self._inverse = (1.0 / diagonal).astype(xp.float32)
        self._levels: list[_DeviceLevel] = []
        self.solver = self.choice.solver
        if not well:
            self._levels, self._coarse = _hierarchy(self._device, matrix, diagonal, width)
            if not self._levels:
                self._fall_back("amg could not be prepared: the graph does not coarsen")
        self._allocate(n, width)

    def _allocate(self, n: int, width: int) -> None:
        xp, (self._n_chunks, self._chunk) = self._device.xp, n_chunks(n)
        self._p, self._q, self._r, self._x = (xp.zeros((n, width)) for _ in range(4))
        self._low, self._z = (xp.zeros((n, width), xp.float32) for _ in range(2))
        self._partial, self._state = xp.zeros((2, self._n_chunks, width)), xp.zeros((4, width))
        self._active = xp.zeros(width, xp.int32)
        self._replay: Any = None
        self._expected = 8

    @property
    def ladder(self) -> tuple[str, ...]:
        return (self.solver,)

    def solve(self, rhs: Any, *, tol: float | None = None) -> SolveResult:
        """Solve for all columns; ``tol`` counts only where it is below the device's own."""
        device, xp, n = self._device, self._device.xp, self._matrix.n
        tol = TOLERANCE if tol is None else min(tol, TOLERANCE)
        rhs = self._project(rhs)
        sizes = np.sqrt(device.get(column_dots(device, rhs, rhs)))
        value, iterations = xp.zeros_like(rhs), 0
        previous = np.full(self._width, np.inf)
        most = _MOST_ITERATIONS[self.solver] or 1000 + int(20 * np.sqrt(n))
        while True:
            residual = xp.empty_like(rhs)
            kernels = device.module("sparse.cu", self._width)
            kernels.each("residual", n * self._width, n, *self._matrix, value, rhs, residual)
            norms = np.sqrt(device.get(column_dots(device, residual, residual)))
            rounding = 4 * np.finfo(float).eps * self._norm
            wanted = np.maximum(
                tol * sizes, rounding * np.sqrt(device.get(column_dots(device, value, value)))
            )
            relative = float(np.max(norms / np.where(sizes > 0, sizes, 1.0), initial=0.0))
            left = (norms > wanted) & (norms < 0.5 * previous)
            if not left.any() or iterations >= most:
                done = bool((norms <= wanted).all())
                if not done and self.solver == "amg" and not relative <= _USABLE:
                    self._fall_back(
                        f"amg stalled at a relative residual of {relative:.2e} (tolerance {tol:.2e}) after "
                        f"{iterations} iterations"
                    )
                    return self.solve(rhs, tol=tol)
                status: Any = "converged" if done else "stalled"
                return SolveResult(value, relative, iterations, self.solver, status)
            previous = norms
            iterations += self._run(residual, wanted, most - iterations)
            value = self._project(value + self._x)

    def _fall_back(self, why: str) -> None:
        self.notes.append(f"{why}; went on with jacobi")
        self.solver, self._levels, self._replay = "jacobi", [], None

    def _project(self, block: Any) -> Any:
        """Without the means of its columns, which the Laplacian does not see."""
        if not self._is_free:
            return block
        device, out = self._device, self._device.xp.empty_like(block)
        sums = column_dots(device, block, device.xp.ones_like(block))
        kernels = device.module("sparse.cu", self._width)
        kernels.each("subtract_mean", block.size, len(block), sums, block, out)
        return out

    def _run(self, residual: Any, goal: Any, most: int) -> int:
        """One recursion of conjugate gradients from zero; the solution is in ``_x``."""
        device, xp, n = self._device, self._device.xp, self._matrix.n
        low = device.module("sparse.cu", self._width, "float")
        self._r[:], self._low[:] = residual, residual.astype(xp.float32)
        self._x[:] = 0.0
        self._state[3] = device.put(np.asarray(goal))
        self._precondition()
        self._products(low, self._r, self._r, self._z, 3)
        self._p[:] = self._z
        for iteration in range(1, most + 1):
            if self._replay is not None:
                self._replay()
            else:
                self._iterate()
                if iteration == 1 and n > 0:
                    # Every kernel has been loaded: from now on an iteration is one launch.
                    self._replay = device.record(self._iterate)
            if iteration >= self._expected - 1 and not bool(self._active.any()):
                self._expected = max(8, iteration)
                return iteration
        return most

    def _iterate(self) -> None:
        device, n, width = self._device, self._matrix.n, self._width
        high, low = device.module("sparse.cu", width), device.module("sparse.cu", width, "float")
        high.each("multiply", n * width, n, *self._matrix, self._p, self._q)
        self._products(low, self._p, self._q, None, 1)
        vectors = (self._p, self._q, self._x, self._r, self._low)
        low.each("advance", n * width, n, self._state, self._active, *vectors)
        self._precondition()
        self._products(low, self._r, self._r, self._z, 2)
        low.each("direction", n * width, n, self._state, self._z, self._p)

    def _products(self, kernels: Any, a: Any, b: Any, z: Any, what: int) -> None:
        kernels.teams(
            "dot_chunks", self._n_chunks, self._n_chunks, len(a), self._chunk, a, b, z, self._partial
        )
        state = (self._partial, None, self._state, self._active)
        kernels.teams("finish_dots", self._width, self._n_chunks, what, *state)

    def _precondition(self) -> None:
        """``_z`` from ``_low``: one symmetric V-cycle, or the diagonal."""
        n, kernels = self._matrix.n, self._device.module("sparse.cu", self._width, "float")
        if self._levels:
            self._cycle(kernels, 0, self._low, self._z)
        else:
            kernels.each("first_sweep", n * self._width, n, 1.0, self._inverse, self._low, self._z)

    def _cycle(self, kernels: Any, depth: int, rhs: Any, out: Any) -> None:
        width = self._width
        if depth == len(self._levels):
            n = len(self._coarse)
            kernels.each("multiply_dense", n * width, n, self._coarse, rhs, out)
            return
        level = self._levels[depth]
        n, n_coarse = level.matrix.n, level.restrict.n
        ends, (x, y) = (level.inverse, rhs), (level.x, level.y)
        first, *others = level.weights
        kernels.each("first_sweep", n * width, n, first, *ends, x)
        for weight in others:
            kernels.each("sweep", n * width, weight, n, *level.matrix, *ends, x, y)
            x, y = y, x
        kernels.each("residual", n * width, n, *level.matrix, x, rhs, y)
        kernels.each("multiply", n_coarse * width, n_coarse, *level.restrict, y, level.rhs)
        self._cycle(kernels, depth + 1, level.rhs, level.correction)
        kernels.each("add_product", n * width, n, *level.prolong, level.correction, x)
        for k, weight in enumerate(level.weights):
            to = out if k == len(level.weights) - 1 else y
            kernels.each("sweep", n * width, weight, n, *level.matrix, *ends, x, to)
            x, y = y, x


def _diagonal(device: Any, matrix: Csr) -> Any:
    out = device.xp.empty(matrix.n)
    device.module("multigrid.cu").each("diagonal", matrix.n, matrix.n, *matrix, out)
    return out


def aggregates(device: Any, matrix: Csr) -> tuple[Any, int]:
    """The aggregate of every vertex, and how many there are."""
    xp, n, kernels = device.xp, matrix.n, device.module("multigrid.cu")
    tickets, near, around = (xp.empty(n, xp.uint64) for _ in range(3))
    kernels.each("draw_tickets", n, n, tickets)
    undecided = xp.ones(1, xp.int32)
    while int(undecided[0]):
        undecided[:] = 0
        kernels.each("largest_ticket", n, n, *matrix, tickets, near)
        kernels.each("largest_ticket", n, n, *matrix, near, around)
        kernels.each("decide", n, n, around, tickets, undecided)
    root, joined, found = (xp.empty(n, xp.int32) for _ in range(3))
    kernels.each("is_root", n, n, tickets, root)
    number = xp.cumsum(root).astype(xp.int32)
    kernels.each("join", n, n, 1, *matrix, root, number, None, joined)
    kernels.each("join", n, n, 0, *matrix, root, number, joined, found)
    return found, int(number[-1])


def _without_hubs(device: Any, matrix: Csr) -> Csr:
    """As on the CPU (:mod:`isoweave.linalg`), but entries that leave are zeros."""
    most, counts = hub_limit(matrix.indptr), matrix.indptr[1:] - matrix.indptr[:-1]
    if not bool((counts > most).any()):
        return matrix
    data = device.xp.empty_like(matrix.data)
    device.module("multigrid.cu").each("leave_hubs", matrix.n, matrix.n, most, *matrix, data)
    return matrix._replace(data=data)


def _largest_eigenvalue(device: Any, matrix: Csr, inverse: Any) -> float:
    """Of D^-1 A, from a few steps of the power iteration, with a little more for what they miss."""
    xp, n, kernels = device.xp, matrix.n, device.module("sparse.cu")
    x = xp.sin(xp.arange(1, n + 1, dtype=xp.float64) ** 2)[:, None].copy()
    y, value, rows = xp.empty_like(x), 2.0, _Rows.of(xp, matrix)
    for _ in range(POWER_STEPS):
        x /= float(np.sqrt(float(column_dots(device, x, x)[0])))
        kernels.each("multiply", n, n, *rows, x, y)
        y *= inverse[:, None]
        value = float(np.sqrt(float(column_dots(device, y, y)[0])))
        x, y = y, x
    return MARGIN * value


def _prolongation(
    device: Any, matrix: Csr, inverse: Any, aggregate: Any, n_coarse: int, weight: float
) -> Csr:
    """``(I - w D^-1 A)`` applied to the aggregates: equal entries of a row are summed in a fixed order."""
    xp, n, kernels = device.xp, matrix.n, device.module("multigrid.cu")
    keys, values = xp.empty(len(matrix.data), xp.int64), xp.empty(len(matrix.data))
    entries = (*matrix, inverse, aggregate, keys, values)
    kernels.each("smoothed_entries", n, n, n_coarse, weight, *entries)
    order = xp.argsort(keys, kind="stable").astype(xp.int64)
    # Between the rows of hubs and others nothing is left.
    order = order[values[order] != 0.0]
    keys = keys[order]
    first = xp.ones(len(keys), dtype=bool)
    first[1:] = keys[1:] != keys[:-1]
    starts = xp.flatnonzero(first).astype(xp.int32)
    merged = xp.empty(len(starts))
    kernels.each("sum_runs", len(starts), len(starts), len(keys), starts, order, values, merged)
    keys = keys[starts]
    bounds = xp.arange(n + 1, dtype=xp.int64) * n_coarse
    indptr = xp.searchsorted(keys, bounds).astype(xp.int32)
    return Csr(indptr, (keys % n_coarse).astype(xp.int32), merged)


def _hierarchy(device: Any, matrix: Csr, diagonal: Any, width: int) -> tuple[list[_DeviceLevel], Any]:
    """The levels of the cycle, and the pseudo-inverse of the coarsest matrix."""
    xp, sparse = device.xp, device.sparse
    levels: list[_DeviceLevel] = []
    negligible = 1e-12 * float(diagonal.max())
    while matrix.n > COARSEST and len(levels) < MOST_LEVELS:
        n, inverse = matrix.n, 1.0 / diagonal
        near = _without_hubs(device, matrix)
        aggregate, n_coarse = aggregates(device, near)
        if n_coarse > LEAST_SHRINKING * n:
            break
        largest = _largest_eigenvalue(device, matrix, inverse)
        own = diagonal if near is matrix else _diagonal(device, near)
        scale = xp.where(own > negligible, 1.0, 0.0) / xp.where(own > negligible, own, 1.0)
        prolong = _prolongation(device, near, scale, aggregate, n_coarse, 4.0 / 3.0 / largest)
        p = sparse.csr_matrix((prolong.data, prolong.indices, prolong.indptr), shape=(n, n_coarse))
        a = sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=(n, n))
        restrict = p.T.tocsr()
        product = restrict @ (a @ p)
        single = (_Rows.of(xp, each, "float32") for each in (matrix, prolong, _csr(xp, restrict)))
        blocks = (xp.zeros((k, width), xp.float32) for k in (n, n, n_coarse, n_coarse))
        weights = tuple(part * 2.0 / largest for part in SWEEPS)
        arrays: Any = (*single, inverse.astype(xp.float32), weights, *blocks)
        levels.append(_DeviceLevel(*arrays))
        matrix = _csr(xp, product)
        diagonal = _diagonal(device, matrix)
    if matrix.n > LARGEST_INVERSE:
        return [], None
    dense = np.zeros((matrix.n, matrix.n))
    starts, columns, data = map(device.get, matrix)
    np.add.at(dense, (np.repeat(np.arange(matrix.n), np.diff(starts)), columns), data)
    values, vectors = np.linalg.eigh(0.5 * (dense + dense.T))
    sound = values > negligible
    inverse = (vectors * (np.where(sound, 1.0, 0.0) / np.where(sound, values, 1.0))) @ vectors.T
    return levels, device.put(inverse.astype(np.float32))


def _csr(xp: Any, matrix: Any) -> Csr:
    return Csr(matrix.indptr.astype(xp.int32), matrix.indices.astype(xp.int32), matrix.data)
