"""The page around the data: what needs no script, and the policy that keeps it from the network."""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from isoweave.metrics import METRIC_MEANINGS
from isoweave.report._encode import embed_json

_SCRIPTS = ("decode.js", "geometry.js", "color.js", "map.js", "panels.js", "main.js")


@dataclass(frozen=True, eq=False)
class Sections:
    """The parts of a page that are text.

    Attributes
    ----------
    title : str
    facts : mapping of str to str
    notes : sequence of str
    verdicts : sequence of objects with code, severity, text and advice
    no_verdict : str or None
        Why there are none.
    scores : mapping of str to float
    parameters : mapping
    """

    title: str
    facts: Mapping[str, str]
    notes: Sequence[str]
    verdicts: Sequence[Any]
    no_verdict: str | None
    scores: Mapping[str, float]
    parameters: Mapping[str, Any]


def import_plotlyjs() -> str:
    """The text of plotly.js, or an error that names the extra."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("Reports need plotly: pip install 'isoweave[report]'.") from error
    # The hash of a script is that of its text as the browser reads it, with line feeds only.
    text: str = get_plotlyjs().replace("\r\n", "\n").replace("\r", "\n")
    lower = text.lower()
    if "</script" in lower or ("<!--" in lower and "<script" in lower):
        raise RuntimeError(
            "This version of plotly.js cannot stand inside a page; try another version of plotly."
        )
    return text


def build_page(sections: Sections, payload: dict[str, Any], library: str) -> str:
    """The whole page.

    Parameters
    ----------
    sections : Sections
        Texts by anybody: all of them are escaped.
    payload : dict
        What the script draws.
    library : str
        plotly.js.
    """
    folder = resources.files("isoweave.report") / "page"
    script = '"use strict";\n(() => {\n' + "\n".join(_read(folder, name) for name in _SCRIPTS) + "})();\n"
    parts = {
        "POLICY": _policy(library, script),
        "TITLE": html.escape(sections.title),
        "STYLE": _read(folder, "page.css"),
        "FACTS": _facts(sections.facts),
        "NOTES": "".join(f"<p>{html.escape(note)}</p>" for note in sections.notes),
        "VERDICTS": _verdicts(sections),
        "SCORES": _scores(sections.scores),
        "PARAMETERS": _parameters(sections.parameters),
        "FOOTER": html.escape(_footer()),
        "DATA": embed_json(payload),
        "LIBRARY": library,
        "SCRIPT": script,
    }
    # In one pass: what stands in a text must never be taken for a placeholder.
    return re.sub(r"@@([A-Z]+)@@", lambda match: parts[match[1]], _read(folder, "page.html"))


def _read(folder: Any, name: str) -> str:
    text: str = (folder / name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def _policy(*scripts: str) -> str:
    """Nothing is loaded from anywhere, and only the page's own scripts run.

    plotly's WebGL traces compile drawing commands with Function(), hence 'unsafe-eval'; what may be compiled
    is still decided by the two scripts alone.
    """
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _facts(facts: Mapping[str, str]) -> str:
    return "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>"
        for name, value in facts.items()
    )


def _verdicts(sections: Sections) -> str:
    if not sections.verdicts:
        return f"<p>{html.escape(sections.no_verdict or 'Nothing was found.')}</p>"
    items = []
    for verdict in sections.verdicts:
        # Only the three known severities become a class.
        kind = verdict.severity if verdict.severity in ("info", "warn", "problem") else "info"
        items.append(
            f'<li class="{kind}"><b>{html.escape(verdict.code.replace("_", " "))}</b> '
            f'{html.escape(verdict.text)}<span class="advice">{html.escape(verdict.advice)}</span></li>'
        )
    return f'<ul id="verdicts">{"".join(items)}</ul>'


def _scores(scores: Mapping[str, float]) -> str:
    rows = []
    for name, (meaning, direction) in METRIC_MEANINGS.items():
        if name in scores:
            value = "undefined" if math.isnan(scores[name]) else f"{scores[name]:.4g}"
            better = "high" if direction > 0 else "low"
            rows.append(
                f"<tr><td>{html.escape(name.replace('_', ' '))}</td><td>{value}</td><td>{better}</td>"
                f"<td>{html.escape(meaning)}</td></tr>"
            )
    if not rows:
        return ""
    head = "<tr><th>metric</th><th>value</th><th>best</th><th>meaning</th></tr>"
    return f'<table id="metrics"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'


def _parameters(parameters: Mapping[str, Any]) -> str:
    if not parameters:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(str(name))}</td><td>{html.escape(_short(value))}</td></tr>"
        for name, value in parameters.items()
    )
    return f"<details><summary>Parameters</summary><table><tbody>{rows}</tbody></table></details>"


def _short(value: Any) -> str:
    text = f"array of shape {value.shape}" if hasattr(value, "shape") and value.shape else str(value)
    return text if len(text) <= 200 else text[:200] + "..."


def _footer() -> str:
    from isoweave import __version__

    return f"Made by isoweave {__version__} with plotly.js (MIT licence). No network is used."
