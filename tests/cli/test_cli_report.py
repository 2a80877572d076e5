from __future__ import annotations

import json
import re

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from isoweave.cli import app
from isoweave.graph import knn_graph

pytest.importorskip("plotly")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def payload_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A graph with names as an edge list, its map, and columns in another order."""
    made = tmp_path_factory.mktemp("report")
    points = np.random.default_rng(71).uniform(size=(120, 2))
    graph = knn_graph(points, 8)
    sp.save_npz(made / "graph.npz", graph.to_matrix())
    np.save(made / "points.npy", points)
    upper = sp.triu(graph.to_matrix(), k=1).tocoo()
    rows = zip(upper.row, upper.col, upper.data, strict=True)
    (made / "graph.edges").write_text("".join(f"v{i} v{j} {float(d)!r}\n" for i, j, d in rows))
    order = np.random.default_rng(73).permutation(120)
    lines = [f"v{i},{float(points[i, 0])!r},{'low' if points[i, 1] < 0.5 else 'high'}" for i in order]
    (made / "about.csv").write_text("vertex,x,level\n" + "\n".join(lines) + "\n")
    (made / "labels.txt").write_text("\n".join("ab"[i % 2] for i in range(120)))
    done = run("embed", made / "graph.edges", "-o", made / "map.npz", "-n", 2, "-q")
    assert done.exit_code == 0, done.output
    return made


def test_a_map_is_enough(folder, tmp_path):
    page = tmp_path / "r.html"
    done = run("report", folder / "map.npz", "-o", page, "--columns", folder / "about.csv", "--no-diagnosis")
    assert done.exit_code == 0, done.output
    assert "120 points" in " ".join(done.output.split())
    found = payload_of(page)
    points = np.load(folder / "points.npy")
    with np.load(folder / "map.npz") as stored:
        names = stored["vertex_names"].tolist()
        steps = len(stored["history"])
    assert found["names"] == names
    # Columns are matched by name, whatever their order.
    assert [c["name"] for c in found["columns"]][:2] == ["x", "level"]
    expected = [points[int(name[1:]), 0] for name in names]
    import base64

    given = np.frombuffer(base64.b64decode(found["columns"][0]["numbers"]["base64"]), dtype=np.float32)
    np.testing.assert_allclose(given, expected, rtol=1e-6)
    assert found["graph"] is not None
    assert len(found["history"]["step"]) == steps > 1
    assert "<title>map.npz</title>" in page.read_text(encoding="utf-8")


def test_report_with_embed(folder, tmp_path):
    page = tmp_path / "r.html"
    command = ("embed", folder / "points.npy", "-o", tmp_path / "map.csv", "-k", 8, "--report", page)
    about = tmp_path / "about.csv"
    about.write_text("x\n" + "\n".join(str(i / 4) for i in range(120)))
    done = run(*command, "--columns", about, "-q")
    assert done.exit_code == 0, done.output
    assert done.output == ""
    found = payload_of(page)
    assert found["columns"][0]["name"] == "x"
    assert found["history"]["step"]
    assert (tmp_path / "map.csv").exists()


def test_coordinates_of_another_tool(folder, tmp_path):
    page = tmp_path / "r.html"
    labels = ("--labels", folder / "labels.txt", "--title", "<b>Mine</b>", "--no-diagnosis")
    alone = run("report", folder / "points.npy", "-o", page, *labels)
    assert alone.exit_code == 0, alone.output
    assert payload_of(page)["graph"] is None
    assert payload_of(page)["columns"][0]["levels"] == ["a", "b"]
    assert "<h1>&lt;b&gt;Mine&lt;/b&gt;</h1>" in page.read_text(encoding="utf-8")
    with_graph = run("report", folder / "points.npy", "-g", folder / "graph.npz", "-o", page, *labels)
    assert with_graph.exit_code == 0, with_graph.output
    assert payload_of(page)["shepard"]["n_pairs"] > 1000


def test_a_graph_given_by_names_is_put_in_order(folder, tmp_path):
    """The edge list names vertices in order of appearance, another file may name them in any other."""
    lines = (folder / "graph.edges").read_text().splitlines()
    (tmp_path / "turned.edges").write_text("\n".join(reversed(lines)))
    for name in ("a.html", "b.html"):
        graph = folder / "graph.edges" if name == "a.html" else tmp_path / "turned.edges"
        options = ("-g", graph, "-o", tmp_path / name, "--no-diagnosis")
        done = run("report", folder / "map.npz", *options)
        assert done.exit_code == 0, done.output
    assert payload_of(tmp_path / "a.html")["graph"] == payload_of(tmp_path / "b.html")["graph"]


def test_a_saved_model(folder, tmp_path):
    from isoweave import IsometricEmbedding

    model = IsometricEmbedding(n_neighbors=8).fit(np.load(folder / "points.npy"))
    model.save(tmp_path / "model")
    done = run("report", tmp_path / "model", "-o", tmp_path / "r.html", "--no-diagnosis")
    assert done.exit_code == 0, done.output
    assert payload_of(tmp_path / "r.html")["n"] == 120
    IsometricEmbedding().save(tmp_path / "bare")
    refused = run("report", tmp_path / "bare", "-o", tmp_path / "s.html")
    assert refused.exit_code == 2
    assert "not fitted yet" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.npz", "-o", "r.html"), "none.npz: no such file"),
        (("map.npz", "-o", "r.txt"), "must end in .html"),
        (("map.npz", "-o", "none/r.html"), "folder none does not exist"),
        (("map.npz", "-o", "r.html", "--columns", "short.csv"), "no row is named 'v"),
        (("points.npy", "-o", "r.html", "--columns", "short.csv"), "short.csv: 2 rows, but the map has 120"),
        (("points.npy", "-o", "r.html", "--labels", "short.txt"), "short.txt: 2 rows, but the map has 120"),
        (("points.npy", "-o", "r.html", "-g", "small.mtx"), "small.mtx: 2 rows, but the map has 120"),
    ],
)
def test_errors_are_one_line(folder, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    for name in ("map.npz", "points.npy"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "short.csv").write_text("vertex,x\nv0,1\nv1,2\n")
    (tmp_path / "short.txt").write_text("a\nb\n")
    (tmp_path / "small.mtx").write_text("%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n2 1 1.0\n")
    result = run("report", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("isoweave: error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert not (tmp_path / "r.html").exists()


def test_columns_of_embed_need_a_report(folder, tmp_path):
    done = run("embed", folder / "points.npy", "-o", tmp_path / "m.npz", "--columns", folder / "about.csv")
    assert done.exit_code == 2
    assert "--columns is for the page of --report" in done.stderr
    assert not (tmp_path / "m.npz").exists()
