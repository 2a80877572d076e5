"""Two linked maps on one page, and surfaces of meshes, in a headless browser."""

import numpy as np
import pytest

from isoweave import embed_graph
from isoweave.graph import knn_graph
from isoweave.report import write_report
from test_report_browser import PAGE, PALETTE, TIP, box_of, colors, open_report, text_of  # noqa: F401

RNG = np.random.default_rng(61)
TRUTH = RNG.uniform(size=(200, 2)) * [2.0, 1.0]
LABELS = np.where(TRUTH[:, 0] < 1.0, "left", "right")


def pixel(browser, vertex, panel):
    """Where a vertex of one of the two maps is in the window."""
    left, top, _, _ = box_of(browser, "map")
    x, y = browser.evaluate(f"{PAGE}.screen({vertex}, {PAGE}.{panel})")[:2]
    return left + x, top + y


@pytest.mark.parametrize("size", [(1100, 800), (340, 720)], ids=["desktop", "phone"])
def test_two_maps_are_linked(open_report, size):  # noqa: F811
    """Mirrored and of another unit, the truth lies as the map does; what is done in one is seen in both."""
    result = embed_graph(knn_graph(TRUTH, 10), 2)
    other = 7.0 * TRUTH[:, ::-1]
    page = open_report(result, size, columns={"side": LABELS}, beside={"the <b>truth</b>": other})
    boxes = [page.evaluate(f"{PAGE}.boxOf({PAGE}.{name})") for name in ("main", "other")]
    width, height = boxes[0]["size"]
    shift = [width, 0] if size[0] > 500 else [0, height]
    np.testing.assert_allclose(boxes[1]["corner"], shift)
    # What is said of the map keeps to its own half.
    most = page.evaluate("parseFloat(getComputedStyle(document.getElementById('kind')).maxWidth)")
    assert 0.9 * width < most <= width
    picture = np.asarray(page.screenshot(), dtype=int)
    places = {name: np.array([pixel(page, v, name) for v in range(0, 200, 9)]) for name in ("main", "other")}
    # Both fill their halves, so that the same points lie at the same places of the two.
    np.testing.assert_allclose(places["other"] - shift, places["main"], atol=0.03 * width)
    for name, found in places.items():
        for vertex, (x, y) in zip(range(0, 200, 9), np.rint(found).astype(int), strict=True):
            if abs(TRUTH[vertex, 0] - 1.0) > 0.1 and y < size[1] - 2:
                near = picture[y - 1 : y + 2, x - 1 : x + 2].reshape(-1, 3)
                gaps = np.abs(near[:, None] - PALETTE[None]).sum(axis=2).min(axis=0)
                assert np.argmin(gaps) == (LABELS[vertex] == "right"), name
    # The pointer over the second map marks the point in both; a click picks it, zooming moves one map only.
    alone = int(np.argmax(np.sort(np.linalg.norm(TRUTH[:, None] - TRUTH, axis=2), axis=1)[:, 1]))
    page.evaluate("window.scrollBy(0, 100)") if size[0] < 500 else None
    at = pixel(page, alone, "other")
    page.hover(*at, f"!{TIP}.hidden && {PAGE}.state.hovered === {alone}")
    spans = [page.evaluate(f"{PAGE}.{name}.camera.perPixel[0]") for name in ("main", "other")]
    page.mouse("mouseWheel", *at, deltaX=0, deltaY=-240)
    page.wait(f"{PAGE}.other.camera.perPixel[0] < {0.9 * spans[1]}")
    assert page.evaluate(f"{PAGE}.main.camera.perPixel[0]") == spans[0]
    np.testing.assert_allclose(pixel(page, alone, "other"), at, atol=2)
    page.click(*at, f"{PAGE}.state.picked === {alone}")
    page.evaluate("document.getElementById('close').click()")
    page.evaluate(f"{PAGE}.choose(new Set([1, 2, 3]))")
    assert np.sum(colors(page)[:, 3] == 255) == 3
    svg = page.evaluate(f"{PAGE}.svgText()")
    assert svg.count("<circle") == 400
    assert "the &lt;b&gt;truth&lt;/b&gt;" in svg
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_a_mesh_is_a_surface(open_report):  # noqa: F811
    """A folded sheet in space beside its flat map; triangles are filled, in space by their slope."""
    side = np.arange(12.0)
    flat = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    bent = np.column_stack([np.minimum(flat[:, 0], 6.0), flat[:, 1], np.maximum(flat[:, 0] - 6.0, 0.0)])
    corner = np.array([12 * i + j for i in range(11) for j in range(11)])
    quads = np.stack([corner, corner + 1, corner + 13, corner + 12], axis=1)
    faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    page = open_report(flat, beside={"fold": bent}, faces=faces, columns={"one": np.full(144, "a")})
    assert page.evaluate("document.getElementById('surface').checked")
    picture = np.asarray(page.screenshot(), dtype=int)

    def at(panel, a, b):
        ends = np.array([pixel(page, v, panel) for v in (a, b)])
        x, y = np.rint(ends.mean(axis=0)).astype(int)
        return picture[y, x]

    # Between vertices, where no dot could be: the flat map has the plain colour, the fold two shades of it.
    assert np.abs(at("main", 30, 43) - PALETTE[0]).max() < 12
    lower, upper = at("other", 26, 39), at("other", 69, 82)
    for shade in (lower, upper):
        assert shade.argmax() == 2
        assert shade.max() < 255
    assert np.abs(lower - upper).sum() > 20
    page.evaluate("document.getElementById('surface').click()")
    picture = np.asarray(page.screenshot(), dtype=int)
    assert at("main", 30, 43).min() > 200
    # Dragging turns the surface, not the map.
    x, y = pixel(page, 70, "other")
    turn = page.evaluate(f"{PAGE}.other.camera.turn[0][0]")
    page.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    page.mouse("mouseMoved", x + 50, y + 5, button="left", buttons=1)
    page.mouse("mouseReleased", x + 50, y + 5, button="left", buttons=0)
    page.wait(f"{PAGE}.other.camera.turn[0][0] !== {turn}")
    assert page.evaluate(f"{PAGE}.main.camera.turn[0][0]") == 1
    assert "unknown whether it is to scale" in text_of(page, "#kind")


def test_more_dimensions_beside(tmp_path):
    wide = RNG.normal(size=(200, 5)) * [1, 2, 9, 1, 5]
    text = write_report(TRUTH, tmp_path / "r.html", beside=wide).read_text()
    assert "beside: two principal axes of 5" in text
