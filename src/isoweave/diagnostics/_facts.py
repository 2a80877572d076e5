"""What a diagnosis consists of and the page it prints; the facts that need no transport of frames."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.energy import EdgeEnergy, Evaluation, edge_energy
from isoweave.geometry import LocalFrames, calibrate_frames, local_frames, local_stretch, resolve_frame_size
from isoweave.graph import (
    FEWEST_GROWN,
    NeighborGraph,
    PreparedGraph,
    edge_distortion,
    estimate_dimension,
    prepare_graph,
    shared_neighborhood,
    subgraph,
)
from isoweave.optimise import sample_vertices
from isoweave.options import EmbeddingOptions
from isoweave.result import Embedding, as_embedding

SEVERITIES = ("info", "warn", "problem")
_MARKS = {"info": "  ok ", "warn": " note", "problem": "  !! "}
_LEFT_OUT = ("curvature", "outlying", "edges", "edge_distortion", "misfit", "stretch", "from_features")
_KINDS = {"non_orientable": "one-sided", "uncertain": "of uncertain shape"}
# A direction of less than this part of those before it is negligible: shortest paths that zig-zag make one of
# 0.05 to 0.06 on flat data of any dimension.
NEGLIGIBLE = 0.1
# Up to this many vertices all spectra are looked at, beyond it those of some balls.
_ALL_SPECTRA, _BALLS, _BALL = 5000, 12, 360
_RANK = 1e-6
_LISTED = 10
# Share of vertices without N directions that makes a graph too sparse.
MANY_DEFICIENT = 0.05
# An edge so many times longer than a detour over one other vertex is outlying. Squared distances and cosines
# break the triangle inequality by a factor of 2 at most.
_OUTLYING = 2.0 + 1e-9
# In a mesh so many edges are in one or two triangles; its border counts as none below this part of a sheet's.
_IN_MESH, _LITTLE_BORDER = 0.98, 0.5
FEW_TRIANGLES = 0.2
# An edge is torn or folded if its length is off by this factor.
TORN = 1.5


@dataclass(frozen=True)
class Verdict:
    """One finding."""

    code: str  #: stable name, listed in docs/diagnose.md
    severity: str  #: "info", "warn" or "problem"
    text: str  #: what was found
    advice: str  #: what to do about it
    numbers: dict[str, float] = field(default_factory=dict)  #: what the finding rests on
    options: dict[str, Any] = field(default_factory=dict)  #: of a fit that follows the advice


@dataclass(frozen=True)
class EnergySplit:
    """Parts of an energy, each over the energy of the collapsed map (docs/diagnose.md).

    ``total = removable + disagreement + irremovable`` and ``irremovable = curl + loops``; the last two are
    None where they were not separated.
    """

    total: float  #: relative energy of the map at the given rotations
    removable: float  #: exact part: one more Poisson solve with the same rotations would remove it
    disagreement: float  #: the two ends of an edge disagree: noise of the frames, and tears of the map
    irremovable: float  #: no map can remove it while the frames are rotated as they are
    #: What ``irremovable`` would be if frames had independent errors of the size that ``disagreement`` shows.
    expected: float
    curl: float | None = None  #: co-exact part: frames do not fit around triangles and other small loops
    loops: float | None = None  #: harmonic part: small loops close, but long ones do not
    #: Share on one edge in a hundred of ``loops``, or of ``irremovable`` where these were not separated.
    concentration: float = 0.0

    def __str__(self) -> str:
        parts = f"irremovable {self.irremovable:.2%}"
        if self.curl is not None:
            parts = f"small loops {self.curl:.2%}, long loops {self.loops:.2%}"
        return (
            f"{self.total:.2%} of a collapsed map; frames disagree {self.disagreement:.2%}, {parts}, "
            f"removable {self.removable:.2%}"
        )


@dataclass(frozen=True)
class GraphFacts:
    """The graph that is embedded, duplicates merged and shortcuts removed."""

    n_distinct: int  #: vertices without duplicates
    part_sizes: tuple[int, ...]  #: distinct vertices of the components, largest first, at most 10 of them
    n_parts: int  #: connected components
    n_dropped: int  #: edges that the shortcut filter removed
    n_outlying: int  #: edges more than twice as long as a detour over one other vertex
    outlying: tuple[tuple[int, int, float], ...]  #: the ten worst: ends in the input, length over detour
    low_degree: float  #: quartile of the degrees
    deficient: float  #: share of the vertices whose neighbourhood has fewer directions than most, or than N
    triangles_per_edge: float
    #: Length, in typical edges, of the edges in one triangle only, where nearly all are in one or two: of a
    #: triangle mesh. None elsewhere.
    border: float | None = None

    @property
    def is_closed_mesh(self) -> bool:
        """Whether it is a mesh with less border than a flat sheet of as many vertices has at least."""
        return self.border is not None and self.border < _LITTLE_BORDER * self.sheet_border

    @property
    def sheet_border(self) -> float:
        """Length of the border of a round flat sheet of as many vertices, with six neighbours each."""
        return float(2.0 * np.sqrt(np.pi * np.sqrt(0.75) * self.n_distinct))


@dataclass(frozen=True)
class DimensionFacts:
    """Directions of the neighbourhoods."""

    estimate: float | None  #: intrinsic dimension; None where it is unknown
    by: str  #: what it was estimated from: "nearest distances", "growth of balls" or "nothing"
    #: Eigenvalue of direction d + 1 over the sum of the first d, median over the vertices, for d = 1 to N.
    beyond: tuple[float, ...]
    #: The smallest d whose next direction is negligible; N + 1 if none is. Where balls were measured, at most
    #: their dimension: paths in meshes zig-zag so much that they seem to have another direction.
    local: int


@dataclass(frozen=True)
class ShapeFacts:
    """What carrying frames around the loops of one component shows."""

    component: int
    n_vertices: int
    n_used: int  #: vertices of the sample that was looked at
    kind: str  #: "flat", "curved", "closed", "non_orientable" or "uncertain"
    dimension: int  #: of the frames that were carried: the data's own, at most N
    coherence: float  #: share of the triangles around which frames come back unreflected; if low: uncertain
    reflected: float  #: share of the joins between patches that reflect, whatever the orientation (eq. D9)
    synchronized: EnergySplit | None = None  #: where all rotations agree with their neighbours at best
    relaxed: EnergySplit | None = None  #: after the map has been fitted from there
    excess: float | None = None  #: irremovable over expected energy after fitting: about 0.6 on flat data
    tearing: float | None = None  #: how many times the disagreement grew by fitting: 1 on flat data
    torn: float | None = None  #: share of the edges that the fitted map changes by half or more
    curvature: float | None = None  #: median, in the input's unit to the power -2, where the kind is curved


@dataclass(frozen=True)
class MapFacts:
    """How well a map keeps what it was made from."""

    status: str | None  #: of the optimiser; None for coordinates of other origin
    energy: EnergySplit
    edge_error: float  #: mean of ``|distortion|``
    edge_median: float  #: of the distortion
    edge_low: float  #: its 5th percentile
    edge_high: float  #: its 95th
    edge_within: float  #: share of the edges within 10% of their length
    torn: float  #: share of the edges off by a factor of 1.5 or more
    stretch_median: float  #: singular values of the local differential, in the directions the data have
    stretch_low: float
    stretch_high: float
    stretch_within: float  #: share of the vertices with all of these within 10% of 1
    #: Correlation of distances in the map with the paths from some vertices of the largest component.
    paths: float | None
    better: float | None = None  #: relative energy of a better map of the largest component, if one was found


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What a graph allows, what a map of it keeps, and what to do."""

    n_vertices: int
    n_edges: int
    n_components: int
    verdicts: tuple[Verdict, ...]  #: most severe first
    graph: GraphFacts
    dimension: DimensionFacts
    shapes: tuple[ShapeFacts, ...]  #: one per component that is large enough, largest first
    map: MapFacts | None  #: None before solving, and so are the arrays below that need a map
    #: Mean sectional curvature around every vertex, roughly, shape (n,); NaN outside of curved components.
    curvature: FloatArray
    outlying: IntArray  #: ends i < j of the outlying edges, worst first, shape (graph.n_outlying, 2)
    edges: IntArray  #: edges i < j of the input in the order of its rows, dropped ones included, shape (E, 2)
    #: Length in the map over given length, minus 1; NaN if not embedded.
    edge_distortion: FloatArray | None = None
    misfit: FloatArray | None = None  #: root of each vertex's energy over that of the collapsed map, (n,)
    #: Singular values of the local differential, largest first, shape (n, N).
    stretch: FloatArray | None = None
    from_features: bool = False  #: the graph was made from features, so n_neighbors can be changed

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of the verdicts, most severe first."""
        return tuple(v.code for v in self.verdicts)

    @property
    def options(self) -> dict[str, Any]:
        """Options of a fit that follows the advice of all warnings and problems, the most severe first."""
        loud = [v.options for v in self.verdicts if v.severity != "info"]
        return {name: value for options in reversed(loud) for name, value in options.items()}

    def next_step(self, input_file: str | None = None) -> str:
        """The line to type that follows the advice: Python, or with a file a command; "" if there is none."""
        given = {"n_components": self.n_components} | self.options
        if input_file is not None:
            flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in given.items())
            return f"isoweave embed {input_file} -o map.npz {flags}" if self.options else ""
        words = ", ".join(f"{name}={value!r}" for name, value in given.items())
        made = f"IsometricEmbedding({words}).fit(X)" if self.from_features else f"embed_graph(A, {words})"
        return made if self.options else ""

    def to_dict(self) -> dict[str, Any]:
        """Everything but the arrays, in types that JSON has; undefined numbers are None."""
        told = {name: value for name, value in vars(self).items() if name not in _LEFT_OUT}
        found: dict[str, Any] = json.loads(json.dumps(told, default=vars), parse_constant=lambda _: None)
        return found

    def __str__(self) -> str:
        return self.page()

    def page(self, input_file: str | None = None) -> str:
        """All of it to read; with a file, the line to type is a command on it."""
        what = f"{'graph' if self.map is None else 'map'} of {self.n_vertices:,} vertices"
        lines = [f"{what} and {self.n_edges:,} edges in {self.n_components} dimensions"]
        for v in self.verdicts:
            lines += [f"{_MARKS[v.severity]} {v.code}: {v.text}", f"      -> {v.advice}"]
        if line := self.next_step(input_file):
            lines.append(f"try   {line}")
        d = self.dimension
        estimate = "unknown" if d.estimate is None else f"{d.estimate:.2f} by {d.by}"
        lines += ["numbers", f"      dimension of the data: {estimate}, {d.local} by directions"]
        for s in self.shapes:
            where = f"component {s.component} " if len(self.shapes) > 1 else ""
            sampled = f" (sample of {s.n_used:,})" if s.n_used < s.n_vertices else ""
            bend = f", curvature {s.curvature:.2g}" if s.curvature is not None else ""
            kind = _KINDS.get(s.kind, s.kind)
            lines.append(f"      shape: {where}{kind} in {s.dimension} dimensions{sampled}{bend}")
        if (m := self.map) is not None:
            lines += [
                f"      edges: {m.edge_error:.1%} off on average, 5 to 95% from {m.edge_low:+.1%} to "
                f"{m.edge_high:+.1%}, {m.edge_within:.0%} within 10%, {m.torn:.1%} torn",
                f"      stretch: median {m.stretch_median:.2f}, 5 to 95% from {m.stretch_low:.2f} to "
                f"{m.stretch_high:.2f}, {m.stretch_within:.0%} of the vertices within 10%",
                f"      energy: {m.energy}",
            ]
            if m.paths is not None:
                lines.append(
                    f"      long distances: correlation {m.paths:.4f} with the paths along the graph"
                )
        return "\n".join(lines)


def frames_of(
    graph: NeighborGraph, n_components: int, options: EmbeddingOptions, *, with_frames: bool, team: ThreadTeam
) -> tuple[LocalFrames | None, FloatArray]:
    """Calibrated frames of N directions if asked for, and spectra of N + 1 of all or sampled vertices."""
    frame_size = options.frame_size
    # Not more than one direction beyond N: they are noise, which eigenvalue iterations separate slowly.
    wide = n_components + 1
    if graph.n_vertices > _ALL_SPECTRA:
        region, inner = _regions(graph, team=team)
        size = resolve_frame_size(graph.degrees, frame_size, wide) or "all"
        spectrum = local_frames(subgraph(graph, region), wide, team=team, frame_size=size).spectrum[inner]
        frames = local_frames(graph, n_components, team=team, frame_size=frame_size) if with_frames else None
    else:
        more = local_frames(graph, wide, team=team, frame_size=frame_size)
        spectrum = more.spectrum
        rows, first = (np.ascontiguousarray(a[:, :n_components]) for a in (more.rows, more.spectrum))
        frames = replace(more, rows=rows, spectrum=first)
    return None if frames is None else calibrate_frames(graph, frames, options.calibrate), spectrum


def _regions(graph: NeighborGraph, *, team: ThreadTeam) -> tuple[AnyArray, AnyArray]:
    """Vertices of some balls, and the places among them of those well inside, whose frames are whole."""
    matrix = graph.to_matrix()
    balls = [
        breadth_first_order(matrix, int(centre), directed=False, return_predecessors=False)[:_BALL]
        for centre in sample_vertices(graph, _BALLS, team=team)
    ]
    region = np.unique(np.concatenate(balls))
    inner = np.unique(np.concatenate([ball[: _BALL // 3] for ball in balls]))
    return region, np.searchsorted(region, inner)


def dimension_facts(graph: NeighborGraph, spectrum: FloatArray) -> DimensionFacts:
    """Dimension of the neighbourhoods from their spectra, and from distances."""
    estimate, by = None, "nothing"
    try:
        found, is_sample = estimate_dimension(graph)
    except ValueError:
        found, is_sample = 0.0, False
    if is_sample:
        estimate, by = found, "nearest distances"
    elif found > 0.0 and graph.n_vertices >= FEWEST_GROWN:
        estimate, by = found, "growth of balls"
    beyond: tuple[float, ...] = (0.0,) * (spectrum.shape[1] - 1)
    spectrum = spectrum[spectrum[:, 0] > 0.0]
    if len(spectrum):
        before = np.cumsum(spectrum, axis=1)[:, :-1]
        beyond = tuple(float(x) for x in np.median(spectrum[:, 1:] / before, axis=0))
    local = next((d + 1 for d, x in enumerate(beyond) if x < NEGLIGIBLE), len(beyond) + 1)
    if estimate is not None and not is_sample:
        local = min(local, max(1, round(estimate)))
    return DimensionFacts(estimate, by, beyond, local)


def graph_facts(
    prepared: PreparedGraph, spectrum: FloatArray, n_directions: int, *, team: ThreadTeam
) -> tuple[GraphFacts, IntArray]:
    """Sizes, degrees and rank of the neighbourhoods, which should have ``n_directions``; outlying edges."""
    from isoweave.engines import cells as kernels

    graph = prepared.graph
    flat = spectrum[:, n_directions - 1] <= _RANK * spectrum[:, 0]
    sizes = [len(vertices) for vertices in prepared.parts]
    detours, counts = np.full(len(graph.indices), np.inf), np.zeros(graph.n_vertices, dtype=np.int64)
    team.run(
        kernels.shortest_detours, len(counts), graph.indptr, graph.indices, graph.lengths, detours, counts
    )
    ratios = graph.lengths / detours
    outlying = np.flatnonzero(ratios > _OUTLYING)
    outlying = outlying[np.argsort(-ratios[outlying], kind="stable")]
    ends = np.column_stack((graph.sources[outlying], graph.indices[outlying]))
    ends = np.sort(prepared.firsts[ends], axis=1)
    listed = zip(*ends[:_LISTED].T.tolist(), ratios[outlying[:_LISTED]].tolist(), strict=True)
    facts = GraphFacts(
        n_distinct=graph.n_vertices,
        part_sizes=tuple(sizes[:_LISTED]),
        n_parts=len(sizes),
        n_dropped=len(prepared.dropped),
        n_outlying=len(ends),
        outlying=tuple(listed),
        low_degree=float(np.percentile(graph.degrees, 25)),
        deficient=float(np.mean(flat)) if len(flat) else 0.0,
        # Every triangle was met at each of its edges.
        triangles_per_edge=int(counts.sum()) // 3 / max(graph.n_edges, 1),
        border=_border(graph, team),
    )
    return facts, ends


def _border(graph: NeighborGraph, team: ThreadTeam) -> float | None:
    """Length of the border of a triangle mesh, in typical edges; None for other graphs."""
    smaller = np.minimum(graph.degrees[graph.sources], graph.degrees[graph.indices])
    triangles = np.rint(shared_neighborhood(graph, team) * smaller)
    is_mesh = len(triangles) and np.mean((triangles == 1) | (triangles == 2)) >= _IN_MESH
    if not is_mesh:
        return None
    return float(0.5 * graph.lengths[triangles == 1].sum() / np.median(graph.lengths))


def needed_degree(n_components: int) -> int:
    """Neighbours that leave a frame undetermined: a grid's 2 N up to N = 3 (1 on a line).

    Beyond, frames of two and a half times as many vertices that have no more than N directions.
    """
    return {1: 1, 2: 4, 3: 6}.get(n_components, max(3, int((n_components + 1) / 2.5)))


def frame_dimension(graph: GraphFacts, dimension: DimensionFacts, n_components: int) -> int:
    """Directions that frames must have: the data's own, where triangles show them, otherwise N."""
    return min(dimension.local, n_components) if graph.triangles_per_edge >= FEW_TRIANGLES else n_components


