from __future__ import annotations

import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgba

from isoweave.plot import (
    plot_before_after,
    plot_edges,
    plot_embedding,
    plot_history,
    plot_neighborhood,
    plot_shepard,
)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def points():
    return np.random.default_rng(13).normal(size=(40, 3))


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_draws_every_point(points, n_components):
    ax = plot_embedding(points[:, :n_components], title="map")
    (scatter,) = ax.collections
    ax.figure.canvas.draw()
    if n_components == 3:
        drawn = np.column_stack(scatter._offsets3d)
    else:
        drawn = scatter.get_offsets()[:, :n_components]
        assert ax.get_aspect() == 1.0
    np.testing.assert_array_equal(drawn, points[:, :n_components])
    assert ax.get_title() == "map"


def test_uses_the_axes_it_is_given(points):
    figure, axes = plt.subplots(1, 2)
    assert plot_embedding(points[:, :2], ax=axes[1]) is axes[1]
    assert not axes[0].collections
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize(
    ("color", "expected"),
    [(np.arange(40) % 7, "tab10"), (np.arange(40), "viridis"), (np.linspace(0, 1, 40), "viridis")],
)
def test_color_map_suits_the_values(points, color, expected):
    (scatter,) = plot_embedding(points[:, :2], color).collections
    assert scatter.get_cmap().name == expected
    np.testing.assert_array_equal(scatter.get_array(), color)


def test_one_color_for_all(points):
    (scatter,) = plot_embedding(points[:, :2], "red").collections
    np.testing.assert_allclose(scatter.get_facecolors(), [to_rgba("red")])


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        ((5,), r"coordinates of shape \(n, N\), got an array of shape \(5,\)"),
        ((5, 4), r"embedding must have shape .*, got \(5, 4\); choose columns .* components=\(0, 1\)"),
        ((5, 0), r"got an array of shape \(5, 0\)"),
    ],
)
def test_bad_shape(shape, match):
    with pytest.raises(ValueError, match=match):
        plot_embedding(np.zeros(shape))


def test_chosen_columns(points):
    wide = np.hstack([points, points + 1])
    (scatter,) = plot_embedding(wide, components=(4, 1)).collections
    np.testing.assert_array_equal(scatter.get_offsets(), wide[:, [4, 1]])
    with pytest.raises(ValueError, match=r"columns from 0 to 5, got \(0, 6\)"):
        plot_embedding(wide, components=(0, 6))


def test_axes_of_the_wrong_kind(points):
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match="3-D embedding cannot be drawn on axes of type 'rectilinear'"):
        plot_embedding(points, ax=ax)


def test_history():
    history = [SimpleNamespace(iteration=i, energy=2.0**-i) for i in range(5)]
    _, ax = plt.subplots()
    assert plot_history(history, ax=ax) is ax
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xydata(), [[i, 2.0**-i] for i in range(5)])
    assert ax.get_yscale() == "log"


def test_history_that_reaches_zero_is_drawn_whole():
    ax = plot_history([SimpleNamespace(iteration=0, energy=1.0), SimpleNamespace(iteration=1, energy=0.0)])
    assert ax.get_yscale() == "linear"


def test_empty_history():
    with pytest.raises(ValueError, match="history is empty"):
        plot_history([])


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plot_embedding(np.zeros((3, 2))),
        lambda: plot_history([1]),
        lambda: plot_edges(np.zeros((3, 2))),
        lambda: plot_shepard(np.zeros((3, 2))),
        lambda: plot_neighborhood(np.zeros((3, 2)), 0),
        lambda: plot_before_after(np.zeros((3, 2))),
    ],
)
def test_the_extra_is_named(monkeypatch, draw):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"isoweave\[plot\]"):
        draw()
