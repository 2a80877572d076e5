"""Findings about the map itself."""

from __future__ import annotations

from collections.abc import Iterator

from isoweave.diagnostics._result import MapFacts, Verdict

# Mean error of the edges and share of torn ones up to which a map is isometric, and beyond which it is bad.
_KEPT_ERROR = 0.05
_KEPT_TORN = 0.005
_BAD_ERROR = 0.12
_BAD_TORN = 0.05
# Energy over that of the map fitted from synchronised frames.
_POOR = 1.5
_NOT_CONVERGED = ("max_iter", "stopped", "interrupted")


def keeps_edges(found: MapFacts) -> bool:
    """Whether a map is isometric as far as its edges tell."""
    return found.edge_error <= _KEPT_ERROR and found.torn <= _KEPT_TORN


def judge_map(found: MapFacts, *, is_flat: bool, explained: bool) -> Iterator[Verdict]:
    """What the map keeps.

    Parameters
    ----------
    found : MapFacts
    is_flat : bool
        Nothing about the shape of the data speaks against an isometric map.
    explained : bool
        Another finding says why edges cannot be kept.
    """
    if found.status in _NOT_CONVERGED:
        yield Verdict(
            "not_converged",
            "warn",
            f"the optimiser ended early ({found.status}); one more sweep would still remove "
            f"{found.energy.removable:.1%} of the energy of a collapsed map",
            "raise max_iter, or go on from here with start=coordinates",
            {"removable": found.energy.removable},
        )
    numbers = {"edge_error": found.edge_error, "edge_within": found.edge_within, "torn": found.torn}
    measured = f"edges are {found.edge_error:.1%} off in the mean, {found.edge_within:.0%} within 10 %"
    if keeps_edges(found):
        yield Verdict("isometric", "info", f"the map keeps lengths: {measured}", "use it", numbers)
        return
    ratio = found.against_relaxed
    if is_flat and ratio is not None and ratio >= _POOR:
        yield Verdict(
            "poor_minimum",
            "problem",
            f"a better map exists: the data are flat, but this map has {ratio:.1f} times the energy of one "
            f"fitted from synchronised frames; {measured}",
            "embed again with start='auto', 'synchronised' or 'coarse'; keep the map with less "
            "relative_energy",
            {**numbers, "against_relaxed": ratio},
        )
        return
    bad = found.edge_error > _BAD_ERROR or found.torn > _BAD_TORN
    if not explained and (is_flat or not bad):
        cause = (
            "the shape is flat, so this is noise of the distances"
            if is_flat
            else "no cause in the shape was found"
        )
        yield Verdict(
            "approximate",
            "warn" if bad else "info",
            f"{measured}; {cause}",
            "use it for what is larger than a neighbourhood; more neighbours or cleaner distances help, and "
            "colouring by stretch shows where",
            numbers,
        )
        return
    yield Verdict(
        "distorted",
        "warn" if explained else "problem",
        f"{measured}, and {found.torn:.1%} are torn or folded (off by half or more)",
        "see the other findings for the cause; colour the map by stretch to see where it cannot be trusted"
        if explained
        else "try another start, and more dimensions; colour the map by stretch to see where it fails",
        numbers,
    )
