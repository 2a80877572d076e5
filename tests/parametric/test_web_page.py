"""The examples, the code of the documentation, and the page that runs a network in the browser."""

import re
import runpy
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import isoweave

pytest.importorskip("torch", reason="needs the extra parametric (make test-parametric)")
import isoweave.parametric

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "build" / "web" / "node_modules" / "onnxruntime-web"


def test_images_through_a_convolutional_module(tmp_path, monkeypatch, capsys):
    options = ["--data", "digits", "--rows", "120", "--epochs", "1", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["images.py", *options])
    monkeypatch.setattr(isoweave.parametric._training, "_FEWEST_BATCHES", 2)
    runpy.run_path(str(ROOT / "examples" / "parametric" / "images.py"), run_name="__main__")
    assert "60 new images" in capsys.readouterr().out
    assert (tmp_path / "images.onnx").stat().st_size > 10_000


def test_the_code_of_the_documentation_runs(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    names = {"X": rng.random((60, 4)), "X_new": rng.random((5, 4)), "images": rng.random((40, 28, 28))}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(isoweave.parametric._training, "_FEWEST_BATCHES", 2)
    made = isoweave.parametric.ParametricIsometry
    quick = partial(made, max_epochs=1, n_jobs=1, device="cpu")
    monkeypatch.setattr(isoweave.parametric, "ParametricIsometry", quick)
    page = (ROOT / "docs" / "parametric.md").read_text(encoding="utf-8")
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, names)
    assert names["model"].transform(names["X_new"]).shape == (5, 2)
    assert {"map.onnx", "map.safetensors"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.skipif(not RUNTIME.is_dir(), reason="needs onnxruntime-web (make test-parametric, with npm)")
def test_a_drawn_digit_gets_a_place(browser, tmp_path, monkeypatch):
    page = tmp_path / "digits.html"
    options = ["--epochs", "3", "--runtime", str(RUNTIME), "--out", str(page)]
    monkeypatch.setattr(sys, "argv", ["draw_digits.py", *options])
    made = runpy.run_path(str(ROOT / "examples" / "web" / "draw_digits.py"))
    made["main"]()
    for size in ((1000, 900), (320, 640)):
        browser.resize(*size, mobile=size[0] < 500)
        browser.open(page.as_uri(), ready="window.isReady")
        # The network in the page agrees with the one that was trained.
        shown = browser.evaluate("JSON.parse(document.getElementById('content').textContent).points[0]")
        found = browser.evaluate("placeOf(example)")
        assert np.allclose(found, shown, atol=2e-3 * np.abs(shown).max() + 1e-3)
        assert browser.evaluate("document.documentElement.scrollWidth") <= size[0]
        before = np.asarray(browser.screenshot()).copy()
        box = browser.evaluate("(() => { const b = pad.getBoundingClientRect(); return [b.x, b.y]; })()")
        x, y = box[0] + 130, box[1]
        browser.mouse("mousePressed", x, y + 40, button="left", buttons=1, clickCount=1)
        for step in range(50, 240, 10):
            browser.mouse("mouseMoved", x, y + step, button="left", buttons=1)
        browser.mouse("mouseReleased", x, y + 240, button="left", buttons=0, clickCount=1)
        browser.wait("document.getElementById('place').textContent.startsWith('at ')")
        assert (np.asarray(browser.screenshot()) != before).any()
        assert browser.problems() == []
