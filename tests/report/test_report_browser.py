"""Reports opened and used in a headless browser, each page opened once."""

import time

import numpy as np
import pytest

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import swiss_roll
from isoweave.diagnostics import scale_sentence
from isoweave.graph import graph_from_matrix, knn_graph
from isoweave.plot._distances import local_map
from isoweave.report import write_report

EVIL = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"
PALETTE = np.array([[0x00, 0x72, 0xB2], [0xE6, 0x9F, 0x00]])
PAGE = "isoweaveReport"
TIP = "document.getElementById('tip')"
ROWS = "[...document.querySelectorAll('#vertex-neighbors tbody tr')]"
SPAN = f"{PAGE}.camera.perPixel[0]"
BOX = np.random.default_rng(41).uniform(size=(150, 5)) * [3, 2, 1, 0.1, 0.1]


@pytest.fixture
def open_report(browser, tmp_path):
    """Opens the page of a map in a window of some size, and looks at its problems in the end."""

    def write(result, size=(760, 760), dark=False, **options):
        browser.resize(*size, mobile=size[0] < 500)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.call("Emulation.setEmulatedMedia", features=[scheme])
        browser.open(write_report(result, tmp_path / "r.html", diagnosis=False, **options).as_uri())
        browser.evaluate("document.getElementById('stage').scrollIntoView()")
        return browser

    yield write
    assert browser.problems() == []


def drawn(browser, *axes):
    """Values along the axes of the picture (0, 1, 2), shape (n, axes)."""
    return np.transpose([browser.evaluate(f"Array.from({PAGE}.axesNow()[{k}])") for k in axes])


def colors(browser):
    return np.array(browser.evaluate(f"Array.from({PAGE}.colorsNow())")).reshape(-1, 4)


def text_of(browser, place):
    return browser.evaluate(f"document.querySelector('{place}').textContent")


def pixel_of(browser, vertex):
    """Where a vertex is on the screen."""
    return browser.evaluate(f"""(() => {{
      const box = document.getElementById("map").getBoundingClientRect(), at = {PAGE}.screen({vertex});
      return [box.left + at[0], box.top + at[1]];
    }})()""")


def box_of(browser, name):
    """Left, top, right and bottom of an element."""
    return browser.evaluate(f"""(() => {{
      const box = document.getElementById("{name}").getBoundingClientRect();
      return [box.left, box.top, box.right, box.bottom];
    }})()""")


def pick(browser, points):
    """Point at the vertex farthest from its nearest other, which cannot be missed, and click it."""
    distances = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(len(points))
    vertex = int(np.argmax(distances.min(axis=1)))
    place = pixel_of(browser, vertex)
    browser.hover(*place, f"!{TIP}.hidden && {TIP}.dataset.vertex === '{vertex}'")
    text = browser.evaluate(f"{TIP}.textContent")
    assert browser.evaluate("document.getElementById('vertex').hidden")
    browser.click(*place, f"{PAGE}.state.picked === {vertex}")
    browser.wait(f"{ROWS}.length > 0")
    assert not browser.evaluate("document.getElementById('vertex').hidden")
    return vertex, text


@pytest.mark.parametrize(
    ("size", "dark"), [((1280, 1000), False), ((320, 700), True)], ids=["desktop", "phone"]
)
def test_swiss_roll(open_report, size, dark):
    """Everything that can be done with the page of a map of the plane, coloured by its two halves."""
    roll = swiss_roll(400, random_state=7)
    model, truth = IsometricEmbedding(n_components=2, n_neighbors=8).fit(roll.data), roll.truth
    middle = np.median(truth[:, 0])
    columns = {"side": np.where(truth[:, 0] < middle, "left", "right"), "height": truth[:, 1]}
    names = [f"point {i}" for i in range(400)]
    page = open_report(model, size, dark, columns=columns, names=names, title="Roll")
    assert page.evaluate("document.title") == "Roll"
    check_drawn(page, model, truth, middle, dark)
    check_nothing_is_cut_off(page, size)
    check_classes_and_zoom(page, truth)
    check_picked_vertex(page, model, truth)
    check_edges(page, model)
    check_lasso_and_pictures(page, model)
    # Both axes keep one scale when the window changes.
    page.resize(900 if size[0] > 900 else 700, 1300)
    page.wait(f"{SPAN} === {PAGE}.camera.perPixel[1] && document.getElementById('map').width > 500")
    assert page.problems() == []
    check_nothing_can_be_loaded_or_sent_away(page)


