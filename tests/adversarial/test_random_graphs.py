"""Random graphs: finite numbers or an error that helps, no stray warning, no more steps than allowed."""

from __future__ import annotations

import signal
import warnings
from collections import Counter
from contextlib import contextmanager
from itertools import combinations, pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, seed, settings
from sklearn.exceptions import ConvergenceWarning

from isoweave import embed_graph
from isoweave._parallel import thread_team
from isoweave.optimise import UnsolvedError

# The only errors a valid matrix may meet, each with its advice.
ADVICE = (
    ("is more than any neighbourhood can support", "Lower n_components"),
    ("connected components", "allow it with components="),
    ("distances span from", "rescale or remove"),
    ("extends beyond the largest number", "divide the distances"),
    ("Poisson problems of this graph could not be solved", "remove the extreme ones"),
)
MAX_ITER = 30
# Two hundred graphs take a second or two, the slowest met so far two seconds by itself.
SECONDS = 60
EDGES_OF_THE_RANGE = [0.0, 5e-324, 2.2e-308, 1e-160, 1e-154, 1e-70, 1.0, 1e70, 1e154, 1e160, 1e300, 1.7e308]
LENGTHS = st.one_of(
    st.floats(0.0, allow_infinity=False, allow_nan=False),
    st.floats(0.1, 10.0),
    st.sampled_from([0.0, 1.0, 2.0, 1e-12]),
    st.floats(-36.0, 36.0).map(lambda exponent: 10.0**exponent),
    st.sampled_from(EDGES_OF_THE_RANGE),
)


@st.composite
def graphs(draw, values=LENGTHS):
    """Graphs of up to 12 vertices of any kind, with any lengths, those of points or all alike."""
    n = draw(st.integers(2, 12))
    vertex = st.integers(0, n - 1)
    kinds = {
        "any": st.lists(st.tuples(vertex, vertex), max_size=3 * n),
        "tree": st.tuples(*(st.tuples(st.integers(0, i - 1), st.just(i)) for i in range(1, n))),
        "cycle": st.just([(i, (i + 1) % n) for i in range(n)]),
        "star": st.just([(0, i) for i in range(1, n)]),
        "complete": st.just(list(combinations(range(n), 2))),
    }
    pairs = draw(kinds[draw(st.sampled_from(list(kinds)))])
    pairs = sorted({(min(p), max(p)) for p in pairs if p[0] != p[1]})
    rows, cols = np.array(pairs, dtype=int).reshape(-1, 2).T
    alike = draw(st.sampled_from(["no", "all", "points"] if values is LENGTHS else ["no", "all"]))
    if alike == "points":
        points = np.random.default_rng(draw(st.integers(0, 1000))).normal(size=(n, draw(st.integers(1, 3))))
        # Any unit: the last ones leave the numbers that have all their digits.
        unit = 2.0 ** draw(st.sampled_from([0, 0, -800, 800, -1040]))
        data = unit * np.linalg.norm(points[rows] - points[cols], axis=1)
    else:
        data = np.full(len(rows), draw(values)) if alike == "all" else [draw(values) for _ in pairs]
    matrix = sp.coo_array((np.asarray(data, dtype=float), (rows, cols)), shape=(n, n))
    return draw(st.sampled_from([sp.coo_array, sp.csr_array, sp.csc_array]))(matrix)


OPTIONS = st.fixed_dictionaries(
    {"n_components": st.integers(1, 5), "n_jobs": st.just(1), "max_iter": st.just(MAX_ITER)},
    optional={
        "preset": st.sampled_from(["default", "paper"]),
        "start": st.sampled_from(["auto", "landmark", "synchronized", "coarse", "identity"]),
        "solver": st.sampled_from(["auto", "direct", "amg", "jacobi", "ic"]),
        "inner_product": st.sampled_from(["edge", "paper"]),
        "frame_size": st.sampled_from([2, 5, "all", 1.0, 4.0]),
        "calibrate": st.sampled_from(["rows", "vertices", "none"]),
        "scale": st.sampled_from(["edges", "geodesics"]),
        "shortcuts": st.sampled_from(["drop", "keep"]),
        "components": st.sampled_from(["separate", "largest", "error"]),
    },
)


@contextmanager
def time_limit(seconds):
    """Raise TimeoutError if the body works longer; time spent waiting for a busy machine does not count."""

    def stop(signum, frame):
        raise TimeoutError(f"not finished after {seconds} s of work")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def check(matrix, options):
    """Embed; the outcome in one word, or an assertion that fails.

    Either every number is finite and the promises hold, or a ValueError says what to do. All warnings but
    the two announced ones are errors.
    """
    with warnings.catch_warnings(), time_limit(SECONDS):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The graph has", UserWarning)
        warnings.filterwarnings("ignore", "The optimiser stopped after max_iter", ConvergenceWarning)
        try:
            result = embed_graph(matrix, **options)
        except ValueError as error:
            plain = type(error) in (ValueError, UnsolvedError)
            if plain and any(what in str(error) and advice in str(error) for what, advice in ADVICE):
                return "error"
            raise
    n_components = options["n_components"]
    assert result.coordinates.shape == (matrix.shape[0], n_components)
    inside = np.ones(matrix.shape[0], dtype=bool)
    if options.get("components") == "largest":
        inside = result.component_labels == 0
        assert np.isnan(result.coordinates[~inside]).all()
    assert np.isfinite(result.coordinates[inside]).all()
    assert np.isfinite(result.stretch).all()
    assert 0.0 <= result.relative_energy <= 1.0 + 1e-6 or result.status == "max_iter"
    assert result.n_iter <= options["max_iter"]
    energies = [record.energy for record in result.history]
    assert all(later <= earlier for earlier, later in pairwise(energies))
    squares = result.alignments @ result.alignments.transpose(0, 2, 1)
    assert np.abs(squares - np.eye(n_components)).max() < 1e-9
    return result.status


LOTS = [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 101))]


@pytest.mark.parametrize("number", LOTS)
def test_any_graph_with_any_options(number):
    """A few hundred graphs, and a hundred lots of 1,000 with a seed each."""
    outcomes: Counter[str] = Counter()

    @seed(number)
    @settings(
        max_examples=1000 if number else 250, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(graphs(), OPTIONS)
    def any_graph(matrix, options):
        outcomes[check(matrix, options)] += 1

    # BLAS is held to one thread once for all of them, which halves the time of so small fits.
    with thread_team(1):
        any_graph()
    # Draws that only ever fail, or never do, would test nothing.
    assert outcomes["converged"] > 50
    assert outcomes["error"] > 5


@given(graphs(values=st.sampled_from([1.0, 2.0, np.nan, np.inf, -np.inf, -1.0, -5e-324])), OPTIONS)
@settings(max_examples=50)
def test_impossible_lengths_are_named(matrix, options):
    bad = ~(np.isfinite(matrix.data) & (matrix.data >= 0))
    if not bad.any():
        check(matrix, options)
        return
    with pytest.raises(ValueError, match=r"Entry \(\d+, \d+\) is .*: (NaN|infinite|negative) distances"):
        embed_graph(matrix, **options)
