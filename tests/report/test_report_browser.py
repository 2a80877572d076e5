"""Reports opened and used in a headless browser."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import swiss_roll
from isoweave.graph import graph_from_matrix, knn_graph
from isoweave.plot._neighborhood import local_map
from isoweave.report import write_report

pytest.importorskip("plotly")

EVIL = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"
PALETTE = np.array([[0x1F, 0x77, 0xB4], [0xFF, 0x7F, 0x0E]])
MAP = "document.getElementById('map')"
TIP = "document.getElementById('tip')"
VIEWS = {"x": "x", "y": "y", "z": "z", "color": "marker.color"}


@pytest.fixture(scope="module")
def model():
    roll = swiss_roll(400, random_state=7)
    return IsometricEmbedding(n_components=2, n_neighbors=8).fit(roll.data), roll.truth


@pytest.fixture(scope="module")
def roll_page(model, tmp_path_factory):
    """The swiss roll, coloured by its two halves."""
    fitted, truth = model
    columns = {"side": np.where(truth[:, 0] < np.median(truth[:, 0]), "left", "right"), "height": truth[:, 1]}
    names = [f"point {i}" for i in range(400)]
    path = tmp_path_factory.mktemp("roll") / "roll.html"
    return write_report(fitted, path, columns=columns, names=names, title="Roll", diagnosis=False).as_uri()


@pytest.fixture
def page(browser, roll_page):
    """That page as it is when it opens; opening takes seconds, so it is opened once and put back."""
    if browser.evaluate("location.href") != roll_page:
        browser.open(roll_page)
    browser.mouse("mouseMoved", 5, 5)
    browser.evaluate("""(async () => {
      Object.assign(isoweaveReport.state, {edges: "none", picked: -1});
      document.getElementById("edges").value = "none";
      document.getElementById("color").value = "0";
      document.getElementById("color").dispatchEvent(new Event("change"));
      await isoweaveReport.draw();
      const {xaxis, yaxis} = document.getElementById("map").layout;
      window.start ??= [xaxis.range.slice(), yaxis.range.slice()];
      const [x, y] = window.start.map((range) => range.slice());
      await Plotly.relayout("map", {"xaxis.range": x, "yaxis.range": y});
      document.getElementById("vertex-neighbors").replaceChildren();
    })()""")
    yield browser
    assert browser.problems() == []
    assert browser.requests() == []


@pytest.fixture
def open_report(browser, tmp_path):
    """Opens the page of a map, and looks at its problems in the end."""

    def write(result, **options):
        browser.open(write_report(result, tmp_path / "r.html", diagnosis=False, **options).as_uri())
        return browser

    yield write
    assert browser.problems() == []


def drawn(browser, *names):
    """Arrays of the map's points, shape (n, names): x, y, z, color."""
    found = [browser.evaluate(f"Array.from({MAP}.data[0].{VIEWS[name]})") for name in names]
    return np.transpose(found) if len(found) > 1 else np.array(found[0])


def kind(browser):
    return browser.evaluate(f"{MAP}.data[0].type")


def pixel_of(browser, vertex):
    """Where a vertex is on the screen."""
    return browser.evaluate(f"""(() => {{
      const map = {MAP}, box = map.getBoundingClientRect(), full = map._fullLayout, trace = map.data[0];
      return [box.left + full.xaxis._offset + full.xaxis.c2p(trace.x[{vertex}]),
              box.top + full.yaxis._offset + full.yaxis.c2p(trace.y[{vertex}])];
    }})()""")


def hover(browser, vertex):
    """Point at a vertex until the page says which one it is."""
    x, y = pixel_of(browser, vertex)
    browser.hover(x, y, f"!{TIP}.hidden && {TIP}.dataset.vertex === '{vertex}'")
    return x, y


def lonely_vertex(points):
    """The vertex farthest from its nearest other: the pointer cannot miss it."""
    distances = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(len(points))
    return int(np.argmax(distances.min(axis=1)))