def test_large_numbers_and_many_classes_are_not_cut_off(open_report):
    """On a phone, twelve classes are all in sight, and so are the ends of the axes of an energy of 1e10."""
    roll = 1e5 * swiss_roll(200, random_state=7).data
    model = IsometricEmbedding(n_components=2, n_neighbors=8).fit(roll)
    assert model.energy_ > 1e6
    page = open_report(model, (320, 700), columns={"month": np.arange(200) % 12})
    assert page.evaluate("document.querySelectorAll('#legend button').length") == 12
    assert page.evaluate("(({scrollHeight, clientHeight}) => scrollHeight <= clientHeight)(legend)")
    outside = """[...document.querySelectorAll("#history text")].filter((text) => {
      const box = text.getBoundingClientRect(), all = text.ownerSVGElement.getBoundingClientRect();
      return box.left < all.left || box.right > all.right || box.top < all.top || box.bottom > all.bottom;
    }).map((text) => text.textContent)"""
    assert page.evaluate(outside) == []
    ends = page.evaluate("[...document.querySelectorAll('#history text')].map((text) => text.textContent)")
    energies = [record.energy for record in model.history_]
    assert [float(end) for end in ends[2:4]] == [float(f"{e:.2e}") for e in (min(energies), max(energies))]


def test_a_page_is_drawn_once_with_what_it_needs(open_report, browser):
    """Without a graphics card, every picture and every program that draws takes a while."""
    counting = """window.used = [];
      for (const name of ["drawArrays", "drawArraysInstanced", "linkProgram"]) {
        const kind = WebGL2RenderingContext.prototype, plain = kind[name];
        kind[name] = function (...given) { used.push(name); return plain.apply(this, given); };
      }"""
    added = browser.call("Page.addScriptToEvaluateOnNewDocument", source=counting)
    try:
        page = open_report(BOX[:, :2])
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate("used") == ["linkProgram", "drawArrays"]
        page.resize(700, 760)
        page.wait("used.length > 2 && document.getElementById('map').width < 700")
        assert page.evaluate("used.slice(2)") == ["drawArrays"]
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])


def check_drawn(page, model, truth, middle, dark):
    np.testing.assert_allclose(drawn(page, 0, 1), model.embedding_, atol=1e-6 * np.ptp(truth))
    picture = np.asarray(page.screenshot(), dtype=int)
    # Neighbours may lie on top where the halves meet.
    for vertex in np.flatnonzero(np.abs(truth[:, 0] - middle) > 15)[::7]:
        x, y = (round(value) for value in pixel_of(page, vertex))
        near = picture[y - 1 : y + 2, x - 1 : x + 2].reshape(-1, 3)
        distance = np.abs(near[:, None] - PALETTE[None]).sum(axis=2).min(axis=0)
        assert np.argmin(distance) == (0 if truth[vertex, 0] < middle else 1)
        assert distance.min() < 30
    assert (picture[5, 2].mean() < 60) == dark
    assert text_of(page, "#kind") == scale_sentence(model)
    assert page.evaluate("document.querySelectorAll('#shepard image').length") == 1
    points = page.evaluate("document.querySelector('#history polyline').points.length")
    assert points == len(model.history_)


def check_nothing_is_cut_off(page, size):
    """No scroll bar sideways, and on a phone the legend lies below the picture."""
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    stage, legend = box_of(page, "stage"), box_of(page, "legend")
    assert text_of(page, "#legend h3") == "side"
    if size[0] < 500:
        assert legend[1] >= stage[3]
        assert 0 <= legend[0] < legend[2] <= size[0]
    else:
        assert stage[0] <= legend[0] < legend[2] <= stage[2]
        assert stage[2] - stage[0] > 0.95 * (size[0] - 40)


def check_classes_and_zoom(page, truth):
    """Classes can be singled out; another colour keeps the zoom, which a double click takes back."""
    buttons = "[...document.querySelectorAll('#legend button')]"
    assert page.evaluate(f"{buttons}.map((b) => b.textContent)") == ["left", "right"]
    for faint in (200, 0):
        page.evaluate(f"({buttons}[1].click(), {PAGE}.settled())")
        assert np.sum(colors(page)[:, 3] < 255) == faint
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
    assert page.evaluate(SPAN) == near
    assert page.evaluate("document.querySelectorAll('#legend .bar').length") == 1
    # Viridis: dark at the low end, yellow at the high one.
    bytes_ = colors(page)
    assert bytes_[np.argmin(truth[:, 1]), :3].tolist() == [0x44, 0x01, 0x54]
    assert bytes_[np.argmax(truth[:, 1]), :3].tolist() == [0xFD, 0xE7, 0x25]
    left, top, _, _ = box_of(page, "map")
    page.click(left + 30, top + 40, f"{SPAN} > {0.9 * whole}", count=2)


