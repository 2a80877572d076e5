"""Bytes alive while the stages of a fit go by.

Every array that a stage makes is counted from the sizes of the graph: what stays is held in a
:class:`Ledger`, what is alive only for a moment is a spike above it, and the peak is the largest sum. In the
formulas n is vertices, m stored edges (two per undirected edge), N dimensions; 8, 4 and 1 are float64, int32
and bool. Small arrays are rounded up, and what SuperLU and pyamg allocate inside was measured:
``benchmarks/forecast.py`` compares whole fits with these counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from isoweave.embedding._sizes import FitSizes, PartSizes, companion_sizes, sample_sizes
from isoweave.geometry._local_mds import HUB_LIMIT, ROOM_PER_FRAME
from isoweave.optimise import LOW_DIMENSION, N_LANDMARKS, SYNCHRONISED_LIMIT

# Triples of (n, N) arrays the optimiser remembers.
_TRIPLES = 10
# The coarse start: anchors per vertex, and the table of balls that is filled at once.
_ANCHORS = 8
_BALLS, _BALL_WIDTH = 8192, 336
# What every fit needs beside its arrays: stacks and heaps of the threads, pieces too small to count.
_ALLOWANCE = 8_000_000
_PER_THREAD = 2_000_000
# Freed arrays of up to 32 MB stay with the process and are not always of use to the next.
_FRAGMENTS = 0.15
_MOST_FRAGMENTS = 40_000_000
# Compiled code and libraries that the first fit of a process loads.
_FIRST_FIT = 60_000_000


class Ledger:
    """What is alive now, and the most there was in every stage."""

    def __init__(self) -> None:
        self.live = 0.0
        self.peaks: dict[str, float] = {}
        self._stage = ""

    def enter(self, stage: str) -> None:
        """Count what follows under this stage."""
        self._stage = stage
        self.spike(0.0)

    def hold(self, nbytes: float, spike: float = 0.0) -> None:
        """Allocate what stays; ``spike`` is alive beside it until it is made."""
        self.spike(nbytes + spike)
        self.live += nbytes

    def spike(self, nbytes: float) -> None:
        """Allocate for a moment."""
        self.peaks[self._stage] = max(self.peaks.get(self._stage, 0.0), self.live + nbytes)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is held inside is freed at the end."""
        before = self.live
        yield
        self.live = before


def growth_by_stage(fit: FitSizes) -> dict[str, int]:
    """How much larger the process is at the fullest moment of every stage, in order."""
    loaded = "isoweave.engines.local_mds" in sys.modules
    fixed = _ALLOWANCE + _PER_THREAD * fit.parts[0].n_threads + (0 if loaded else _FIRST_FIT)
    return {
        stage: int(arrays + min(_FRAGMENTS * arrays, _MOST_FRAGMENTS) + fixed)
        for stage, arrays in _count_fit(fit).items()
    }


def _count_fit(fit: FitSizes) -> dict[str, float]:
    """Bytes alive at the fullest moment of every stage, in order; what was there before does not count."""
    ledger = Ledger()
    c = fit.parts[0].n_components
    if fit.from_matrix:
        ledger.enter("graph")
        ledger.hold(12 * fit.m_given + 4 * fit.n_given, 33 * fit.m_given)
    _count_graph(ledger, fit)
    for part in fit.parts:
        with ledger.scope():
            if fit.n_parts > 1:
                # The part's own arrays, and its sources and reverse edges.
                ledger.hold(20 * part.m + 4 * part.n, 9 * fit.m)
            _count_part(ledger, part)
        ledger.hold(_result_bytes(part.n, c))
    ledger.enter("result")
    ledger.hold(_result_bytes(fit.n, c))
    ledger.hold(_result_bytes(fit.n_given, c))
    return ledger.peaks


def _result_bytes(n: int, n_components: int) -> float:
    """Coordinates, stretch and alignments."""
    return 8 * n * n_components * (n_components + 2)