def is_too_sparse(graph: GraphFacts, n_components: int) -> bool:
    """Whether frames of N directions rest on too few neighbours; a handful of vertices is left alone."""
    if graph.n_distinct <= 2 * n_components + 2:
        return False
    return graph.low_degree <= needed_degree(n_components) or graph.deficient >= MANY_DEFICIENT


def edge_table(graph: NeighborGraph, coordinates: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Ends i < j of every edge in the order of the rows, shape (E, 2), their lengths and distortions."""
    once = graph.sources < graph.indices
    edges, lengths = np.column_stack((graph.sources[once], graph.indices[once])), graph.lengths[once]
    return edges, lengths, edge_distortion(edges, lengths, coordinates)


def edge_errors(result: Any) -> str:
    """How far the edges of a map are off, in words; as in a diagnosis."""
    known = known_distortion(as_embedding(result))
    if len(known) == 0:
        return "nothing: there are none"
    return f"{np.mean(np.abs(known)):.2%} on average; {torn_share(known):.2%} are torn (off by half or more)"


def known_distortion(embedding: Embedding) -> FloatArray:
    """Distortion of the edges that have a positive length and both ends in the map, dropped ones left out."""
    _, lengths, distortion = edge_table(embedding.kept_graph("edge_errors"), embedding.coordinates)
    return distortion[np.isfinite(distortion) & (lengths > 0.0)]


def torn_share(distortion: FloatArray) -> float:
    """Share of the edges whose length in a map, over the measured one, is off by half or more."""
    return float(np.mean(np.abs(np.log(np.maximum(1.0 + distortion, 1e-12))) >= np.log(TORN)))


def frame_fit(energy: EdgeEnergy, at: Evaluation, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How every frame lies in a map, evaluated there: its misfit, shape (n,), and its stretch, shape (n, N).

    The misfit is the root of a vertex's share of the energy over that share in the collapsed map: 0 for an
    exact isometry, 1 where nothing is preserved, NaN without a frame.
    """
    collapsed = energy.evaluate(np.zeros_like(coordinates)).energies
    unknown = np.full(len(coordinates), np.nan)
    ratio = np.divide(np.maximum(at.energies, 0.0), collapsed, out=unknown, where=collapsed > 0.0)
    return np.sqrt(ratio), local_stretch(energy.graph, energy.frames, coordinates, team=energy.team)


def local_fit(embedding: Embedding, n_jobs: int | None = None) -> tuple[FloatArray, FloatArray] | None:
    """Misfit and stretch of every vertex by the frames of the default options, for a map by any tool.

    NaN for vertices without edges or coordinates; None where no edge has a positive length.
    """
    n, n_components = embedding.coordinates.shape
    misfit, stretch = np.full(n, np.nan), np.full((n, n_components), np.nan)
    placed = np.flatnonzero(embedding.is_placed)
    graph = subgraph(embedding.kept_graph("misfit"), placed)
    with thread_team(n_jobs) as team:
        along = embedding.parameters.get("along_graph")
        prepared = prepare_graph(graph, dropped=False, along=along, team=team)
        linked = np.flatnonzero(prepared.graph.degrees > 0)
        if len(linked) == 0:
            return None
        part = subgraph(prepared.graph, linked)
        frames = calibrate_frames(part, local_frames(part, n_components, team=team))
        points = np.ascontiguousarray(embedding.coordinates[placed][prepared.firsts][linked] / prepared.unit)
        energy = edge_energy(part, frames, team=team)
        found = frame_fit(energy, energy.evaluate(points), points)
    position = np.full(prepared.graph.n_vertices, -1)
    position[linked] = np.arange(len(linked))
    at = position[prepared.representative]
    misfit[placed[at >= 0]], stretch[placed[at >= 0]] = (values[at[at >= 0]] for values in found)
    return misfit, stretch
