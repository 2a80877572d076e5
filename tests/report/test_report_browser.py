"""Reports opened and used in a headless browser, each page opened once."""

from __future__ import annotations

import time
from contextlib import suppress

import numpy as np
import pytest

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import swiss_roll
from isoweave.graph import graph_from_matrix, knn_graph
from isoweave.plot._distances import local_map
from isoweave.report import write_report

pytest.importorskip("plotly")

EVIL = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"
PALETTE = np.array([[0x1F, 0x77, 0xB4], [0xFF, 0x7F, 0x0E]])
MAP = "document.getElementById('map')"
TIP = "document.getElementById('tip')"
ROWS = "[...document.querySelectorAll('#vertex-neighbors tbody tr')]"
VIEWS = {"x": "x", "y": "y", "z": "z", "color": "marker.color"}
SPAN = f"(() => {{ const r = {MAP}._fullLayout.xaxis.range; return r[1] - r[0]; }})()"
SCALES = f"""(() => {{
  const full = {MAP}._fullLayout;
  return [full.xaxis, full.yaxis].map((axis) => axis._length / (axis.range[1] - axis.range[0]));
}})()"""
BOX = np.random.default_rng(41).uniform(size=(150, 5)) * [3, 2, 1, 0.1, 0.1]


@pytest.fixture
def open_report(browser, tmp_path):
    """Opens the page of a map in a window of some size, and looks at its problems in the end."""

    def write(result, size=(760, 760), **options):
        browser.resize(*size, mobile=size[0] < 500)
        browser.open(write_report(result, tmp_path / "r.html", diagnosis=False, **options).as_uri())
        browser.evaluate("document.getElementById('stage').scrollIntoView()")
        return browser

    yield write
    assert browser.problems() == []


def drawn(browser, *names):
    """Arrays of the map's points, shape (n, names): x, y, z, color."""
    found = [browser.evaluate(f"Array.from({MAP}.data[0].{VIEWS[name]})") for name in names]
    return np.transpose(found) if len(found) > 1 else np.array(found[0])


def kind(browser):
    return browser.evaluate(f"{MAP}.data[0].type")


def text_of(browser, place):
    return browser.evaluate(f"document.querySelector('{place}').textContent")


def pixel_of(browser, vertex):
    """Where a vertex is on the screen."""
    return browser.evaluate(f"""(() => {{
      const map = {MAP}, box = map.getBoundingClientRect(), full = map._fullLayout, trace = map.data[0];
      return [box.left + full.xaxis._offset + full.xaxis.c2p(trace.x[{vertex}]),
              box.top + full.yaxis._offset + full.yaxis.c2p(trace.y[{vertex}])];
    }})()""")


def pick(browser, points):
    """Point at the vertex farthest from its nearest other, which cannot be missed, and click it."""
    distances = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(len(points))
    vertex = int(np.argmax(distances.min(axis=1)))
    place = pixel_of(browser, vertex)
    browser.hover(*place, f"!{TIP}.hidden && {TIP}.dataset.vertex === '{vertex}'")
    text = browser.evaluate(f"{TIP}.textContent")
    browser.mouse("mouseMoved", 5, 5)
    browser.wait(f"{TIP}.hidden")
    browser.click(*place, f"isoweaveReport.state.picked === {vertex}")
    browser.wait(f"{ROWS}.length > 0")
    return vertex, text


