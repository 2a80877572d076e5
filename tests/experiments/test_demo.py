from __future__ import annotations

import sys

import numpy as np
import pytest
from PIL import Image

from isoweave.cli import _reproduce as _demo
from isoweave.experiments._figures import aligned
from isoweave.experiments.demo import DemoResult, demo_cases, run_case, write_demo_page


@pytest.fixture(scope="module")
def cases():
    return demo_cases()


def test_demo_writes_table_figures_and_page(tmp_path, capsys):
    _demo.run_demo_command(tmp_path / "out")
    printed = capsys.readouterr().out
    for word in ("swiss_roll", "digits", "isoweave", "Isomap", "F1", "seconds", "index.html"):
        assert word in printed
    for name in ("swiss_roll.png", "digits.png"):
        with Image.open(tmp_path / "out" / name) as image:
            pixels = np.asarray(image.convert("L"))
        assert pixels.shape[1] >= 900
        assert pixels.std() > 1  # something is drawn
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2
    assert page.count("<tr>") == 5
    assert "{" not in page.split("</style>")[1]


def test_ours_keeps_neighbourhoods_better_than_isomap(cases):
    ours, isomap = run_case(cases[0])
    assert (ours.method, isomap.method) == ("isoweave", "Isomap")
    assert ours.scores["f1"] > isomap.scores["f1"]
    assert ours.scores["local_distance"] < isomap.scores["local_distance"]
    assert ours.scores["procrustes_error"] < isomap.scores["procrustes_error"]
    assert "accuracy" not in ours.scores


def test_page_without_figures(tmp_path, cases):
    scores = {"f1": 0.5, "local_distance": 0.25, "accuracy": 0.9375}
    result = DemoResult("<ours>", cases[1].dataset.data, scores, 1.0)
    page = write_demo_page([(cases[1], result)], {}, tmp_path).read_text(encoding="utf-8")
    assert "<img" not in page
    assert "<td>&lt;ours&gt;</td><td>0.500</td><td>0.250</td><td></td><td>0.938</td>" in page


def test_without_optional_packages(tmp_path, capsys, cases, monkeypatch):
    monkeypatch.setattr(_demo, "find_spec", lambda name: None)
    monkeypatch.setattr(_demo.demo, "demo_cases", lambda: cases[:1])
    _demo.run_demo_command(tmp_path)
    printed = capsys.readouterr().out
    assert "isoweave[plot]" in printed
    assert "isoweave[report]" in printed
    assert not list(tmp_path.iterdir())
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"isoweave\[report\]"):
        write_demo_page([], {}, tmp_path)


def test_maps_are_laid_over_the_truth(cases):
    """A reflected and rotated copy of the truth is drawn as the truth itself."""
    truth = cases[0].dataset.truth
    moved = truth @ np.array([[0.6, 0.8], [0.8, -0.6]]) + 5.0
    np.testing.assert_allclose(
        aligned(moved, truth), truth - truth.mean(axis=0), rtol=0, atol=1e-12 * np.abs(truth).max()
    )


def test_maps_are_seen_along_their_longest_axes():
    points = np.random.default_rng(31).normal(size=(200, 4)) * [1.0, 9.0, 0.1, 5.0]
    plane = aligned(points, points)
    np.testing.assert_allclose(plane.std(axis=0), points.std(axis=0)[[1, 3]], rtol=0.05)
    np.testing.assert_allclose(aligned(3.0 - points[:, ::-1], points), plane, rtol=0, atol=1e-12 * 30)
