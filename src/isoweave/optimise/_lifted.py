"""The lifted start: measured distances fitted in more dimensions than wanted, the others squeezed out.

What is stuck in N dimensions, a piece that is folded over or mirrored, turns round through the others. Where
the distances are exact, pieces that are still mirrored are found by placing vertex after vertex again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from isoweave._lazy import computed_once
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.energy import DistanceEnergy
from isoweave.geometry import edge_lengths, rigid_motion
from isoweave.graph import NeighborGraph, longer_than_detours, subgraph
from isoweave.linalg import BlockCholesky
from isoweave.optimise._run import ALONE, Run

# Dimensions beside the wanted ones (of the first try, the second, the third), the number of steps there, and
# the pulls that squeeze them out.
EXTRA = (2, 3, 1)
_LIFTED_STEPS = 40
_PULLS = np.geomspace(2e-5, 2.0, 16)
_STEPS_PER_PULL = 12
_SQUEEZED = 1e-6
_OUT_OF_PLANE = 0.01
_LAST_STEPS = 200
# Part of the energy that a step gains at least: of those on the way, and at the end.
_GAIN, _LAST_GAIN = 1e-2, 1e-4
_NO_ENERGY = 1e-28
_REJECTED_AT_MOST = 12
# Root mean square of the errors of the edges, relative to the lengths, of a map that meets them. Local minima
# of exact distances have 1e-5 and more; lengths in single precision leave 1e-7.
_MET = 1e-6
# At most, of a map that the frames could only make worse.
_NEARLY_MET = 2e-3
# Of maps of exact distances that are stuck: vertices at most, misfit, and the error of the median vertex over
# the mean. Sheets of 600 to 1,500 points have 1e-4 and .3 where nothing is wrong, 1e-2 and 2e-4 where a piece
# is folded. A swiss roll in three dimensions, whose chords are exact, has 5e-3 and .7.
MENDED, _STUCK, _ELSEWHERE = 5_000, 3e-4, 0.01
# Cliques of N + 2 vertices looked at; part of them to be flat, and the square of their height that is none:
# lengths of a few Angstrom with six decimals leave 1e-7, and 5,000 points of a shallow bowl have 3e-7.
_CLIQUES, _FEWEST_CLIQUES, _FLAT_PART, _NO_HEIGHT = 100, 10, 0.9, 2e-7
# Of placing vertices again: times, growth between two fits of all that is placed, squared errors of a vertex
# that are rounding and those that are a contradiction, and by how much another place has to be better.
_REBUILDS = 4
_GROWTH = 1.3
_ROUNDING, _CONTRADICTION = 1e-14, 1e-10
_MUCH_BETTER = 0.01


@dataclass(frozen=True, eq=False)
class LiftedFit:
    """Squares of ``|x_j - x_i| - d_ij``, and a pull on all coordinates beyond ``n_kept`` (eq. 30)."""

    graph: NeighborGraph
    n_kept: int
    n_all: int
    team: ThreadTeam

    @computed_once
    def energy(self) -> DistanceEnergy:
        return DistanceEnergy(self.graph, self.n_all, np.ones(len(self.graph.lengths)), self.team)

    @computed_once
    def _factor(self) -> BlockCholesky:
        return BlockCholesky(self.graph.indptr, self.graph.indices, self.n_all)

    def evaluate(self, x: FloatArray, pull: float) -> tuple[float, FloatArray]:
        """Value and half the gradient."""
        here, extra = self.energy.evaluate(x), x[:, self.n_kept :]
        here.half_gradient[:, self.n_kept :] += pull * extra
        return here.energy + pull * float(np.sum(extra * extra)), here.half_gradient

    def matrix(self, x: FloatArray, pull: float) -> FloatArray:
        """Half the Gauss-Newton matrix, in the order of :class:`isoweave.linalg.BlockCholesky`."""
        from isoweave.engines import lifting as kernels

        graph, both = self.graph, np.full(len(self.graph.lengths), 2.0)
        values = np.empty(self.n_all**2 * (len(both) + len(x)))
        edges = (graph.indptr, graph.indices, graph.lengths, both)
        self.team.run(kernels.gauss_newton, len(x), *edges, pull, self.n_kept, x, values)
        return values

    def descend(
        self, x: FloatArray, pull: float, *, steps: int, gain: float, damping: float, run: Run = ALONE
    ) -> FloatArray:
        """Levenberg-Marquardt from ``x``, with Nielsen's rule for the damping."""
        energy, gradient = self.evaluate(x, pull)
        enough = _NO_ENERGY * float(np.sum(self.graph.lengths**2))
        for _ in range(steps):
            values, growth = self.matrix(x, pull), 2.0
            for _ in range(_REJECTED_AT_MOST):
                move = self._factor.solve(values, damping, -gradient, self.team)
                if move is not None:
                    trial = x + move
                    value, half_gradient = self.evaluate(trial, pull)
                    if value < energy:
                        break
                damping, growth = damping * growth, 2.0 * growth
            else:
                break
            foreseen = float(np.sum(move * (damping * move - gradient)))
            gained, quality = energy - value, (energy - value) / max(foreseen, np.finfo(float).tiny)
            damping = max(damping * max(0.2, 1.0 - (2.0 * quality - 1.0) ** 3), 1e-14)
            is_last = value < enough or gained < gain * energy or bool(run.interrupt.ending)
            x, energy, gradient = trial, value, half_gradient
            if is_last:
                break
        return x