def _count_graph(ledger: Ledger, fit: FitSizes) -> None:
    """From the graph given to the one that is embedded: unit, duplicates, order, filter, components."""
    n, m = fit.n, fit.m
    ledger.enter("graph")
    ledger.hold(8 * fit.m_given, 17 * fit.m_given)
    ledger.hold(4 * fit.n_given)
    if fit.reordered or fit.n < fit.n_given:
        ledger.hold(12 * m + 8 * n, 4 * m)
    if fit.shortcuts:
        ledger.enter("shortcuts")
        # Sources and reverse edges stay with the graph; the share of every edge, its scale and the rows by
        # length do not. Few graphs lose an edge, and then a little more stays.
        ledger.hold(8 * m + 4 * n, 45 * m)
    ledger.enter("graph")
    ledger.hold(24 * n, 8 * m + 24 * n)


def _count_part(ledger: Ledger, s: PartSizes, *, sample: bool = False) -> None:
    """Frames, solver, start, optimiser and stretch of a connected graph; all of it is freed."""
    n, c = s.n, s.n_components

    def enter(stage: str) -> None:
        # What a sample needs belongs to the start of the graph it was taken from.
        if not sample:
            ledger.enter(stage)

    with ledger.scope():
        enter("frames")
        _count_frames(ledger, s)
        enter("solver")
        _count_solver(ledger, s)
        enter("start")
        _count_start(ledger, s)
        enter("optimise")
        _count_optimiser(ledger, s)
        enter("result")
        ledger.hold(8 * n * c * (c + 1))
        if s.scale == "geodesics":
            _count_landmarks(ledger, s)
        if not sample:
            ledger.spike(48 * n * c * c + 32 * n * c)


def _count_frames(ledger: Ledger, s: PartSizes) -> None:
    n, m, c = s.n, s.m, s.n_components
    rank = s.inner_product == "paper"
    scratch = s.n_threads * (20 * n + _frame_scratch(s))
    rows = 8 * m * c
    ledger.hold(rows + m + 8 * n * (c + 2), 12 * m + 8 * n * (c + 2) + scratch + (rows if rank else 0))
    if s.calibrate != "none":
        # The calibrated rows take the place of the raw ones.
        ledger.spike(rows + 17 * m)
    # Weights of the edges, or inverse frames before and after they are weighted.
    ledger.hold(rows if rank else 8 * m, rows if rank else 8 * m)


def _frame_scratch(s: PartSizes) -> float:
    """Dense matrices of one thread while it scales a neighbourhood."""
    if s.frame_size == 0:
        room = min(3 * s.typical_frame, s.n)
        return 8 * room * room + 4096 * room
    most = min((ROOM_PER_FRAME + 1) * s.frame_size + 2, s.n)
    own = min(s.largest_degree, max(s.frame_size, HUB_LIMIT))
    capacity = min(own + most + 1, s.n)
    return 8 * capacity * capacity + 24 * s.frame_size * s.frame_size


def _count_solver(ledger: Ledger, s: PartSizes) -> None:
    n, m, c, entries = s.n, s.m, s.n_components, s.laplacian
    if s.inner_product == "paper":
        assembly = 40 * m * c + 12 * entries
    else:
        assembly = 33 * m
    with ledger.scope():
        # The matrix, and beside it the checked copy that solvers read.
        ledger.hold(12 * entries + 4 * n, assembly)
        ledger.spike(50 * entries)
        kept = 12 * entries + 24 * n
        ledger.hold(kept)
        if s.symbolic or s.solver == "direct":
            ledger.spike(58 * entries)
            ledger.hold(4 * entries + 20 * n, 8 * entries)
            kept += 4 * entries + 20 * n
        method, spike = _solver_bytes(s)
        ledger.hold(method, spike)
    ledger.hold(kept + method)


