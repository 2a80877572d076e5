"""Training: first on the coordinates of the map, then on the energy of its frames and distances.

Every epoch draws from a generator of its own, so that a run continues from the end of any epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.neighbors import NearestNeighbors

from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.energy import edge_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import NeighborGraph, PreparedGraph
from isoweave.optimise import Record, Run
from isoweave.parametric._network import arrays_of_network, fill_network

# Batches of an epoch: a pass over few rows is too short to look at, one over millions too long to wait for.
_FEWEST_BATCHES, _MOST_BATCHES = 50, 400
# Rows held out that are looked at after every epoch, at most.
_MOST_TESTED = 16_384
# Vertices of a batch come in runs of the graph's order, where neighbours are close: fewer rows in all.
_RUN = 16
# Numbers that are moved to a GPU once; of more, every batch is.
_SMALL = 2**26
# Weights of the distances, of those from points beside the rows, of long ones in the map, and of the pull
# to its coordinates, beside the frames (docs/parametric.md).
_DISTANCES, _BESIDE, _FAR, _PULL = 16.0, 5.0, 1.0, 0.01
# Data are noisy if more than such a share of the variance of neighbourhoods is beside their tangent spaces (a
# coarse swiss roll has .006, scikit-learn's digits .09), and the more so the larger the squared relative
# error of the map's edges is. Vertices that are looked at for the former.
_OFF_SHEET, _LOOKED_AT = 0.03, 300
_NOISY = 1e-3
# Points beside the rows: how many of each vertex there are, and how many of these are in a batch; neighbours
# that are mixed, and the size of the step from there, in differences of two neighbours.
_POINTS, _IN_BATCH, _MIXED, _STEP = 16, 2, 4, (0.3, 0.9)
# Relative errors of their distances below this count squared, larger ones as they are.
_SMALL_ERROR = 0.05
# Draws of an epoch; None on what is held out.
Draws = np.random.Generator | None


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
    history: list[dict[str, Any]]
    run: Run = field(default_factory=Run)


class Rows:
    """Batches of rows of an array, which may be a map of a file, on the device."""

    def __init__(self, values: AnyArray, device: Any) -> None:
        self._values, self._device = values, device
        self._tensor = self._moved(values) if device.type != "cpu" and values.size <= _SMALL else None

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
    partner: Callable[[AnyArray, np.random.Generator], AnyArray] | None = None,
) -> None:
    """Fit the outputs, by least squares relative to their spread.

    ``partner`` gives a neighbour of every row: batches are then of points between the two, where a map that
    is locally flat is known as well. Few rows in many dimensions are learnt by heart otherwise.
    """
    spread = float(network.spread) ** 2

    def loss(rows: AnyArray, draws: Draws) -> Any:
        x, y = inputs[rows], outputs[rows]
        if partner is not None and draws is not None:
            others = partner(rows, draws)
            share = torch.from_numpy(draws.random((len(rows), 1), dtype=np.float32)).to(plan.device)
            x, y = x + share * (inputs[others] - x), y + share * (outputs[others] - y)
        return torch.nn.functional.mse_loss(network(x), y) / spread

    fitted, tested = np.flatnonzero(~held), np.flatnonzero(held)
    _descend(network, loss, lambda rng: _shuffled(fitted, plan.batch_size, rng), tested, plan, phase)


def partners(
    prepared: PreparedGraph, rows: AnyArray, held: BoolArray
) -> Callable[[AnyArray, np.random.Generator], AnyArray]:
    """Draws a neighbour of every row: the row itself if it has none, or if the neighbour is held out."""
    graph, firsts = prepared.graph, rows[prepared.firsts]
    vertex = np.full(len(held), -1)
    vertex[rows] = prepared.representative

    def partner(chosen: AnyArray, draws: np.random.Generator) -> AnyArray:
        at = vertex[chosen]
        degree = np.where(at >= 0, graph.degrees[at], 0)
        edges = graph.indptr[at] + (draws.random(len(at)) * degree).astype(np.int64)
        found = np.flatnonzero(degree)
        others = chosen.copy()
        others[found] = firsts[graph.indices[edges[found]]]
        return np.where(held[others], chosen, others)

    return partner


class GraphEnergy:
    """The energy of a map over the graph it was made from, for some of its vertices at a time.

    ``sum_ij w_ij (|x_j - x_i - E_ij Q_i|^2 + 16 (|x_j - x_i| - d_ij)^2)`` relative to that of a collapsed
    map; the best rotations Q_i are constants for the gradient, which is exact nevertheless: the energy is
    stationary in them.
    """

    def __init__(self, prepared: PreparedGraph, rows: AnyArray, held: BoolArray, n_components: int) -> None:
        graph = prepared.graph
        energy = edge_energy(graph, calibrate_frames(graph, local_frames(graph, n_components)))
        self.graph: NeighborGraph = graph
        self.rows = rows[prepared.firsts]
        self.held: BoolArray = held[self.rows]
        self.partner = partners(prepared, rows, held)
        self._frames, self._lengths = energy.frames.rows * prepared.unit, graph.lengths * prepared.unit
        self._weights: FloatArray = energy.weights

    def noise(self, places: AnyArray, features: AnyArray) -> float:
        """How noisy the data of the map are, from 0 (a sheet, flat or curved) to 1 (hopeless)."""
        graph, x = self.graph, places[self.rows]
        beside = []
        for v in np.linspace(0, graph.n_vertices - 1, min(graph.n_vertices, _LOOKED_AT)).astype(np.int64):
            near = np.append(graph.indices[graph.indptr[v] : graph.indptr[v + 1]], v)
            around = np.asarray(features[self.rows[near]], dtype=np.float64)
            around -= around.mean(axis=0)
            variances = np.linalg.eigvalsh(around @ around.T)
            beside.append(variances[: -x.shape[1]].sum() / max(variances.sum(), 1e-300))
        if np.mean(beside) < _OFF_SHEET:
            return 0.0
        apart = self._lengths > 0
        found = np.linalg.norm(x[graph.indices[apart]] - x[graph.sources[apart]], axis=1)
        error = float(np.mean((found / self._lengths[apart] - 1.0) ** 2)) if len(found) else 0.0
        return error / (error + _NOISY)

    def beside(self, places: AnyArray, features: AnyArray, seed: int) -> Beside | None:
        """Points beside the rows of noisy data; there is nothing beside a sheet, or a single row."""
        noise = self.noise(places, features)
        return Beside(self, features, noise, seed) if noise and np.sum(~self.held) > 1 else None

    def batch(
        self, vertices: AnyArray, device: Any, *, is_test: bool, also: AnyArray | None = None
    ) -> tuple[AnyArray, BoolArray, Any, Any]:
        """Rows of the features that are needed, which of them are held out, and the edges, as tensors.

        ``also`` are further vertices that are needed: where they are among the rows is the last answer.
        """
        also = vertices[:0] if also is None else also
        graph = self.graph
        counts = np.diff(graph.indptr)[vertices]
        starts = np.cumsum(counts) - counts
        edges = np.repeat(graph.indptr[vertices] - starts, counts) + np.arange(counts.sum())
        centre = np.repeat(np.arange(len(vertices)), counts)
        if not is_test:
            # Training does not see what is held out.
            seen = ~self.held[graph.indices[edges]]
            edges, centre = edges[seen], centre[seen]
        ends = graph.indices[edges]
        both, inverse = np.unique(np.concatenate([vertices, ends, also.ravel()]), return_inverse=True)
        own, ends, there = np.split(inverse, [len(vertices), len(vertices) + len(ends)])
        numbers = (centre, own[centre], ends, own, there.reshape(also.shape))
        floats = (self._weights[edges], self._frames[edges], self._lengths[edges])
        tensors = [torch.from_numpy(a.astype(np.int64)).to(device) for a in numbers]
        tensors += [torch.from_numpy(a.astype(np.float32)).to(device) for a in floats]
        places = tensors.pop(4)
        return self.rows[both], self.held[both], tuple(tensors), places

    @staticmethod
    def value(x: Any, edges: tuple[Any, ...]) -> Any:
        """Relative energy of coordinates of the rows of a batch."""
        centre, i, j, own, weights, frames, lengths = edges
        steps = x[j] - x[i]
        n, n_components = len(own), x.shape[1]
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


class Beside:
    """Points that could be new ones, and the distances to the rows that are nearest to each.

    A mixture of neighbours of a vertex, and a step between two of them from there: about as far from
    the rows as rows that were left out. Nothing of it is made of what is held out.
    """

    def __init__(self, energy: GraphEnergy, features: AnyArray, noise: float, seed: int) -> None:
        self.noise = noise
        graph, rng = energy.graph, np.random.default_rng(seed)
        fitted = np.flatnonzero(~energy.held)
        own = energy.rows[fitted]
        rows = np.asarray(features[own], dtype=np.float32)
        k = min(max(1, int(np.median(graph.degrees))), len(rows) - 1)
        search = NearestNeighbors(n_neighbors=k).fit(rows)
        shape = (len(rows), min(max(_SMALL // rows.size, 1), _POINTS))
        self._number = np.full(graph.n_vertices, -1)
        self._number[fitted] = np.arange(len(fitted))
        self._points = np.empty((*shape, rows.shape[1]), dtype=np.float32)
        self._ends = np.empty((*shape, k), dtype=np.int64)
        self._distances = np.empty((*shape, k), dtype=np.float32)

        def drawn() -> AnyArray:
            return np.asarray(features[energy.partner(own, rng)], dtype=np.float32)

        for at in range(shape[1]):
            shares = rng.dirichlet(np.ones(_MIXED), len(rows)).astype(np.float32)
            points = sum(share[:, None] * drawn() for share in shares.T)
            points += rng.uniform(*_STEP, (len(rows), 1)).astype(np.float32) * (drawn() - drawn())
            distances, ends = search.kneighbors(points)
            self._points[:, at], self._ends[:, at], self._distances[:, at] = points, fitted[ends], distances

    def batch(self, vertices: AnyArray, draws: np.random.Generator) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Some points of vertices, the vertices nearest to each, and how far these are."""
        at = np.repeat(self._number[vertices], _IN_BATCH)
        which = draws.integers(self._points.shape[1], size=len(at))
        return self._points[at, which], self._ends[at, which], self._distances[at, which]


