"""``isoweave embed --anchors``, and the tables it reads."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from isoweave.cli import app
from isoweave.datasets import sensor_network
from isoweave.io import InputFileError, read_anchors

NET = sensor_network(150, radius=0.2, n_anchors=5, random_state=6)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write_anchors(path, names=None):
    rows = [
        f"{a if names is None else names[a]},{float(x)!r},{float(y)!r}"
        for a, (x, y) in zip(NET.anchors, NET.truth[NET.anchors], strict=True)
    ]
    path.write_text("\n".join(["sensor,x,y", *rows]) + "\n")


def test_map_is_in_the_anchors_coordinates(tmp_path):
    sp.save_npz(tmp_path / "a.npz", NET.graph)
    write_anchors(tmp_path / "known.csv")
    arguments = ("embed", tmp_path / "a.npz", "-o", tmp_path / "y.npz", "--refine", "distances")
    result = run(*arguments, "--anchors", tmp_path / "known.csv")
    assert result.exit_code == 0, result.output
    found = np.load(tmp_path / "y.npz")["embedding"]
    np.testing.assert_array_equal(found[NET.anchors], NET.truth[NET.anchors])
    assert np.abs(found - NET.truth).max() < 0.02
    soft = run(*arguments, "--anchors", tmp_path / "known.csv", "--anchor-weight", 0.5)
    assert soft.exit_code == 0, soft.output
    assert not np.array_equal(np.load(tmp_path / "y.npz")["embedding"], found)


def test_vertices_by_name(tmp_path):
    names = [f"s{i}" for i in range(150)]
    edges = sp.triu(NET.graph).tocoo()
    lines = [
        f"{names[i]} {names[j]} {d!r}"
        for i, j, d in zip(edges.row, edges.col, edges.data.tolist(), strict=True)
    ]
    (tmp_path / "net.edges").write_text("\n".join(lines) + "\n")
    write_anchors(tmp_path / "known.csv", names)
    result = run(
        "embed", tmp_path / "net.edges", "-o", tmp_path / "y.csv", "--anchors", tmp_path / "known.csv"
    )
    assert result.exit_code == 0, result.output
    by_name = {
        line.split(",")[0]: [float(c) for c in line.split(",")[1:3]]
        for line in (tmp_path / "y.csv").read_text().splitlines()[1:]
    }
    for a in NET.anchors:
        np.testing.assert_array_equal(by_name[f"s{a}"], NET.truth[a])


def test_weight_without_anchors(tmp_path):
    sp.save_npz(tmp_path / "a.npz", NET.graph)
    result = run("embed", tmp_path / "a.npz", "-o", tmp_path / "y.npz", "--anchor-weight", 1.0)
    assert result.exit_code == 2
    assert "anchor_weight was given without anchors" in result.output
    assert not (tmp_path / "y.npz").exists()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "holds no anchors"),
        ("sensor,x,y\n", "holds no anchors"),
        ("0,1,2\n7,1,2\n", "line 2: expected a vertex number from 0 to 4, found '7'"),
        ("-1,1,2\n", "line 1: expected a vertex number"),
        ("1.0,1,2\n", "expected a vertex number"),
        ("0,1,2\n1,2\n", "line 2: expected a vertex and 2 coordinates, found 2 cells"),
        ("0,1,2\n0,2,3\n", "line 2: vertex '0' was given on line 1 already"),
        ("0,1,2\n1,nan,3\n", "line 2: cell 2 holds 'nan', not a finite number"),
        ("0,1,2\n1,,3\n", "line 2: cell 2 holds ''"),
        ("0\n", "expected a vertex and 1 coordinates, found 1 cells"),
    ],
)
def test_bad_tables(tmp_path, text, match):
    path = tmp_path / "known.csv"
    path.write_text(text)
    with pytest.raises(InputFileError, match=match):
        read_anchors(path, 5)


def test_unknown_names_and_suffixes(tmp_path):
    path = tmp_path / "known.csv"
    path.write_text("z,1,2\n")
    with pytest.raises(InputFileError, match="no vertex is named 'z'"):
        read_anchors(path, 3, names=("a", "b", "c"))
    with pytest.raises(InputFileError, match=r"read from \.csv, \.tsv or \.txt"):
        read_anchors(tmp_path / "known.npz", 3)
