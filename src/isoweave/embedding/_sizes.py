"""The numbers that memory and time of a fit are counted from."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import log2

from isoweave.optimise._coarse import THINNING

# Stored edges per vertex of the graph of a sample, which joins 14 nearest.
_SAMPLE_DEGREE = 16
# Of the companion graph of the synchronised start, over the width of its lists of nearest vertices.
_COMPANION_PER_WIDTH = 1.15


@dataclass(frozen=True)
class FactorSize:
    """A Cholesky factor: its entries, what is stored of it, the float64 of workspace, the operations."""

    fill: float
    values: float
    rows: float
    supernodes: float
    workspace: float
    work: float

    def scaled(self, share: float) -> FactorSize:
        """The factor of a part of the matrix."""
        return FactorSize(*(share * value for value in astuple(self)))


@dataclass(frozen=True)
class PartSizes:
    """A connected graph to be embedded, and how.

    Attributes
    ----------
    n, m : int
        Vertices and stored edges, two per undirected edge.
    n_components, n_threads : int
    frame_size : int
        Vertices per frame; 0 for second-order neighbourhoods.
    typical_frame : float
        Vertices that frames really have, neighbours of hubs and second-order neighbourhoods included.
    largest_degree : int
    solver : str
    factor : FactorSize or None
        Of the Laplacian, for a direct solver.
    symbolic : bool
        Whether the factor is counted during the fit to choose the solver.
    laplacian : float
        Entries of the Laplacian.
    fill_ratio : float
        Entries of a factor over those of the Laplacian, counted or typical.
    start, optimizer, inner_product, calibrate, scale : str
    max_iter : int
        See :class:`isoweave.embedding.EmbeddingOptions`; a start is "given" if it is an array.
    """

    n: int
    m: int
    n_components: int
    n_threads: int
    frame_size: int
    typical_frame: float
    largest_degree: int
    solver: str
    factor: FactorSize | None
    symbolic: bool
    laplacian: float
    fill_ratio: float
    start: str = "auto"
    optimizer: str = "lbfgs"
    inner_product: str = "edge"
    calibrate: str = "rows"
    scale: str = "edges"
    max_iter: int = 500


@dataclass(frozen=True)
class FitSizes:
    """A whole graph.

    Attributes
    ----------
    n_given, m_given : int
        Vertices and stored edges of the graph given; ``n`` and ``m`` are what is left without duplicates.
    from_matrix : bool
        The graph is still to be made from a matrix.
    reordered, shortcuts : bool
        The graph is renumbered; the filter runs.
    parts : tuple of PartSizes
        The largest connected components, largest first.
    n_parts : int
    reason : str
        Why the first part has its solver.
    """

    n_given: int
    m_given: int
    n: int
    m: int
    from_matrix: bool
    reordered: bool
    shortcuts: bool
    parts: tuple[PartSizes, ...]
    n_parts: int
    reason: str


def sample_sizes(s: PartSizes) -> PartSizes:
    """The graph of the coarse start.

    Its fill is a guess. Fill over entries of the graph and of its sample: 3.6 and 3.0 on 200,000 points of
    a swiss roll, 3.7 and 4.1 on a sphere, 21 and 6.8 in a cube, 81 and 15 in five dimensions.
    """
    n = max(s.n // THINNING, 2)
    # On surfaces fill grows with the logarithm of n, in more dimensions with a power.
    slow = 1.5 * s.fill_ratio * max(log2(n) - 5, 1) / max(log2(s.n) - 5, 1)
    return _similar(s, n, min(_SAMPLE_DEGREE * n, n * (n - 1)), min(slow, 2.0 * s.fill_ratio**0.5))


def companion_sizes(s: PartSizes) -> PartSizes:
    """The denser graph of the synchronised start; it fills in a little more than the graph itself."""
    width = max(20, min(1.8 * s.m / s.n, 40), 2 * s.n_components)
    return _similar(
        s, s.n, min(int(_COMPANION_PER_WIDTH * width * s.n), s.n * (s.n - 1)), 1.25 * s.fill_ratio
    )


def _similar(s: PartSizes, n: int, m: int, ratio: float) -> PartSizes:
    """A graph of geodesics over the same data, embedded with the defaults."""
    entries = n + m
    fill = min(ratio * entries, n * (n + 1) / 2)
    frame = max(int(1.4 * m / n), s.n_components + 1)
    return PartSizes(
        n=n,
        m=m,
        n_components=s.n_components,
        n_threads=s.n_threads,
        frame_size=frame,
        typical_frame=frame,
        largest_degree=3 * m // n,
        solver="direct",
        factor=FactorSize(fill, 1.4 * fill, 5.0 * n, 0.15 * n, 0.6 * fill, 4 * fill * fill / n),
        symbolic=True,
        laplacian=entries,
        fill_ratio=fill / entries,
    )