def _mean_error(steps: Any, wanted: Any) -> Any:
    """Of lengths, relative to what they should be, and of very short ones to the mean."""
    found = torch.sqrt((steps**2).sum(-1) + (1e-6 * wanted.mean()) ** 2)
    errors = (found - wanted) / torch.clamp_min(wanted, 0.3 * float(wanted.mean()))
    return torch.sqrt(errors**2 + _SMALL_ERROR**2).mean()


def fine_tune(
    network: Any, inputs: Rows, outputs: Rows, energy: GraphEnergy, plan: Plan, beside: Beside | None
) -> None:
    """Minimise the energy of the map that the network makes, and the error of distances beside the rows.

    The more so the noisier the data are. On rows held out, the distances are those of the rows themselves.
    """
    spread = float(network.spread) ** 2
    weight = 0.0 if beside is None else _BESIDE * beside.noise

    def loss(vertices: AnyArray, draws: Draws) -> Any:
        if draws is None:
            rows, _, edges, _ = energy.batch(vertices, plan.device, is_test=True)
            x, (_, i, j) = network(inputs[rows]), edges[:3]
            value = energy.value(x, edges)
            return value + weight * _mean_error(x[j] - x[i], edges[-1]) if len(i) else value
        if beside is not None:
            drawn, near, apart = beside.batch(vertices, draws)
            rows, held, edges, ends = energy.batch(vertices, plan.device, is_test=False, also=near)
            points, wanted = (torch.from_numpy(a).to(plan.device) for a in (drawn, apart))
            x, places = network(torch.cat([inputs[rows], points])).split([len(rows), len(points)])
            value = weight * _mean_error(places[:, None] - x[ends], wanted) + energy.value(x, edges)
        else:
            rows, held, edges, _ = energy.batch(vertices, plan.device, is_test=False)
            x = network(inputs[rows])
            value = energy.value(x, edges)
        seen = torch.from_numpy(draws.permutation(np.flatnonzero(~held))).to(plan.device)
        x, y = x[seen], outputs[rows][seen]
        far, far_in_map = ((a - a.roll(1, 0)).norm(dim=1) for a in (x, y))
        value = value + _FAR * ((far - far_in_map) ** 2).mean() / (far_in_map**2).mean().clamp_min(1e-30)
        return value + _PULL * ((x - y) ** 2).mean() / spread

    n_batch = max(1, plan.batch_size // _RUN)

    def batches(rng: np.random.Generator) -> Iterator[AnyArray]:
        fitted = np.flatnonzero(~energy.held)
        runs = np.array_split(fitted, max(1, len(fitted) // _RUN))
        for chosen in _shuffled(np.arange(len(runs)), n_batch, rng):
            yield np.concatenate([runs[c] for c in np.sort(chosen)])

    # What is held out has shaped the map of its neighbours: it favours weights near the map over those that
    # place new points well, and does not choose between them.
    _descend(network, loss, batches, np.flatnonzero(energy.held), plan, "energy", is_chosen=False)


def _shuffled(items: AnyArray, size: int, rng: np.random.Generator) -> Iterator[AnyArray]:
    """Batches of one pass; of several, or of a part of one, if that would be too few or too many batches."""
    n_batches = min(max(_FEWEST_BATCHES, math.ceil(len(items) / size)), _MOST_BATCHES)
    done = 0
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
    loss: Callable[[AnyArray, Draws], Any],
    batches: Callable[[np.random.Generator], Iterator[AnyArray]],
    tested: AnyArray,
    plan: Plan,
    phase: str,
    *,
    is_chosen: bool = True,
) -> None:
    """AdamW along a cosine, epoch by epoch.

    The weights that do best on what is held out are kept, or the last ones if it does not choose.
    """
    optimiser = torch.optim.AdamW(network.parameters(), lr=plan.learning_rate, weight_decay=1e-4)
    run, done = plan.run.within(f"component-{phase}"), plan.run.load(phase)
    state = run.load("state") if done is None else None
    tested = tested[:: max(1, -(-len(tested) // _MOST_TESTED))]
    steps: list[dict[str, Any]] = []
    best, best_at, best_arrays = math.inf, 0, arrays_of_network(network)
    if (record := done or state) is not None:
        steps, best_arrays = list(record.value("steps", list)), _part(record, "best")
    plan.history.extend(steps)
    if state is not None:
        best, best_at = state.value("best", float), state.value("best_at", int)
        fill_network(network, _part(state, "network"))
        _put_moments(optimiser, _part(state, "moments"))
    for epoch in range(plan.max_epochs if done is not None else len(steps), plan.max_epochs):
        draws = np.random.default_rng([plan.seed, epoch])
        # For layers of a user's module that draw, too.
        torch.manual_seed(int(draws.integers(2**31)))
        for group in optimiser.param_groups:
            group["lr"] = plan.learning_rate * _rate(epoch, plan.max_epochs)
        network.train()
        total, count = 0.0, 0
        for rows in batches(draws):
            value = loss(rows, draws)
            optimiser.zero_grad(set_to_none=True)
            value.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            total, count = total + float(value.detach()), count + 1
        network.eval()
        trained = total / max(1, count)
        with torch.no_grad():
            pieces = np.array_split(tested, max(1, len(tested) // (4 * plan.batch_size)))
            shares = [len(piece) * float(loss(piece, None)) for piece in pieces if len(piece)]
        held = sum(shares) / len(tested) if len(tested) else trained
        if not math.isfinite(trained + held):
            raise FloatingPointError(
                f"training diverged in epoch {epoch + 1} ({phase}): the loss is {trained}. "
                f"Try a smaller learning_rate than {plan.learning_rate:g}."
            )
        if held < best or not is_chosen:
            best, best_at, best_arrays = held, epoch, arrays_of_network(network)
        steps.append({"phase": phase, "epoch": epoch + 1, "loss": trained, "held_out": held})
        plan.history.append(steps[-1])

        def now(best: float = best, best_at: int = best_at, best_arrays: Any = best_arrays) -> Record:
            parts = {
                "network": arrays_of_network(network),
                "best": best_arrays,
                "moments": _moments(optimiser),
            }
            arrays = {f"{part}.{name}": a for part, found in parts.items() for name, a in found.items()}
            return Record({"steps": list(steps), "best": best, "best_at": best_at}, arrays)

        if plan.watch(steps[-1]):
            run.stop(now)
            break
        run.step(lambda: None, now)  # type: ignore[arg-type, return-value]
        if epoch - best_at >= plan.n_iter_no_change:
            break
    network.eval()
    fill_network(network, best_arrays)
    run.forget()
    arrays = {f"best.{name}": a for name, a in best_arrays.items()}
    plan.run.keep(phase, lambda: Record({"steps": steps}, arrays))


def _part(record: Record, name: str) -> dict[str, AnyArray]:
    """Arrays of a record by their names within a part of it."""
    start = f"{name}."
    return {key.removeprefix(start): a for key, a in record.arrays.items() if key.startswith(start)}


def _moments(optimiser: Any) -> dict[str, AnyArray]:
    """The state of AdamW, by number of the parameter and name."""
    state = optimiser.state_dict()["state"]
    return {
        f"{i}.{name}": value.cpu().numpy().copy() for i, own in state.items() for name, value in own.items()
    }


def _put_moments(optimiser: Any, arrays: dict[str, AnyArray]) -> None:
    shapes = [tuple(p.shape) for group in optimiser.param_groups for p in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    for key, array in arrays.items():
        number, name = key.split(".")
        if array.shape not in (shapes[int(number)], ()):
            raise ValueError(f"moments of parameter {number} have the shape {array.shape}")
        state.setdefault(int(number), {})[name] = torch.from_numpy(array.copy())
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


def described(X: AnyArray, parameters: dict[str, Any]) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    """Inputs and parameters that a training depends on, for the fingerprint of its checkpoint."""
    left_out = ("checkpoint", "callback", "verbose", "n_jobs", "device")
    inputs, given = {"X": X}, {k: v for k, v in parameters.items() if k not in left_out}
    given["map_options"] = {k: v for k, v in (given["map_options"] or {}).items() if k not in left_out}
    for name in ("encoder", "decoder"):
        if isinstance(given[name], torch.nn.Module):
            inputs |= {f"{name}.{key}": a for key, a in arrays_of_network(given[name]).items()}
    return inputs, {**given, "torch": torch.__version__}
