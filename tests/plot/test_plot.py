"""Figures: what the artists hold, against numbers computed here."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, to_rgba
from scipy.sparse.csgraph import dijkstra

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import swiss_roll
from isoweave.graph import graph_from_matrix
from isoweave.plot import (
    PALETTE,
    plot_edges,
    plot_embedding,
    plot_history,
    plot_neighborhood,
    plot_shepard,
)
from isoweave.plot._distances import local_map

# A triangle of sides 3, 4, 5 with its corners far from where they belong, and a corner that is missing.
TRIANGLE = sp.csr_array(np.array([[0.0, 3, 5, 0], [3, 0, 4, 0], [5, 4, 0, 1], [0, 0, 1, 0]]))
CORNERS = np.array([[0.0, 0], [6, 0], [6, 4], [np.nan, np.nan]])
POINTS = np.random.default_rng(13).normal(size=(40, 3))
WIDE = np.hstack([POINTS, POINTS + 1])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model():
    return IsometricEmbedding(n_components=2, n_neighbors=8).fit(swiss_roll(250, random_state=7).data)


@pytest.fixture(scope="module")
def result(model):
    return embed_graph(model.graph_, n_components=2)


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_draws_every_point(n_components):
    ax = plot_embedding(POINTS[:, :n_components], title="map")
    (scatter,) = ax.collections
    ax.figure.canvas.draw()
    if n_components == 3:
        drawn = np.column_stack(scatter._offsets3d)
    else:
        drawn = scatter.get_offsets()[:, :n_components]
        assert ax.get_aspect() == 1.0
    np.testing.assert_array_equal(drawn, POINTS[:, :n_components])
    assert ax.get_title() == "map"


def test_estimators_embeddings_and_arrays_look_the_same(model, result):
    figure, axes = plt.subplots(1, 2)
    for source in (model, result, model.embedding_, model.embedding_.tolist()):
        assert plot_embedding(source, ax=axes[1]) is axes[1]
        np.testing.assert_allclose(axes[1].collections[-1].get_offsets(), model.embedding_, atol=1e-9)
    assert not axes[0].collections
    assert plt.get_fignums() == [figure.number]
    (scatter,) = plot_embedding(WIDE, components=(4, 1)).collections
    np.testing.assert_array_equal(scatter.get_offsets(), WIDE[:, [4, 1]])


def test_color_map_suits_the_values_and_words_get_a_legend(result):
    for color, expected in (
        (np.arange(40) % 7, "7 classes"),
        (np.arange(40), "viridis"),
        (np.linspace(0, 1, 40), "viridis"),
    ):
        (scatter,) = plot_embedding(POINTS[:, :2], color).collections
        assert scatter.get_cmap().name == expected
        np.testing.assert_array_equal(scatter.get_array(), color)
    # Few whole numbers are classes; a missing one has none, and a colour of its own.
    digits = np.where(np.arange(40) == 5, np.nan, np.arange(40) % 3)
    ax = plot_embedding(POINTS[:, :2], digits)
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == ["0", "1", "2"]
    ax.figure.canvas.draw()
    colors = ax.collections[0].get_facecolors()
    np.testing.assert_allclose(colors[[0, 1, 2, 5]], [*map(to_rgba, (*PALETTE[:3], "#b8b8b8"))])
    assert not plot_embedding(POINTS[:, :2], digits, colorbar=True).figure.legends
    (scatter,) = plot_embedding(POINTS[:, :2], "red").collections
    np.testing.assert_allclose(scatter.get_facecolors(), [to_rgba("red")])
    words = np.where(np.arange(250) % 3 == 0, "every third", "others")
    ax = plot_embedding(result, words)
    np.testing.assert_array_equal(ax.collections[0].get_array(), words == "others")
    # Beside the points on a figure of its own, among them on axes that were given.
    (legend,) = ax.figure.legends
    ax.figure.canvas.draw()
    assert legend.get_window_extent().x0 >= ax.get_window_extent().x1
    assert legend.get_window_extent().x1 <= ax.figure.bbox.x1
    given = plot_embedding(result, words, plt.subplots()[1]).get_legend()
    for found in (legend, given):
        assert [text.get_text() for text in found.get_texts()] == ["every third", "others"]
    named = plot_embedding(result, np.where(words == "others", "red", "blue"))
    assert not named.figure.legends


def test_colored_by_stretch_edge_error_and_component(result):
    ax = plot_embedding(result, "stretch")
    scatter = ax.collections[0]
    # The singular value with the largest ratio to 1 of every vertex.
    for row, value in zip(result.stretch[::17], scatter.get_array()[::17], strict=True):
        assert max(value, 1 / value) == max(max(s, 1 / s) for s in row)
    assert isinstance(scatter.norm, LogNorm)
    assert scatter.norm.vmin * scatter.norm.vmax == pytest.approx(1.0)
    bar = ax.figure.axes[1]
    assert bar.get_ylabel() == "stretch"
    assert [text.get_text() for text in bar.get_yticklabels()][2] == "1.00"
    values = plot_embedding(result, "edge_error").collections[0].get_array()
    kept = result.graph.to_matrix().toarray()
    for i, j in result.dropped_edges:
        kept[i, j] = kept[j, i] = 0.0
    for v in (0, 100, 249):
        others = np.flatnonzero(kept[v])
        reached = np.linalg.norm(result.coordinates[others] - result.coordinates[v], axis=1)
        assert values[v] == pytest.approx(np.mean(np.abs(reached / kept[v, others] - 1)))
    found = replace(result, component_labels=np.arange(250) % 3)
    values = plot_embedding(found, "component").collections[0].get_array()
    np.testing.assert_array_equal(values, found.component_labels)


def flat(n):
    return np.zeros((n, 2))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: plot_embedding(None), TypeError, "Expected an Embedding, .*, got NoneType"),
        (lambda: plot_embedding(np.zeros((5, 4))), ValueError, r"got \(5, 4\); .* components=\(0, 1\)"),
        (lambda: plot_embedding(WIDE, components=(0, 6)), ValueError, r"from 0 to 5, got \(0, 6\)"),
        (lambda: plot_embedding(POINTS, ax=plt.subplots()[1]), ValueError, "axes of type 'rectilinear'"),
        (lambda: plot_embedding(flat(3), "stretch"), TypeError, "'stretch' needs an Embedding"),
        (lambda: plot_embedding(flat(3), "component"), TypeError, "'component' needs"),
        (lambda: plot_embedding(flat(3), "edge_error"), TypeError, "needs the measured distances"),
        (lambda: plot_embedding(flat(5), np.zeros(6)), ValueError, "6 values, but the map has 5"),
        (lambda: plot_embedding(flat(5), ["cat"] * 6), ValueError, "6 labels, but the map has 5"),
        (lambda: plot_embedding(flat(5), colorbar=True), ValueError, "needs a number per point"),
        (lambda: plot_edges(flat(4)), TypeError, "plot_edges needs the measured distances"),
        (lambda: plot_edges(CORNERS, graph=TRIANGLE, limit=0), ValueError, "limit must be"),
        (lambda: plot_edges(CORNERS, graph=TRIANGLE, most=0), ValueError, "most must be"),
        (lambda: plot_shepard(flat(4)), TypeError, "A Shepard diagram needs the measured"),
        (lambda: plot_shepard(flat(4), graph=sp.csr_array((4, 4))), ValueError, "No path joins any two"),
        (lambda: plot_neighborhood(CORNERS, 4, graph=TRIANGLE), ValueError, "vertex must be"),
        (lambda: plot_neighborhood(CORNERS, 1.0, graph=TRIANGLE), TypeError, "vertex must be an integer"),
        (lambda: plot_neighborhood(CORNERS, 3, graph=TRIANGLE), ValueError, "vertex 3 has no coordinates"),
        (lambda: plot_neighborhood(CORNERS, 0, [1, 2, 3], graph=TRIANGLE), ValueError, "two .* Axes, got 3"),
        (lambda: plot_neighborhood(flat(3), 2, graph=sp.csr_array((3, 3))), ValueError, "no neighbours"),
        (lambda: plot_history(IsometricEmbedding()), ValueError, "not fitted yet"),
        (lambda: plot_history([]), ValueError, "history is empty"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in (plot_embedding, plot_edges, plot_shepard, plot_history, plot_neighborhood):
        with pytest.raises(ImportError, match=r"isoweave\[plot\]"):
            draw(flat(3), *([0] if draw is plot_neighborhood else []))


def test_edges_are_coloured_by_distortion():
    _, ax = plt.subplots()
    assert plot_edges(CORNERS, ax, graph=TRIANGLE) is ax
    lines = ax.collections[-1]
    assert isinstance(lines, LineCollection)
    drawn = {tuple(map(tuple, s)): d for s, d in zip(lines.get_segments(), lines.get_array(), strict=True)}
    # The vertex without coordinates has no line; the most distorted comes last.
    assert drawn == {
        ((6.0, 0.0), (6.0, 4.0)): 0.0,
        ((0.0, 0.0), (6.0, 4.0)): pytest.approx(np.sqrt(52) / 5 - 1),
        ((0.0, 0.0), (6.0, 0.0)): 1.0,
    }
    assert list(lines.get_array()) == sorted(lines.get_array())
    assert lines.norm.vmin == -lines.norm.vmax == -0.25
    only = plot_edges(CORNERS, graph=TRIANGLE, most=1).collections[-1]
    np.testing.assert_array_equal(only.get_array(), [1.0])
    # In space, on a line, and duplicates that are set apart.
    space = np.hstack([CORNERS, [[0], [1], [2], [np.nan]]])
    lines = plot_edges(space, graph=TRIANGLE).collections[-1]
    assert np.array(lines._segments3d).shape == (3, 2, 3)
    line = plot_edges(CORNERS[:, :1], graph=TRIANGLE).collections[-1]
    assert np.array(line.get_segments())[:, :, 1].tolist() == [[0.0, 0.0]] * 3
    graph = sp.csr_array(([0.0, 0.0, 1.0, 1.0], ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
    first, second = plot_edges([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]], graph=graph).collections[-1].get_array()
    assert first == 0.0
    assert second > 1e300


def test_dropped_edges_are_drawn_if_asked_for(result):
    graph = result.graph
    first = sorted((int(graph.sources[0]), int(graph.indices[0])))
    found = replace(result, dropped_edges=np.array([first], dtype=np.int32))
    without, with_it = (plot_edges(found, dropped=flag).collections[-1] for flag in (False, True))
    assert len(with_it.get_segments()) == len(without.get_segments()) + 1 == graph.n_edges
    drawn = [sorted(map(tuple, segment)) for segment in without.get_segments()]
    assert sorted(map(tuple, result.coordinates[first])) not in drawn
    ends = np.array(with_it.get_segments())
    lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) / (1 + with_it.get_array())
    assert np.isin(np.round(lengths, 9), np.round(graph.lengths, 9)).all()


def test_shepard_points_are_all_pairs_and_many_a_density(result):
    ax = plot_shepard(CORNERS, graph=TRIANGLE)
    drawn = sorted(map(tuple, ax.collections[0].get_offsets().tolist()))
    paths, points = dijkstra(TRIANGLE[:3, :3]), CORNERS[:3]
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    upper = np.triu_indices(3, k=1)
    np.testing.assert_allclose(drawn, sorted(zip(paths[upper], distances[upper], strict=True)))
    # The diagonal, and the numbers in the title.
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xydata()[0], [0.0, 0.0])
    stress = np.sqrt(np.sum((paths - distances) ** 2) / np.sum(paths**2))
    assert ax.get_title().startswith(f"stress {stress:.3f}")
    _, ax = plt.subplots()
    assert plot_shepard(result, ax, n_rows=100) is ax
    (mesh,) = ax.collections
    # Pairs of two sampled vertices count once.
    assert np.ma.sum(mesh.get_array()) == 100 * 249 - 100 * 99 / 2
    assert np.shape(mesh.get_array()) == (120, 120)
    few, again = (plot_shepard(result, n_rows=100, random_state=1).collections[0] for _ in range(2))
    np.testing.assert_array_equal(few.get_array(), again.get_array())


def test_history(model, result):
    for source in (model, result, result.history):
        (line,) = plot_history(source).lines
        assert line.get_ydata()[-1] == pytest.approx(result.history[-1].energy)
    _, ax = plt.subplots()
    assert plot_history([SimpleNamespace(iteration=i, energy=2.0**-i) for i in range(5)], ax=ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), [[i, 2.0**-i] for i in range(5)])
    assert ax.get_yscale() == "log"
    # A logarithm cannot show an energy of 0.
    ax = plot_history([SimpleNamespace(iteration=i, energy=1.0 - i) for i in range(2)])
    assert ax.get_yscale() == "linear"


@pytest.mark.parametrize("n_components", [1, 3])
def test_a_neighbourhood_of_exact_distances_is_found_again(n_components):
    """All distances within the neighbourhood are measured, so before and after are the same."""
    points = POINTS[:12, :n_components]
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    rotation = np.linalg.qr(np.random.default_rng(61).normal(size=(n_components, n_components)))[0]
    moved = points @ rotation + 5.0
    found = local_map(graph_from_matrix(sp.csr_array(distances)), moved, 4)
    assert found.vertices[0] == 4
    np.testing.assert_array_equal(np.sort(found.vertices), np.arange(12))
    assert (np.diff(found.lengths) >= 0).all()
    np.testing.assert_allclose(found.before, found.after, atol=1e-9)
    np.testing.assert_allclose(found.after, moved[found.vertices] - moved[4])


def test_neighbourhood_before_and_after(result):
    before, after = plot_neighborhood(result, 77)
    found = local_map(result.graph, result.coordinates, 77)
    np.testing.assert_allclose(np.linalg.norm(found.before, axis=1), found.lengths, atol=1e-9)
    row = slice(result.graph.indptr[77], result.graph.indptr[78])
    np.testing.assert_array_equal(found.lengths[1:], np.sort(result.graph.lengths[row]))
    for ax, points in ((before, found.before), (after, found.after)):
        np.testing.assert_allclose(ax.collections[1].get_offsets(), points[1:])
        np.testing.assert_allclose(ax.collections[2].get_offsets(), [[0.0, 0.0]])
        np.testing.assert_allclose(np.array(ax.collections[0].get_segments())[:, 1], points[1:])
        ratio = np.linalg.norm(found.after[1:], axis=1) / found.lengths[1:]
        np.testing.assert_allclose(ax.collections[0].get_array(), ratio - 1)
    assert before.get_xlim() == after.get_xlim()
    _, axes = plt.subplots(1, 2)
    assert plot_neighborhood(result, 3, axes) == (axes[0], axes[1])
