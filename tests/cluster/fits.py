"""Fits by all ranks beside those of one machine, for the tests of the cluster engine."""

import warnings

import numpy as np
import pytest

from isoweave import embed_graph
from isoweave.cluster import ElsewhereError, Ranks, Share, embed_share
from isoweave.geometry import rigid_motion
from isoweave.graph import connected_components, normalise_lengths
from isoweave.options import resolve_options


def cut(graph, comm, offsets=None, **more):
    """The share of this rank of a graph that every rank has, in its own order, cut where it is said."""
    ranks = Ranks(comm)
    if offsets is None:
        offsets = graph.n_vertices * np.arange(ranks.size + 1) // ranks.size
    unit, normal = normalise_lengths(graph)
    labels = connected_components(graph)[1]
    first, last = (int(v) for v in offsets[ranks.rank : ranks.rank + 2])
    at = slice(int(graph.indptr[first]), int(graph.indptr[last]))
    rows = (graph.indptr[first : last + 1].astype(np.int64) - at.start, graph.indices[at].astype(np.int64))
    own = (np.arange(first, last), labels[first:last].astype(np.int64), np.bincount(labels))
    return Share(ranks, np.asarray(offsets), *rows, normal.lengths[at], *own, unit=unit, **more)


def on_all_ranks(share, n_components=2, *, anchors=None, alone_up_to=0, **options):
    """All coordinates, on every rank, and the facts; components of two vertices and more by all ranks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = embed_share(
            share, resolve_options(n_components, **options), anchors=anchors, alone_up_to=alone_up_to
        )
    return share.ranks.everywhere(found[0]), found[1]


def on_one(graph, n_components=2, **options):
    """The same by the ordinary engine, with the start that a graph in shares has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return embed_graph(graph.to_matrix(), n_components=n_components, n_jobs=1, **options)


def same(graph, share, n_components=2, *, unique=True, **options):
    """What all ranks find, checked against what one machine finds; its map too, if there is but one."""
    x, facts = on_all_ranks(share, n_components, **options)
    one = on_one(graph, n_components, **options)
    mass = one.energy / one.relative_energy if one.relative_energy else 0.0
    assert facts["energy"] == pytest.approx(one.energy, rel=1e-8, abs=1e-12 * mass)
    assert facts["n_dropped"] == len(one.dropped_edges)
    assert not unique or apart(x, one.coordinates[share.ranks.everywhere(share.caller_ids)]) < 1e-5
    return x, facts, one


def apart(x, y):
    """How far two maps are from each other after a rigid motion, as a part of their size."""
    rotation, shift = rigid_motion(x, y)
    return float(np.abs(x @ rotation + shift - y).max() / np.abs(y - y.mean(axis=0)).max())


def refusals(comm, function):
    """What the ranks say that refuse: one of them, the others end without a word."""
    with pytest.raises((ValueError, ElsewhereError)) as caught:
        function()
    said = comm.allgather("" if isinstance(caught.value, ElsewhereError) else str(caught.value))
    return [text for text in said if text]
