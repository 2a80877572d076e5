"""What there is to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isoweave.experiments._catalog import EXPERIMENTS
from isoweave.experiments._methods import METHODS, choose_methods
from isoweave.experiments._records import Key
from isoweave.experiments._spec import FULL, Experiment, Row, Scale


@dataclass(frozen=True, eq=False)
class Task:
    """One method on one problem."""

    experiment: Experiment
    row: Row
    seed: int
    method: str
    scale: Scale

    @property
    def key(self) -> Key:
        return self.experiment.name, self.row.name, self.seed, self.method, self.scale.name

    @property
    def label(self) -> str:
        return f"{self.experiment.name} {self.row.title}, seed {self.seed}, {self.method}"


def plan_tasks(
    names: Sequence[str], methods: Sequence[str] | None = None, scale: Scale = FULL
) -> tuple[list[Task], list[str]]:
    """Everything the named experiments consist of, and what cannot run because a package is missing.

    Parameters
    ----------
    names : sequence of str
        Experiments; "all" stands for every one.
    methods : sequence of str, optional
        In place of those each experiment runs by default.
    scale : Scale
    """
    unknown = [name for name in names if name not in EXPERIMENTS and name != "all"]
    if unknown:
        raise ValueError(f"unknown experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)} and all.")
    chosen = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    tasks, skipped = [], []
    for experiment in (EXPERIMENTS[name] for name in chosen):
        usable, missing = choose_methods(methods, experiment.methods)
        skipped += [f"{experiment.name}, {name}: {reason}" for name, reason in missing.items()]
        for row in experiment.rows_for(scale):
            allowed = [name for name in usable if row.methods is None or methods or name in row.methods]
            for number, seed in enumerate(experiment.seeds_for(row, scale)):
                tasks += [
                    Task(experiment, row, seed, name, scale)
                    for name in allowed
                    if row.takes(name, number) and number < (METHODS[name].n_seeds or number + 1)
                ]
    return tasks, skipped
