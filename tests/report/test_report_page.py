"""What a report holds, read back without a browser."""

import base64
import hashlib
import html
import json
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse as sp

from isoweave import embed_graph
from isoweave.diagnostics import diagnose, edge_errors, local_fit, scale_sentence
from isoweave.graph import knn_graph
from isoweave.metrics import distance_pairs
from isoweave.report import write_report
from isoweave.report._page import encode, encode_numbers
from isoweave.result import as_embedding

TYPES = {"i2": np.int16, "i4": np.int32, "f4": np.float32, "f8": np.float64}
EVIL = "</script><script>window.owned = 1</script>"


def decode(packed):
    return np.frombuffer(base64.b64decode(packed["base64"]), dtype=TYPES[packed["type"]])


@pytest.fixture
def write(tmp_path):
    """Writes a page without diagnosis; returns its text and its data."""

    def page(result, name="r.html", **options):
        path = write_report(result, tmp_path / name, **{"diagnosis": False, **options})
        text = path.read_text(encoding="utf-8")
        found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1]
        return text, json.loads(found)

    return page


@pytest.fixture(scope="module")
def sheet():
    return np.random.default_rng(29).uniform(size=(150, 2))


@pytest.fixture(scope="module")
def result(sheet):
    return embed_graph(knn_graph(sheet, 8), n_components=2, refine="none")


def column(data, name):
    """Values of a column of numbers."""
    return decode(next(c for c in data["columns"] if c["name"] == name)["numbers"])


def test_everything_is_in_the_page(write, result):
    rng = np.random.default_rng(31)
    town = np.where(rng.uniform(size=150) < 0.4, "Ulm", "Bonn")
    text, found = write(result, columns={"town": town, "x": rng.normal(size=150)})
    assert (found["n"], found["dimension"]) == (150, 2)
    assert edge_errors(result) in text
    assert f"{result.relative_energy:.2%} of a collapsed map" in text
    drawn = np.column_stack([decode(axis) for axis in found["coordinates"]])
    np.testing.assert_allclose(drawn, result.coordinates, atol=1e-6 * np.ptp(result.coordinates))
    assert [c["name"] for c in found["columns"]] == ["town", "x", "stretch", "misfit", "edge error", "degree"]
    assert found["columns"][0]["levels"] == ["Bonn", "Ulm"]
    assert np.array(["Bonn", "Ulm"])[decode(found["columns"][0]["codes"])].tolist() == town.tolist()
    graph = found["graph"]
    upper = sp.triu(result.graph.to_matrix(), k=1, format="csr")
    np.testing.assert_array_equal(decode(graph["indptr"]), upper.indptr)
    np.testing.assert_array_equal(decode(graph["indices"]), upper.indices)
    np.testing.assert_allclose(decode(graph["lengths"]), upper.data, rtol=1e-6)
    assert found["history"]["energy"] == [record.energy for record in result.history]
    for word in ("trustworthiness", "Accuracy, nmi and ari are of the column", result.status):
        assert word in text
    # Pairs of the Shepard diagram are counted; rows run along the distance in the map.
    shepard = found["shepard"]
    counts = decode(shepard["counts"]).reshape(shepard["bins"], shepard["bins"])
    assert counts.sum() == shepard["n_pairs"] == 150 * 149 // 2
    _, reached = distance_pairs(result.graph, result.coordinates)
    assert counts[0].sum() == np.sum(reached < shepard["ends"][1] / shepard["bins"])
    # The policy allows the page's own scripts only, and nothing is loaded.
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    hashes = {base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts}
    assert set(re.findall(r"'sha256-([^']*)'", policy)) == hashes
    assert len(hashes) == 1
    assert "eval" not in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe-inline" not in policy.split("style-src")[0]
    assert not re.search(r"https?://|@import|url\(", text.replace(scripts[0], ""))