def check_picked_vertex(page, model, truth):
    """Its neighbourhood is laid out as Python does it, on both sides, listed and marked in the map."""
    page.evaluate("document.getElementById('close').click()")
    page.evaluate("document.getElementById('whole').click()")
    vertex, tip = pick(page, model.embedding_)
    assert tip.startswith(f"point {vertex} (vertex {vertex})\nside: ")
    assert f"height: {truth[vertex, 1]:.5g}"[:11] in tip
    assert text_of(page, "#vertex-title") == f"point {vertex} (vertex {vertex})"
    expected = local_map(graph_from_matrix(model.graph_), model.embedding_, vertex)
    found = page.evaluate(f"{PAGE}.neighborhood({vertex})")
    assert found["vertices"] == expected.vertices.tolist()
    np.testing.assert_allclose(found["lengths"], expected.lengths, rtol=1e-6)
    pictures = page.evaluate(
        "[...document.querySelectorAll('#neighborhood .side')].map((side) =>"
        "[...side.querySelectorAll('circle')].map((c) => [c.cx.baseVal.value, c.cy.baseVal.value]))"
    )
    for side, picture in zip(("before", "after"), pictures, strict=True):
        points = getattr(expected, side)
        np.testing.assert_allclose(found[side], points, atol=1e-4 * expected.lengths.max())
        # In the drawing y points down, and all is scaled by one factor.
        shown = (np.array(picture) - picture[0]) * [1, -1]
        factor = np.sum(shown * points) / np.sum(points**2)
        np.testing.assert_allclose(shown, factor * points, atol=0.1)
    rows = page.evaluate(f"{ROWS}.map((row) => [...row.cells].map((cell) => cell.textContent))")
    assert [row[0] for row in rows] == [f"point {v}" for v in expected.vertices[1:]]
    np.testing.assert_allclose([float(row[1]) for row in rows], expected.lengths[1:], rtol=1e-4)
    reached = np.linalg.norm(expected.after[1:], axis=1)
    np.testing.assert_allclose([float(row[2]) for row in rows], reached, rtol=1e-3)
    # A neighbour's row leads there, and so does a name.
    page.evaluate(f"{ROWS}[0].click()")
    page.wait(f"{PAGE}.state.picked === {expected.vertices[1]}")
    enter = """(text) => { const box = document.getElementById("find");
      box.value = text; box.dispatchEvent(new Event("change")); }"""
    for text, picked in (("point 17", 17), ("23", 23), ("nobody", 23)):
        page.evaluate(f"({enter})('{text}')")
        page.wait(f"{PAGE}.state.picked === {picked}")
    assert text_of(page, "#alert") == "There is no vertex nobody."
    page.evaluate("document.getElementById('close').click()")
    assert page.evaluate("document.getElementById('vertex').hidden")


def check_edges(page, model):
    page.choose("edges", "all")
    edges = page.evaluate(f"(() => {{ const e = {PAGE}.edgesNow().edges; return [...e.distortion]; }})()")
    assert len(edges) == model.graph_.nnz // 2 - len(model.dropped_edges_)
    matrix = model.graph_.tocoo()
    steps = model.embedding_[matrix.row] - model.embedding_[matrix.col]
    ratio = np.linalg.norm(steps, axis=1) / matrix.data - 1.0
    np.testing.assert_allclose(np.sort(edges), np.sort(ratio)[::2], atol=1e-4)
    page.choose("edges", "all, by colour")
    assert "measured" not in text_of(page, "#legend")
    page.choose("edges", "hidden")


