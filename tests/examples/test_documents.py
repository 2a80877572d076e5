"""Code that pages invite to copy is executed; links inside the project lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXECUTED = ("README.md", "docs/getting_started.md", "docs/ecosystem.md", "docs/stages.md", "docs/dial.md")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def code_blocks(path):
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", EXECUTED)
def test_code_runs(name, monkeypatch, tmp_path, capsys):
    """All blocks of a page one after the other, as a reader would paste them."""
    monkeypatch.chdir(tmp_path)
    blocks = code_blocks(ROOT / name)
    assert blocks
    names: dict[str, object] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{name}, block {number}", "exec"), names)
    if name == "README.md":
        assert names["result"].status == "converged"


def heading_anchors(path):
    """As the hosting sites make them: lower case, without punctuation, hyphens for blanks."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target) or target.startswith("api/"):
            # Elsewhere, or made when the documentation is built.
            continue
        file, _, anchor = target.partition("#")
        page = (path.parent / file).resolve() if file else path
        assert page.exists(), f"{path.relative_to(ROOT)} links to {target}"
        if anchor and page.suffix == ".md":
            assert anchor in heading_anchors(page), f"{path.relative_to(ROOT)} links to {target}"
