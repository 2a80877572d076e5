"""Sphinx settings: ``make docs`` builds the pages, runs the examples, and takes warnings as errors."""

from __future__ import annotations

import ast
import importlib
import inspect
import logging
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

from sphinx.ext.autodoc.mock import mock

import isoweave

project = "isoweave"
author = "isoweave developers"
copyright = author
version = release = isoweave.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
# Blocks without a language are formulas and listings.
highlight_language = "none"

# The gallery shows what examples print, not what the package logs.
logging.getLogger("isoweave").setLevel(logging.WARNING)

html_theme = "furo"
html_title = f"isoweave {release}"
# Fonts and scripts come with the theme; the pages open without a network.
html_copy_source = False

myst_heading_anchors = 4

# Tables of names on top of every page of the reference; no pages of their own.
autosummary_generate = False
autodoc_typehints = "none"
# Large, and not needed to describe what uses it.
autodoc_mock_imports = ["torch"]
autodoc_member_order = "bysource"
napoleon_use_rtype = False
napoleon_use_ivar = True
# An array "of shape (n, N)" is no cross-reference.
napoleon_preprocess_types = False

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"


def without_title(path: Path) -> bool:
    """Whether a script lacks the underlined title that the gallery lists it by."""
    lines = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()
    return len(lines) < 2 or not lines[1].startswith("====")


# gallery_arguments.py is named, not handed over: settings are compared between builds.
sys.path.insert(0, str(HERE))

sphinx_gallery_conf = {
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": "|".join(
        [r"__init__\.py", *(re.escape(path.name) for path in EXAMPLES.glob("*.py") if without_title(path))]
    ),
    "within_subsection_order": "FileNameSortKey",
    "reset_argv": "gallery_arguments.arguments",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,
}

# Behind the command line, or not for users.
NOT_SHOWN = {"engines", "cli", "experiments"}
ALSO_SHOWN = ("isoweave.experiments.baselines", "isoweave.tl")


def api_pages() -> dict[str, str]:
    """One page per public package, so that none can be forgotten, with the names that it imports."""
    pages = {"isoweave": top_page()}
    packages = [found.name for found in pkgutil.iter_modules(isoweave.__path__, "isoweave.") if found.ispkg]
    shown = [name for name in packages if name[9] != "_" and name[9:] not in NOT_SHOWN]
    for module in (*shown, *ALSO_SHOWN):
        with mock(autodoc_mock_imports):
            found = importlib.import_module(module)
        homes = {name: str(getattr(thing, "__module__", "")) for name, thing in vars(found).items()}
        own = [name for name, home in homes.items() if home.startswith(module)]
        names = sorted(name for name in getattr(found, "__all__", own) if not name.startswith("_"))
        if names:
            text = f".. automodule:: {module}\n   :members: {', '.join(names)}\n"
            elsewhere = sorted(set(names) & set(isoweave.__all__))
            if elsewhere:
                text += f"   :exclude-members: {', '.join(elsewhere)}\n\nOn the page of ``isoweave`` itself: "
                text += ", ".join(f":py:obj:`~isoweave.{name}`" for name in elsewhere) + ".\n"
            table = summary(module, [name for name in names if name not in isoweave.__all__])
            pages[module] = f"{module}\n{'=' * len(module)}\n\n{table}{text}"
    return pages


def summary(module: str, names: list[str]) -> str:
    """A table of names, each with the first line of its description."""
    shown = [name for name in names if callable(getattr(sys.modules[module], name))]
    rows = "".join(f"   ~{module}.{name}\n" for name in shown)
    return f".. autosummary::\n   :nosignatures:\n\n{rows}\n" if shown else ""


def top_page() -> str:
    """The names of ``isoweave`` itself, the estimator first with the methods that are its own."""
    names = sorted(isoweave.__all__, key=lambda name: (name != "IsometricEmbedding", name.lower()))
    lines = ["isoweave", "========", ""]
    lines += [summary("isoweave", [name for name in names if not name.startswith("_")])]
    for name in names:
        thing = getattr(isoweave, name)
        if name.startswith("_"):
            continue
        kind = "autofunction"
        if inspect.isclass(thing):
            kind = "autoexception" if issubclass(thing, Exception) else "autoclass"
        lines.append(f".. {kind}:: isoweave.{name}")
        if name == "IsometricEmbedding":
            # Those of scikit-learn refer to pages of its own documentation.
            own = [
                method
                for method, value in inspect.getmembers(thing, callable)
                if not method.startswith("_") and value.__module__.startswith("isoweave")
            ]
            lines.append(f"   :members: {', '.join(own)}")
        lines.append("")
    return "\n".join(lines)


def write_pages(folder: Path, pages: dict[str, str]) -> None:
    """Write what has changed and remove what is no more: unchanged pages are not built again."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


write_pages(HERE / "api", api_pages())

# Files beside this folder, and the pages that include them.
INCLUDED = {
    "../CHANGELOG.md": "changes.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../README.md": "index.md",
    "../SECURITY.md": "security.md",
}


def adapt_source(app: Any, docname: str, content: list[str]) -> None:
    """Links that lead out of this folder lead to pages."""
    for file, page in INCLUDED.items():
        content[0] = content[0].replace(f"]({file}", f"]({page}")
    if docname == "api":
        rows = [
            f"| [`{page.stem}`](api/{page.name}) | {first_line(page.stem)} |"
            for page in sorted((HERE / "api").glob("*.rst"))
        ]
        content[0] = content[0].replace("<!-- packages -->", "\n".join(["| package | |", "|---|---|", *rows]))


def first_line(module: str) -> str:
    """What a package says it is."""
    with mock(autodoc_mock_imports):
        described = importlib.import_module(module).__doc__ or ""
    return described.strip().splitlines()[0].replace("``", "`") if described else ""


def setup(app: Any) -> None:
    app.connect("source-read", adapt_source)
