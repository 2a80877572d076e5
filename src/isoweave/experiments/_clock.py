"""How far a run is and how long it will take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from isoweave.experiments._records import Records
from isoweave.experiments._spec import Record
from isoweave.experiments._tasks import Task


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes
    ----------
    done, total : int
        Tasks.
    label : str
        What is running now; empty at the end.
    seconds_left : float or None
        From what tasks of the same kind took; None before the first one is done.
    """

    done: int
    total: int
    label: str
    seconds_left: float | None


class Clock:
    """Time left, from what the same method took on the same row, or on any.

    ``n_jobs`` problems are solved at a time.
    """

    def __init__(self, tasks: Sequence[Task], records: Records, n_jobs: int = 1) -> None:
        self._n_jobs = n_jobs
        self._left = {task.key: task for task in tasks if not records.is_done(task.key)}
        self._total = len(tasks)
        self._seconds: dict[tuple[str, str, str], list[float]] = {}
        for record in records:
            self._note(record)

    def _note(self, record: Record) -> None:
        if record["error"] is None:
            kind = (record["experiment"], record["row"], record["method"])
            self._seconds.setdefault(kind, []).append(float(record["seconds"]))

    def finish(self, task: Task, record: Record) -> None:
        self._left.pop(task.key)
        self._note(record)

    def drop(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self._left.pop(task.key)

    def now(self, label: str) -> Progress:
        return Progress(self._total - len(self._left), self._total, label, self._forecast())

    def _forecast(self) -> float | None:
        if not self._seconds:
            return None
        by_method: dict[str, list[float]] = {}
        for (_, _, method), seconds in self._seconds.items():
            by_method.setdefault(method, []).extend(seconds)
        anything = float(np.mean([second for seconds in by_method.values() for second in seconds]))
        return sum(self._guess(task, by_method, anything) for task in self._left.values()) / self._n_jobs

    def _guess(self, task: Task, by_method: dict[str, list[float]], anything: float) -> float:
        for found in self._known(task, by_method):
            if found:
                return float(np.mean(found))
        return anything

    def _known(self, task: Task, by_method: dict[str, list[float]]) -> Iterator[list[float]]:
        yield self._seconds.get((task.experiment.name, task.row.name, task.method), [])
        yield by_method.get(task.method, [])