def misfit(graph: NeighborGraph, x: FloatArray) -> float:
    """Root mean square of the errors of the edges, relative to that of the lengths."""
    return float(np.sqrt(np.sum(_errors(graph, x)) / np.sum(graph.lengths**2)))


def is_met(graph: NeighborGraph, x: FloatArray) -> bool:
    """Whether a map has the measured lengths."""
    return misfit(graph, x) <= _MET


def _errors(graph: NeighborGraph, x: FloatArray) -> AnyArray:
    """Squared errors of the edges of every vertex, shape (n,)."""
    return np.bincount(graph.sources, (edge_lengths(graph, x) - graph.lengths) ** 2, graph.n_vertices)


def is_trusted(graph: NeighborGraph, x: FloatArray) -> bool:
    """Whether a fit of the distances is the map: they are nearly met, or could be."""
    return misfit(graph, x) <= _NEARLY_MET or seems_exact(graph, x.shape[1])


def seems_exact(graph: NeighborGraph, n_components: int) -> bool:
    """Whether cliques of N + 2 vertices lie in N dimensions, as they do if distances have no error."""
    n_found = n_flat = 0
    for clique in _cliques(graph, n_components + 2):
        squares = clique * clique
        means = squares.mean(axis=0)
        values = np.linalg.eigvalsh(0.5 * (means[:, None] + means - means.mean() - squares))
        n_found += 1
        n_flat += bool(np.abs(values[[0, 1]]).max() <= _NO_HEIGHT * values[-1])
    return n_found >= _FEWEST_CLIQUES and n_flat >= _FLAT_PART * n_found


def _cliques(graph: NeighborGraph, size: int) -> Iterator[FloatArray]:
    """Distances (size, size) within cliques around vertices spread over the numbering."""
    n = graph.n_vertices
    edges = [
        dict(zip(graph.indices[lo:hi].tolist(), graph.lengths[lo:hi].tolist(), strict=True))
        for lo, hi in zip(graph.indptr[:-1].tolist(), graph.indptr[1:].tolist(), strict=True)
    ]
    for first in np.unique(np.linspace(0, n - 1, _CLIQUES).astype(int)).tolist():
        members = [first]
        for other in edges[first]:
            if all(other in edges[member] for member in members):
                members.append(other)
            if len(members) == size:
                yield np.array([[edges[a].get(b, 0.0) for b in members] for a in members])
                break


def lifted(
    graph: NeighborGraph,
    n_components: int,
    landmarks: Callable[[int], FloatArray],
    team: ThreadTeam,
    run: Run = ALONE,
) -> FloatArray:
    """The lifted start (n, N) of a connected graph: in more dimensions first (eqs. 30, 31).

    ``landmarks`` is the start from landmarks in so many dimensions. Of exact distances that are not met,
    others are tried: which pieces end up mirrored is a matter of luck.
    """
    found: list[tuple[float, FloatArray]] = []
    for number, extra in enumerate(EXTRA):
        start = landmarks(n_components + extra)
        # On flat data landmarks know nothing of other dimensions, and nothing would lead out of a plane.
        start = start + _OUT_OF_PLANE * np.random.default_rng(13 + number).standard_normal(start.shape)
        x = lifted_map(graph, n_components, start, team=team, run=run)
        found.append((misfit(graph, x), x))
        if is_met(graph, x) or run.interrupt.ending or not is_trusted(graph, x):
            break
    return min(found, key=lambda pair: pair[0])[1]


