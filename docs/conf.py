"""Sphinx settings: ``make docs`` builds the pages, runs the examples, and takes warnings as errors."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import isoweave

project = "isoweave"
author = "isoweave developers"
copyright = author
version = release = isoweave.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["api/README.md"]
# Blocks without a language are formulas and listings.
highlight_language = "none"
# Pages of parts that are not there yet: the tables of contents name them by patterns.
suppress_warnings = ["toc.empty_glob", "config.cache"]

html_theme = "furo"
html_title = f"isoweave {release}"
# Fonts and scripts come with the theme; the pages open without a network.
html_copy_source = False

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_rtype = False
napoleon_use_ivar = True
# An array "of shape (n, N)" is no cross-reference.
napoleon_preprocess_types = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,
}


def write_api_pages(folder: Path) -> None:
    """One page per public package, so that no page can be forgotten; names come from ``__all__``."""
    folder.mkdir(exist_ok=True)
    names = ["isoweave"]
    for found in pkgutil.iter_modules(isoweave.__path__, "isoweave."):
        public = not found.name.rpartition(".")[2].startswith("_")
        if public and found.ispkg and getattr(importlib.import_module(found.name), "__all__", None):
            names.append(found.name)
    for name in names:
        options = ":members:\n:no-value:\n" if name != "isoweave" else ":members:\n:inherited-members:\n"
        title = name if name != "isoweave" else "isoweave: the public names"
        page = folder / f"{name}.rst"
        text = f"{title}\n{'=' * len(title)}\n\n.. automodule:: {name}\n"
        text += "".join(f"   {line}\n" for line in options.splitlines())
        # Unchanged pages keep their time, and are not built again.
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


write_api_pages(Path(__file__).parent / "api")
