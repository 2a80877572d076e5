"""Commands that take maps: evaluate and report."""

import base64
import json
import re

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave import IsometricEmbedding
from isoweave.graph import knn_graph
from isoweave.io import read_embedding
from isoweave.metrics import board_scores, evaluate

Y = np.random.default_rng(84).normal(size=(300, 2))
LABELS = np.arange(300) % 3


def test_scores_equal_the_library(run, run_json, graph, sheet):
    # Beside the embedding, arrays that could be taken for it.
    np.savez("y.npz", embedding=Y, dropped_edges=np.zeros((3, 2), int), X=np.zeros((300, 2)))
    np.savetxt("y.csv", Y, delimiter=",", fmt="%.17g")
    # A graph with one direction of its edges is symmetrised, as `embed` does.
    sp.save_npz("upper.npz", sp.triu(graph, format="csr"))
    found = run_json("evaluate", "upper.npz", "y.csv")
    assert list(found) == list(expected := evaluate(graph, Y))
    assert found == pytest.approx(expected, rel=1e-12)
    np.save("labels.npy", LABELS)
    options = ("--labels", "labels.npy", "--truth", "x.npy", "-k", 4)
    found = run_json("evaluate", "a.npz", "y.npz", *options)
    expected = evaluate(graph, Y, truth=sheet, labels=LABELS, n_neighbors=4)
    assert found == pytest.approx(expected, rel=1e-12)
    assert {"accuracy", "nmi", "ari", "parameter_error", "procrustes_error"} <= found.keys()
    shown = run("evaluate", "a.npz", "y.npz", *options).stdout
    for name, value in found.items():
        if name not in ("n_neighbors", "n_rows"):
            assert name in shown
            assert f"{value:.4g}" in shown
    assert "n_neighbors = 4" in shown


def test_undefined_is_null_and_rows_are_matched_by_name(folder, run, run_json, refused):
    # Six points, k = 5: ranks need k below half the number of points.
    points = np.random.default_rng(85).normal(size=(6, 2))
    np.save("graph.npy", np.linalg.norm(points[:, None] - points, axis=2))
    np.save("y.npy", points)
    found = run_json("evaluate", "graph.npy", "y.npy")
    assert (found["trustworthiness"], found["continuity"]) == (None, None)
    assert found["local_distance"] < 1e-12
    assert "undefined" in run("evaluate", "graph.npy", "y.npy").stdout
    # An edge list and a table in another order: a unit square comes out exact.
    (folder / "g.edges").write_text("a b 1\nb c 1\nc d 1\nd a 1\n")
    for name in "be":
        (folder / f"{name}.csv").write_text(f"vertex,x1,x2\nc,1,1\na,0,0\nd,0,1\n{name},1,0\n")
    assert run_json("evaluate", "g.edges", "b.csv")["local_distance"] == 0.0
    refused("no row is named 'b'", "evaluate", "g.edges", "e.csv")


def test_features_and_boards(folder, run, run_json, refused, sheet):
    np.save("y.npy", Y)
    np.save("labels.npy", LABELS)
    found = run_json("evaluate", "x.npy", "y.npy", "-k", 6)
    assert found == pytest.approx(evaluate(knn_graph(sheet, 6), Y, n_neighbors=6), rel=1e-12)
    assert run_json("evaluate", "x.npy", "y.npy")["n_neighbors"] == 10
    board = ("evaluate", "x.npy", "y.npy", "--board", "openproblems", "--labels", "labels.npy")
    found = run_json(*board)
    assert found == pytest.approx(board_scores(sheet, Y, labels=LABELS), rel=1e-9)
    shown = run(*board).stdout
    assert all(name in shown for name in found)
    refused("unknown board", "evaluate", "x.npy", "y.npy", "--board", "mteb")
    refused("leave out --n-neighbors", *board, "-k", 4)
    refused("leave out --graph", *board, "--graph")
    refused("--metric is for features", "evaluate", "a.npz", "y.npy", "--metric", "cosine")


def payload_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def numbers(packed, dtype=np.float32):
    return np.frombuffer(base64.b64decode(packed["base64"]), dtype=dtype)