def lifted_map(
    graph: NeighborGraph, n_components: int, start: FloatArray, *, team: ThreadTeam, run: Run = ALONE
) -> FloatArray:
    """Map (n, N) that fits the distances of a connected graph, from a ``start`` in more dimensions.

    ``start`` is turned to its principal axes before every step of the squeeze, so that the directions that
    are to go are those in which the map extends least.
    """
    lifted = LiftedFit(graph, n_components, start.shape[1], team)
    flat = LiftedFit(graph, n_components, n_components, team)
    x = lifted.descend(
        _to_principal_axes(start), 0.0, steps=_LIFTED_STEPS, gain=_LAST_GAIN, damping=2.0, run=run
    )
    for pull in _PULLS:
        x = _to_principal_axes(x)
        x = lifted.descend(x, pull, steps=_STEPS_PER_PULL, gain=_GAIN, damping=2e-3, run=run)
        if np.linalg.norm(x[:, n_components:]) <= _SQUEEZED * np.linalg.norm(x):
            break
    x = np.ascontiguousarray(_to_principal_axes(x)[:, :n_components])
    return _polished(flat, x, run)


def mended(graph: NeighborGraph, x: FloatArray, team: ThreadTeam, run: Run = ALONE) -> FloatArray | None:
    """The map with all measured lengths near ``x`` (n, N), which has most; None if there is none.

    Somewhere a piece is folded over, which no descent undoes, and what hangs on it leans.
    """
    if graph.n_vertices > MENDED or misfit(graph, x) <= _STUCK:
        return None
    errors = _errors(graph, x)
    if np.median(errors) > _ELSEWHERE * errors.mean():
        return None
    # Lengths that are wrong have errors of their own.
    if not seems_exact(graph, x.shape[1]) or longer_than_detours(graph).any():
        return None
    run.stage("placing again")
    y = _polished(LiftedFit(graph, x.shape[1], x.shape[1], team), x, run, times=2)
    return y if is_met(graph, y) else None


def _polished(flat: LiftedFit, x: FloatArray, run: Run, times: int = _REBUILDS) -> FloatArray:
    """Fitted to the distances, and vertices placed again where pieces are mirrored."""
    graph, team = flat.graph, flat.team
    x = flat.descend(x, 0.0, steps=_LAST_STEPS, gain=1e-7, damping=2e-3, run=run)
    if not is_trusted(graph, x):
        return x
    left = misfit(graph, x)
    for number in range(times):
        if left <= _MET or run.interrupt.ending:
            break
        run.stage("placing again")
        y = flat.descend(
            rebuilt(graph, x, number, team=team), 0.0, steps=_LAST_STEPS, gain=_LAST_GAIN, damping=2e-6
        )
        better = misfit(graph, y)
        if better < left:
            x, left = y, better
    return x


def _to_principal_axes(x: FloatArray) -> FloatArray:
    x = x - x.mean(axis=0)
    return np.ascontiguousarray(x @ np.linalg.eigh(x.T @ x)[1][:, ::-1])


def rebuilt(graph: NeighborGraph, x: FloatArray, number: int, *, team: ThreadTeam) -> FloatArray:
    """Coordinates (n, N) by placing vertex after vertex so that exact distances to those before are met.

    Always the vertex with the most distances to those before is next. The map ``x`` says where it is, as seen
    from around it, mirrored if need be, and distances decide between that place and the one behind the
    hyperplane of its neighbours. So mirrored pieces of ``x`` end where distances speak against them. The
    first vertex is one whose surroundings fit, the ``number``-th of those that are far from each other.
    """
    growth = _Growth(graph, x, np.zeros_like(x), np.zeros(graph.n_vertices, dtype=np.bool_), {}, team)
    first = _seed(graph, x, number)
    begin = np.append(growth.neighbors(first), first)
    growth.y[begin], growth.placed[begin] = x[begin], True
    growth.fit()
    counts = np.bincount(graph.indices[growth.placed[graph.sources]], minlength=graph.n_vertices)
    fitted = n_placed = np.count_nonzero(growth.placed)
    while n_placed < graph.n_vertices:
        vertex = int(np.argmax(np.where(growth.placed, -1, counts)))
        error = growth.place(vertex)
        counts[growth.neighbors(vertex)] += 1
        n_placed += 1
        if n_placed > _GROWTH * fitted or (error > _CONTRADICTION and n_placed > 1.02 * fitted):
            growth.fit()
            fitted = n_placed
    return growth.y


def _seed(graph: NeighborGraph, x: FloatArray, number: int) -> int:
    errors = _errors(graph, x)
    errors = errors + np.bincount(graph.sources, errors[graph.indices]) / graph.degrees
    degree = min(2 * x.shape[1], int(graph.degrees.max()))
    good = np.flatnonzero(graph.degrees >= degree)
    good = good[errors[good] <= np.median(errors[good])]
    at, away = good[np.argmin(errors[good])], np.full(len(good), np.inf)
    for _ in range(number):
        away = np.minimum(away, np.sum((x[good] - x[at]) ** 2, axis=1))
        at = good[np.argmax(away)]
    return int(at)