def test_strings_cannot_leave_their_place(write, result):
    verdict = SimpleNamespace(code=EVIL, severity='"><img src=x>', text=EVIL, advice=EVIL)
    text, found = write(
        result,
        title=EVIL,
        names=[f"{EVIL}{i}" for i in range(150)],
        columns={EVIL: np.full(150, EVIL), "{{ data }}": np.full(150, "<!--&\u2028{% if %}")},
        diagnosis=SimpleNamespace(verdicts=(verdict,), curvature=np.full(150, np.nan)),
    )
    assert "window.owned" not in re.sub(r"\\u003cscript\\u003ewindow|&lt;script&gt;window", "", text)
    assert text.count("<script") == 2
    assert "<img" not in text.split("<script>")[0]
    assert "\u2028" not in text.split("<script>")[0]
    assert [c["levels"] for c in found["columns"][:2]] == [[EVIL], ["<!--&\u2028{% if %}"]]
    assert found["columns"][1]["name"] == "{{ data }}"


def test_the_diagnosis_is_run_and_shown(write, result):
    verdicts = (
        SimpleNamespace(code="graph_too_sparse", severity="problem", text="Too few.", advice="More & more."),
        SimpleNamespace(code="flat", severity="info", text="It is flat.", advice="Nothing."),
    )
    curvature = np.where(np.arange(150) < 3, np.nan, 0.25)
    text, found = write(result, diagnosis=SimpleNamespace(verdicts=verdicts, curvature=curvature))
    assert '<li class="problem"><b>graph too sparse</b> Too few.' in text
    assert "More &amp; more." in text
    assert text.index("graph too sparse") < text.index("It is flat.")
    np.testing.assert_array_equal(column(found, "curvature"), curvature.astype(np.float32))
    # The worst verdict is the badge.
    assert '<a class="badge problem" href="#verdict">graph too sparse</a>' in text
    expected = diagnose(result)
    assert expected.verdicts
    # Coordinates with their graph, as they come from a file, are judged alike.
    for source, graph in ((result, None), (result.coordinates, result.graph)):
        text, found = write(source, graph=graph, diagnosis=True)
        for verdict in expected.verdicts:
            assert f"<b>{verdict.code.replace('_', ' ')}</b>" in text
            assert verdict.text in html.unescape(text)
        np.testing.assert_allclose(column(found, "misfit"), local_fit(result)[0], rtol=1e-4, atol=1e-7)


def test_north_is_up_and_stages_are_told(write, sheet, caplog):
    """Columns lon and lat give the direction, and the logger hears what is being done."""
    caplog.set_level("INFO", logger="isoweave")
    turned = np.column_stack([sheet[:, 1], sheet[:, 0]])
    _, found = write(turned, columns={"Lat": 5.0 + sheet[:, 1], "lon": 20.0 + sheet[:, 0]})
    drawn = np.column_stack([decode(axis) for axis in found["coordinates"]])
    np.testing.assert_allclose(drawn - drawn.mean(axis=0), sheet - sheet.mean(axis=0), atol=1e-6)
    assert found["truth"] is None
    stages = [str(record.isoweave_event) for record in caplog.records]
    assert stages[0] == "report: diagnosis"
    assert stages[-1] == "report: writing the page"


def test_misfit_is_the_energy_by_vertices(result):
    misfit, stretch = local_fit(result)
    np.testing.assert_allclose(stretch, result.stretch, rtol=1e-8)
    # Frames of edges of one length weigh the same; here their squared lengths are the weights of the mean.
    graph = result.graph
    mass = np.add.reduceat(graph.lengths**2, graph.indptr[:-1])
    assert np.sum(mass * misfit**2) / np.sum(mass) == pytest.approx(result.relative_energy, rel=0.02)
    np.testing.assert_allclose(diagnose(result).misfit, misfit, rtol=1e-8)
    # An exact map has none.
    points = np.random.default_rng(83).normal(size=(12, 2))
    points[5] = points[4]
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    rows, cols = np.nonzero(~np.eye(12, dtype=bool))
    graph = sp.coo_array((distances[rows, cols], (rows, cols)), shape=(13, 13))
    there = np.vstack([points, [[0.0, 0.0]]])
    misfit, stretch = local_fit(as_embedding(3e-200 * there, graph * 3e-200))
    np.testing.assert_allclose(misfit[:12], 0.0, atol=1e-7)
    np.testing.assert_allclose(stretch[:12], 1.0)
    assert np.isnan(misfit[12])
    assert local_fit(as_embedding(there, graph * 0.0)) is None


