"""Every graph of the table at every N: the promised result, or the promised error."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from adversarial_graphs import CASES, DIMENSIONS, check_map
from isoweave import IsometricEmbedding, embed_graph


def fit(matrix, n_components, **settings):
    return IsometricEmbedding(n_components, metric="precomputed", **settings).fit(matrix)


def run(embed, case, n_components, **settings):
    """The result, or None where the promised error was raised; any other warning is an error."""
    settings = case.settings | settings
    error = case.error
    if error is None and case.bounds[DIMENSIONS.index(n_components)] is None:
        error = rf"n_components={n_components} is more than any neighbourhood can support: .* distinct points"
    if error is not None:
        for door in (embed_graph, fit):
            with pytest.raises(ValueError, match=error):
                door(case.matrix, n_components, **settings)
        return None
    if case.parts > 1:
        with pytest.warns(UserWarning, match=f"The graph has {case.parts} connected components"):
            return embed(case.matrix, n_components, **settings)
    return embed(case.matrix, n_components, **settings)


def edge_lengths(matrix, coordinates):
    """Lengths asked for and found, both over the longest asked for (whose square may overflow)."""
    coo = sp.coo_array(matrix)
    off = coo.row != coo.col
    wanted, i, j = coo.data[off].astype(float), coo.row[off], coo.col[off]
    # The inverse of less would overflow.
    unit = max(wanted.max(initial=0.0), 1e-300)
    return wanted / unit, np.linalg.norm(coordinates[i] / unit - coordinates[j] / unit, axis=1)


@pytest.mark.parametrize("n_components", DIMENSIONS)
@pytest.mark.parametrize("name", CASES)
def test_table(name, n_components):
    # What the frames alone reach: with long distances, the edges of trees are no longer exact.
    case = CASES[name]
    result = run(embed_graph, case, n_components, global_weight=0.0, refine="none")
    if result is None:
        return
    check_map(result, case.matrix.shape[0], {"n_components": n_components, **case.settings})
    assert 0.0 <= result.relative_energy <= 1.0
    assert result.component_labels.max() + 1 == case.parts
    if case.parts == 1 and not case.matrix.data.any():
        np.testing.assert_array_equal(result.coordinates, 0.0)
    bound = case.bounds[DIMENSIONS.index(n_components)]
    assert result.relative_energy <= bound + 1e-20
    wanted, found = edge_lengths(case.matrix, result.coordinates)
    is_lost = (found <= 1e-6 * wanted) & (wanted > 0)
    assert result.status in (("converged", "collapsed") if is_lost.any() else ("converged",))
    # Lengths near the smallest number, and far below the others, may have no digits in the map.
    if is_lost[wanted > 1e-3].any() and case.matrix.data.max() > 1e-300:
        assert result.status == "collapsed"
    if bound == 0.0 and not case.is_collapsed:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)
    if n_components in case.halved:
        is_half = found < 0.75 * wanted
        np.testing.assert_allclose(found, np.where(is_half, 0.5, 1.0) * wanted, rtol=0.02)
    if n_components in case.regular:
        np.testing.assert_allclose(found, found.mean(), rtol=1e-9)


NAMES = [name for name in list(CASES)[1::3] if not re.search("ratio|hub", name)]
IN_TURN = [
    pytest.param(name, n, marks=pytest.mark.slow if (at + n) % 2 else ())
    for at, name in enumerate(NAMES)
    for n in (2, 7)
]


@pytest.mark.filterwarnings("ignore:The optimiser stopped:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "n_components"), IN_TURN)
def test_estimator_and_paper_preset(name, n_components):
    """The estimator error for error and bit for bit; the published method's results are finite too."""
    case, settings = CASES[name], {"preset": "paper", "max_iter": 20}
    result, model = (run(embed, case, n_components, **settings) for embed in (embed_graph, fit))
    if result is not None:
        np.testing.assert_array_equal(model.embedding_, result.coordinates)
        assert model.status_ == result.status in ("converged", "stalled", "collapsed", "max_iter")
        check_map(result, case.matrix.shape[0], {"n_components": n_components, **case.settings})
        assert 0.0 <= result.relative_energy <= 1.0
