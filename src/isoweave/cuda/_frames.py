"""Local frames on the device, and the energies made of them: frames, distances, long distances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isoweave._lazy import computed_once
from isoweave.cuda._graph import DeviceGraph, column_dots, team_memory, total
from isoweave.energy import Evaluation, GlobalEnergy
from isoweave.geometry import (
    HUB_LIMIT,
    ROOM_PER_FRAME,
    SHORTEST_ROW,
    LocalFrames,
    edges_between_hubs,
    long_edges,
    resolve_frame_size,
)

_SAME_SIZE = 1e8
# More vertices than the room as a rule holds, in the first pass, which works in fast memory.
_SPARE_ROOM, _SPARE_FRAME = 6, 7
# What does not fit is tried again with so many times that; what still does not, in ordinary memory.
_GROWTHS = (1.0, 1.6, 2.6)
_TEAMS_WITH_SCRATCH = 2048
# Vertices whose rooms are kept at once, and so many where rooms are large.
_VERTICES_AT_ONCE, _LARGE_AT_ONCE = 2**20, 2**12
_BLOCK = 512


def device_frames(graph: DeviceGraph, n_components: int, frame_size: int | float | str) -> LocalFrames:
    """As :func:`isoweave.geometry.local_frames`, without inverse frames."""
    xp, size = graph.device.xp, resolve_frame_size(graph.degrees, frame_size, n_components)
    near = ~long_edges(graph, n_components, graph.by_length, xp)
    if bool(near.all()):
        return _frames_of_size(graph, n_components, size)
    kept = _frames_of_size(graph.keep(near), n_components, size)
    rows, included = xp.zeros((len(near), n_components)), xp.zeros(len(near), dtype=bool)
    rows[near], included[near] = kept.rows, kept.included
    return replace(kept, rows=rows, included=included)


def _frames_of_size(graph: DeviceGraph, n_components: int, size: int) -> LocalFrames:
    device, n, m = graph.device, graph.n_vertices, len(graph.indices)
    xp = device.xp
    row_limit, room_size = max(size, HUB_LIMIT), int(np.ceil(ROOM_PER_FRAME * size)) + 1
    most = min(room_size + size + 1, n)
    rows, included = xp.zeros((m, n_components)), xp.zeros(m, dtype=bool)
    spectrum, status = xp.zeros((n, n_components + 1)), xp.ones(n, dtype=xp.int32)
    hubs = graph.degrees > row_limit
    forced = None
    if bool((hubs[graph.sources] & hubs[graph.indices]).any()):
        forced = device.put(edges_between_hubs(graph.to_host(), row_limit))
    maker = _Maker(
        graph, n_components, size, room_size, row_limit, most, forced, rows, included, spectrum, status
    )
    for first in range(0, n, _VERTICES_AT_ONCE):
        maker.make(first, min(first + _VERTICES_AT_ONCE, n))
    assert not bool((status > 0).any()), "a frame was left out"
    leading, power = spectrum[:, :-1].copy(), spectrum[:, -1]
    explained = (leading * leading).sum(axis=1)
    fidelity = xp.where(power > 0, explained / xp.where(power > 0, power, 1.0), 1.0)
    return LocalFrames(rows, included, leading, xp.minimum(fidelity, 1.0))


@dataclass(frozen=True, eq=False)
class _Maker:
    """Makes the frames of ranges of vertices, most in fast memory, the others again in ordinary memory."""

    graph: DeviceGraph
    n_components: int
    size: int
    room_size: int
    row_limit: int
    most: int
    forced: Any
    rows: Any
    included: Any
    spectrum: Any
    status: Any

    def make(self, first: int, last: int) -> None:
        xp, n = self.graph.device.xp, self.graph.n_vertices
        everyone, status = xp.arange(first, last, dtype=xp.int32), self.status[first:last]
        # Where most of the spectrum is wanted, all of it is computed at once.
        full = 3 * (self.n_components + 2) >= self.size
        for growth in _GROWTHS:
            items = everyone[status > 0]
            room = min(int(growth * (self.room_size + _SPARE_ROOM)), n)
            frame = min(int(growth * (self.size + _SPARE_FRAME)), n)
            if len(items) == 0 or not self._fits(self._words(room, frame, full)):
                break
            tables, slots = self._tables(len(items), room), xp.zeros(last - first, xp.int32)
            slots[items - first] = xp.arange(len(items), dtype=xp.int32)
            capacity = _power_of_two(3 * self.most)
            while len(items) and self._fits(3 * capacity + self.most):
                self._find(items, slots[items - first], capacity, room, tables)
                items, capacity = items[status[items - first] == 1], 4 * capacity
            for wanted, complete in ((4, full), (2, True)):
                items = everyone[status == wanted]
                if len(items) and self._fits(self._words(room, frame, complete)):
                    self._frame(items, slots[items - first], room, frame, complete, tables)
        left = everyone[status > 0]
        for lo in range(0, len(left), _LARGE_AT_ONCE):
            items = left[lo : lo + _LARGE_AT_ONCE]
            slots, own = xp.arange(len(items), dtype=xp.int32), int(self._own[items].max())
            room = min(own + self.most + 1, n)
            tables = self._tables(len(items), room)
            self._find(items, slots, _power_of_two(min(self.most**2 + own, n) + 1), room, tables)
            self._frame(items, slots, room, room, True, tables)

    @computed_once
    def _own(self) -> Any:
        """Of a vertex's neighbours, how many its frame may hold, shape (n,)."""
        xp, indptr = self.graph.device.xp, self.graph.indptr
        own = xp.minimum(self.graph.degrees, self.row_limit)
        if self.forced is None:
            return own
        before = xp.zeros(len(self.forced) + 1, dtype=xp.int32)
        before[1:] = xp.cumsum(self.forced)
        return own + before[indptr[1:]] - before[indptr[:-1]]

    def _words(self, room: int, frame: int, full: bool) -> int:
        """Of fast memory that a frame takes; the kernels know."""
        kernels = self.graph.device.module("frames.cu", self.n_components)
        answer = self.graph.device.xp.empty(1, "int32")
        kernels.each("frame_memory", 1, _power_of_two(room), room, frame, int(full), answer)
        return int(answer[0])

    def _fits(self, words: int) -> bool:
        return bool(8 * words <= self.graph.device.shared_bytes)

    def _find(self, items: Any, slots: Any, capacity: int, room: int, tables: tuple[Any, ...]) -> None:
        graph, words = self.graph, 3 * capacity + (self.most + 1) // 2
        scratch, more = team_memory(graph.device, words, len(items), _TEAMS_WITH_SCRATCH)
        sizes = (self.size + 1, self.room_size, self.row_limit, self.most, capacity, room, words, scratch)
        edges = (graph.indptr, graph.indices, *graph.by_length, self.forced)
        kernels = graph.device.module("frames.cu", self.n_components)
        arrays = (items, slots, *sizes, *edges, *tables, self.status)
        kernels.teams("find_rooms", len(items), len(items), *arrays, **more)

    def _frame(
        self, items: Any, slots: Any, room: int, frame: int, full: bool, tables: tuple[Any, ...]
    ) -> None:
        graph, size = self.graph, _power_of_two(room)
        kernels, words = graph.device.module("frames.cu", self.n_components), self._words(room, frame, full)
        scratch, more = team_memory(graph.device, words, len(items), _TEAMS_WITH_SCRATCH)
        sizes = (self.row_limit, room, size, frame, int(full), words, scratch)
        edges = (graph.indptr, graph.indices, graph.lengths)
        arrays = (items, slots, *sizes, *edges, *tables, self.rows, self.included, self.spectrum, self.status)
        kernels.teams("local_frames", len(items), len(items), *arrays, **more)

    def _tables(self, n: int, room: int) -> tuple[Any, Any, Any]:
        xp = self.graph.device.xp
        return xp.empty((n, room), xp.int32), xp.empty(n, xp.int32), xp.empty(n, xp.int32)


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def calibrated(graph: DeviceGraph, frames: LocalFrames, mode: str) -> LocalFrames:
    """As :func:`isoweave.geometry.calibrate_frames`."""
    if mode == "none":
        return frames
    xp = graph.device.xp
    norms = xp.sqrt((frames.rows * frames.rows).sum(axis=1))
    if mode == "rows":
        usable = norms > SHORTEST_ROW * graph.lengths
        factors = xp.where(usable, graph.lengths / xp.where(usable, norms, 1.0), 1.0)
    else:
        products = xp.where(frames.included, norms * graph.lengths, 0.0)
        cross, square = map(graph.sums_of_rows, (products, norms * norms))
        factors = xp.where(square > 0, cross / xp.where(square > 0, square, 1.0), 1.0)[graph.sources]
    return replace(frames, rows=frames.rows * factors[:, None])


