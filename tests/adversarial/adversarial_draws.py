"""Random graphs with random options, and what must hold for every one of them."""

from __future__ import annotations

import signal
import warnings
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from isoweave import embed_graph
from isoweave.optimise import UnsolvedError

# The only errors a valid matrix may meet, each with its advice.
ADVICE = (
    ("is more than any neighbourhood can support", "Lower n_components"),
    ("connected components", "allow it with components="),
    ("distances span from", "rescale or remove"),
    ("extends beyond the largest number", "divide the distances"),
    ("Poisson problems of this graph could not be solved", "remove the extreme ones"),
)
FRAME_SIZES = (2, 5, "all", 1.0, 4.0)
MAX_ITER = 30


def random_case(rng):
    """A matrix of up to 11 vertices and arguments for :func:`isoweave.embed_graph`."""
    n = int(rng.integers(2, 12))
    pairs = _random_pairs(n, rng)
    lengths = _random_lengths(n, pairs, rng)
    rows, cols = pairs.T if len(pairs) else (np.zeros(0, dtype=int),) * 2
    return sp.coo_array((lengths, (rows, cols)), shape=(n, n)), _random_settings(n, rng)


def _random_pairs(n, rng):
    kind = rng.integers(6)
    every = np.array([(i, j) for i in range(n) for j in range(i)])
    if kind == 0:
        pairs = np.array([(int(rng.integers(i)), i) for i in range(1, n)])
    elif kind == 1:
        pairs = every[rng.random(len(every)) < rng.uniform(0.1, 0.6)]
    elif kind == 2:
        pairs = every
    elif kind == 3:
        pairs = np.array([(i, (i + 1) % n) for i in range(n)])
    elif kind == 4:
        pairs = rng.integers(n, size=(int(rng.integers(0, 2 * n)), 2))
    else:
        pairs = np.vstack([[(0, i) for i in range(1, n)], every[rng.random(len(every)) < 0.1]])
    pairs = np.sort(pairs.reshape(-1, 2), axis=1)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


def _random_lengths(n, pairs, rng):
    m = len(pairs)
    kind = rng.integers(9)
    if kind == 0:
        lengths = np.ones(m)
    elif kind == 1:
        lengths = rng.uniform(0.5, 2.0, m)
    elif kind == 2:
        lengths = 10.0 ** rng.uniform(-8, 8, m)
    elif kind == 3:
        lengths = 10.0 ** rng.uniform(-36, 36, m)
    elif kind == 4:
        lengths = rng.choice([0.0, 1.0, 2.0], m)
    elif kind == 5:
        lengths = rng.choice([1.0, 1e-12, 3.0], m)
    elif kind == 6:
        return np.ldexp(rng.integers(1, 9, m).astype(float), int(rng.integers(-1074, -1000)))
    elif kind == 7:
        return np.ldexp(rng.uniform(0.5, 1.0, m), int(rng.integers(1000, 1025)))
    else:
        points = rng.normal(size=(n, int(rng.integers(1, 4))))
        lengths = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1) if m else np.zeros(0)
    return np.ldexp(lengths, int(rng.integers(-800, 800))) if rng.random() < 0.2 else lengths


def _random_settings(n, rng):
    settings = {"n_components": int(rng.integers(1, min(n, 6))), "n_jobs": 1, "max_iter": MAX_ITER}
    if rng.random() < 0.05:
        settings["n_components"] = int(rng.integers(1, 14))
    choices = {
        "preset": (0.3, ["paper"]),
        "start": (0.5, ["landmark", "landmark", "synchronized", "coarse", "identity"]),
        "solver": (0.2, ["direct", "amg", "jacobi", "ic"]),
        "inner_product": (0.05, ["paper"]),
        "scale": (0.1, ["geodesics"]),
        "components": (0.1, ["largest", "error"]),
        "calibrate": (0.1, ["rows", "vertices", "none"]),
    }
    for name, (share, values) in choices.items():
        if rng.random() < share:
            settings[name] = values[int(rng.integers(len(values)))]
    if rng.random() < 0.1:
        settings["frame_size"] = FRAME_SIZES[int(rng.integers(len(FRAME_SIZES)))]
    return settings


def check(matrix, settings):
    """Embed; the outcome in one word, or an assertion that fails.

    Either every number is finite and the promises hold, or a ValueError says what to do. All warnings but
    the two announced ones are errors.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The graph has", UserWarning)
        warnings.filterwarnings("ignore", "The optimiser stopped after max_iter", ConvergenceWarning)
        try:
            result = embed_graph(matrix, **settings)
        except ValueError as error:
            plain = type(error) in (ValueError, UnsolvedError)
            if plain and any(what in str(error) and advice in str(error) for what, advice in ADVICE):
                return "error"
            raise
    n, n_components = matrix.shape[0], settings["n_components"]
    assert result.coordinates.shape == (n, n_components)
    inside = np.ones(n, dtype=bool)
    if settings.get("components") == "largest":
        inside = result.component_labels == 0
        assert np.isnan(result.coordinates[~inside]).all()
    assert np.isfinite(result.coordinates[inside]).all()
    assert np.isfinite(result.stretch).all()
    assert 0.0 <= result.relative_energy <= 1.0 + 1e-6 or result.status == "max_iter"
    assert result.n_iter <= settings["max_iter"]
    energies = [record.energy for record in result.history]
    assert all(later <= earlier for earlier, later in pairwise(energies))
    turned = result.alignments @ result.alignments.transpose(0, 2, 1)
    assert np.abs(turned - np.eye(n_components)).max() < 1e-9
    return result.status


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