@pytest.mark.parametrize("size", [(1280, 1000), (390, 844)], ids=["desktop", "phone"])
def test_swiss_roll(open_report, size):
    """Everything that can be done with the page of a map of the plane, coloured by its two halves."""
    roll = swiss_roll(400, random_state=7)
    model, truth = IsometricEmbedding(n_components=2, n_neighbors=8).fit(roll.data), roll.truth
    middle = np.median(truth[:, 0])
    columns = {"side": np.where(truth[:, 0] < middle, "left", "right"), "height": truth[:, 1]}
    names = [f"point {i}" for i in range(400)]
    page = open_report(model, size, columns=columns, names=names, title="Roll")
    assert page.evaluate("document.title") == "Roll"
    check_drawn(page, model, truth, middle)
    check_classes_and_zoom(page, truth)
    check_picked_vertex(page, model, truth)
    check_edges(page, model)
    # Both axes have one scale, also after the window has changed.
    x, y = page.evaluate(SCALES)
    assert x == pytest.approx(y, rel=1e-3)
    page.resize(900 if size[0] > 900 else 700, 1300)
    page.wait(f"(() => {{ const [x, y] = {SCALES}; return Math.abs(x / y - 1) < 1e-3 && x !== {x}; }})()")
    assert page.problems() == []
    check_nothing_can_be_loaded_or_sent_away(page)


def check_drawn(page, model, truth, middle):
    np.testing.assert_allclose(drawn(page, "x", "y"), model.embedding_, atol=1e-6 * np.ptp(truth))
    assert kind(page) == "scattergl"
    picture = np.asarray(page.screenshot(), dtype=int)
    # Neighbours may lie on top where the halves meet.
    for vertex in np.flatnonzero(np.abs(truth[:, 0] - middle) > 15)[::7]:
        x, y = (round(value) for value in pixel_of(page, vertex))
        near = picture[y - 1 : y + 2, x - 1 : x + 2].reshape(-1, 3)
        distance = np.abs(near[:, None] - PALETTE[None]).sum(axis=2).min(axis=0)
        assert np.argmin(distance) == (0 if truth[vertex, 0] < middle else 1)
        assert distance.min() < 30
    shepard = page.evaluate("document.getElementById('shepard').data.map((t) => t.type)")
    assert shepard == ["heatmap", "scatter"]
    energy = page.evaluate("document.getElementById('history').data[0].y")
    np.testing.assert_allclose(energy, [record.energy for record in model.history_])


def check_classes_and_zoom(page, truth):
    """Classes can be singled out; another colour keeps the zoom, which a double click takes back."""
    buttons = "[...document.querySelectorAll('#legend button')]"
    assert page.evaluate(f"{buttons}.map((b) => b.textContent)") == ["left", "right"]
    for shown in ({-1, 1}, {0, 1}):
        page.evaluate(f"({buttons}[1].click(), isoweaveReport.settled())")
        colors = drawn(page, "color")
        assert set(colors) == shown
        assert np.sum(colors == 1) == 200
    whole = page.evaluate(SPAN)
    x, y = pixel_of(page, 200)
    for _ in range(4):
        page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    page.wait(f"{SPAN} < {0.7 * whole}")
    near = 0.0
    while near != (near := page.evaluate(SPAN)):
        time.sleep(0.4)
    # The point under the pointer stays there.
    np.testing.assert_allclose(pixel_of(page, 200), (x, y), atol=3)
    page.choose("color", "height")
    assert page.evaluate(SPAN) == pytest.approx(near, rel=1e-9)
    np.testing.assert_allclose(drawn(page, "color"), truth[:, 1], rtol=1e-6)
    assert page.evaluate("document.querySelectorAll('#legend .bar').length") == 1
    # Viridis is neither of the two colours of the classes.
    picture = np.asarray(page.screenshot(), dtype=int)
    px, py = (round(value) for value in pixel_of(page, 200))
    assert np.abs(picture[py, px] - PALETTE).sum(axis=1).min() > 30
    page.click(x, y, f"Math.abs({SPAN} / {whole} - 1) < 0.05", count=2)


