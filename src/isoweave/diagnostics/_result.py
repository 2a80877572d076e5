"""What a diagnosis consists of."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from isoweave._typing import FloatArray, IntArray

SEVERITIES = ("info", "warn", "problem")


@dataclass(frozen=True)
class Verdict:
    """One finding.

    Attributes
    ----------
    code : str
        Stable name, listed in docs/diagnose.md.
    severity : {"info", "warn", "problem"}
    text : str
        What was found.
    advice : str
        What to do about it.
    numbers : dict of str to float
        What the finding rests on.
    """

    code: str
    severity: str
    text: str
    advice: str
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EnergySplit:
    """Parts of an energy, each over the energy of the collapsed map (docs/diagnose.md).

    ``total = removable + disagreement + irremovable`` and ``irremovable = curl + loops``.

    Attributes
    ----------
    total : float
        The relative energy of the map at the given turns.
    removable : float
        Exact part: one more Poisson solve with the same turns would remove it.
    disagreement : float
        The two ends of an edge disagree about it: noise of the frames, and tears of the map.
    irremovable : float
        No map can remove it while the frames are turned as they are.
    expected : float
        What ``irremovable`` would be if the frames had independent errors of the size that ``disagreement``
        shows, and nothing else were wrong.
    curl, loops : float or None
        Co-exact part: frames do not fit around triangles and other small loops. Harmonic part: small loops
        are in order, but long ones do not close. None where the two were not told apart.
    concentration : float or None
        Share of ``loops`` on one edge in a hundred.
    """

    total: float
    removable: float
    disagreement: float
    irremovable: float
    expected: float
    curl: float | None
    loops: float | None
    concentration: float | None


@dataclass(frozen=True)
class GraphFacts:
    """The graph that is embedded, duplicates merged and shortcuts taken out.

    Attributes
    ----------
    n_distinct : int
        Vertices without duplicates.
    part_sizes : tuple of int
        Distinct vertices of the connected components, largest first; at most 10 are listed.
    n_parts : int
    n_dropped : int
        Edges the shortcut filter took out.
    low_degree, median_degree : float
        Quartile and median of the degrees.
    deficient : float
        Share of the vertices whose neighbourhood has fewer directions than most have, or than N.
    triangles_per_edge : float
    """

    n_distinct: int
    part_sizes: tuple[int, ...]
    n_parts: int
    n_dropped: int
    low_degree: float
    median_degree: float
    deficient: float
    triangles_per_edge: float


@dataclass(frozen=True)
class DimensionFacts:
    """Directions of the neighbourhoods.

    Attributes
    ----------
    estimate : float or None
        Intrinsic dimension by the ratio of the two nearest distances; None where it cannot be had.
    beyond : tuple of float
        Size (eigenvalue) of direction d + 1 over that of the first d together, median over the vertices, for
        d = 1 to N.
    local : int
        The smallest d whose next direction is negligible; N + 1 if none is.
    """

    estimate: float | None
    beyond: tuple[float, ...]
    local: int


@dataclass(frozen=True)
class ShapeFacts:
    """What carrying frames around the loops of one connected component shows; nothing here needs a map.

    Attributes
    ----------
    component : int
    n_vertices, n_used : int
        Vertices of the component, and those of the sample that was looked at.
    kind : {"flat", "curved", "closed", "non_orientable", "uncertain"}
    dimension : int
        Of the frames that were carried: the data's own, at most N.
    coherence : float
        Share of the triangles around which frames come back unreflected. Where it is low, nothing can be
        carried around longer loops, and the kind is uncertain.
    reflected : float
        Share of the joins between patches that turn a frame over whatever the orientation (eq. D9).
    synchronised : EnergySplit or None
        Energy where all turns agree with their neighbours as well as they can.
    relaxed : EnergySplit or None
        Energy after the map has been fitted from there.
    excess : float or None
        Irremovable over expected energy after fitting: about 0.6 where the data are flat.
    tearing : float or None
        How many times the disagreement grew by fitting: 1 where the data are flat.
    torn : float or None
        Share of the edges that the fitted map makes longer or shorter by half or more.
    curvature : float or None
        Median of the curvature, in the input's unit to the power -2, where the kind is curved.
    """

    component: int
    n_vertices: int
    n_used: int
    kind: str
    dimension: int
    coherence: float
    reflected: float
    synchronised: EnergySplit | None
    relaxed: EnergySplit | None
    excess: float | None
    tearing: float | None
    torn: float | None
    curvature: float | None


@dataclass(frozen=True)
class MapFacts:
    """How well a map keeps what it was made from.

    Attributes
    ----------
    status : str or None
        Of the optimiser; None for coordinates of other origin.
    energy : EnergySplit
    n_used : int
        Vertices of the sample on which ``curl`` and ``loops`` were told apart; 0 where they were not.
    edge_error : float
        Mean of ``|distortion|``.
    edge_median, edge_low, edge_high : float
        Median, 5 and 95 % of the distortion.
    edge_within : float
        Share of the edges within 10 % of their length.
    torn : float
        Share of the edges off by a factor of 1.5 or more.
    stretch_median, stretch_low, stretch_high : float
        Of the singular values of the local differential, in the directions the data have.
    stretch_within : float
        Share of the vertices with all of these within 10 % of 1.
    against_relaxed : float or None
        Energy over that of the map fitted from synchronised turns, both measured on the same frames.
    """

    status: str | None
    energy: EnergySplit
    n_used: int
    edge_error: float
    edge_median: float
    edge_low: float
    edge_high: float
    edge_within: float
    torn: float
    stretch_median: float
    stretch_low: float
    stretch_high: float
    stretch_within: float
    against_relaxed: float | None


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What a graph allows, what a map of it keeps, and what to do.

    Attributes
    ----------
    n_vertices, n_edges, n_components : int
    verdicts : tuple of Verdict
        Most severe first.
    graph : GraphFacts
    dimension : DimensionFacts
    shapes : tuple of ShapeFacts
        One per connected component that is large enough to tell, largest first.
    map : MapFacts or None
        None before solving.
    curvature : float64 array of shape (n,)
        Mean sectional curvature around every vertex, roughly; NaN outside of components that are curved.
    edges : int32 array of shape (E, 2)
        Edges i < j of the input graph, dropped ones included, in the order of its rows.
    edge_distortion : float64 array of shape (E,) or None
        Length in the map over given length, minus 1; NaN for edges of vertices that were not embedded.
    stretch : float64 array of shape (n, N) or None
    """

    n_vertices: int
    n_edges: int
    n_components: int
    verdicts: tuple[Verdict, ...]
    graph: GraphFacts
    dimension: DimensionFacts
    shapes: tuple[ShapeFacts, ...]
    map: MapFacts | None
    curvature: FloatArray
    edges: IntArray
    edge_distortion: FloatArray | None
    stretch: FloatArray | None

    @property
    def summary(self) -> str:
        """One line: how well edges are kept, the kind of shape, and the findings that ask for action."""
        from isoweave.diagnostics._text import summary_line

        return summary_line(self)

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of the verdicts, most severe first."""
        return tuple(v.code for v in self.verdicts)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the arrays, in types that JSON has; undefined numbers are None."""
        return {
            "n_vertices": self.n_vertices,
            "n_edges": self.n_edges,
            "n_components": self.n_components,
            "verdicts": [_plain(asdict(v)) for v in self.verdicts],
            "graph": _plain(asdict(self.graph)),
            "dimension": _plain(asdict(self.dimension)),
            "shapes": [_plain(asdict(s)) for s in self.shapes],
            "map": None if self.map is None else _plain(asdict(self.map)),
        }

    def __str__(self) -> str:
        from isoweave.diagnostics._text import page

        return page(self)


def _plain(value: Any) -> Any:
    """Nested lists and dicts of Python numbers; NaN and infinities become None."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return value