@pytest.fixture
def report(folder, run):
    """Writes a page and gives its data."""

    def write(*arguments):
        shown = run("report", *arguments, "-o", "r.html", "--no-diagnosis").output
        assert "300 points" in " ".join(shown.split())
        return payload_of(folder / "r.html")

    return write


@pytest.fixture
def named(folder, run, graph, sheet):
    """A graph with names as an edge list, its map, and columns in another order."""
    upper = sp.triu(graph, k=1).tocoo()
    rows = zip(upper.row, upper.col, upper.data.tolist(), strict=True)
    (folder / "graph.edges").write_text("".join(f"v{i} v{j} {d!r}\n" for i, j, d in rows))
    order = np.random.default_rng(73).permutation(300)
    lines = [f"v{i},{float(sheet[i, 0])!r},{'low' if sheet[i, 1] < 0.5 else 'high'}" for i in order]
    (folder / "about.csv").write_text("vertex,x,level\n" + "\n".join(lines) + "\n")
    run("embed", "graph.edges", "-o", "map.npz", "-n", 2, "-q")
    return read_embedding("map.npz")


def test_a_map_is_enough_and_names_are_matched(folder, run, report, named, sheet):
    found = report("map.npz", "--columns", "about.csv")
    assert found["names"] == list(named.names)
    # Columns are matched by name, whatever their order.
    assert [c["name"] for c in found["columns"]][:2] == ["x", "level"]
    given = numbers(found["columns"][0]["numbers"])
    np.testing.assert_allclose(given, [sheet[int(name[1:]), 0] for name in named.names], rtol=1e-6)
    assert len(found["history"]["step"]) == len(named.history) > 1
    assert "<title>map.npz</title>" in (folder / "r.html").read_text(encoding="utf-8")
    # An edge list names vertices in order of appearance, another file may name them in any other.
    lines = (folder / "graph.edges").read_text().splitlines()
    (folder / "other.edges").write_text("\n".join(reversed(lines)))
    assert report("map.npz", "-g", "other.edges")["graph"] == found["graph"] is not None
    # The same by embed itself.
    files = ("-o", "map.csv", "--report", "r.html", "--columns", "about.csv")
    assert run("embed", "graph.edges", "-n", 2, "-q", *files).output == ""
    again = payload_of(folder / "r.html")
    assert (again["columns"][:2], again["history"]) == (found["columns"][:2], found["history"])
    assert (folder / "map.csv").exists()


def test_coordinates_of_another_tool_and_a_saved_model(folder, report, sheet):
    (folder / "labels.txt").write_text("\n".join("ab"[i % 2] for i in range(300)))
    options = ("x.npy", "--labels", "labels.txt", "--title", "<b>Mine</b>")
    found = report(*options)
    assert found["graph"] is None
    assert found["columns"][0]["levels"] == ["a", "b"]
    assert "<h1>&lt;b&gt;Mine&lt;/b&gt;" in (folder / "r.html").read_text(encoding="utf-8")
    assert report(*options, "-g", "a.npz")["shepard"]["n_pairs"] > 1000
    IsometricEmbedding(n_neighbors=8).fit(sheet).save("model.isoweave")
    assert report("model.isoweave")["n"] == 300


def test_a_mesh_is_drawn_as_a_surface_and_another_map_beside(folder, run, refused):
    side = np.arange(9.0)
    flat = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    corner = np.array([9 * i + j for i in range(8) for j in range(8)])
    faces = corner[:, None] + [0, 1, 10, 9]
    lines = [f"{x} {y} {np.sin(x)}" for x, y in flat] + [f"4 {a} {b} {c} {d}" for a, b, c, d in faces]
    (folder / "wave.off").write_text("\n".join(["OFF", "81 64 0", *lines]))
    run("embed", "wave.off", "-o", "map.npz", "--report", "r.html", "-q")
    found = payload_of(folder / "r.html")
    assert found["beside"]["title"] == "wave.off"
    # Each of the quads is two triangles, and the surface lies in space.
    triangles = numbers(found["faces"], np.int32).reshape(-1, 3)
    assert sorted(map(tuple, triangles.tolist()))[:2] == [(0, 1, 10), (0, 10, 9)]
    assert len(triangles) == 128
    np.testing.assert_allclose(numbers(found["beside"]["axes"][2]), np.sin(flat[:, 0]), atol=1e-5)
    np.save("flat.npy", flat)
    page = ("report", "map.npz", "-o", "r.html", "--no-diagnosis")
    run(*page, "--mesh", "wave.off", "--beside", "flat.npy")
    found = payload_of(folder / "r.html")
    assert found["faces"] is not None
    assert (found["beside"]["title"], len(found["beside"]["axes"])) == ("flat.npy", 2)
    refused("is no mesh", *page, "--mesh", "a.npz")
    refused("81", *page, "--beside", "x.npy")


