"""`isoweave reproduce`, and its page in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from isoweave.cli import _reproduce, app
from isoweave.cli._console import duration as _duration
from isoweave.cli._reproduce import _skipped_lines

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# Tells, in the page itself, what a browser made of it.
PROBE = """<script>
window.addEventListener("load", () => {
  const images = [...document.images];
  document.body.dataset.found = JSON.stringify({
    images: images.length,
    decoded: images.filter(i => i.complete && i.naturalWidth > 300 && i.naturalHeight > 100).length,
    tables: document.querySelectorAll("table").length,
    rows: document.querySelectorAll("section:not(#summary) tbody tr").length,
    summary: document.querySelectorAll("#summary tbody tr").length,
    widest: Math.max(...images.map(i => i.getBoundingClientRect().right)) - window.innerWidth,
    loaded: performance.getEntriesByType("resource").filter(r => !r.name.startsWith("data:")).length,
  });
});
</script></body>"""


def invoke(*arguments):
    return CliRunner().invoke(app, ["reproduce", *(str(argument) for argument in arguments)])


@pytest.fixture(scope="module")
def out(tmp_path_factory, tiny, data_folder):
    """Output of a tiny run with box plots, curves, maps and something skipped."""
    folder = tmp_path_factory.mktemp("reproduce") / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_reproduce.experiments, "QUICK", tiny)
        options = ("--out", folder, "--quick", "--methods", "default,isomap", "--methods", "lle")
        for names, data in ((("torus", "swiss"), data_folder), (("mnist",), folder)):
            result = invoke(*names, *options, "--data", data)
            assert result.exit_code == 0, result.output
    assert "skipped: groups of 1,000: Looked for" in result.stdout
    assert "quick run" in result.stderr
    return folder


def test_what_is_written(out):
    written = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    expected = {"index.html", "records.jsonl", "figures/torus_scores.png", "figures/torus_scores.svg"}
    expected |= {"figures/torus_k10_maps.png", "figures/swiss_k.png", "maps/torus-k10-default-tiny.npz"}
    expected |= {f"{name}.{suffix}" for name in ("torus", "swiss") for suffix in ("md", "csv", "json")}
    assert expected <= written
    assert "Tiny run" in (out / "torus.md").read_text(encoding="utf-8")
    assert len((out / "records.jsonl").read_text().splitlines()) == 9


def test_page_needs_nothing_else(out):
    text = (out / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|<script|@import|url\(", text)
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert all(source.startswith(("data:", "#")) for source in sources)
    assert "Tiny run" in text
    assert "Skipped: mnist" in text


def test_page_in_a_browser(out, tmp_path):
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    text = (out / "index.html").read_text(encoding="utf-8")
    page = tmp_path / "page.html"
    page.write_text(text.replace("</body>", PROBE), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1280,1000"]
    # A browser at rest calls home; nothing but the page is to be looked at here.
    command += ["--no-first-run", "--disable-background-networking", "--disable-component-update"]
    command += ["--disable-sync", "--disable-quic"]
    # Whatever the page asked for by name would not be found.
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr
    found = json.loads(re.search(r'data-found="([^"]*)"', done.stdout)[1].replace("&quot;", '"'))
    assert found["images"] == found["decoded"] == 3
    # One for every row and the summary of them.
    assert found["tables"] == 4
    assert found["rows"] == 3 * 3 + 7
    summary = (out / "summary.md").read_text(encoding="utf-8")
    assert found["summary"] == summary.count("\n|") - 2 > 0
    assert found["loaded"] == 0
    assert found["widest"] <= 0


def test_errors_are_one_line(tmp_path):
    for arguments, message in (
        (("swis",), "unknown experiment 'swis'"),
        (("torus", "--methods", "isomop"), "unknown method 'isomop'"),
        (("torus", "--seeds", "0"), "--seeds must be at least 1, got 0"),
    ):
        result = invoke(*arguments, "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert message in result.stderr
        assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_missing_packages_are_said(tmp_path, tiny, monkeypatch):
    """Without pandas at once; without matplotlib and jinja2 there are tables, and no figures or page."""
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pandas", None)
        result = invoke("torus", "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert "pip install 'isoweave[experiments]'" in result.stderr
        assert not (tmp_path / "out").exists()
    monkeypatch.setattr(_reproduce.experiments, "QUICK", tiny)
    monkeypatch.setattr(_reproduce, "find_spec", lambda name: None)
    result = invoke("torus", "--out", tmp_path, "--quick", "--methods", "isomap")
    assert result.exit_code == 0, result.output
    assert "isoweave[plot]" in result.stdout
    assert "isoweave[experiments]" in result.stdout
    assert {path.name for path in tmp_path.glob("*.*")} == {
        "records.jsonl",
        "torus.md",
        "torus.csv",
        "torus.json",
    }


def test_texts():
    assert [_duration(s) for s in (12.3, 600.0, 9000.0)] == ["12 s", "10 min", "2.5 h"]
    lines = _skipped_lines(["a, umap: not here", "b, umap: not here", "b, x: other"])
    assert lines == ["skipped: umap: not here (a, b)", "skipped: x: other (b)"]
