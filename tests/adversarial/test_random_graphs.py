"""Random graphs: finite numbers or an error that helps, no stray warning, no more steps than allowed."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, seed, settings

from adversarial_draws import FRAME_SIZES, MAX_ITER, check, random_case, time_limit
from isoweave import embed_graph
from isoweave._parallel import thread_team

# Two hundred graphs take a second or two, the slowest met so far two seconds by itself.
SECONDS_PER_BATCH = 60
EDGES_OF_THE_RANGE = [0.0, 5e-324, 2.2e-308, 1e-160, 1e-154, 1e-70, 1.0, 1e70, 1e154, 1e160, 1e300, 1.7e308]


def lengths():
    return st.one_of(
        st.floats(0.0, allow_infinity=False, allow_nan=False),
        st.floats(0.1, 10.0),
        st.sampled_from(EDGES_OF_THE_RANGE),
    )


@st.composite
def graphs(draw, values=lengths()):  # noqa: B008
    """Any graph of up to 12 vertices; shrinks to few edges of simple lengths."""
    n = draw(st.integers(2, 12))
    vertex = st.integers(0, n - 1)
    one_length = draw(st.booleans())
    length = draw(values) if one_length else None
    pairs = draw(st.lists(st.tuples(vertex, vertex).filter(lambda p: p[0] != p[1]), max_size=3 * n))
    pairs = sorted({(min(p), max(p)) for p in pairs})
    data = np.array([length if one_length else draw(values) for _ in pairs], dtype=float)
    rows, cols = ([p[side] for p in pairs] for side in (0, 1))
    matrix = sp.coo_array((data, (rows, cols)), shape=(n, n))
    return draw(st.sampled_from([sp.coo_array, sp.csr_array, sp.csc_array]))(matrix)


OPTIONS = st.fixed_dictionaries(
    {"n_components": st.integers(1, 5), "n_jobs": st.just(1), "max_iter": st.just(MAX_ITER)},
    optional={
        "preset": st.sampled_from(["default", "paper"]),
        "start": st.sampled_from(["auto", "landmark", "synchronized", "coarse", "identity"]),
        "solver": st.sampled_from(["auto", "direct", "amg", "jacobi", "ic"]),
        "inner_product": st.sampled_from(["edge", "paper"]),
        "frame_size": st.sampled_from(FRAME_SIZES),
        "calibrate": st.sampled_from(["rows", "vertices", "none"]),
        "scale": st.sampled_from(["edges", "geodesics"]),
        "shortcuts": st.sampled_from(["drop", "keep"]),
        "components": st.sampled_from(["separate", "largest", "error"]),
    },
)


@given(graphs(), OPTIONS)
@settings(max_examples=200)
def test_any_graph_with_any_options(matrix, options):
    with time_limit(SECONDS_PER_BATCH):
        check(matrix, options)


@given(graphs(values=st.sampled_from([1.0, 2.0, np.nan, np.inf, -np.inf, -1.0, -5e-324])), OPTIONS)
@settings(max_examples=100)
def test_impossible_lengths_are_named(matrix, options):
    bad = ~(np.isfinite(matrix.data) & (matrix.data >= 0))
    if not bad.any():
        check(matrix, options)
        return
    with pytest.raises(ValueError, match=r"Entry \(\d+, \d+\) is .*: (NaN|infinite|negative) distances"):
        embed_graph(matrix, **options)


def run_batch(first, n_graphs):
    """Outcomes of a batch; a failure names the draw."""
    outcomes: Counter[str] = Counter()
    # BLAS is held to one thread once for all of them, which halves the time of so small fits.
    with time_limit(SECONDS_PER_BATCH), thread_team(1):
        for number in range(n_graphs):
            matrix, options = random_case(np.random.default_rng([first, number]))
            try:
                outcomes[check(matrix, options)] += 1
            except BaseException as error:
                error.add_note(f"random_case(np.random.default_rng([{first}, {number}])), options {options}")
                raise
    return outcomes


def test_a_batch():
    outcomes = run_batch(1000, 200)
    # A draw that only ever fails, or never does, would test nothing.
    assert outcomes["converged"] > 80
    assert outcomes["error"] > 5


@pytest.mark.slow
@pytest.mark.parametrize("number", range(50))
def test_ten_thousand_batched_graphs(number):
    """50 batches of 200: any fails by itself and can be run again by itself."""
    assert run_batch(2000 + number, 200)["converged"] > 80


@pytest.mark.slow
@pytest.mark.parametrize("number", range(100))
def test_hundred_thousand_graphs(number):
    """100 times 1,000 graphs of hypothesis, each lot from a seed of its own."""
    count = 0

    @seed(number)
    @settings(
        max_examples=1000,
        derandomize=False,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(graphs(), OPTIONS)
    def any_graph(matrix, options):
        nonlocal count
        count += 1
        with time_limit(SECONDS_PER_BATCH):
            check(matrix, options)

    with thread_team(1):
        any_graph()
    assert count >= 1000
