"""Random graphs and options: a finite map or an error that helps, no stray warning, no step too many."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from dataclasses import fields
from uuid import uuid4

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, seed, settings
from sklearn.exceptions import ConvergenceWarning

from adversarial_graphs import check_map
from isoweave import Anchors, Checkpoint, IsometricEmbedding, Weights, as_embedding, embed_graph
from isoweave.options import FitOptions, SearchOptions

# What an error says if no option that was given is to blame, with the advice in it.
ADVICE = (
    ("is more than any neighbourhood can support", "Lower n_components"),
    ("connected components", "allow it with components="),
    ("distances span from", "rescale or remove"),
    ("extends beyond the largest number", "divide the distances"),
    ("Poisson problems of this graph could not be solved", "remove the extreme ones"),
    ("distances of one edge disagree", "Choose asymmetry="),
    ("must form a square matrix", "got shape"),
    ("are duplicates", "Give them one position"),
)
MAX_ITER = 30
EDGES_OF_THE_RANGE = [0.0, 5e-324, 2.2e-308, 1e-160, 1e-154, 1e-70, 1.0, 1e70, 1e154, 1e160, 1e300, 1.7e308]
LENGTHS = st.one_of(
    st.floats(0.0, allow_infinity=False, allow_nan=False),
    st.floats(0.1, 10.0),
    st.sampled_from([0.0, 1.0, 2.0, 1e-12]),
    st.floats(-36.0, 36.0).map(lambda exponent: 10.0**exponent),
    st.sampled_from(EDGES_OF_THE_RANGE),
)
LAYOUTS = [sp.coo_array, sp.csr_array, sp.csc_array]
# Hypothesis prefers the ends of a range of integers.
SELDOM = st.sampled_from([False] * 7 + [True])


# Matrices (n, n) whose entries that are not zero are edges, from distances of points and random numbers.
KINDS = {
    "any": lambda apart, rng: rng.random(apart.shape) < 3 * rng.random() / len(apart),
    "neighbours": lambda apart, rng: np.argsort(np.argsort(apart, axis=1), axis=1) <= rng.integers(1, 12),
    "tree": lambda apart, rng: np.eye(len(apart))[[rng.integers(max(i, 1)) for i in range(len(apart))]],
    "cycle": lambda apart, rng: np.roll(np.eye(len(apart)), 1, axis=1),
    "star": lambda apart, rng: np.arange(len(apart)) * np.ones((len(apart), 1)) == 0,
    "complete": lambda apart, rng: np.ones(apart.shape),
    "bipartite": lambda apart, rng: np.add.outer(*[np.arange(len(apart))] * 2) % 2,
    "parts": lambda apart, rng: np.subtract.outer(*[np.arange(len(apart))] * 2) % 3 == 0,
}


@st.composite
def graphs(draw):
    """Graphs of 2 to 60 vertices of any kind, with any lengths, those of points, hop counts, or all alike."""
    n = draw(st.integers(5, 60) | st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    points = rng.normal(size=(n, draw(st.integers(1, 3))))
    points = points[rng.integers(n, size=n)] if draw(st.booleans()) else points
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    joined = KINDS[draw(st.sampled_from(list(KINDS)))](apart, rng).astype(bool)
    rows, cols = np.nonzero(np.triu(joined | joined.T, 1))
    kind = draw(st.sampled_from(["any", "points", "spread", "hops"]))
    if kind == "points":
        # Any unit: the last ones leave the numbers that have all their digits.
        unit = 2.0 ** draw(st.sampled_from([0, 0, -800, 800, -1040]))
        data = unit * apart[rows, cols]
    elif kind == "any":
        data = rng.choice(draw(st.lists(LENGTHS, min_size=1, max_size=8)), size=len(rows))
    else:
        data = 10.0 ** rng.uniform(-9, 9, len(rows)) if kind == "spread" else np.ones(len(rows))
    matrix = sp.coo_array((data, (rows, cols)), shape=(n, n))
    if draw(SELDOM):
        matrix = matrix + sp.coo_array((np.minimum(data, 1e308) * 1.5, (cols, rows)), shape=(n, n))
    return draw(st.sampled_from(LAYOUTS))(matrix)


# Values beside the declared choices. An option without either makes the test fail: give it some here.
VALUES = {
    "n_components": [1, 2, 2, 2, 3, np.int64(2), "auto"],
    "start": ["array", "array"],
    "frame_size": ["auto", "all", 2, 5, 1.0, 2.5, 1e9, np.int64(3)],
    "calibrate": [True, False],
    "shortcuts": [True, False, np.True_],
    "global_weight": ["auto", 0, 0.1, 1, 10.0, 1e9, np.float32(2)],
    "tol": [None, 1e-12, 1e-3, 0.5, 2.0],
    "max_iter": [1, 2, MAX_ITER],
    "random_state": [None, 0, 7, np.int64(3)],
    "n_jobs": [None, 1, 2, -1],
    "memory_limit": [None, "none", "64GB", 1e12],
    "verbose": [0, 1, 2, True],
    "callback": [None, lambda state: None, lambda state: True, lambda state: state.iteration >= 3],
    "checkpoint": [None, "new"],
    "anchors": [None, "one anchor", "anchors", "soft anchors"],
    "weights": [None, "edge weights", "vertex weights", "weights"],
    "n_neighbors": [1, 3, 10, 100],
    "along_graph": [None, 1, 5, 100],
    "metric": ["euclidean", "cityblock", "cosine", "minkowski", lambda a, b: abs(a - b).max()],
    "metric_params": [None, {}],
    "denoise": [None, 1, 5, 30],
}
# Values that may be refused: of one option, and of any.
DOUBTFUL = {
    "n_components": [5, 60],
    "start": ["far array", "array of another size"],
    "memory_limit": ["1kB"],
    "checkpoint": ["again", "run"],
    "anchors": ["far anchors"],
    "weights": ["negative weights"],
    "metric": ["precomputed", "haversine", "mahalanobis", "jaccard", "seuclidean", lambda a, b: np.nan],
    "metric_params": [{"p": 3}, {"p": -1}, {"no_such": 1}],
}
NONSENSE = [
    None, "", "no such word", -1, 0, 1.5, 10**30, np.nan, np.inf, True, [], {}, b"auto", 1j, object(),
    np.zeros((2, 3)), [[1.0], [2.0, 3.0]], "nan", np.array("auto"), -(2**63), sp.eye_array(3), 10**400,
]  # fmt: skip


def choices(*sources):
    """Values of every declared option."""
    declared = {f.name: [*f.metadata["choices"], *VALUES.get(f.name, [])] for s in sources for f in fields(s)}
    assert all(declared.values()), [name for name, values in declared.items() if not values]
    return declared | {name: VALUES[name] for name in ("n_components", "anchors", "weights")}


@st.composite
def options(draw, *sources):
    """Any number of options; in one case of eight one of them, or two, may make no sense."""
    known = choices(*sources)
    names = draw(st.lists(st.sampled_from(sorted(known)), unique=True, max_size=10))
    found = {name: draw(st.sampled_from(known[name])) for name in names}
    if draw(SELDOM):
        for name in draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=2)):
            found[name] = draw(st.sampled_from(DOUBTFUL.get(name, []) + NONSENSE))
    return {"max_iter": MAX_ITER, "n_jobs": 1} | found


def made(options, matrix, folder):
    """The options with arrays where a word stands for one."""
    n, n_components = matrix.shape[0], options.get("n_components", 2)
    rng = np.random.default_rng(n)
    wide = int(n_components) if isinstance(n_components, int | np.integer) and 0 < n_components < 9 else 2
    edges = sp.coo_array(matrix)
    unit = min(float(np.sort(edges.data)[edges.nnz // 2]), 1e300) if edges.nnz else 1.0
    places = rng.uniform(-1.0, 1.0, (n, wide))
    pattern = sp.coo_array((rng.uniform(0.5, 2.0, edges.nnz), (edges.row, edges.col)), shape=matrix.shape)
    some = rng.permutation(n)[: wide + 2]
    objects = {
        "array": unit * places,
        "far array": 1e300 * places,
        "array of another size": places[1:],
        "new": Checkpoint(folder / uuid4().hex),
        "again": Checkpoint(folder / "run", resume=True),
        "one anchor": Anchors([0], unit * places[:1]),
        "anchors": Anchors(some, unit * places[some]),
        "soft anchors": Anchors(some, unit * places[some], 0.1),
        "far anchors": Anchors(some, 1e300 * places[some]),
        "edge weights": pattern,
        "vertex weights": rng.uniform(0.5, 2.0, n),
        "weights": Weights(pattern, np.ones(n)),
        "negative weights": -np.ones(n),
    }
    return {x: objects.get(value, value) if isinstance(value, str) else value for x, value in options.items()}


def check(embed, matrix, options):
    """Embed; the outcome in one word, or an assertion that fails.

    Either every number is finite and the promises hold, or an error names the option or says what to do. All
    warnings but the announced ones are errors.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The graph has", UserWarning)
        warnings.filterwarnings("ignore", "The optimiser stopped after max_iter", ConvergenceWarning)
        warnings.filterwarnings("ignore", "n_neighbors=.* is not smaller than n_samples", UserWarning)
        warnings.filterwarnings("ignore", "n_neighbors=.* joins each of .* to a large part", UserWarning)
        warnings.filterwarnings("ignore", "n_components=.*, but the features have .* columns", UserWarning)
        try:
            result = embed(matrix, **options)
        except (ValueError, TypeError, MemoryError, ImportError) as error:
            text, kind = str(error), type(error)
            is_ours = kind in (ValueError, TypeError, MemoryError) or kind.__module__.startswith("isoweave")
            is_named = is_ours and any(re.search(rf"\b{name}\b", text) for name in options)
            # A method that is not installed.
            is_named |= kind is ImportError and "pip install" in text
            if is_named or any(what in text and advice in text for what, advice in ADVICE):
                return "error"
            raise
    check_map(result, matrix.shape[0], options)
    is_refined = options.get("refine") == "distances" or options.get("global_weight", 0)
    if not is_refined and options.get("anchors") is None:
        assert 0.0 <= result.relative_energy <= 1.0 + 1e-6 or result.status in ("max_iter", "stopped")
    return result.status


