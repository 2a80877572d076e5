"""Frames brought to the measured lengths."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave.geometry import LocalFrames, calibrate_frames, local_frames
from reference_graphs import knn_of, row_of, with_hubs
from reference_problems import TEAM

MODES = pytest.mark.parametrize("mode", ["rows", "vertices"])


def case():
    rng = np.random.default_rng(251)
    graph = with_hubs(rng.normal(size=(60, 3)), 6, [4], rng)
    return graph, local_frames(graph, 2, team=TEAM, frame_size=5)


def calibrated_loop(graph, frames, mode):
    rows = frames.rows.copy()
    for i in range(graph.n_vertices):
        own = [(e, d) for e, _, d in row_of(graph, i) if frames.included[e]]
        norms = [np.linalg.norm(rows[e]) for e, _ in own]
        if mode == "vertices":
            factor = sum(x * d for x, (_, d) in zip(norms, own, strict=True)) / sum(x * x for x in norms)
        for x, (e, d) in zip(norms, own, strict=True):
            rows[e] *= d / x if mode == "rows" else factor
    return rows


@MODES
def test_agrees_with_the_loop(mode):
    graph, frames = case()
    before = frames.rows.copy()
    result = calibrate_frames(graph, frames, mode)
    np.testing.assert_allclose(result.rows, calibrated_loop(graph, frames, mode), rtol=1e-12, atol=1e-14)
    assert not np.allclose(result.rows, frames.rows)
    assert result.included is frames.included
    assert result.spectrum is frames.spectrum
    np.testing.assert_array_equal(frames.rows, before)


def test_rows_get_the_length_of_their_edges_by_default():
    graph, frames = case()
    rows = calibrate_frames(graph, frames).rows
    expected = np.where(frames.included, graph.lengths, 0.0)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), expected, rtol=1e-13)
    assert calibrate_frames(graph, frames, "none") is frames
    with pytest.raises(ValueError, match=r"calibrate must be one of .*'rows'.* got 'columns'"):
        calibrate_frames(graph, frames, "columns")


@MODES
def test_rows_without_a_direction_stay_as_they_are(mode):
    """A vanishing row, or one of rounding only, would be blown up to nonsense."""
    graph = knn_of(np.random.default_rng(257).normal(size=(12, 2)), 4)
    rows = np.random.default_rng(263).normal(size=(len(graph.indices), 2))
    rows[3], rows[5] = 0.0, [1e-12, 0.0]
    rows[graph.sources == 7] = 0.0
    frames = LocalFrames(rows, np.ones(len(rows), bool), np.ones((12, 2)), np.ones(12))
    result = calibrate_frames(graph, frames, mode).rows
    assert np.isfinite(result).all()
    assert np.all(result[graph.sources == 7] == 0.0)
    assert np.linalg.norm(result[5]) < 1e-9


@MODES
def test_exact_frames_are_left_alone(mode):
    graph = knn_of(np.random.default_rng(269).normal(size=(30, 2)), 29)
    frames = local_frames(graph, 2, team=TEAM)
    np.testing.assert_allclose(calibrate_frames(graph, frames, mode).rows, frames.rows, atol=1e-12)
