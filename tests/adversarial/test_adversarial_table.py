"""Every graph of the table at every N: the promised result, or the promised error."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from adversarial_cases import CASES, DIMENSIONS
from adversarial_misfits import MISFITS
from isoweave import IsometricEmbedding, embed_graph

TOO_MANY = r"n_components={0} is more than any neighbourhood can support: .* has {1} distinct points"


def run(embed, case, n_components, **settings):
    """The result, or None where the promised error was raised; any other warning is an error."""
    matrix = case.make()
    settings = case.settings | settings
    if case.error is not None:
        error, pattern = case.error
        with pytest.raises(error, match=pattern):
            embed(matrix, n_components, **settings)
        return None
    if 1 < case.points <= n_components:
        with pytest.raises(ValueError, match=TOO_MANY.format(n_components, case.points)):
            embed(matrix, n_components, **settings)
        return None
    if case.parts > 1:
        with pytest.warns(UserWarning, match=f"The graph has {case.parts} connected components"):
            return embed(matrix, n_components, **settings)
    return embed(matrix, n_components, **settings)


def edge_lengths(matrix, coordinates):
    """Lengths asked for and found, both over the longest asked for (whose square may overflow)."""
    coo = sp.coo_array(matrix)
    off = coo.row != coo.col
    wanted, i, j = coo.data[off].astype(float), coo.row[off], coo.col[off]
    unit = wanted.max(initial=0.0) or 1.0
    return wanted / unit, np.linalg.norm(coordinates[i] / unit - coordinates[j] / unit, axis=1)


@pytest.mark.parametrize("n_components", DIMENSIONS)
@pytest.mark.parametrize("name", CASES)
def test_table(name, n_components):
    case = CASES[name]
    result = run(embed_graph, case, n_components)
    if result is None:
        return
    n = case.make().shape[0]
    assert result.coordinates.shape == (n, n_components)
    inside = np.ones(n, dtype=bool)
    if case.settings.get("components") == "largest":
        inside = result.component_labels == 0
        assert np.isnan(result.coordinates[~inside]).all()
    assert np.isfinite(result.coordinates[inside]).all()
    assert result.status == "converged"
    assert 0 <= result.n_iter <= 500
    assert 0.0 <= result.relative_energy <= 1.0
    energies = [record.energy for record in result.history]
    assert all(later <= earlier for earlier, later in pairwise(energies))
    assert result.component_labels.max() + 1 == case.parts
    assert np.isfinite(result.stretch).all()
    assert (result.stretch >= 0).all()
    turned = result.alignments @ result.alignments.transpose(0, 2, 1)
    np.testing.assert_allclose(turned, np.broadcast_to(np.eye(n_components), turned.shape), atol=1e-12)
    if case.points == 1 and case.parts == 1:
        np.testing.assert_array_equal(result.coordinates, 0.0)
    if n_components in case.exact:
        wanted, found = edge_lengths(case.make(), result.coordinates)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)
        assert result.relative_energy <= 1e-20
    if n_components in case.halved:
        wanted, found = edge_lengths(case.make(), result.coordinates)
        is_half = found < 0.75 * wanted
        np.testing.assert_allclose(found, np.where(is_half, 0.5, 1.0) * wanted, rtol=0.02)
    if n_components in case.regular:
        _, found = edge_lengths(case.make(), result.coordinates)
        np.testing.assert_allclose(found, found.mean(), rtol=1e-9)
    assert result.relative_energy <= case.misfit.get(n_components, 1.0)
    assert result.relative_energy <= MISFITS[name][DIMENSIONS.index(n_components)] + 1e-20


ESTIMATOR = (
    "no vertex", "one vertex", "two vertices", "two vertices, no edge", "two duplicates", "triangle", "star",
    "random tree", "cycle of 17", "grid with diagonals", "complete, of space", "barbell", "isolated vertices",
    "two equal parts", "no edges", "all duplicates", "some duplicates", "denormal lengths", "ratio 1e60",
    "lengths near 1e300", "largest lengths, long map", "ratio just over 1e70", "triangle 1, 1, 5", "integers",
    "a loop of length 2", "two lengths for one edge", "two lengths, the mean", "NaN", "negative",
)  # fmt: skip


@pytest.mark.parametrize("n_components", [2, 7])
@pytest.mark.parametrize("name", ESTIMATOR)
def test_estimator(name, n_components):
    """The same as the function, error for error and bit for bit."""

    def fit(matrix, n_components, **settings):
        return IsometricEmbedding(n_components, metric="precomputed", **settings).fit(matrix)

    case = CASES[name]
    model = run(fit, case, n_components)
    if model is None:
        return
    assert model.embedding_.shape == (case.make().shape[0], n_components)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The graph has", UserWarning)
        expected = embed_graph(case.make(), n_components, **case.settings)
    np.testing.assert_array_equal(model.embedding_, expected.coordinates)
    assert model.status_ == expected.status


# The paper's weights go with the inverse squares of the lengths; lengths many orders of magnitude apart leave
# no digit of its Poisson problems, which is said.
UNSOLVED = ("ratio 1e60",)
PAPER = (
    *UNSOLVED,
    "two vertices", "two duplicates", "three in a row", "triangle", "path", "star", "random tree",
    "caterpillar", "square", "cycle of 40", "grid with diagonals", "grid of cubes", "Möbius ladder",
    "complete, of a line", "complete, of space", "regular simplex", "barbell", "wheel", "hypercube of 16",
    "bipartite", "isolated vertices", "no edges", "all duplicates", "some duplicates", "denormal lengths",
    "lengths near 1e300", "largest lengths, long map", "ratio just over 1e70", "triangle 1, 1, 5",
    "random lengths", "NaN",
)  # fmt: skip


@pytest.mark.filterwarnings(
    f"ignore:The optimiser stopped:{ConvergenceWarning.__module__}.ConvergenceWarning"
)
@pytest.mark.parametrize("n_components", [2, 7])
@pytest.mark.parametrize("name", PAPER)
def test_paper_preset(name, n_components):
    """The published method does not reach what the default does, but its results are finite too."""
    case = CASES[name]
    settings = {"preset": "paper", "max_iter": 60}
    if name in UNSOLVED and n_components < case.points:
        with pytest.raises(ValueError, match="Poisson problems of this graph could not be solved"):
            embed_graph(case.make(), n_components, **settings)
        return
    result = run(embed_graph, case, n_components, **settings)
    if result is None:
        return
    assert result.coordinates.shape == (case.make().shape[0], n_components)
    assert np.isfinite(result.coordinates).all()
    assert result.status in ("converged", "stalled", "max_iter")
    assert 0.0 <= result.relative_energy <= 1.0
    energies = [record.energy for record in result.history]
    assert all(later <= earlier for earlier, later in pairwise(energies))


def test_the_table_is_complete():
    assert len(CASES) >= 60
    assert sum(case.error is not None for case in CASES.values()) >= 8
    assert set(MISFITS) == {name for name, case in CASES.items() if case.error is None}
    for name, bounds in MISFITS.items():
        refused = [1 < CASES[name].points <= n_components for n_components in DIMENSIONS]
        assert [bound is None for bound in bounds] == refused, name
