"""A diagnosis in words."""

from __future__ import annotations

from isoweave.diagnostics._result import Diagnosis, EnergySplit

_MARKS = {"info": "  ok ", "warn": " note", "problem": "  !! "}
_KINDS = {
    "flat": "flat",
    "curved": "curved",
    "closed": "closed",
    "non_orientable": "one-sided",
    "uncertain": "of uncertain shape",
}


def page(diagnosis: Diagnosis) -> str:
    """Findings with advice, and the numbers below them."""
    d = diagnosis
    what = "map" if d.map is not None else "graph"
    lines = [f"{what} of {d.n_vertices:,} vertices and {d.n_edges:,} edges in {d.n_components} dimensions"]
    for v in d.verdicts:
        lines.append(f"{_MARKS[v.severity]} {v.code}: {v.text}")
        lines.append(f"      -> {v.advice}")
    lines.append("numbers")
    estimate = "unknown" if d.dimension.estimate is None else f"{d.dimension.estimate:.2f}"
    lines.append(f"      dimension of the data: {estimate} by distances, {d.dimension.local} by directions")
    for s in d.shapes:
        where = f"component {s.component} " if len(d.shapes) > 1 else ""
        sampled = f" (sample of {s.n_used:,})" if s.n_used < s.n_vertices else ""
        text = f"      shape: {where}{_KINDS[s.kind]} in {s.dimension} dimensions{sampled}"
        if s.kind == "curved" and s.curvature is not None:
            text += f", curvature {s.curvature:.2g}"
        lines.append(text)
    if d.map is not None:
        m = d.map
        lines.append(
            f"      edges: {m.edge_error:.1%} off in the mean, 5 to 95 % from {m.edge_low:+.1%} to "
            f"{m.edge_high:+.1%}, {m.edge_within:.0%} within 10 %, {m.torn:.1%} torn"
        )
        lines.append(
            f"      stretch: median {m.stretch_median:.2f}, 5 to 95 % from {m.stretch_low:.2f} to "
            f"{m.stretch_high:.2f}, {m.stretch_within:.0%} of the vertices within 10 %"
        )
        lines.append(f"      energy: {energy_line(m.energy)}")
    return "\n".join(lines)


def energy_line(split: EnergySplit) -> str:
    """Parts of an energy, in words."""
    text = f"{split.total:.2%} of a collapsed map; frames disagree {split.disagreement:.2%}, "
    if split.curl is None or split.loops is None:
        text += f"irremovable {split.irremovable:.2%}"
    else:
        text += f"small loops {split.curl:.2%}, long loops {split.loops:.2%}"
    return f"{text}, removable {split.removable:.2%}"


def summary_line(diagnosis: Diagnosis) -> str:
    """How well edges are kept, the kind of shape, and the findings that ask for action."""
    d = diagnosis
    parts = []
    if d.map is not None:
        parts.append(f"edges {d.map.edge_error:.1%} off, {d.map.edge_within:.0%} within 10 %")
    if d.shapes:
        parts.append(f"data {_KINDS[d.shapes[0].kind]}")
    asked = [v.code for v in d.verdicts if v.severity != "info"]
    if asked:
        parts.append(", ".join(asked).replace("_", " "))
    elif d.verdicts:
        parts.append(d.verdicts[0].code.replace("_", " "))
    return "; ".join(parts)