def by_estimator(X, anchors=None, weights=None, **options):
    return as_embedding(IsometricEmbedding(**options).fit(X, anchors=anchors, weights=weights))


@st.composite
def cases(draw):
    """A way to embed, what it embeds, and options."""
    way = draw(st.sampled_from(["graph", "graph", "estimator", "features"]))
    if way == "graph":
        return embed_graph, draw(graphs()), draw(options(FitOptions))
    chosen = draw(options(FitOptions, SearchOptions))
    if way == "estimator":
        return by_estimator, draw(graphs()), {**chosen, "metric": "precomputed"}
    n, rng = draw(st.integers(2, 60)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = 10.0 ** draw(st.sampled_from([0, 0, -9, 9, 30])) * rng.normal(size=(n, draw(st.integers(1, 4))))
    X[n // 2 :] = X[: n - n // 2] if draw(st.booleans()) else X[n // 2 :] + draw(st.sampled_from([0.0, 50.0]))
    return by_estimator, draw(st.sampled_from([np.asarray, np.float32, sp.csr_array]))(X), chosen


LOTS = [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 5))]


@pytest.mark.parametrize("number", LOTS)
def test_any_graph_with_any_options(number, tmp_path):
    """A hundred cases, and four lots of 500 with a seed each."""
    outcomes: Counter[str] = Counter()

    @seed(number)
    @settings(max_examples=500 if number else 100, database=None, suppress_health_check=list(HealthCheck))
    @given(cases())
    def any_case(case):
        embed, X, options = case
        outcomes[check(embed, X, made(options, X, tmp_path))] += 1

    any_case()
    # Draws that only ever fail, or never do, would test nothing.
    assert outcomes["converged"] > 20
    assert outcomes["error"] > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", choices(FitOptions, SearchOptions))
def test_every_value_of_every_option(name, tmp_path):
    points = np.random.default_rng(0).normal(size=(12, 2))
    lengths = np.linalg.norm(points[:, None] - points, axis=2)
    matrix = sp.csr_array(np.where(lengths < 1.8, lengths, 0.0))
    for value in [*choices(FitOptions, SearchOptions)[name], *DOUBTFUL.get(name, []), *NONSENSE]:
        for X, metric in ((points, "euclidean"), (matrix, "precomputed")):
            options = {"max_iter": 5, "n_jobs": 1, "metric": metric, name: value}
            check(by_estimator, X, made(options, X, tmp_path))