def test_every_point_is_drawn(page, model):
    fitted, truth = model
    np.testing.assert_allclose(drawn(page, "x", "y"), fitted.embedding_, atol=1e-6 * np.ptp(truth))
    assert kind(page) == "scattergl"
    assert page.evaluate("document.title") == "Roll"
    picture = np.asarray(page.screenshot(), dtype=int)
    middle = np.median(truth[:, 0])
    # Neighbours may lie on top where the halves meet.
    for vertex in np.flatnonzero(np.abs(truth[:, 0] - middle) > 5)[::9]:
        x, y = (round(value) for value in pixel_of(page, vertex))
        near = picture[y - 1 : y + 2, x - 1 : x + 2].reshape(-1, 3)
        distance = np.abs(near[:, None] - PALETTE[None]).sum(axis=2).min(axis=0)
        assert np.argmin(distance) == (0 if truth[vertex, 0] < middle else 1)
        assert distance.min() < 30
    shepard = page.evaluate("document.getElementById('shepard').data.map((t) => t.type)")
    assert shepard == ["heatmap", "scatter"]
    energy = page.evaluate("document.getElementById('history').data[0].y")
    np.testing.assert_allclose(energy, [record.energy for record in fitted.history_])


def test_zoom_is_kept_by_a_colour_switch(page, model):
    span = f"(() => {{ const r = {MAP}._fullLayout.xaxis.range; return r[1] - r[0]; }})()"
    whole = page.evaluate(span)
    x, y = pixel_of(page, 200)
    for _ in range(4):
        page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240)
    page.wait(f"{span} < {0.7 * whole}")
    page.evaluate("new Promise((done) => setTimeout(done, 400))")
    near = page.evaluate(span)
    # The point under the pointer stays there.
    np.testing.assert_allclose(pixel_of(page, 200), (x, y), atol=3)
    page.choose("color", "height")
    assert page.evaluate(span) == pytest.approx(near, rel=1e-9)
    np.testing.assert_allclose(drawn(page, "color"), model[1][:, 1], rtol=1e-6)
    assert page.evaluate("document.querySelectorAll('#legend .bar').length") == 1
    # Viridis is neither of the two colours of the classes.
    picture = np.asarray(page.screenshot(), dtype=int)
    px, py = (round(value) for value in pixel_of(page, 200))
    assert np.abs(picture[py, px] - PALETTE).sum(axis=1).min() > 30
    # On a busy machine the two clicks may come too far apart for a double click.
    for _ in range(10):
        for count in (1, 2):
            for press in ("mousePressed", "mouseReleased"):
                page.mouse(press, x, y, button="left", clickCount=count)
        page.evaluate("new Promise((done) => setTimeout(done, 500))")
        if page.evaluate(span) > 0.95 * whole:
            break
    assert page.evaluate(span) == pytest.approx(whole, rel=0.05)


def test_both_axes_have_one_scale(page):
    """Also after the window has changed."""
    scales = f"""(() => {{
      const full = {MAP}._fullLayout;
      return [full.xaxis, full.yaxis].map((axis) => axis._length / (axis.range[1] - axis.range[0]));
    }})()"""
    x, y = page.evaluate(scales)
    assert x == pytest.approx(y, rel=1e-3)
    try:
        page.resize(900, 1300)
        page.wait(f"(() => {{ const [x, y] = {scales}; return Math.abs(x / y - 1) < 1e-3 && x !== {x}; }})()")
    finally:
        page.resize(1280, 1000)
        page.wait(f"Math.abs({scales}[0] / {x} - 1) < 0.2")


def test_classes_can_be_singled_out(page):
    buttons = "[...document.querySelectorAll('#legend button')]"
    assert page.evaluate(f"{buttons}.map((b) => b.textContent)") == ["left", "right"]
    for shown in ({-1, 1}, {0, 1}):
        page.evaluate(f"{buttons}[1].click()")
        page.evaluate("isoweaveReport.settled()")
        colors = drawn(page, "color")
        assert set(colors) == shown
        assert np.sum(colors == 1) == 200


