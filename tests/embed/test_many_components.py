"""Thousands of small components: what each costs depends on its own size, and little of it is set-up."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import _compressed

from isoweave import embed_graph
from isoweave.graph import graph_from_matrix, prepare_graph, subgraph
from reference_graphs import knn_of


def crumbs(count, size=20, seed=149):
    """Disjoint graphs of nearest neighbours in the plane."""
    rng = np.random.default_rng(seed)
    kinds = [knn_of(rng.random((size, 2)), 6).to_matrix() for _ in range(10)]
    return sp.block_diag([kinds[c % 10] for c in range(count)], format="csr")


def test_a_component_is_its_subgraph():
    prepared = prepare_graph(
        graph_from_matrix(sp.block_diag([crumbs(4, 12), sp.csr_array((2, 2)), crumbs(3)]))
    )
    assert [len(part) for part in prepared.parts] == [20] * 3 + [12] * 4 + [1] * 2
    for c, vertices in enumerate(prepared.parts):
        part, expected = prepared.part(c), subgraph(prepared.graph, vertices)
        for name in ("indptr", "indices", "lengths"):
            np.testing.assert_array_equal(getattr(part, name), getattr(expected, name), strict=True)


def test_components_are_taken_out_in_linear_time():
    """Four times as many take about four times as long, not sixteen times."""

    def seconds(count):
        prepared = prepare_graph(graph_from_matrix(crumbs(count)), False)
        prepared.part(0)
        tries = []
        for _ in range(3):
            begin = time.process_time()
            for c in range(count):
                prepared.part(c)
            tries.append(time.process_time() - begin)
        return min(tries)

    assert seconds(4000) < 8 * seconds(1000)


@pytest.mark.filterwarnings("ignore:The graph has .* connected components:UserWarning")
def test_the_set_up_of_a_component_makes_few_matrices(monkeypatch):
    """A sparse matrix of scipy costs as much as a step of the optimiser on 20 vertices."""
    made = 0
    original = _compressed._cs_matrix.__init__

    def counted(self, *args, **options):
        nonlocal made
        made += 1
        original(self, *args, **options)

    matrix = crumbs(10)
    monkeypatch.setattr(_compressed._cs_matrix, "__init__", counted)
    embed_graph(matrix, 2)
    assert made < 50 * 10