def check_picked_vertex(page, model, truth):
    """Its neighbourhood is laid out as Python does it, on both sides, listed and marked in the map."""
    vertex, tip = pick(page, model.embedding_)
    assert tip.startswith(f"point {vertex} (vertex {vertex})\nside: ")
    assert f"height: {truth[vertex, 1]:.5g}"[:11] in tip
    assert text_of(page, "#vertex-title") == f"point {vertex} (vertex {vertex})"
    expected = local_map(graph_from_matrix(model.graph_), model.embedding_, vertex)
    found = page.evaluate(f"isoweaveReport.neighborhood({vertex})")
    assert found["vertices"] == expected.vertices.tolist()
    np.testing.assert_allclose(found["lengths"], expected.lengths, rtol=1e-6)
    pictures = page.evaluate(
        "document.getElementById('neighborhood').data"
        ".filter((t) => t.mode === 'markers').map((t) => [t.x, t.y])"
    )
    for side, picture in zip(("before", "after"), pictures, strict=True):
        for points in (found[side], np.transpose(picture)):
            np.testing.assert_allclose(points, getattr(expected, side), atol=1e-4 * expected.lengths.max())
    rows = page.evaluate(f"{ROWS}.map((row) => [...row.cells].map((cell) => cell.textContent))")
    assert [row[0] for row in rows] == [f"point {v}" for v in expected.vertices[1:]]
    np.testing.assert_allclose([float(row[1]) for row in rows], expected.lengths[1:], rtol=1e-4)
    reached = np.linalg.norm(expected.after[1:], axis=1)
    np.testing.assert_allclose([float(row[2]) for row in rows], reached, rtol=1e-3)
    arrows = page.evaluate(f"{MAP}.layout.annotations.map((a) => [a.ax, a.ay, a.x, a.y])")
    for arrow, neighbor in zip(arrows[:-1], expected.vertices[1:], strict=True):
        np.testing.assert_allclose(arrow, model.embedding_[[vertex, neighbor]].ravel(), atol=1e-4)
    # A neighbour's row leads there, and so does a name.
    page.evaluate(f"{ROWS}[0].click()")
    page.wait(f"isoweaveReport.state.picked === {expected.vertices[1]}")
    enter = """(text) => { const box = document.getElementById("find");
      box.value = text; box.dispatchEvent(new Event("change")); }"""
    for text, picked in (("point 17", 17), ("23", 23), ("nobody", 23)):
        page.evaluate(f"({enter})('{text}')")
        page.wait(f"isoweaveReport.state.picked === {picked}")
    assert text_of(page, "#alert") == "There is no vertex nobody."