@dataclass(frozen=True, eq=False)
class _Growth:
    """Vertices ``placed`` so far at ``y``, and the places ``other`` where some might be as well."""

    graph: NeighborGraph
    x: FloatArray
    y: FloatArray
    placed: AnyArray
    other: dict[int, FloatArray]
    team: ThreadTeam

    def neighbors(self, vertex: int) -> IntArray:
        return self.graph.indices[self.graph.indptr[vertex] : self.graph.indptr[vertex + 1]]

    def fit(self) -> None:
        """All that is placed, to the distances between them."""
        at = np.flatnonzero(self.placed)
        part, n_components = subgraph(self.graph, at), self.y.shape[1]
        fit = LiftedFit(part, n_components, n_components, self.team)
        self.y[at] = fit.descend(self.y[at], 0.0, steps=30, gain=_GAIN, damping=2e-6)

    def place(self, vertex: int) -> float:
        """Place a vertex; the sum of the squared errors of its edges."""
        near, lengths = self._around(vertex)
        frame = np.unique(np.concatenate([near, *map(self.neighbors, near)]))
        frame = frame[self.placed[frame]]
        rotation, shift = rigid_motion(self.x[frame], self.y[frame])
        guess = self.x[vertex] @ rotation + shift
        point, error, behind, other = _either_place(self.y[near], lengths, guess)
        if error > _CONTRADICTION:
            point, error = self._reconsider(near, lengths, guess, point, error)
        elif other <= _CONTRADICTION:
            self.other[vertex] = behind
        self.y[vertex], self.placed[vertex] = point, True
        return error

    def _around(self, vertex: int) -> tuple[AnyArray, FloatArray]:
        """Its placed neighbours, and how far they are."""
        edges = slice(self.graph.indptr[vertex], self.graph.indptr[vertex + 1])
        placed = self.placed[self.graph.indices[edges]]
        return self.graph.indices[edges][placed], self.graph.lengths[edges][placed]

    def _reconsider(
        self, near: AnyArray, lengths: FloatArray, guess: FloatArray, point: FloatArray, error: float
    ) -> tuple[FloatArray, float]:
        """Whether one of its neighbours is better placed where it might be as well."""
        for j in near.tolist():
            if j in self.other:
                kept, (around, distances) = self.y[j].copy(), self._around(j)
                self.y[j], moved = _place(self.y[around], distances, self.other[j])
                there, found, _, _ = _either_place(self.y[near], lengths, guess)
                if found + moved < _MUCH_BETTER * error:
                    self.other[j] = kept
                    return there, found
                self.y[j] = kept
        return point, error


def _either_place(
    places: FloatArray, lengths: FloatArray, guess: FloatArray
) -> tuple[FloatArray, float, FloatArray, float]:
    """Places at these distances from others, one on either side of their hyperplane, and their errors."""
    centre = places.mean(axis=0)
    normal = np.linalg.svd(places - centre)[2][-1]
    point, error = _place(places, lengths, guess)
    behind, other = _place(places, lengths, guess - 2.0 * ((guess - centre) @ normal) * normal)
    if other < _MUCH_BETTER * error and error > _ROUNDING * len(places):
        return behind, other, point, error
    return point, error, behind, other


def _place(places: FloatArray, lengths: FloatArray, point: FloatArray) -> tuple[FloatArray, float]:
    """Levenberg-Marquardt for one point at these distances from others; the sum of squared errors."""

    def seen_from(point: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        steps = point - places
        found = np.sqrt(np.einsum("kc,kc->k", steps, steps))
        return steps, found, float(np.sum((found - lengths) ** 2))

    damping, identity = 1e-6, np.eye(len(point))
    steps, found, error = seen_from(point)
    for _ in range(30):
        directions = steps / np.maximum(found, 1e-12)[:, None]
        matrix = directions.T @ directions + damping * identity
        trial = point - np.linalg.solve(matrix, directions.T @ (found - lengths))
        *there, error_there = seen_from(trial)
        if error_there < error:
            is_last = error - error_there < 1e-6 * error or error_there < 1e-30
            point, (steps, found), error = trial, there, error_there
            damping = max(0.1 * damping, 1e-12)
            if is_last:
                break
        else:
            damping *= 10.0
            if damping > 1e3:
                break
    return point, error