def test_hover_and_pick_a_vertex(page, model):
    fitted, truth = model
    vertex = lonely_vertex(fitted.embedding_)
    place = hover(page, vertex)
    text = page.evaluate(f"{TIP}.textContent")
    assert text.startswith(f"point {vertex} (vertex {vertex})\nside: ")
    assert f"height: {truth[vertex, 1]:.5g}"[:11] in text
    page.mouse("mouseMoved", 5, 5)
    page.wait(f"{TIP}.hidden")
    page.click(*place, f"isoweaveReport.state.picked === {vertex}")
    page.wait("document.querySelectorAll('#vertex-neighbors tbody tr').length > 0")
    title = page.evaluate("document.getElementById('vertex-title').textContent")
    assert title == f"point {vertex} (vertex {vertex})"

    # The same layout as Python's, of both sides.
    expected = local_map(graph_from_matrix(fitted.graph_), fitted.embedding_, vertex)
    found = page.evaluate(f"isoweaveReport.neighborhood({vertex})")
    assert found["vertices"] == expected.vertices.tolist()
    size = expected.lengths.max()
    np.testing.assert_allclose(found["lengths"], expected.lengths, rtol=1e-6)
    pictures = page.evaluate(
        "document.getElementById('neighborhood').data"
        ".filter((t) => t.mode === 'markers').map((t) => [t.x, t.y])"
    )
    for side, picture in zip(("before", "after"), pictures, strict=True):
        np.testing.assert_allclose(found[side], getattr(expected, side), atol=1e-4 * size)
        np.testing.assert_allclose(np.transpose(picture), getattr(expected, side), atol=1e-4 * size)
    rows = page.evaluate(
        "[...document.querySelectorAll('#vertex-neighbors tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert [row[0] for row in rows] == [f"point {v}" for v in expected.vertices[1:]]
    np.testing.assert_allclose([float(row[1]) for row in rows], expected.lengths[1:], rtol=1e-4)
    reached = np.linalg.norm(expected.after[1:], axis=1)
    np.testing.assert_allclose([float(row[2]) for row in rows], reached, rtol=1e-3)

    # Marked in the map.
    arrows = page.evaluate(f"{MAP}.layout.annotations.map((a) => [a.ax, a.ay, a.x, a.y])")
    for arrow, neighbor in zip(arrows[:-1], expected.vertices[1:], strict=True):
        np.testing.assert_allclose(arrow, fitted.embedding_[[vertex, neighbor]].ravel(), atol=1e-4)
    # A neighbour's row leads there, and so does a name.
    page.evaluate("document.querySelector('#vertex-neighbors tbody tr').click()")
    page.wait(f"isoweaveReport.state.picked === {expected.vertices[1]}")
    enter = """(text) => { const box = document.getElementById("find");
      box.value = text; box.dispatchEvent(new Event("change")); }"""
    for text, picked in (("point 17", 17), ("23", 23)):
        page.evaluate(f"({enter})('{text}')")
        page.wait(f"isoweaveReport.state.picked === {picked}")
    page.evaluate(f"({enter})('nobody')")
    assert page.evaluate("document.getElementById('alert').textContent") == "There is no vertex nobody."
    assert page.evaluate("isoweaveReport.state.picked") == 23


def test_edges_by_distortion(page, model):
    fitted = model[0]
    page.choose("edges", "all")
    lines = page.evaluate(f"{MAP}.data.slice(1, 6).map((t) => t.x.length)")
    assert sum(lines) == 3 * (fitted.graph_.nnz // 2 - len(fitted.dropped_edges_))
    matrix = fitted.graph_.tocoo()
    steps = fitted.embedding_[matrix.row] - fitted.embedding_[matrix.col]
    ratio = np.linalg.norm(steps, axis=1) / matrix.data
    # Loose: edges at a limit of a class may fall on either side.
    assert lines[2] / 3 == pytest.approx(np.sum(np.abs(ratio - 1) <= 0.1) / 2, abs=5)


def test_nothing_can_be_loaded_or_sent_away(page):
    """plotly has a button by default that works by a new window, which no policy of the page forbids."""
    titles = page.evaluate(f"[...{MAP}.querySelectorAll('.modebar-btn')].map((b) => b.dataset.title)")
    # plotly 5 writes "png".
    names = [title.lower() for title in titles]
    assert names == ["download plot as a png", "zoom in", "zoom out", "reset axes"]
    assert page.evaluate(f"{MAP}._context.plotlyServerURL") == ""
    script = """new Promise((done) => {
      document.addEventListener("securitypolicyviolation", (e) => done(e.effectiveDirective));
      fetch("http://127.0.0.1:9/").catch(() => {});
      setTimeout(() => done("nothing"), 3000);
    })"""
    assert page.evaluate(script) == "connect-src"
    # An injected script does not run either.
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.owned=1'}))"
    )
    assert page.evaluate("window.owned") is None
    page.events.clear()  # both refusals are logged as errors


BOX = np.random.default_rng(41).uniform(size=(300, 5)) * [3, 2, 1, 0.1, 0.1]


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
    assert np.sum(np.ptp(picture, axis=2) > 40) > 300
    # Somewhere in the middle there is a point to hover and click.
    middle = (box[0] + box[2]) / 2
    for y in np.arange(0.4, 0.6, 0.01) * (box[3] - box[1]) + box[1]:
        with suppress(TimeoutError):
            browser.hover(middle, y, f"!{TIP}.hidden", timeout=0)
            break
    browser.click(middle, y, f"isoweaveReport.state.picked === Number({TIP}.dataset.vertex)")
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
    assert "not embedded" in browser.evaluate("document.getElementById('vertex-help').textContent")
    browser.evaluate("isoweaveReport.pick(11)")
    browser.choose("view", "3-D")
    assert kind(browser) == "scatter3d"


def test_one_dimension(open_report):
    line = np.arange(60.0)[:, None] + np.random.default_rng(43).uniform(size=(60, 1))
    result = embed_graph(knn_graph(line, 6), n_components=1)
    browser = open_report(result)
    x, y = drawn(browser, "x", "y").T
    np.testing.assert_allclose(x, result.coordinates[:, 0], atol=1e-6)
    assert not np.any(y)
    browser.evaluate("isoweaveReport.pick(30)")
    browser.choose("axis-1", "degree")
    assert drawn(browser, "y").tolist() == result.graph.degrees.tolist()


def test_strings_do_nothing(open_report):
    """Names, labels, titles and headers that try to be markup are shown as they are."""
    points = np.random.default_rng(47).normal(size=(30, 2))
    browser = open_report(
        points,
        graph=knn_graph(points, 5),
        title=EVIL,
        names=[f"{EVIL}{i}" for i in range(30)],
        columns={EVIL: np.array([EVIL, "fine"] * 15), "<b>x</b>" + EVIL: np.linspace(0, 1, 30)},
    )
    vertex = lonely_vertex(points)
    place = hover(browser, vertex)
    assert EVIL in browser.evaluate(f"{TIP}.textContent")
    browser.click(*place, f"isoweaveReport.state.picked === {vertex}")
    browser.wait("document.querySelectorAll('#vertex-neighbors tbody tr').length > 0")
    browser.choose("axis-0", "<b>x</b>" + EVIL)
    title = browser.evaluate(f"{MAP}.querySelector('.xtitle').textContent")
    assert title.startswith("<b>x</b></script>")
    for place in ("#vertex-neighbors tbody td", "h1", "#legend button"):
        assert browser.evaluate(f"document.querySelector('{place}').textContent").startswith(EVIL)
    assert browser.evaluate("window.owned") is None
    assert browser.evaluate("document.querySelectorAll('script').length") == 3
    assert browser.evaluate("document.querySelectorAll('body img').length") == 0
