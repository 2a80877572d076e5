"""Inner products of 1-forms."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam
from isoweave.energy import EDGE_WEIGHTS, edge_inner_product, rank_inner_product
from isoweave.geometry import LocalFrames, local_frames
from reference_graphs import knn_of

TEAM = ThreadTeam(1)


def case():
    graph = knn_of(np.random.default_rng(359).normal(size=(30, 2)), 5)
    return graph, local_frames(graph, 2, team=TEAM, with_inverse=True)


@pytest.mark.parametrize(("weights", "power"), [("uniform", 0), ("inverse", 1), ("inverse-square", 2)])
def test_weights_are_powers_of_the_lengths(weights, power):
    graph, frames = case()
    found = edge_inner_product(graph, frames, weights).weights
    np.testing.assert_allclose(found, (np.median(graph.lengths) / graph.lengths) ** power, rtol=1e-14)
    np.testing.assert_array_equal(found, found[graph.reverse])
    assert weights in EDGE_WEIGHTS


def test_uniform_is_the_default():
    graph, frames = case()
    np.testing.assert_array_equal(edge_inner_product(graph, frames).weights, 1.0)


def test_near_duplicates_do_not_outweigh_everything():
    graph, frames = case()
    lengths = graph.lengths.copy()
    lengths[7] = lengths[graph.reverse[7]] = 1e-30
    tiny = type(graph)(graph.indptr, graph.indices, lengths)
    weights = edge_inner_product(tiny, frames, "inverse-square").weights
    assert weights.max() == weights[7] <= 1e6 * (1 + 1e-12)


def test_edges_without_a_row_weigh_nothing():
    graph, frames = case()
    included = np.random.default_rng(367).uniform(size=len(graph.indices)) < 0.5
    partial = LocalFrames(frames.rows, included, frames.spectrum, frames.fidelity)
    for weights in EDGE_WEIGHTS:
        found = edge_inner_product(graph, partial, weights).weights
        assert np.all((found > 0) == included)


def test_volumes_enter_by_their_root():
    graph, frames = case()
    volumes = np.random.default_rng(373).uniform(0.5, 2.0, size=30)
    inner = rank_inner_product(frames, volumes, graph)
    for e in range(len(graph.indices)):
        np.testing.assert_allclose(inner.inverse[e], np.sqrt(volumes[graph.sources[e]]) * frames.inverse[e])


def test_the_papers_product_needs_inverse_frames():
    graph, _ = case()
    frames = local_frames(graph, 2, team=TEAM)
    with pytest.raises(ValueError, match="with_inverse=True"):
        rank_inner_product(frames, np.ones(30), graph)


def test_unknown_weights():
    graph, frames = case()
    with pytest.raises(ValueError, match=r"edge weights must be one of .* got 'cubic'"):
        edge_inner_product(graph, frames, "cubic")
