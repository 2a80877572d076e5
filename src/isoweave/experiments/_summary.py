"""Who wins where: ours against the best of the others, in every row and measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isoweave.experiments._catalog import EXPERIMENTS
from isoweave.experiments._methods import METHODS
from isoweave.experiments._records import Records
from isoweave.experiments._spec import Experiment, Row, Scale
from isoweave.experiments._tables import SMALLER_IS_BETTER, TITLES, show

OURS = "default"
# Runs below which no spread is known; then differences under a hundredth count as none.
_FEWEST_RUNS = 3
_SAME = 0.01


@dataclass(frozen=True)
class Comparison:
    """One measure of one row.

    Attributes
    ----------
    experiment, row, metric : str
        Titles of the first two.
    ours, best_other : float
        Means over the seeds both have.
    other : str
        The method, apart from ours, with the best mean.
    winner : str or None
        Method; None where the paired difference is within two standard errors.
    """

    experiment: str
    row: str
    metric: str
    ours: float
    best_other: float
    other: str
    winner: str | None


def compare(records: Records, scale: Scale) -> list[Comparison]:
    """Compare ours with the best of the others wherever both have run."""
    found = []
    for experiment in EXPERIMENTS.values():
        for row in experiment.rows_for(scale):
            for metric in experiment.metrics:
                comparison = _compare(experiment, row, metric, records, scale)
                if comparison is not None:
                    found.append(comparison)
    return found


def _compare(
    experiment: Experiment, row: Row, metric: str, records: Records, scale: Scale
) -> Comparison | None:
    values: dict[str, dict[int, float]] = {}
    for name in METHODS:
        if metric == "parameter_error" and name == experiment.reference:
            continue
        by_seed = {
            int(r["seed"]): float(r["scores"][metric])
            for r in records.of(experiment.name, scale.name, row.name, name)
            if r["error"] is None and r["scores"].get(metric) is not None
        }
        if by_seed:
            values[name] = by_seed
    ours = values.pop(OURS, {})
    sign = -1.0 if metric in SMALLER_IS_BETTER else 1.0
    candidates = {name: sorted(set(ours) & set(found)) for name, found in values.items()}
    candidates = {name: seeds for name, seeds in candidates.items() if seeds}
    if not candidates:
        return None
    other = max(candidates, key=lambda name: sign * np.mean([values[name][s] for s in candidates[name]]))
    seeds = candidates[other]
    mine = np.array([ours[seed] for seed in seeds])
    theirs = np.array([values[other][seed] for seed in seeds])
    gain = sign * (mine - theirs)
    if len(seeds) >= _FEWEST_RUNS:
        is_tie = abs(gain.mean()) <= 2.0 * gain.std(ddof=1) / np.sqrt(len(seeds))
    else:
        is_tie = abs(gain.mean()) <= _SAME * max(abs(mine.mean()), abs(theirs.mean()))
    winner = None if is_tie else OURS if gain.mean() > 0 else other
    return Comparison(
        experiment.title, row.title, metric, float(mine.mean()), float(theirs.mean()), other, winner
    )


def count_wins(comparisons: Sequence[Comparison]) -> str:
    """One sentence: how often each method is best."""
    counts = Counter(c.winner for c in comparisons)
    ties = counts.pop(None, 0)
    ours = counts.pop(OURS, 0)
    others = ", ".join(f"{METHODS[str(name)].title} in {count}" for name, count in counts.most_common())
    text = f"Of {len(comparisons)} measures isoweave is best in {ours} and level with the best in {ties}"
    return text + (f"; others are better: {others}." if others else ".")


def summary_cells(comparisons: Sequence[Comparison]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and lines of the summary as text."""
    head = ("experiment", "row", "measure", "isoweave", "best of the others", "better")
    lines: list[tuple[str, ...]] = []
    for c in comparisons:
        winner = "level" if c.winner is None else METHODS[c.winner].title
        best = f"{show(c.best_other, c.metric)} ({METHODS[c.other].title})"
        lines.append((c.experiment, c.row, TITLES[c.metric], show(c.ours, c.metric), best, winner))
    return head, lines


def summary_markdown(comparisons: Sequence[Comparison]) -> str:
    """Page that says who wins where."""
    head, lines = summary_cells(comparisons)
    text = [
        "# Who wins where",
        "",
        count_wins(comparisons),
        "",
        "Means over the seeds both methods have. Level: the paired difference is within two standard errors "
        "(with fewer than three seeds: within one hundredth).",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    text += ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join(text) + "\n"
