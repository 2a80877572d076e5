"""Training: first on the coordinates of the map, then on the energy of its frames and distances."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.energy import edge_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import NeighborGraph, PreparedGraph

# A pass over few rows is too short to look at: an epoch has at least so many batches.
_FEWEST_BATCHES = 50
# Vertices of a batch come in runs of the graph's order, where neighbours are close: fewer rows in all.
_RUN = 16
# Numbers that are moved to the device once; of more, every batch is.
_SMALL = 2**26
# Weights of the distances and of the pull to the map's coordinates, beside the frames (docs/parametric.md).
_DISTANCES, _PULL = 4.0, 0.01


@dataclass(frozen=True)
class Plan:
    """How long, how fast, and where."""

    max_epochs: int
    batch_size: int
    learning_rate: float
    n_iter_no_change: int
    device: Any
    seed: int
    # Told of every epoch; ends the training by returning True.
    watch: Callable[[dict[str, Any]], bool]


class Rows:
    """Batches of rows of an array, which may be a map of a file, on the device."""

    def __init__(self, values: AnyArray, device: Any) -> None:
        self._values, self._device = values, device
        self._tensor = self._moved(values) if values.size <= _SMALL else None

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, rows: AnyArray) -> Any:
        if self._tensor is not None:
            return self._tensor[torch.from_numpy(rows).to(self._device)]
        return self._moved(self._values[rows])

    def _moved(self, values: AnyArray) -> Any:
        return torch.from_numpy(np.array(values, dtype=np.float32)).to(self._device)


def regress(
    network: Any,
    inputs: Rows,
    outputs: Rows,
    held: BoolArray,
    plan: Plan,
    phase: str,
    partner: Callable[[AnyArray], AnyArray] | None = None,
) -> None:
    """Fit the outputs, by least squares relative to their spread.

    ``partner`` gives a neighbour of every row: batches are then of points between the two, where a map that
    is locally flat is known as well. Few rows in many dimensions are learnt by heart otherwise.
    """
    spread = float(network.spread) ** 2
    draw = np.random.default_rng(plan.seed + 1)

    def loss(rows: AnyArray) -> Any:
        x, y = inputs[rows], outputs[rows]
        if partner is not None and network.training:
            others = partner(rows)
            share = torch.from_numpy(draw.random((len(rows), 1), dtype=np.float32)).to(plan.device)
            x, y = x + share * (inputs[others] - x), y + share * (outputs[others] - y)
        return torch.nn.functional.mse_loss(network(x), y) / spread

    fitted, tested = np.flatnonzero(~held), np.flatnonzero(held)
    _descend(network, loss, lambda rng: _shuffled(fitted, plan.batch_size, rng), tested, plan, phase)


def partners(
    prepared: PreparedGraph, rows: AnyArray, held: BoolArray, seed: int
) -> Callable[[AnyArray], AnyArray]:
    """Draws a neighbour of every row: the row itself if it has none, or if the neighbour is held out."""
    graph, firsts = prepared.graph, rows[prepared.firsts]
    vertex = np.full(len(held), -1)
    vertex[rows] = prepared.representative
    draw = np.random.default_rng(seed)

    def partner(chosen: AnyArray) -> AnyArray:
        at = vertex[chosen]
        degree = np.where(at >= 0, graph.degrees[at], 0)
        edges = graph.indptr[at] + (draw.random(len(at)) * degree).astype(np.int64)
        found = np.flatnonzero(degree)
        others = chosen.copy()
        others[found] = firsts[graph.indices[edges[found]]]
        return np.where(held[others], chosen, others)

    return partner


class GraphEnergy:
    """The energy of a map over the graph it was made from, for some of its vertices at a time.

    ``sum_ij w_ij (|x_j - x_i - E_ij Q_i|^2 + 4 (|x_j - x_i| - d_ij)^2)`` relative to that of a collapsed map;
    the best rotations Q_i are constants for the gradient, which is exact nevertheless: the energy is
    stationary in them.
    """

    def __init__(self, prepared: PreparedGraph, rows: AnyArray, held: BoolArray, n_components: int) -> None:
        graph = prepared.graph
        energy = edge_energy(graph, calibrate_frames(graph, local_frames(graph, n_components)))
        self.graph: NeighborGraph = graph
        self.rows = rows[prepared.firsts]
        self.held: BoolArray = held[self.rows]
        self._frames, self._lengths = energy.frames.rows * prepared.unit, graph.lengths * prepared.unit
        self._weights: FloatArray = energy.weights

    def batch(self, vertices: AnyArray, device: Any, *, is_test: bool) -> tuple[AnyArray, BoolArray, Any]:
        """Rows of the features that are needed, which of them are held out, and the edges, as tensors."""
        graph = self.graph
        counts = np.diff(graph.indptr)[vertices]
        starts = np.cumsum(counts) - counts
        edges = np.repeat(graph.indptr[vertices] - starts, counts) + np.arange(counts.sum())
        ends = graph.indices[edges]
        weights = self._weights[edges]
        if not is_test:
            # Training does not see what is held out.
            weights = np.where(self.held[ends], 0.0, weights)
        both, inverse = np.unique(np.concatenate([vertices, ends]), return_inverse=True)
        centre = np.repeat(np.arange(len(vertices)), counts)
        numbers = (centre, inverse[: len(vertices)][centre], inverse[len(vertices) :])
        floats = (weights, self._frames[edges], self._lengths[edges])
        tensors = [torch.from_numpy(a.astype(np.int64)).to(device) for a in numbers]
        tensors += [torch.from_numpy(a.astype(np.float32)).to(device) for a in floats]
        return self.rows[both], self.held[both], tuple(tensors)

    @staticmethod
    def value(x: Any, edges: tuple[Any, ...]) -> Any:
        """Relative energy of coordinates of the rows of a batch."""
        centre, i, j, weights, frames, lengths = edges
        steps = x[j] - x[i]
        n, n_components = int(centre[-1]) + 1, x.shape[1]
        with torch.no_grad():
            products = x.new_zeros((n, n_components, n_components))
            each = weights[:, None, None] * frames[:, :, None] * steps[:, None, :]
            u, _, vt = torch.linalg.svd(products.index_add(0, centre, each))
            rotations = u @ vt
        turned = torch.bmm(frames[:, None, :], rotations[centre])[:, 0]
        misfit = ((steps - turned) ** 2).sum(1)
        # The root has no derivative at zero; lengths below a millionth of an edge are as good as zero.
        lengths_there = torch.sqrt((steps**2).sum(1) + (1e-6 * lengths) ** 2)
        misfit = misfit + _DISTANCES * (lengths_there - lengths) ** 2
        mass = (frames**2).sum(1) + _DISTANCES * lengths**2
        return (weights * misfit).sum() / (weights * mass).sum().clamp_min(1e-30)


def fine_tune(network: Any, inputs: Rows, outputs: Rows, energy: GraphEnergy, plan: Plan) -> None:
    """Minimise the energy of the map that the network makes."""
    spread = float(network.spread) ** 2

    def loss(vertices: AnyArray) -> Any:
        is_test = not network.training
        rows, held, edges = energy.batch(vertices, plan.device, is_test=is_test)
        x = network(inputs[rows])
        value = energy.value(x, edges)
        if is_test:
            return value
        seen = torch.from_numpy(np.flatnonzero(~held)).to(plan.device)
        return value + _PULL * ((x - outputs[rows])[seen] ** 2).mean() / spread

    n_batch = max(1, plan.batch_size // _RUN)

    def batches(rng: np.random.Generator) -> Iterator[AnyArray]:
        fitted = np.flatnonzero(~energy.held)
        runs = np.array_split(fitted, max(1, len(fitted) // _RUN))
        for chosen in _shuffled(np.arange(len(runs)), n_batch, rng):
            yield np.concatenate([runs[c] for c in np.sort(chosen)])

    _descend(network, loss, batches, np.flatnonzero(energy.held), plan, "energy")


def _shuffled(items: AnyArray, size: int, rng: np.random.Generator) -> Iterator[AnyArray]:
    """Batches of one pass, or of several if that would be few batches."""
    n_batches, done = max(_FEWEST_BATCHES, math.ceil(len(items) / size)), 0
    while done < n_batches:
        order = rng.permutation(items)
        for at in range(0, len(order), size):
            if done < n_batches:
                yield order[at : at + size]
                done += 1


def _rate(epoch: int, n_epochs: int) -> float:
    """Two epochs of warming up, then half a cosine down to a hundredth."""
    return min((epoch + 1) / 3, 0.505 + 0.495 * math.cos(math.pi * min(1.0, epoch / max(1, n_epochs - 1))))


def _descend(
    network: Any,
    loss: Callable[[AnyArray], Any],
    batches: Callable[[np.random.Generator], Iterator[AnyArray]],
    tested: AnyArray,
    plan: Plan,
    phase: str,
) -> None:
    """AdamW along a cosine, epoch by epoch; the weights that do best on what is held out are kept."""
    rng = np.random.default_rng(plan.seed)
    optimiser = torch.optim.AdamW(network.parameters(), lr=plan.learning_rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda epoch: _rate(epoch, plan.max_epochs))
    best, best_at, best_state = math.inf, 0, None
    for epoch in range(plan.max_epochs):
        network.train()
        total, count = 0.0, 0
        for rows in batches(rng):
            value = loss(rows)
            optimiser.zero_grad(set_to_none=True)
            value.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            total, count = total + float(value.detach()), count + 1
        schedule.step()
        network.eval()
        trained = total / max(1, count)
        if not math.isfinite(trained):
            raise FloatingPointError(
                f"training diverged in epoch {epoch + 1} ({phase}): the loss is {trained}. "
                f"Try a smaller learning_rate than {plan.learning_rate:g}."
            )
        with torch.no_grad():
            pieces = np.array_split(tested, max(1, len(tested) // (4 * plan.batch_size)))
            shares = [len(piece) * float(loss(piece)) for piece in pieces if len(piece)]
        held = sum(shares) / len(tested) if len(tested) else trained
        if held < best:
            best, best_at, best_state = held, epoch, copy.deepcopy(network.state_dict())
        step = {"phase": phase, "epoch": epoch + 1, "loss": trained, "held_out": held}
        if plan.watch(step) or epoch - best_at >= plan.n_iter_no_change:
            break
    if best_state is not None:
        network.load_state_dict(best_state)
