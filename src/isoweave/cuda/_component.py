"""One component on the device: as ``isoweave._component``, with one upload and one download."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from isoweave._edges import NO_LENGTH
from isoweave._engine import ComponentResult, Engine, geodesic_factor
from isoweave._memory import show_bytes
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import FloatArray
from isoweave.cuda._device import CudaDevice, DeviceError, find_device
from isoweave.cuda._frames import DeviceEdgeEnergy, DeviceGlobal, calibrated, device_energy, device_frames
from isoweave.cuda._graph import DeviceGraph, total
from isoweave.cuda._starts import (
    DEVICE_STARTS,
    device_geodesics,
    device_landmarks,
    device_problem,
    scaled_landmarks,
)
from isoweave.graph import NeighborGraph, bypass_doubtful
from isoweave.known import Known
from isoweave.optimise import SYNCHRONIZED_LIMIT, Run, check_finite, far_landmarks
from isoweave.options import EmbeddingOptions

_MOST_DIMENSIONS = 64
# The identity depends on the axes that frames happen to have.
_HOST_STARTS = ("synchronized", "lifted", "identity")


def missing_feature(options: EmbeddingOptions, known: Known) -> str:
    """What a fit asks for that the device does not have; empty where all is there."""
    asked = {
        "known positions (anchors)": known.anchors is not None,
        "checkpoints": options.checkpoint is not None,
        "the paper's method (preset or inner_product 'paper')": "paper"
        in (options.preset, options.inner_product),
        "frame_size='all'": options.frame_size == "all",
        f"start={options.start!r:.20}": isinstance(options.start, str) and options.start in _HOST_STARTS,
        f"solver={options.solver!r}": options.solver not in ("auto", "amg", "jacobi"),
        f"more than {_MOST_DIMENSIONS} dimensions": options.n_components > _MOST_DIMENSIONS,
    }
    return next((name for name, wanted in asked.items() if wanted), "")


def device_for(graph: NeighborGraph, options: EmbeddingOptions, known: Known) -> CudaDevice | None:
    """The device that a fit runs on, None for the CPU; refuses what engine="cuda" cannot do.

    With engine="auto" whatever it cannot do is done on the CPU. A graph of up to 6,000 unknowns always is.
    """
    lacking, strict = missing_feature(options, known), options.engine == "cuda"
    if lacking and strict:
        raise ValueError(f"{lacking} is not supported on the GPU yet: use engine='cpu', or 'auto'.")
    try:
        device = None if lacking else find_device()
        if device is None or graph.n_vertices * options.n_components <= SYNCHRONIZED_LIMIT:
            return None
        _check_device_memory(graph, options, device)
        return device
    except (DeviceError, MemoryError):
        if strict:
            raise
        return None


def _check_device_memory(graph: NeighborGraph, options: EmbeddingOptions, device: CudaDevice) -> None:
    needed, free = device_bytes(graph.n_vertices, len(graph.indices), options), device.free_bytes()
    if needed > free:
        raise MemoryError(
            f"The fit would need {show_bytes(needed)} of memory on the device {device.name}, where "
            f"{show_bytes(free)} are free. Use engine='cpu', or a graph with fewer edges (n_neighbors)."
        )


def device_bytes(n: int, m: int, options: EmbeddingOptions) -> int:
    """Memory on the device at the peak of the fit of a component: n vertices, m stored edges."""
    c = options.n_components
    # Graph with sources, reverse edges and rows by length; frames, weights, fluxes of an evaluation or two.
    edges = 4 + 8 + 4 + 4 + 12 + 9 * c + 8 + 16 * c
    # The Laplacian in both precisions, the hierarchy, and what is made on the way to it.
    solver = 12 + 8 + 100
    # Memory of L-BFGS (30 vectors), conjugate gradients, rotations.
    vertices = 8 * c * (30 + 16) + 24 * c * c + 100
    landmarks = 0 if c <= 3 else 16 * max(50, 20 * c)
    return int(m * (edges + solver) + n * (vertices + landmarks) + 2e8)


def embed_on_device(
    graph: NeighborGraph,
    options: EmbeddingOptions,
    known: Known,
    team: ThreadTeam,
    start: FloatArray | None,
    run: Run,
    device: Any = None,
) -> ComponentResult:
    """The stages in order, as on the CPU."""
    device = device or find_device()
    with device.busy():
        measured = paths = DeviceGraph.of(graph, device)
        if known.edge_weights is not None:
            doubtless = bypass_doubtful(graph, known.edge_weights)
            paths = replace(measured, lengths=device.put(doubtless.lengths))
        run.stage("frames")
        raw = device_frames(paths, options.n_components, options.frame_size)
        check_finite("local frames", "rows", raw.rows)
        frames = calibrated(measured, raw, options.calibrate)
        check_finite("calibration", "rows", frames.rows)
        confidence = known.per_edge(graph)
        energy = device_energy(paths, frames, None if confidence is None else device.put(confidence))
        check_finite("inner product", "weights", energy.weights)
        engine = Engine(
            *(energy, measured, options, None, run),
            factored=lambda anchors: device_problem(energy, team),
            far_problem=lambda far, near: replace(device_problem(energy, team, far.springs(near)), far=far),
            geodesic_factor=lambda x: _geodesic_factor(x, paths),
            edge_factor=lambda x: _edge_factor(x, energy, measured),
            stretch=lambda x: _stretch(measured, energy, x),
            starts=DEVICE_STARTS,
            long_distances=(_far_energy, _scaled),
        )
        found = engine.embed(None if start is None else device.put(start))
        arrays = (found.iteration.coordinates, found.iteration.alignments, found.stretch)
        x, alignments, stretch = map(device.get, arrays)
    iteration = replace(found.iteration, coordinates=x, alignments=alignments)
    return replace(found, iteration=iteration, stretch=stretch)


def _far_energy(frames: DeviceEdgeEnergy, x: Any, weight: float | str) -> DeviceGlobal:
    graph, landmarks = frames.graph, far_landmarks(x, weight)
    geodesics = device_geodesics(graph, landmarks)
    return DeviceGlobal(graph.device.put(landmarks), geodesics, frames.mass, ONE_THREAD, graph)


def _scaled(far: DeviceGlobal, n_components: int) -> Any:
    landmarks = far.graph.device.get(far.landmarks)
    return scaled_landmarks(far.graph, landmarks, far.geodesics, n_components)


def _lengths(graph: DeviceGraph, x: Any) -> Any:
    steps = x[graph.indices] - x[graph.sources]
    return graph.device.xp.sqrt((steps * steps).sum(axis=1))


def _edge_factor(x: Any, energy: DeviceEdgeEnergy, graph: DeviceGraph) -> float:
    """The factor that brings edges nearest to their lengths (least squares)."""
    lengths = _lengths(graph, x)
    square = total(graph.device, energy.weights * lengths * lengths)
    return total(graph.device, energy.weights * lengths * graph.lengths) / square if square > 0 else 1.0


def _geodesic_factor(x: Any, graph: DeviceGraph) -> float:
    """The factor that brings distances to the landmarks nearest to their geodesics."""
    landmarks, geodesics = device_landmarks(graph, x.shape[1])
    places = x[graph.device.put(landmarks)]
    return geodesic_factor(x, places, geodesics.T, lambda values: total(graph.device, values))


def _stretch(graph: DeviceGraph, energy: DeviceEdgeEnergy, x: Any) -> tuple[Any, Any]:
    """Stretch of every vertex, and those at an edge that has no length in the map."""
    device, (n, width) = graph.device, x.shape
    stretch, lost = device.xp.empty((n, width)), device.xp.zeros(n, dtype=bool)
    words = 0 if width <= 3 else 5 * width * width + width
    edges = (graph.indptr, graph.indices, energy.frames.included, energy.frames.rows)
    device.module("align.cu", width).teams("local_stretch", n, n, *edges, x, stretch, words=words)
    at = (_lengths(graph, x) <= NO_LENGTH * graph.lengths) & (graph.lengths > NO_LENGTH)
    lost[graph.sources[at]] = True
    check_finite("stretch", "singular values", stretch)
    stretch[lost, -1] = 0.0
    return stretch, lost
