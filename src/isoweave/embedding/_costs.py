"""Processor seconds of the stages of a fit, roughly: most fits take half to twice as long.

Every stage has a count of its inner operations, taken from the sizes, and a measured cost of one, in
nanoseconds on one core of a 2020s server. How many steps the optimiser will take is not known in advance.
"""

from __future__ import annotations

from isoweave.embedding._sizes import FitSizes, PartSizes, companion_sizes, sample_sizes
from isoweave.optimise import LOW_DIMENSION, N_LANDMARKS, SYNCHRONISED_LIMIT

# Steps of the optimiser (4 to 15 as a rule) and of the paper's recursion.
_STEPS = 9
_RECURSION_STEPS = 300
# Stages whose work the threads share.
_SHARED = ("shortcuts", "frames")


def cpu_seconds(fit: FitSizes) -> dict[str, float]:
    """Processor seconds by stage."""
    seconds = {"graph": 1e-9 * (90 * fit.m_given + 300 * fit.n_given)}
    if fit.shortcuts:
        seconds["shortcuts"] = 27e-9 * fit.m * fit.m / max(fit.n, 1)
    for part in fit.parts:
        for stage, value in part_seconds(part).items():
            seconds[stage] = seconds.get(stage, 0.0) + value
    return seconds


def wall_seconds(cpu: dict[str, float], n_threads: int) -> float:
    """Seconds to wait with so many threads, each on a core of its own."""
    return sum(value / (n_threads if stage in _SHARED else 1) for stage, value in cpu.items())


def part_seconds(s: PartSizes) -> dict[str, float]:
    """Processor seconds of one connected component by stage."""
    n, c = s.n, s.n_components
    return {
        "frames": _frames(s),
        "solver": _solver(s),
        "start": _start(s),
        "optimise": _optimise(s),
        "result": 1e-9 * n * (600 + 150 * c * c),
    }


def _optimise(s: PartSizes) -> float:
    steps = min(_RECURSION_STEPS if s.optimizer == "alternating" else _STEPS, s.max_iter)
    return (steps + 1) * (_evaluation(s) + _solve(s))


def _frames(s: PartSizes) -> float:
    """Shortest paths, Gram matrix and eigenvectors of every neighbourhood."""
    f, c = s.typical_frame, s.n_components
    if 3 * (c + 2) < f:
        # Two directions of a surface stand out, and a few sweeps find them; in more dimensions the sweeps
        # are mostly in vain, and the whole matrix is decomposed after all.
        eigenvectors = 4 * (c + 2) * f**2 + (0.15 if c <= 2 else 1.5 if c == 3 else 4.8) * f**3
    else:
        eigenvectors = 1.8 * f**3
    nanoseconds = 8000 + 36 * f**2 + eigenvectors
    if s.inner_product == "paper":
        # Convex hulls.
        nanoseconds += 6e4 * 3.0 ** (min(c, 7) - 2)
    return 1e-9 * s.n * nanoseconds


def _solver(s: PartSizes) -> float:
    seconds = 130e-9 * s.laplacian
    if s.symbolic or s.solver == "direct":
        seconds += 400e-9 * s.laplacian + 8e-9 * min(s.fill_ratio * s.laplacian, 2.5e8)
    if s.factor is not None:
        seconds += 25e-9 * s.factor.values + 0.09e-9 * s.factor.work
    elif s.solver == "amg":
        seconds += 400e-9 * s.laplacian
    elif s.solver == "ic":
        seconds += 1000e-9 * s.laplacian
    return seconds


def _solve(s: PartSizes) -> float:
    """One Poisson solve for all columns."""
    n, c = s.n, s.n_components
    if s.factor is not None:
        return 1e-9 * (1.2 * s.factor.values * ((c + 1) // 2) + 100 * n * c)
    iteration = 1e-9 * c * (1.5 * s.laplacian + 10 * n)
    if s.solver == "jacobi":
        return iteration * (12 + 4 * n ** (1 / c))
    return iteration * (40 if s.solver == "amg" else 60)


def _evaluation(s: PartSizes) -> float:
    """One energy with its gradient."""
    c = s.n_components
    return 1e-9 * (s.m * (10 + 5 * c * c) + s.n * 10 * c**3)


def _start(s: PartSizes) -> float:
    n, c = s.n, s.n_components
    low, large = c <= LOW_DIMENSION, n * c > SYNCHRONISED_LIMIT
    if s.start == "given":
        return 0.0
    if s.start == "identity":
        return _solve(s)
    if s.start == "synchronised":
        return _synchronised(s)
    if s.start == "coarse" or (s.start == "auto" and low and large):
        return 4.5e-6 * n + 0.5e-6 * n * c + sum(part_seconds(sample_sizes(s)).values())
    landmarks = max(N_LANDMARKS, 2 * c + 2)
    seconds = 1e-9 * landmarks * (250 * n + 10 * s.m)
    if s.start == "auto" and low:
        seconds += _synchronised(s) + _optimise(s)
    return seconds


def _synchronised(s: PartSizes) -> float:
    companion = companion_sizes(s)
    assert companion.factor is not None
    connection = 100e-9 * companion.m * s.n_components**2 + 1e-9 * companion.factor.work
    return connection + _frames(companion) + _solver(companion) + _optimise(companion)