def test_a_map_is_turned_towards_known_positions(folder, report, refused, sheet):
    """Rotated, mirrored and moved, a sheet comes back to where it was; half of the rows are known."""
    angle = 2.0
    turn = np.array([[np.cos(angle), np.sin(angle)], [np.sin(angle), -np.cos(angle)]])
    np.save("turned.npy", sheet @ turn + 7.0)
    known = sheet.copy()
    known[::2] = np.nan
    np.save("truth.npy", known)
    found = report("turned.npy", "--align", "truth.npy")
    axes = np.stack([numbers(axis) for axis in found["coordinates"]], axis=1)
    np.testing.assert_allclose(axes, sheet, atol=1e-5)
    assert len(found["truth"]) == 2
    np.save("short.npy", sheet[:9])
    refused("9 rows, but the map has 300", "report", "turned.npy", "-o", "r.html", "--align", "short.npy")


def test_figures(folder, run, refused, named):
    """Of the map, its edges, and the principal axes of many dimensions, each with a caption."""
    shown = run(
        "plot", "map.npz", "-o", "map.svg", "--columns", "about.csv", "--color", "level", "--title", "Mine"
    )
    assert "Isometric map: distances are to scale" in shown.output
    drawn = (folder / "map.svg").read_text()
    assert drawn.count("<use") >= 300
    assert "<!-- level -->" in drawn
    run("plot", "map.npz", "-o", "edges.png", "--edges")
    np.save("wide.npy", np.random.default_rng(2).normal(size=(50, 5)) * [9, 1, 1, 9, 1])
    shown = run("plot", "wide.npy", "-o", "wide.pdf")
    assert "Two principal axes of a 5-dimensional map: 9" in shown.output
    for name, start in (("edges.png", b"\x89PNG"), ("wide.pdf", b"%PDF")):
        assert (folder / name).read_bytes().startswith(start)
    wrong = ("plot", "map.npz", "-o", "m.png", "--color", "size")
    refused("no such column; choose one of x, level, stretch", *wrong, "--columns", "about.csv")
    refused("or give a table of columns with --columns", *wrong)
    refused("must end in .png, .svg or .pdf", "plot", "map.npz", "-o", "m.gif")


def test_a_figure_is_aligned(named, run, monkeypatch):
    """Towards positions that are known for some of the points only."""
    import isoweave.plot

    shown = []
    monkeypatch.setattr(isoweave.plot, "plot_embedding", lambda *a, **k: shown.append(a[0]) or plot(*a, **k))
    plot = isoweave.plot._points.plot_embedding
    points = named.coordinates
    known = points @ [[0.0, 1.0], [1.0, 0.0]] + [3.0, 5.0]
    np.save("some.npy", np.where(np.arange(len(points))[:, None] % 2, known, np.nan))
    run("plot", "map.npz", "-o", "map.png", "--align", "some.npy")
    np.testing.assert_allclose(shown[0].coordinates, known, atol=1e-9)


def test_view(folder, run, sheet):
    """Coordinates, a figure and a page of the same picture, each with what it keeps."""
    pytest.importorskip("openTSNE")
    np.save("wide.npy", np.column_stack([sheet, 0.1 * sheet**2, 0.1 * np.sin(9 * sheet)])[:60])
    for name in ("v.csv", "v.png", "v.html"):
        shown = " ".join(run("view", "wide.npy", "-o", name, "--perplexity", 6).output.split())
        assert "view of a 6-dimensional map" in shown
        assert "rank correlation of distances 0.9" in shown
    assert read_embedding("v.csv").coordinates.shape == (60, 2)
    assert len(payload_of(folder / "v.html")["view"]) == 2