@dataclass(frozen=True, eq=False)
class DeviceEdgeEnergy:
    """:class:`isoweave.energy.EdgeEnergy` on the device."""

    graph: DeviceGraph
    frames: LocalFrames
    weights: Any
    remedy = ""

    @computed_once
    def free(self) -> Any:
        """Whether an edge counts with its length alone, shape (m,); None where none does."""
        xp = self.graph.device.xp
        free = (self.weights > 0) & ~self.frames.rows.any(axis=1)
        if not bool(free.any()):
            return None
        size, square = self.frames.spectrum[self.graph.sources, 0], self.graph.lengths**2
        near = (square <= _SAME_SIZE * size) & (size <= _SAME_SIZE * square)
        return (free & (~self.frames.included | near)).astype(xp.uint8)

    @computed_once
    def mass(self) -> float:
        shape = (self.graph.n_vertices, self.frames.n_components)
        return self.evaluate(self.graph.device.xp.zeros(shape)).energy

    def evaluate(self, x: Any) -> Evaluation:
        graph, (n, width) = self.graph, x.shape
        xp, kernels = graph.device.xp, graph.device.module("align.cu", width)
        alignments, energies = xp.empty((n, width, width)), xp.empty(n)
        flux, half = xp.empty((len(graph.indices), width)), xp.empty((n, width))
        edges = (graph.indptr, graph.indices, self.weights, self.free, graph.lengths, self.frames.rows)
        words = 0 if width <= 3 else 5 * width * width + width
        kernels.teams("align_edges", n, n, None, *edges, x, alignments, energies, flux, words=words)
        if n_long := len(graph.long_rows):
            warps = graph.device.module("align.cu", width, teams=True)
            listed, words = (n_long, n_long, graph.long_rows), 5 * width * width + width
            warps.teams("align_edges", *listed, *edges, x, alignments, energies, flux, words=words)
            warps.teams("divergence", *listed, graph.indptr, graph.reverse, flux, half)
        kernels.each("divergence", n * width, n, None, graph.indptr, graph.reverse, flux, half)
        return Evaluation(total(graph.device, energies), half, alignments, energies)

    def suspects(self) -> dict[str, Any]:
        return {"frames": self.frames.rows, "inner product": self.weights}