def test_coordinates_alone_and_vertices_that_were_not_embedded(write, sheet):
    points = np.random.default_rng(37).normal(size=(20, 5))
    text, found = write(points, diagnosis=True)
    assert found["graph"] is found["shepard"] is None
    values = np.linalg.eigvalsh(np.cov(points.T))[::-1]
    np.testing.assert_allclose(found["principal"]["shares"], values / values.sum())
    assert "measured distances were not given" in text
    assert "A diagnosis needs the measured distances" in text
    two = sp.block_diag([knn_graph(sheet, 8).to_matrix(), knn_graph(sheet[:40], 8).to_matrix()], format="csr")
    with pytest.warns(UserWarning, match="component"):
        text, found = write(embed_graph(two, n_components=2, components="largest"))
    assert "<dt>not embedded</dt><dd>40</dd>" in text
    assert np.isnan(column(found, "stretch")[150:]).all()
    assert found["shepard"]["n_pairs"] == 150 * 149 // 2


KINDS = [
    (np.arange(6) % 3, ["0", "1", "2"]),
    (np.array([3.0, np.nan, 3, 4, 4, 4]), ["3", "4"]),
    (np.array(["b 10", "b 2", "a", "b 1", "B 3", "b 10"]), ["a", "b 1", "b 2", "B 3", "b 10"]),
    (np.array([True, False, True, True, True, True]), ["False", "True"]),
    (np.array(["b", "a", None, "b", "a", "a"], dtype=object), ["a", "b"]),
    (pd.Series(["x", None, "y", "x", "x", "x"]), ["x", "y"]),
    (pd.Categorical(["u", "v", "u", "u", "v", "u"]), ["u", "v"]),
    (pd.array([1, None, 3, 4, 5, 6], dtype="Int64"), ["1", "3", "4", "5", "6"]),
    (np.array([0.5, np.nan, 3, 4, 4, np.inf]), np.array([0.5, np.nan, 3, 4, 4, np.nan])),
    (np.array([1.5, None, 2, 3, 4, 5], dtype=object), np.array([1.5, np.nan, 2, 3, 4, 5])),
    (2**40 + np.arange(6.0) + 0.5, 2**40 + np.arange(6.0) + 0.5),
]


def test_kinds_of_columns_and_data_frames(write):
    columns = {str(number): values for number, (values, _) in enumerate(KINDS)}
    _, found = write(np.random.default_rng(3).normal(size=(6, 2)), columns=columns)
    for (values, expected), kept in zip(KINDS, found["columns"], strict=True):
        if isinstance(expected, list):
            assert kept["levels"] == expected
            assert ((decode(kept["codes"]) < 0) == pd.Series(values).isna().to_numpy()).all()
        else:
            np.testing.assert_allclose(decode(kept["numbers"]), expected, rtol=1e-7)
    for kind in (pd.DataFrame, polars.DataFrame):
        _, found = write(np.zeros((6, 2)), columns=kind({"a": np.arange(6) / 4, "b": list("xyzxyz")}))
        assert [c["name"] for c in found["columns"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"columns": {"a": np.zeros(7)}}, ValueError, r"Column 'a' must have shape \(6,\), got \(7,\)"),
        ({"columns": np.zeros(6)}, TypeError, "columns must be a mapping of names to arrays"),
        ({"columns": {"a": np.zeros(6, dtype=complex)}}, TypeError, "'a' holds complex numbers"),
        ({"columns": {"1": np.zeros(6), 1: np.zeros(6)}}, ValueError, "Two columns are named '1'"),
        ({"names": ["a"]}, ValueError, "names has 1 entries, but the map has 6 points"),
        ({"names": "abcdef"}, TypeError, "names must be one name per point"),
        ({"diagnosis": "yes"}, TypeError, "diagnosis must be True, False or what isoweave.diagnose"),
        ({"align": np.zeros((6, 3))}, ValueError, r"align must have shape \(6, d\) with d from 1 to 2"),
        ({"align": np.full((6, 2), np.nan)}, ValueError, "fewer than two points"),
        ({"view": np.zeros((6, 3))}, ValueError, r"view must have shape \(6, 2\), got \(6, 3\)"),
        ({"beside": np.zeros((5, 2))}, ValueError, "beside has 5 points, but the map has 6"),
        ({"beside": {"a": np.zeros((6, 2)), "b": np.zeros((6, 2))}}, ValueError, "one map"),
        ({"faces": np.zeros((2, 4), int)}, ValueError, r"shape \(m, 3\), got int64 \(2, 4\)"),
        ({"faces": np.array([[0, 1, 6]])}, ValueError, "vertex 6, but the map has 6 points"),
        ({"faces": np.array([[0.0, 1.0, 2.0]])}, ValueError, "whole numbers"),
        ({"path": "r.txt"}, ValueError, r"must end in \.html"),
        ({"path": "none/r.html"}, OSError, "does not exist"),
    ],
)
def test_bad_input_leaves_no_file(tmp_path, options, error, match):
    path = tmp_path / options.pop("path", "r.html")
    with pytest.raises(error, match=match):
        write_report(np.random.default_rng(3).normal(size=(6, 2)), path, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"isoweave\[report\]"):
        write_report(np.zeros((3, 2)), tmp_path / "r.html")


