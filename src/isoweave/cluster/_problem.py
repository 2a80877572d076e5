"""The problem of a share: its energy, with the Laplacian in PETSc, for the optimisers of one machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray
from isoweave.cluster._frames import ShareEnergy
from isoweave.cluster._share import Ranks, Share, starts_of
from isoweave.energy import AnchorEnergy, Evaluation, GlobalEnergy, differences, divergence
from isoweave.linalg import FACTOR_TOL, SolverChoice
from isoweave.optimise import Problem

# Relative residual of a column, as on the GPU: energies of finished embeddings agree to ten digits.
TOLERANCE = 1e-10
_MOST_ITERATIONS = {"gamg": 300, "jacobi": 20_000}
# A relative residual that the optimiser can work with.
_USABLE = 1e-5
# From this dimension on neighbourhood graphs are so well connected that the diagonal does.
_WELL_CONDITIONED = 8
# Graphs with hubs are, too, and GAMG joins the aggregates of a hub's neighbours all with each other: 400
# leaves make a coarse matrix of 160,000 entries. A hub has more than so many neighbours: a tenth of the
# vertices, within these bounds.
_HUB_SHARE, _FEWEST_OF_A_HUB, _MOST_OF_NO_HUB = 0.1, 50, 1000
# Options of PETSc's database with this prefix, such as -isoweave_pc_type hypre, are heeded.
PREFIX = "isoweave_"
# PETSc finds the largest eigenvalue of a symmetric matrix by ten steps of CG. Where there are three (a star)
# three steps come to the end, and the next divide by rounding: 1e209 comes out, and on seven ranks jobs
# failed, presumably because they part ways over what is not a number. GMRES notices the end.
# Slower coarsening and one smoothing instead of two take two thirds of the time of PETSc's defaults on all
# kinds of our graphs, and fewer messages, for half as much memory again (of the matrices).
_GAMG = {
    f"{PREFIX}pc_gamg_esteig_ksp_type": "gmres",
    f"{PREFIX}mg_levels_esteig_ksp_type": "gmres",
    f"{PREFIX}pc_gamg_aggressive_coarsening": 0,
    f"{PREFIX}mg_levels_ksp_max_it": 1,
}
# The way PETSc multiplies matrices of coarse levels on several ranks.
_PRODUCTS = dict.fromkeys(("matptap_via", "matproduct_ptap_via"), "allatonce")
# One object of PETSc for every communicator, for ever. With the last one PETSc gives back its copy of the
# communicator, which all ranks must do together, while Python collects garbage on each when it likes.
_KEPT: dict[int, Any] = {}


class ClusterSolver:
    """The Laplacian of a connected graph in PETSc, plus a diagonal, prepared for many solves.

    ``both`` are the weights of both directions of the owned edges, ``more`` (n_owned,) the diagonal, ``held``
    owned rows where solutions are zero. Has what :class:`isoweave.linalg.PoissonState` has.
    """

    def __init__(self, share: Share, both: FloatArray, width: int, more: FloatArray, held: AnyArray) -> None:
        from petsc4py import PETSc

        self._share, self._ranks, self._petsc = share, share.ranks, PETSc
        self._held = np.zeros(share.n_owned, dtype=bool)
        self._held[held] = True
        self._is_free = not self._ranks.max(bool(self._held.any() or more.any()))
        self._matrix = self._assembled(both, more)
        most = self._ranks.max(np.diff(share.indptr).max(initial=0))
        hubs = most > min(max(_HUB_SHARE * share.n_vertices, _FEWEST_OF_A_HUB), _MOST_OF_NO_HUB)
        well = width >= _WELL_CONDITIONED or hubs
        why = "many dimensions are well conditioned" if well else "few dimensions"
        why = f"a vertex has {most} neighbours" if hubs else why
        self.choice = SolverChoice("jacobi" if well else "gamg", f"PETSc on {self._ranks.size} ranks, {why}")
        self.notes: list[str] = []
        self.ladder: tuple[str, ...] = ("jacobi",) if well else ("gamg", "jacobi")
        self._ksp: Any = None
        if not PETSc.Log.isActive():
            PETSc.Log.begin()
        comm = share.ranks.comm
        if comm.py2f() not in _KEPT:
            _KEPT[comm.py2f()] = PETSc.Vec().createMPI((0, 0), comm=comm)
        self._sent = self._so_far()
        self._x, self._b = self._matrix.createVecs()
        self.iterations = 0

    def _assembled(self, both: FloatArray, more: FloatArray) -> Any:
        share, n = self._share, self._share.n_owned
        rows = share.sources
        diagonal = np.bincount(rows, both, n) + more
        diagonal[self._held] = 1.0
        if not self._ranks.min(bool((diagonal > 0).all())):
            raise RuntimeError("a vertex has no edge with a weight")
        keep = both > 0
        if not self._is_free:
            keep &= ~self._held[rows] & ~share.fetch(share.indices, self._held)
        shape, starts = (n, share.n_vertices), starts_of(rows[keep], n)
        off = sp.csr_array((-both[keep], share.indices[keep], starts), shape=shape)
        own = np.arange(n + 1)
        rows_here = off + sp.csr_array((diagonal, own[:-1] + share.start, own), shape=shape)
        places = (part.astype(self._petsc.IntType) for part in (rows_here.indptr, rows_here.indices))
        csr = (*places, rows_here.data)
        matrix = self._petsc.Mat().createAIJ(size=(shape, shape), csr=csr, comm=share.ranks.comm)
        matrix.setOption(self._petsc.Mat.Option.SPD, True)
        if self._is_free:
            matrix.setNullSpace(self._petsc.NullSpace().create(constant=True, comm=share.ranks.comm))
        return matrix

    @property
    def solver(self) -> str:
        return self.ladder[0]

    def move_to(self, ladder: tuple[str, ...], notes: list[str]) -> None:
        """Go to where another state stood."""
        if not ladder or any(name not in _MOST_ITERATIONS for name in ladder):
            raise ValueError(
                f"it holds a solver that engine='petsc' does not have: {', '.join(ladder)!r:.60}"
            )
        self.ladder, self.notes, self._ksp = ladder, notes, None

    def _prepared(self) -> Any:
        """The solver with its coarse matrices, made with options of ours where none is given.

        By default these are sums of what other ranks sent in the order of its arrival: three ranks or more
        have other bits in every run. One rank sends nothing, and its matrices do not know the option.
        """
        if self._ksp is None:
            given = self._petsc.Options()
            ours: dict[str, Any] = _GAMG | (_PRODUCTS if self._ranks.size > 1 else {})
            ours = {name: value for name, value in ours.items() if not given.hasName(name)}
            for name, value in ours.items():
                given[name] = value
            try:
                ksp = self._petsc.KSP().create(comm=self._ranks.comm)
                ksp.setOptionsPrefix(PREFIX)
                ksp.setOperators(self._matrix)
                ksp.setType("cg")
                ksp.setNormType(self._petsc.KSP.NormType.UNPRECONDITIONED)
                ksp.getPC().setType(self.solver)
                ksp.setFromOptions()
                ksp.setUp()
            finally:
                for name in ours:
                    del given[name]
            self._ksp = ksp
        return self._ksp

    def solve(self, rhs: FloatArray, tol: float | None = None) -> FloatArray:
        """Solution of zero mean where the Laplacian is free, zero where it is held.

        As exact as a factor, whatever is asked: the answer must be that of one machine, which has factors.
        """
        value = np.empty_like(rhs)
        for c in range(rhs.shape[1]):
            value[:, c] = self._column(rhs[:, c], min(TOLERANCE if tol is None else tol, FACTOR_TOL))
        self._count()
        return value

    def _count(self) -> None:
        """Count the messages that PETSc has sent, beside our own."""
        before, self._sent = self._sent, self._so_far()
        self._ranks.counted(*(int(now - then) for now, then in zip(self._sent, before, strict=True)))

    def _so_far(self) -> tuple[float, float]:
        found = np.zeros(2)
        for event in ("PCSetUp", "KSPSolve"):
            info = self._petsc.Log.Event(event).getPerfInfo()
            reductions = info["numReductions"] if self._ranks.size > 1 else 0.0
            # PETSc counts what is sent and what is received, each rank both.
            found += info["numMessages"] / 2 + reductions, info["messageLength"] / 2 + 8.0 * reductions
        return found[0], found[1]

    def _column(self, rhs: FloatArray, tol: float) -> FloatArray:
        right = np.where(self._held, 0.0, rhs)
        if self._is_free:
            right -= self._ranks.total(right) / self._share.n_vertices
        size = np.sqrt(self._ranks.total(right * right))
        if size == 0.0:
            return np.zeros_like(right)
        # Scaled, because PETSc compares squares with the smallest numbers there are.
        self._b.array = right / size
        while True:
            ksp = self._prepared()
            ksp.setTolerances(rtol=tol, atol=0.0, max_it=_MOST_ITERATIONS[self.solver])
            self._x.set(0.0)
            ksp.solve(self._b, self._x)
            self.iterations += ksp.getIterationNumber()
            left = ksp.getResidualNorm()
            if ksp.getConvergedReason() > 0 or left <= max(tol, _USABLE):
                break
            self.notes.append(f"{self.solver} left a residual of {left:.1e}")
            if len(self.ladder) == 1:
                break
            self.ladder, self._ksp = self.ladder[1:], None
        x = self._x.array * size
        if self._is_free:
            x -= self._ranks.total(x) / self._share.n_vertices
        return x


@dataclass(frozen=True, eq=False)
class ShareAnchors(AnchorEnergy):
    """The anchors among the owned vertices; the energy is that of all."""

    ranks: Ranks

    def evaluate(self, x: FloatArray) -> Evaluation:
        here = super().evaluate(x)
        return replace(here, energy=float(self.ranks.sum(here.energy)))

    def motion(self, places: FloatArray) -> tuple[FloatArray, FloatArray]:
        """By the anchors of all ranks."""
        parts = (places, self.positions, self.weights)
        places, positions, weights = (self.ranks.everywhere(part) for part in parts)
        return AnchorEnergy(np.arange(len(weights)), positions, weights, len(weights)).motion(places)


@dataclass(frozen=True, eq=False)
class ClusterProblem(Problem):
    """Of a share: arrays have the owned rows, numbers are of all ranks."""

    frames: ShareEnergy  # type: ignore[assignment]
    metric: ClusterSolver  # type: ignore[assignment]

    @property
    def ranks(self) -> Ranks:
        return self.frames.ranks

    @property
    def shape(self) -> tuple[int, int]:
        """Of the owned rows."""
        return self.frames.patch.share.n_owned, self.frames.n_components

    def settle(self, x: FloatArray) -> FloatArray:
        if self.anchors is not None:
            return self.anchors.settle(x)
        return x - self.ranks.sum(x.sum(axis=0)) / self.graph.n_vertices

    def solve(self, rhs: FloatArray, tol: float | None = None) -> FloatArray:
        return self.metric.solve(rhs, tol)

    def dot(self, a: FloatArray, b: FloatArray) -> float:
        return self.ranks.total(np.multiply(a, b, dtype=np.float64))

    def integrate(self, alignments: FloatArray) -> FloatArray:
        patch, local = self.frames.patch, self.frames.edges
        graph, turns = patch.graph, patch.on_vertices(alignments)
        flux = local.flux(np.einsum("er,erc->ec", local.frames.rows, turns[graph.sources]))
        placed = np.zeros(self.shape)
        if self.anchors is not None:
            placed[self.anchors.vertices] = self.anchors.positions
            flux -= local.flux(differences(graph, patch.on_vertices(placed)))
        return placed + self.solve(divergence(graph, flux, local.team)[patch.own])

    def of_distances(self, graph: Any = None, part: float = 1.0) -> ClusterProblem:
        local = Problem(self.frames.edges, self.metric)  # type: ignore[arg-type]
        measured: Any = local.of_distances((graph or self.frames.graph).local, part).measured
        measured = replace(self.frames, local=measured)
        return replace(self, measured=measured)


def cluster_problem(
    frames: ShareEnergy,
    anchors: AnchorEnergy | None = None,
    far: GlobalEnergy | None = None,
    near: FloatArray | None = None,
) -> ClusterProblem:
    """As :func:`isoweave.optimise.build_problem`."""
    patch, local = frames.patch, frames.edges
    both = (local.weights + local.weights[patch.graph.reverse])[patch.own_edges]
    more, held = np.zeros(patch.share.n_owned), np.empty(0, dtype=np.int64)
    if far is not None:
        assert near is not None
        more += far.springs(near)
    if anchors is not None:
        more[anchors.pulled] += anchors.pull
        held = anchors.held
    metric = ClusterSolver(patch.share, both, local.frames.n_components, more, held)
    return ClusterProblem(frames, metric, anchors, far=far)