def _solver_bytes(s: PartSizes) -> tuple[float, float]:
    """What a prepared solver holds, and what is alive beside it while it is made."""
    n, entries = s.n, s.laplacian
    if s.solver in ("direct", "cholmod") and s.factor is not None:
        f = s.factor
        return 8 * f.values + 4 * f.rows + 28 * f.supernodes, 12 * entries + 8 * n + 8 * f.workspace
    if s.solver == "amg":
        return 18 * entries + 60 * n, 30 * entries
    if s.solver == "ic":
        kept = 12 * (entries / 2 + 15 * n)
        return kept, kept + 40 * n
    return 8 * n, 0.0


def _count_start(ledger: Ledger, s: PartSizes) -> None:
    n, c = s.n, s.n_components
    low, large = c <= LOW_DIMENSION, n * c > SYNCHRONISED_LIMIT
    if s.start == "given":
        return
    if s.start == "identity":
        _count_integration(ledger, s)
    elif s.start == "synchronised":
        _count_synchronised(ledger, s)
    elif s.start == "coarse" or (s.start == "auto" and low and large):
        _count_coarse(ledger, s)
    else:
        _count_landmarks(ledger, s)
        if s.start == "auto" and low:
            ledger.hold(8 * n * c + 8 * n * c * c)
            _count_synchronised(ledger, s)
    ledger.hold(8 * n * c)


def _count_integration(ledger: Ledger, s: PartSizes) -> None:
    """Coordinates that fit given alignments: every edge gets the matrix of its source."""
    m, c = s.m, s.n_components
    rank = s.inner_product == "paper"
    ledger.spike(8 * m * c * c + (24 if rank else 16) * m * c + (8 * s.n * c * c if rank else 0))


def _count_landmarks(ledger: Ledger, s: PartSizes) -> None:
    landmarks = min(max(N_LANDMARKS, 2 * s.n_components + 2), s.n)
    # Distances, their squares and a scaled copy of those; before, the queue of a shortest path search.
    ledger.spike(max(3 * 8 * landmarks * s.n, 8 * landmarks * s.n + 80 * s.n))


def _count_coarse(ledger: Ledger, s: PartSizes) -> None:
    """Sample, its geodesics, its own embedding, and the way back."""
    n, m, c = s.n, s.m, s.n_components
    sample = sample_sizes(s)
    with ledger.scope():
        ledger.spike(12 * m + 40 * n)
        ledger.hold((12 * _ANCHORS + 12) * n)
        table = min(_BALLS, sample.n) * min(_BALL_WIDTH, n)
        found = 14 * sample.n
        ledger.spike(24 * table + s.n_threads * 20 * n + 20 * found)
        ledger.hold(12 * sample.m + 4 * sample.n, 100 * found)
        _count_part(ledger, sample, sample=True)
        ledger.spike(24 * n * c)


def _count_synchronised(ledger: Ledger, s: PartSizes) -> None:
    """Companion graph, its frames, the factored connection Laplacian, and the energy of the companion."""
    n, c = s.n, s.n_components
    companion = companion_sizes(s)
    m = companion.m
    with ledger.scope():
        ledger.hold(12 * m, 100 * m)
        _count_frames(ledger, companion)
        # SuperLU holds a row number and a value per entry of both factors.
        assert companion.factor is not None
        ledger.spike(32 * m * c * c + 24 * companion.factor.fill * c * c)
        ledger.hold(8 * n * c * c)
        _count_solver(ledger, companion)
        _count_integration(ledger, companion)
        _count_optimiser(ledger, companion)


def _count_optimiser(ledger: Ledger, s: PartSizes) -> None:
    n, m, c = s.n, s.m, s.n_components
    block = 8 * n * c
    evaluation = block * (c + 1) + 8 * n
    # Blocks of a solve: right-hand side, solution, residual and what the method needs.
    solve = block * {"direct": 7, "cholmod": 7, "amg": 15}.get(s.solver, 11)
    if s.optimizer == "alternating":
        ledger.spike(2 * evaluation + 4 * block + max(8 * m * c, solve, 24 * n * c * c))
        return
    triples = min(_TRIPLES, s.max_iter)
    ledger.spike((3 * triples + 7) * block + 3 * evaluation + max(8 * m * c, solve))