def check_edges(page, model):
    page.choose("edges", "all")
    lines = page.evaluate(f"{MAP}.data.slice(1, 6).map((t) => t.x.length)")
    assert sum(lines) == 3 * (model.graph_.nnz // 2 - len(model.dropped_edges_))
    matrix = model.graph_.tocoo()
    steps = model.embedding_[matrix.row] - model.embedding_[matrix.col]
    ratio = np.linalg.norm(steps, axis=1) / matrix.data
    # Loose: edges at a limit of a class may fall on either side.
    assert lines[2] / 3 == pytest.approx(np.sum(np.abs(ratio - 1) <= 0.1) / 2, abs=5)


def check_nothing_can_be_loaded_or_sent_away(page):
    """plotly has a button by default that works by a new window, which no policy of the page forbids."""
    titles = page.evaluate(f"[...{MAP}.querySelectorAll('.modebar-btn')].map((b) => b.dataset.title)")
    # plotly 5 writes "png".
    names = [title.lower() for title in titles]
    assert names == ["download plot as a png", "zoom in", "zoom out", "reset axes"]
    assert page.evaluate(f"{MAP}._context.plotlyServerURL") == ""
    script = """new Promise((done) => {
      document.addEventListener("securitypolicyviolation", (e) => done(e.effectiveDirective));
      fetch("http://127.0.0.1:9/").catch(() => {});
      document.body.append(Object.assign(document.createElement("script"), {text: "window.owned = 1"}));
    })"""
    assert page.evaluate(script) == "connect-src"
    # An injected script does not run either.
    assert page.evaluate("window.owned") is None
    page.events.clear()  # both refusals are logged as errors


def test_three_dimensions(open_report):
    result = embed_graph(knn_graph(BOX[:, :3], 10), n_components=3)
    browser = open_report(result)
    assert kind(browser) == "scatter3d"
    np.testing.assert_allclose(drawn(browser, "x", "y", "z"), result.coordinates, atol=1e-5)
    # Something of the map is seen: pixels that are neither white nor grey.
    box = browser.evaluate(
        f"(() => {{ const b = {MAP}.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; }})()"
    )
    picture = np.asarray(browser.screenshot().crop([int(v) for v in box]), dtype=int)
    seen = np.argwhere(np.ptp(picture, axis=2) > 40)
    assert len(seen) > 100
    # Somewhere among them there is a point to hover and click.
    for y, x in seen[:: len(seen) // 20] + np.array([box[1], box[0]]):
        with suppress(TimeoutError):
            browser.hover(float(x), float(y), f"!{TIP}.hidden", timeout=3)
            break
    browser.click(float(x), float(y), f"isoweaveReport.state.picked === Number({TIP}.dataset.vertex)")
    browser.wait(f"{MAP}.data[6].z.length > 5")
    browser.choose("view", "2-D")
    assert kind(browser) == "scattergl"
    browser.choose("axis-1", "x3")
    np.testing.assert_allclose(drawn(browser, "y"), result.coordinates[:, 2], atol=1e-5)


@pytest.mark.slow
def test_five_dimensions_and_vertices_without_coordinates(open_report):
    graph = knn_graph(BOX, 12)
    points = embed_graph(graph, n_components=5).coordinates
    points[:10] = np.nan
    browser = open_report(points, graph=graph)
    x, y = drawn(browser, "x", "y")[10:].astype(float).T
    values = np.linalg.eigvalsh(np.cov(points[10:].T))[::-1]
    np.testing.assert_allclose([x.var(ddof=1), y.var(ddof=1)], values[:2], rtol=1e-4)
    assert abs(np.mean(x * y)) < 1e-4
    browser.choose("axis-0", "x4")
    np.testing.assert_allclose(drawn(browser, "x")[10:].astype(float), points[10:, 3], atol=1e-5)
    found = browser.evaluate("isoweaveReport.neighborhood(11)")
    expected = local_map(graph, points, 11)
    np.testing.assert_allclose(found["before"], expected.before, atol=1e-4 * expected.lengths.max())
    browser.evaluate("isoweaveReport.pick(3)")
    assert "not embedded" in text_of(browser, "#vertex-help")
    browser.evaluate("isoweaveReport.pick(11)")
    browser.choose("view", "3-D")
    assert kind(browser) == "scatter3d"


def test_one_dimension_and_strings_that_do_nothing(open_report):
    """Names, labels, titles and headers that try to be markup are shown as they are."""
    line = np.arange(60.0)[:, None] + np.random.default_rng(43).uniform(size=(60, 1))
    result = embed_graph(knn_graph(line, 6), n_components=1)
    columns = {EVIL: np.array([EVIL, "fine"] * 30), "<b>x</b>" + EVIL: np.linspace(0, 1, 60)}
    browser = open_report(result, title=EVIL, names=[f"{EVIL}{i}" for i in range(60)], columns=columns)
    x, y = drawn(browser, "x", "y").T
    np.testing.assert_allclose(x, result.coordinates[:, 0], atol=1e-6)
    assert not np.any(y)
    _, tip = pick(browser, result.coordinates)
    assert EVIL in tip
    browser.choose("axis-1", "degree")
    assert drawn(browser, "y").tolist() == result.graph.degrees.tolist()
    browser.choose("axis-0", "<b>x</b>" + EVIL)
    assert text_of(browser, "#map .xtitle").startswith("<b>x</b></script>")
    for place in ("#vertex-neighbors tbody td", "h1", "#legend button"):
        assert text_of(browser, place).startswith(EVIL)
    assert browser.evaluate("window.owned") is None
    assert browser.evaluate("document.querySelectorAll('script').length") == 3
    assert browser.evaluate("document.querySelectorAll('body img').length") == 0
