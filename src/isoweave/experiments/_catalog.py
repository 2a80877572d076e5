"""The methods, and the experiments of catalog.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from isoweave.experiments import _problems
from isoweave.experiments._problems import DataProblem, Request
from isoweave.experiments.baselines import BASELINES

OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper-energy": {"inner_product": "paper", "start": "landmark"},
    # A thousand solves with one matrix: a factor gives the same recursion five times sooner.
    "paper": {"preset": "paper", "solver": "direct"},
}
"""Of ``embed_graph``, for the methods that are ours."""
METHODS: dict[str, str] = {
    "default": "isoweave",
    "paper-energy": "paper's energy, good start",
    "paper": "paper as printed",
    **{name: baseline.title for name, baseline in BASELINES.items()},
}
"""Titles of all methods, in the order of the tables."""
# Seeds of those that take longer than all the others together.
SLOW = {"tsne": 5, "mde": 3}


@dataclass(frozen=True)
class Scale:
    """How much of an experiment is run: most points, seeds and steps of the paper's slow recursion.

    The name is kept in every record, so that quick results are never taken for full ones.
    """

    name: str
    n_samples: int | None = None
    n_seeds: int | None = None
    all_rows: bool = True
    paper_steps: int | None = None

    @property
    def note(self) -> str:
        """What a reader must know about a run that is not the full one; empty for that."""
        if self.name == "full":
            return ""
        steps = f", the paper's recursion cut at {self.paper_steps} steps" if self.paper_steps else ""
        return (
            f"{self.name.capitalize()} run: seeds per row at most {self.n_seeds}, points at most "
            f"{self.n_samples}, not all rows{steps}. A first look, not the paper's setting; do not quote."
        )


FULL = Scale("full")
"""Everything, as the paper did it."""
QUICK = Scale("quick", n_samples=600, n_seeds=2, all_rows=False, paper_steps=100)
"""Few seeds and points: minutes on two cores, and no more than a first look."""


@dataclass(frozen=True)
class Setting:
    """A row of the tables: problems that are averaged, of several seeds."""

    name: str
    title: str
    # Raises DatasetMissingError where its file is not there.
    load: Callable[[Request], DataProblem]
    # None of those from 501 on was used while the defaults were chosen.
    seeds: tuple[int, ...]
    # The row is a point of this curve, at this abscissa.
    curve: str | None = None
    value: float = float("nan")
    # Part of a quick run.
    quick: bool = True
    # Methods of the experiment that cannot run here, or not on all seeds.
    without: tuple[str, ...] = ()
    fewer_seeds: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """Rows, the methods left out by default, and what is shown of them."""

    name: str
    title: str
    about: str
    rows: tuple[Setting, ...]
    metrics: tuple[str, ...]
    without: tuple[str, ...] = ()
    # Keep the maps of each row's first seed and draw them.
    draw_maps: bool = False
    # Method whose own map the parameter error is against: its zero is not drawn and wins nothing.
    reference: str | None = None
    # What the paper prints: method -> metric -> value.
    printed: dict[str, dict[str, float]] = field(default_factory=dict)

    def rows_for(self, scale: Scale) -> tuple[Setting, ...]:
        return tuple(row for row in self.rows if row.quick or scale.all_rows)


def _settings(entry: dict[str, Any]) -> Iterator[Setting]:
    """The row of an entry, or the rows of a curve."""
    load = partial(getattr(_problems, entry.pop("load")), **entry.pop("arguments", {}))
    seeds = tuple(range(*entry.pop("seeds", (0, 1))))
    if "curve" not in entry:
        yield Setting(load=load, seeds=seeds, **entry)
        return
    curve, title, quick = entry["curve"], entry["title"], entry["quick"]
    for v in entry["values"]:
        yield Setting(f"{curve}{v:g}", title.format(v), partial(load, v), seeds, curve, v, v in quick)


def _experiment(name: str, entry: dict[str, Any]) -> Experiment:
    rows = tuple(setting for row in entry.pop("rows") for setting in _settings(row))
    printed = entry.pop("printed", {})
    metrics = printed.pop("metrics", ())
    by_metric = {method: dict(zip(metrics, values, strict=True)) for method, values in printed.items()}
    return Experiment(name, rows=rows, printed=by_metric, **entry)


_CATALOG = tomllib.loads(Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8"))
EXPERIMENTS: dict[str, Experiment] = {name: _experiment(name, entry) for name, entry in _CATALOG.items()}