def test_in_a_notebook(result):
    """A picture of every point, the numbers, names as text; and one line elsewhere."""
    named = replace(result, names=tuple(f"{EVIL}{i}" for i in range(150)))
    text = named._repr_html_()
    assert text.count("<circle") == 150
    assert "<script" not in text
    assert scale_sentence(result, diagnose(result).verdicts) in text
    worst = diagnose(result).verdicts[0]
    assert worst.code.replace("_", " ") in text
    assert html.escape(worst.text) in text
    wide = as_embedding(np.random.default_rng(5).normal(size=(3000, 5)))
    assert wide._repr_html_().count("<circle") == 2000
    deep = embed_graph(result.graph.to_matrix(), n_components=3)
    assert edge_errors(deep) in deep._repr_html_()
    assert repr(wide) == "<Embedding of 3,000 points in 5 dimensions>"
    assert (
        repr(result) == f"<Embedding of 150 points in 2 dimensions: {result.graph.n_edges} edges, converged>"
    )


def test_roads_in_a_notebook_are_lines():
    """A line per edge, between the places of its ends; but not for points that are joined to many."""
    side = 6
    number = np.arange(side * side).reshape(side, side)
    pairs = np.vstack(
        [
            np.column_stack((a.ravel(), b.ravel()))
            for a, b in ((number[:, 1:], number[:, :-1]), (number[1:], number[:-1]))
        ]
    )
    grid = sp.coo_array((np.ones(len(pairs)), pairs.T), shape=(side**2,) * 2)
    places = np.column_stack(np.divmod(np.arange(side**2), side)).astype(float)
    text = as_embedding(places, sp.csr_array(grid + grid.T))._repr_html_()
    lines = re.findall(r"M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)", text)
    assert len(lines) == len(pairs)
    ends = np.array(lines, dtype=float)
    np.testing.assert_allclose(np.hypot(*(ends[:, :2] - ends[:, 2:]).T), (260 - 16) / (side - 1), atol=0.15)
    assert "<circle" not in text


def test_numbers_are_short_where_that_is_fine():
    for numbers, kind in (
        (np.linspace(0.0, 1.0, 50), "f4"),
        # Metres of a map grid: 32 bits would move points by half a metre.
        (5.4e6 + np.linspace(0.0, 100.0, 50), "f8"),
        (np.array([1e200, 3e200]), "f8"),
        (np.array([1e-200, 3e-200]), "f8"),
        (np.full(4, np.nan), "f4"),
    ):
        assert encode_numbers(numbers)["type"] == kind
    np.testing.assert_array_equal(decode(encode(np.arange(5, dtype=">i4"))), np.arange(5))
