"""Starts on the device: landmarks, the coarse start, and the problem that they begin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse.csgraph import dijkstra

from isoweave._lazy import computed_once
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave.cuda._frames import DeviceDistances, DeviceEdgeEnergy, calibrated, device_energy, device_frames
from isoweave.cuda._graph import DeviceGraph, column_dots, joined, team_memory
from isoweave.cuda._prepare import is_connected
from isoweave.cuda._solver import DeviceSolver
from isoweave.energy import Evaluation, edge_energy
from isoweave.optimise import (
    LBFGS,
    N_LANDMARKS,
    SAMPLE_FRAME,
    SYNCHRONIZED_LIMIT,
    THINNING,
    Problem,
    Run,
    build_problem,
    landmark_projector,
    minimise_from,
)

_AUXILIARY_STEPS = 100
_SAMPLE_NEIGHBORS, _ANCHORS, _BALL_SLACK = 14, 8, 3
_BALLS_AT_ONCE = 2**18
_SMOOTHING_SWEEPS = 5
# Relaxations between two looks at whether anything changed.
_RELAXATIONS = 8


@dataclass(frozen=True, eq=False)
class DeviceProblem(Problem):
    """The problem on the device; ``team`` is for what stays on the host."""

    frames: Any
    metric: Any
    measured: Any = None
    far: Any = None
    team: ThreadTeam = ONE_THREAD

    @property
    def graph(self) -> Any:
        return self.frames.graph

    @property
    def energy(self) -> DeviceProblem:  # type: ignore[override]
        return self

    def suspects(self) -> dict[str, Any]:
        terms = (self.measured or self.frames, self.far)
        return {k: v for term in terms if term is not None for k, v in term.suspects().items()}

    @computed_once
    def mass(self) -> float:
        return (self.measured or self.frames).mass

    def settle(self, x: Any) -> Any:
        return x - column_dots(self.graph.device, x, self.graph.device.xp.ones_like(x)) / len(x)

    def evaluate(self, x: Any) -> Evaluation:
        here = (self.measured or self.frames).evaluate(x)
        if self.far is None:
            return here
        there = self.far.evaluate(x)
        half = here.half_gradient + there.half_gradient
        energies = here.energies + there.energies
        return Evaluation(here.energy + there.energy, half, here.alignments, energies)

    def dot(self, a: Any, b: Any) -> float:
        return float(np.sum(self.graph.device.get(column_dots(self.graph.device, a, b))))

    def plus(self, a: Any, factor: float, b: Any, out: Any = None) -> Any:
        return self.graph.device.xp.add(a, factor * b, out=out)

    def remembered(self, array: Any) -> Any:
        return array

    def is_finite(self, array: Any) -> bool:
        return bool(self.graph.device.xp.isfinite(array).all())

    def on_host(self, x: Any) -> Any:  # type: ignore[override]
        return self.graph.device.get(x)

    def of_distances(self, graph: Any = None, part: float = 1.0) -> DeviceProblem:
        weights, rest = self.frames.weights, None
        if part < 1.0:
            rest = replace(self.frames, weights=(1.0 - part) * weights)
        return replace(self, measured=DeviceDistances(graph, self.shape[1], part * weights, rest))


def device_problem(frames: DeviceEdgeEnergy, team: ThreadTeam, more: Any = None) -> DeviceProblem:
    """The energy with its Laplacian, and ``more`` (n,) on the diagonal, prepared."""
    both = frames.weights + frames.weights[frames.graph.reverse]
    solver = DeviceSolver(frames.graph, both, frames.frames.n_components, more)
    return DeviceProblem(frames, solver, team=team)


def device_geodesics(graph: DeviceGraph, sources: Any) -> Any:
    """Shortest paths from every source (l,) to all vertices, shape (n, l), to the last bit."""
    xp, kernels = graph.device.xp, graph.device.module("balls.cu", 2)
    n, count = graph.n_vertices, len(sources)
    distances, changed = xp.full((n, count), xp.inf), xp.ones(1, xp.int32)
    distances[xp.asarray(sources), xp.arange(count)] = 0.0
    arrays = (graph.indptr, graph.indices, graph.lengths, distances, changed)
    while int(changed[0]):
        changed[:] = 0
        for _ in range(_RELAXATIONS):
            kernels.each("relax", n * count, n, count, *arrays)
    return distances


def device_landmarks(graph: DeviceGraph, n_components: int) -> tuple[Any, Any]:
    """Vertices far from each other (l,), on the host, and the shortest paths from them (n, l)."""
    xp, n = graph.device.xp, graph.n_vertices
    wanted = min(max(N_LANDMARKS, 2 * n_components + 2), n)
    crowding = graph.sums_of_lengths / xp.maximum(graph.degrees, 1)
    crowding = xp.where(graph.degrees > 0, crowding, xp.inf)
    nearest = device_geodesics(graph, [int(xp.argmin(crowding))])[:, 0]
    landmarks, distances = np.empty(wanted, dtype=np.int32), xp.empty((n, wanted))
    for a in range(wanted):
        landmarks[a] = int(xp.argmax(nearest))
        distances[:, a] = device_geodesics(graph, landmarks[a : a + 1])[:, 0]
        nearest = distances[:, a].copy() if a == 0 else xp.minimum(nearest, distances[:, a])
    return landmarks, distances


def scaled_landmarks(graph: DeviceGraph, landmarks: Any, distances: Any, n_components: int) -> Any:
    """Coordinates of all vertices from their distances (n, l) to the landmarks (eq. 13), shape (n, N)."""
    device = graph.device
    means, projector = landmark_projector(device.get(distances[device.put(landmarks)]).T, n_components)
    return -0.5 * (distances**2 - device.put(means)) @ device.put(projector)


def _landmark(problem: DeviceProblem, tol: float, run: Run) -> Any:
    width = problem.shape[1]
    return scaled_landmarks(problem.graph, *device_landmarks(problem.graph, width), width)


def _coarse(problem: DeviceProblem, tol: float, run: Run) -> Any:
    """Embed a sample of the vertices with its geodesics, and place the others around it."""
    graph, width, device = problem.graph, problem.shape[1], problem.graph.device
    sample, anchors, distances, filled = coarsen(graph)
    if sample.n_vertices <= width + 1 or not is_connected(sample):
        return None
    optimiser, aside = LBFGS(tol, _AUXILIARY_STEPS), run.aside()
    frames = calibrated(sample, device_frames(sample, width, SAMPLE_FRAME), "rows")
    if sample.n_vertices * width <= SYNCHRONIZED_LIMIT:
        # So few that the host is as fast at the rest.
        names = ("rows", "included", "spectrum", "fidelity")
        local = replace(frames, **{name: device.get(getattr(frames, name)) for name in names})
        host = build_problem(edge_energy(sample.to_host(), local, team=problem.team))
        found = minimise_from(host, optimiser, "auto", tol, "coarse start", aside)[1]
        places = device.put(found.coordinates)
    else:
        there = device_problem(device_energy(sample, frames), problem.team)
        found = minimise_from(there, optimiser, "auto", tol, "coarse start", aside, DEVICE_STARTS)[1]
        places = found.coordinates
    return prolong(graph, anchors, distances, filled, places)


DEVICE_STARTS: dict[str, Any] = {"landmark": _landmark, "coarse": _coarse}


def sampled(graph: DeviceGraph, size: int) -> Any:
    """As :func:`isoweave.optimise.sample_vertices`."""
    xp, sums = graph.device.xp, graph.sums_of_lengths
    scramble = xp.modf(sums / xp.median(sums) * (1e6 * np.sqrt(2.0)))[0]
    order = xp.argsort(scramble, kind="stable")
    ordered = scramble[order]
    if bool((ordered[1:] == ordered[:-1]).any()):
        ties = graph.device.put(np.random.default_rng(11).permutation(graph.n_vertices))
        by_tie = xp.argsort(ties, kind="stable")
        order = by_tie[xp.argsort(scramble[by_tie], kind="stable")]
    return xp.sort(order[:size]).astype(xp.int32)


def coarsen(graph: DeviceGraph) -> tuple[DeviceGraph, Any, Any, Any]:
    """As :func:`isoweave.optimise.coarsen`: the sample's graph; anchors of vertices, how far, how many."""
    device, n = graph.device, graph.n_vertices
    xp, kernels = device.xp, device.module("balls.cu", 2)
    sample = sampled(graph, max(n // THINNING, 2))
    n_sample = len(sample)
    is_sample, number = xp.zeros(n, xp.int32), xp.full(n, -1, xp.int32)
    is_sample[sample], number[sample] = 1, xp.arange(n_sample, dtype=xp.int32)
    width = min(n, _BALL_SLACK * _SAMPLE_NEIGHBORS * THINNING)
    found: list[tuple[Any, Any, Any]] = []
    for lo in range(0, n_sample, _BALLS_AT_ONCE):
        centres = sample[lo : lo + _BALLS_AT_ONCE]
        count = len(centres)
        members, distances = xp.empty((count, width), xp.int32), xp.empty((count, width))
        counts = xp.full(count, -1, xp.int32)
        edges = (graph.indptr, *graph.by_length, members, distances, counts)
        items, capacity = xp.arange(count, dtype=xp.int32), 512
        while len(items):
            words = 3 * capacity + (width + 1) // 2
            scratch, more = team_memory(device, words, len(items), 256, part=4)
            sizes = (items, centres, is_sample, _SAMPLE_NEIGHBORS, width, capacity, words, scratch)
            kernels.teams("sample_balls", len(items), len(items), *sizes, *edges, **more)
            items, capacity = items[counts[items] < 0], 16 * capacity
        ball, position = xp.nonzero(xp.arange(width, dtype=xp.int32) < counts[:, None])
        found.append((members[ball, position], distances[ball, position], ball.astype(xp.int32) + lo))
    vertices, lengths, balls = (xp.concatenate(parts) for parts in zip(*found, strict=True))
    hit = (number[vertices] >= 0) & (lengths > 0)
    sample_graph = joined(device, n_sample, balls[hit], number[vertices[hit]], lengths[hit])
    # Balls come in their order: nearest first, then by vertex.
    order = xp.argsort(lengths, kind="stable")
    order = order[xp.argsort(vertices[order], kind="stable")]
    vertices, lengths, balls = vertices[order], lengths[order], balls[order]
    starts = xp.searchsorted(vertices, xp.arange(n + 1, dtype=xp.int32)).astype(xp.int64)
    place = xp.arange(len(vertices)) - starts[vertices]
    kept = place < _ANCHORS
    anchors, nearest = xp.zeros((n, _ANCHORS), xp.int32), xp.zeros((n, _ANCHORS))
    at = (vertices[kept], place[kept])
    anchors[at], nearest[at] = balls[kept], lengths[kept]
    filled = xp.minimum(starts[1:] - starts[:-1], _ANCHORS).astype(xp.int32)
    return sample_graph, anchors, nearest, filled


def prolong(graph: DeviceGraph, anchors: Any, distances: Any, filled: Any, places: Any) -> Any:
    """As :func:`isoweave.optimise.prolong`."""
    device, n, width = graph.device, graph.n_vertices, places.shape[1]
    xp, kernels = device.xp, device.module("balls.cu", width)
    x, y = xp.zeros((n, width)), xp.empty((n, width))
    kernels.each("triangulate", n, n, _ANCHORS, filled, anchors, distances, xp.ascontiguousarray(places), x)
    missing = filled == 0
    if bool(missing.any()):
        # Off the beaten track: the place of the nearest vertex that has one.
        gone = device.get(missing)
        sources, matrix = np.flatnonzero(~gone), graph.to_host().to_matrix()
        nearest = dijkstra(matrix, indices=sources, min_only=True, return_predecessors=True)[2]
        x[missing] = x[device.put(nearest[gone])]
    for _ in range(_SMOOTHING_SWEEPS):
        kernels.each("smooth_places", n * width, n, graph.indptr, graph.indices, x, y)
        x, y = y, x
    return x