def check_lasso_and_pictures(page, model):
    """A line around the left half selects it; rows and pictures can be saved."""
    left, top, right, bottom = box_of(page, "map")
    width, height = right - left, bottom - top
    page.evaluate("document.getElementById('lasso').click()")
    corners = [(2, 2), (width / 2, 2), (width / 2, height - 2), (2, height - 2)]
    for number, (x, y) in enumerate(corners):
        kind = "mousePressed" if number == 0 else "mouseMoved"
        page.mouse(kind, left + x, top + y, button="left", buttons=1, clickCount=1)
    page.mouse("mouseReleased", left + 2, top + height - 2, button="left", buttons=0, clickCount=1)
    page.wait(f"{PAGE}.state.chosen !== null")
    xs = np.array([page.evaluate(f"{PAGE}.screen({v})[0]") for v in range(0, 400, 20)])
    chosen = set(page.evaluate(f"[...{PAGE}.state.chosen]"))
    assert [v in chosen for v in range(0, 400, 20)] == (xs < width / 2).tolist()
    rows = page.evaluate(f"{PAGE}.rowsText()").splitlines()
    assert rows[0].startswith("vertex,name,side,height,")
    assert len(rows) == 1 + len(chosen)
    assert np.sum(colors(page)[:, 3] == 255) == len(chosen)
    page.evaluate("document.getElementById('lasso').click(), document.getElementById('unchoose').click()")
    svg = page.evaluate(f"{PAGE}.svgText()")
    assert svg.count("<circle") == 400
    assert f"Roll · {scale_sentence(model)}" in svg
    size, ratio = page.evaluate(
        f"(() => {{ const p = {PAGE}.picture(); return [[p.width, p.height], devicePixelRatio]; }})()"
    )
    assert size[0] == round(width * ratio)
    assert size[1] > height * ratio


def check_nothing_can_be_loaded_or_sent_away(page):
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
    np.testing.assert_allclose(drawn(browser, 0, 1, 2), result.coordinates, atol=1e-5)
    left, top, right, bottom = box_of(browser, "map")
    center = ((left + right) / 2, (top + bottom) / 2)
    before = browser.evaluate(f"{PAGE}.camera.turn")
    np.testing.assert_allclose(np.array(before) @ np.transpose(before), np.eye(3), atol=1e-2)
    vertex = browser.evaluate(f"{PAGE}.pointAt({(right - left) / 2}, {(bottom - top) / 2}, 400)")
    x, y = pixel_of(browser, vertex)
    # Something of the map is seen there.
    picture = np.asarray(browser.screenshot(), dtype=int)
    assert picture[round(y), round(x)].min() < 235
    browser.click(x, y, f"{PAGE}.state.picked >= 0")
    browser.mouse("mousePressed", *center, button="left", buttons=1, clickCount=1)
    browser.mouse("mouseMoved", center[0] + 60, center[1] + 10, button="left", buttons=1)
    browser.mouse("mouseReleased", center[0] + 60, center[1] + 10, button="left", buttons=0)
    browser.wait(f"{PAGE}.camera.turn[0][0] !== {before[0][0]}")
    browser.choose("picture", "2-D")
    browser.choose("axis-1", "x3")
    np.testing.assert_allclose(drawn(browser, 1)[:, 0], result.coordinates[:, 2], atol=1e-5)
    assert "Projection of a 3-dimensional map" in text_of(browser, "#kind")


def test_five_dimensions_and_vertices_without_coordinates(open_report):
    """A view, principal axes, the tour through all of them, the scatter matrix; each says what it is."""
    graph = knn_graph(BOX, 12)
    points = embed_graph(graph, n_components=5).coordinates
    points[:10] = np.nan
    picture = np.random.default_rng(3).normal(size=(150, 2))
    browser = open_report(points, graph=graph, view=picture)
    np.testing.assert_allclose(drawn(browser, 0, 1), picture, atol=1e-6)
    assert "distances are not to scale" in text_of(browser, "#kind")
    browser.choose("picture", "2-D")
    assert "Projection of a 5-dimensional map: principal 1" in text_of(browser, "#kind")
    x, y = drawn(browser, 0, 1)[10:].astype(float).T
    values = np.linalg.eigvalsh(np.cov(points[10:].T))[::-1]
    np.testing.assert_allclose([x.var(ddof=1), y.var(ddof=1)], values[:2], rtol=1e-4)
    assert abs(np.mean(x * y)) < 1e-4
    for t in (0.0, 0.3, 1.5, 22.7, 39.9):
        plane = np.array(browser.evaluate(f"{PAGE}.tourPlane({t})"))
        np.testing.assert_allclose(plane @ plane.T, np.eye(2), atol=1e-9)
    browser.choose("picture", "tour")
    np.testing.assert_allclose(drawn(browser, 0, 1)[10:].astype(float), np.column_stack([x, y]), atol=1e-5)
    browser.evaluate("document.getElementById('play').click()")
    browser.wait(f"{PAGE}.state.tour > 0.05")
    browser.evaluate("document.getElementById('play').click()")
    assert "this plane holds" in text_of(browser, "#kind")
    browser.choose("picture", "scatter matrix")
    # The cell in the first column of the second row opens its plane.
    left, top, right, bottom = box_of(browser, "map")
    side = min(right - left, bottom - top) / 4
    at = ((left + right) / 2 - 1.5 * side, top + 1.5 * side)
    browser.click(*at, f"{PAGE}.state.picture === 'flat'")
    browser.choose("axis-0", "x4")
    np.testing.assert_allclose(drawn(browser, 0)[10:, 0].astype(float), points[10:, 3], atol=1e-5)
    found = browser.evaluate(f"{PAGE}.neighborhood(11)")
    expected = local_map(graph, points, 11)
    np.testing.assert_allclose(found["before"], expected.before, atol=1e-4 * expected.lengths.max())
    browser.evaluate(f"{PAGE}.pick(3)")
    assert "not embedded" in text_of(browser, "#vertex-help")
    assert browser.evaluate(f"{PAGE}.pointAt(10, 10, 1e9)") >= 10


