"""What a diagnosis consists of, and the page it prints."""

from __future__ import annotations

from dataclasses import dataclass, field, is_dataclass
from typing import Any

from isoweave._typing import FloatArray, IntArray

SEVERITIES = ("info", "warn", "problem")
_MARKS = {"info": "  ok ", "warn": " note", "problem": "  !! "}
_ARRAYS = ("curvature", "outlying", "edges", "edge_distortion", "misfit", "stretch")
_KINDS = {"non_orientable": "one-sided", "uncertain": "of uncertain shape"}


@dataclass(frozen=True)
class Verdict:
    """One finding."""

    code: str  #: stable name, listed in docs/diagnose.md
    severity: str  #: "info", "warn" or "problem"
    text: str  #: what was found
    advice: str  #: what to do about it
    numbers: dict[str, float] = field(default_factory=dict)  #: what the finding rests on


@dataclass(frozen=True)
class EnergySplit:
    """Parts of an energy, each over the energy of the collapsed map (docs/diagnose.md).

    ``total = removable + disagreement + irremovable`` and ``irremovable = curl + loops``; the last two and
    ``concentration`` are None where curl and loops were not separated.
    """

    total: float  #: relative energy of the map at the given rotations
    removable: float  #: exact part: one more Poisson solve with the same rotations would remove it
    disagreement: float  #: the two ends of an edge disagree: noise of the frames, and tears of the map
    irremovable: float  #: no map can remove it while the frames are rotated as they are
    #: What ``irremovable`` would be if frames had independent errors of the size that ``disagreement`` shows.
    expected: float
    curl: float | None = None  #: co-exact part: frames do not fit around triangles and other small loops
    loops: float | None = None  #: harmonic part: small loops close, but long ones do not
    concentration: float | None = None  #: share of ``loops`` on one edge in a hundred

    def __str__(self) -> str:
        parts = f"irremovable {self.irremovable:.2%}"
        if self.curl is not None and self.loops is not None:
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


@dataclass(frozen=True)
class DimensionFacts:
    """Directions of the neighbourhoods."""

    estimate: float | None  #: intrinsic dimension by the ratio of the two nearest distances, if there is one
    #: Eigenvalue of direction d + 1 over the sum of the first d, median over the vertices, for d = 1 to N.
    beyond: tuple[float, ...]
    local: int  #: the smallest d whose next direction is negligible; N + 1 if none is


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
    edge_within: float  #: share of the edges within 10 % of their length
    torn: float  #: share of the edges off by a factor of 1.5 or more
    stretch_median: float  #: singular values of the local differential, in the directions the data have
    stretch_low: float
    stretch_high: float
    stretch_within: float  #: share of the vertices with all of these within 10 % of 1
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
    edge_distortion: FloatArray | None  #: length in the map over given length, minus 1; NaN if not embedded
    misfit: FloatArray | None  #: root of every vertex's energy over that of the collapsed map, shape (n,)
    stretch: FloatArray | None  #: singular values of the local differential, largest first, shape (n, N)

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of the verdicts, most severe first."""
        return tuple(v.code for v in self.verdicts)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the arrays, in types that JSON has; undefined numbers are None."""
        return {name: _plain(value) for name, value in vars(self).items() if name not in _ARRAYS}

    def __str__(self) -> str:
        what = f"{'graph' if self.map is None else 'map'} of {self.n_vertices:,} vertices"
        lines = [f"{what} and {self.n_edges:,} edges in {self.n_components} dimensions"]
        for v in self.verdicts:
            lines += [f"{_MARKS[v.severity]} {v.code}: {v.text}", f"      -> {v.advice}"]
        d = self.dimension
        estimate = "unknown" if d.estimate is None else f"{d.estimate:.2f}"
        lines += ["numbers", f"      dimension of the data: {estimate} by distances, {d.local} by directions"]
        for s in self.shapes:
            where = f"component {s.component} " if len(self.shapes) > 1 else ""
            sampled = f" (sample of {s.n_used:,})" if s.n_used < s.n_vertices else ""
            bend = f", curvature {s.curvature:.2g}" if s.curvature is not None else ""
            kind = _KINDS.get(s.kind, s.kind)
            lines.append(f"      shape: {where}{kind} in {s.dimension} dimensions{sampled}{bend}")
        if (m := self.map) is not None:
            lines += [
                f"      edges: {m.edge_error:.1%} off on average, 5 to 95 % from {m.edge_low:+.1%} to "
                f"{m.edge_high:+.1%}, {m.edge_within:.0%} within 10 %, {m.torn:.1%} torn",
                f"      stretch: median {m.stretch_median:.2f}, 5 to 95 % from {m.stretch_low:.2f} to "
                f"{m.stretch_high:.2f}, {m.stretch_within:.0%} of the vertices within 10 %",
                f"      energy: {m.energy}",
            ]
        return "\n".join(lines)


def _plain(value: Any) -> Any:
    """Nested lists and dicts of Python numbers; NaN and infinities become None."""
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value