def device_energy(graph: DeviceGraph, frames: LocalFrames, confidence: Any = None) -> DeviceEdgeEnergy:
    """As :func:`isoweave.energy.edge_energy` with uniform weights."""
    xp, has_row = graph.device.xp, frames.included
    values = xp.ones(len(graph.lengths)) if confidence is None else confidence
    if not bool(has_row.all()):
        values = xp.where(has_row, values, 0.0)
        lost = ~has_row & ~has_row[graph.reverse]
        if bool(lost.any()):
            lost &= long_edges(graph, frames.n_components, graph.by_length, xp)
            shares = xp.minimum(1.0, (xp.median(graph.lengths) / graph.lengths[lost]) ** 2)
            values[lost] = shares if confidence is None else shares * confidence[lost]
    squares = (frames.rows * frames.rows).sum(axis=1)
    size = frames.spectrum[graph.sources, 0]
    nowhere = (squares <= SHORTEST_ROW**2 * xp.minimum(graph.lengths**2, size)) & (squares > 0)
    if bool(nowhere.any()):
        frames = replace(frames, rows=xp.where(nowhere[:, None], 0.0, frames.rows))
    return DeviceEdgeEnergy(graph, frames, values)


@dataclass(frozen=True, eq=False)
class DeviceDistances:
    """:class:`isoweave.energy.DistanceEnergy` on the device, beside the frames where these keep a part."""

    graph: DeviceGraph
    n_components: int
    weights: Any
    frames: DeviceEdgeEnergy | None = None

    @computed_once
    def mass(self) -> float:
        return self.evaluate(self.graph.device.xp.zeros((self.graph.n_vertices, self.n_components))).energy

    @computed_once
    def _both(self) -> Any:
        return self.weights + self.weights[self.graph.reverse]

    def evaluate(self, x: Any) -> Evaluation:
        graph, (n, width), xp = self.graph, x.shape, self.graph.device.xp
        if self.frames is None:
            found = Evaluation(0.0, xp.empty((n, width)), xp.empty((0, width, width)), xp.empty(n))
        else:
            found = self.frames.evaluate(x)
        edges = (graph.indptr, graph.indices, graph.lengths, self.weights, self._both)
        more = (x, found.energies, found.half_gradient)
        kernels, added = graph.device.module("align.cu", width), int(self.frames is not None)
        kernels.each("edge_stress", n, n, None, added, *edges, *more)
        if n_long := len(graph.long_rows):
            kernels = graph.device.module("align.cu", width, teams=True)
            kernels.teams("edge_stress", n_long, n_long, graph.long_rows, added, *edges, *more)
        return replace(found, energy=total(graph.device, found.energies))

    def suspects(self) -> dict[str, Any]:
        return {"lengths": self.graph.lengths, "inner product": self.weights}


@dataclass(frozen=True, eq=False)
class DeviceGlobal(GlobalEnergy):
    """:class:`isoweave.energy.GlobalEnergy` on the device, where its arrays are."""

    graph: DeviceGraph

    @property
    def xp(self) -> Any:
        return self.graph.device.xp

    def _total(self, values: Any) -> float:
        return total(self.graph.device, values)

    def _column_sums(self, x: Any) -> Any:
        return column_dots(self.graph.device, x, self.xp.ones_like(x))

    def _sums(self, x: Any) -> tuple[float, float, Any, Any]:
        device, (n, width), count = self.graph.device, x.shape, len(self.landmarks)
        xp, kernels, n_blocks = device.xp, device.module("align.cu", width), -(-n // _BLOCK)
        cross, squares, pulls = xp.empty(n), xp.empty(n), xp.empty((n, width))
        at_landmarks = xp.empty((n_blocks, count, width))
        arrays = (x, self.landmarks, self.geodesics)
        kernels.each("vertex_stress", n, n, count, *arrays, cross, squares, pulls)
        items = n_blocks * count
        kernels.each("block_stress", items, items, n, _BLOCK, count, *arrays, at_landmarks)
        pulls[self.landmarks] += at_landmarks.sum(axis=0)
        return self._total(cross), self._total(squares), pulls, x[self.landmarks]