def test_many_points_are_shaded_and_roads_are_lines(open_report):
    """60,000 points are a density until few are in sight; all edges of a grid are drawn."""
    cloud = np.random.default_rng(5).normal(size=(60_000, 2))
    browser = open_report(cloud, columns={"half": np.where(cloud[:, 0] < 0, "a", "b")})
    assert browser.evaluate(f"{PAGE}.state.isDense")
    picture = np.asarray(browser.screenshot(), dtype=int)
    left = int(np.argmin(np.abs(cloud + np.array([0.3, 0.0])).sum(axis=1)))
    x, y = (round(value) for value in pixel_of(browser, left))
    # The middle of the left half has the colour of its class.
    assert np.abs(picture[y - 5 : y + 6, x - 5 : x + 6].mean(axis=(0, 1)) - PALETTE[0]).max() < 60
    browser.evaluate(f"{PAGE}.camera.perPixel = [1e-4, 1e-4]; {PAGE}.draw()")
    assert not browser.evaluate(f"{PAGE}.state.isDense")
    side = np.stack(np.meshgrid(np.arange(40.0), np.arange(40.0)), axis=-1).reshape(-1, 2)
    graph = knn_graph(side + 1e-3 * np.sin(side[:, ::-1]), 4)
    roads = graph.to_matrix().tocsr()
    roads.data[roads.data > 1.2] = 0
    roads.eliminate_zeros()
    browser = open_report(side * 1.3, graph=roads, align=side)
    assert browser.evaluate(f"{PAGE}.state.edges") == "all"
    # Every edge is 30 % too long, hence red.
    picture = np.asarray(browser.screenshot(), dtype=int)
    assert np.sum(picture[..., 0] - picture[..., 1] > 60) > 5000
    browser.evaluate(f"{PAGE}.state.truth = 1; {PAGE}.draw()")
    np.testing.assert_allclose(drawn(browser, 0, 1), side, atol=1e-5)
    assert text_of(browser, "#kind") == "The truth"


def test_one_dimension_and_strings_that_do_nothing(open_report):
    """Names, labels, titles and headers that try to be markup are shown as they are."""
    line = np.arange(60.0)[:, None] + np.random.default_rng(43).uniform(size=(60, 1))
    result = embed_graph(knn_graph(line, 6), n_components=1)
    columns = {EVIL: np.array([EVIL, "fine"] * 30), "<b>x</b>" + EVIL: np.linspace(0, 1, 60)}
    browser = open_report(result, title=EVIL, names=[f"{EVIL}{i}" for i in range(60)], columns=columns)
    x, y = drawn(browser, 0, 1).T
    np.testing.assert_allclose(x, result.coordinates[:, 0], atol=1e-6)
    assert not np.any(y)
    _, tip = pick(browser, result.coordinates)
    assert EVIL in tip
    browser.choose("axis-1", "degree")
    assert drawn(browser, 1)[:, 0].tolist() == result.graph.degrees.tolist()
    browser.choose("axis-0", "<b>x</b>" + EVIL)
    assert text_of(browser, "#kind").startswith("<b>x</b></script>")
    browser.evaluate("document.getElementById('names').click()")
    assert EVIL not in browser.evaluate(f"{PAGE}.svgText()")
    for place in ("#vertex-neighbors tbody td", "h1", "#legend button", "#legend h3"):
        assert text_of(browser, place).strip().startswith(EVIL)
    assert browser.evaluate("window.owned") is None
    assert browser.evaluate("document.querySelectorAll('script').length") == 2
    assert browser.evaluate("document.querySelectorAll('body img').length") == 0
