"""What a run says while it is going on: to the logger "isoweave" always, to standard output if asked."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass

from isoweave._parallel import resolve_n_jobs
from isoweave.forecast import expected_seconds
from isoweave.graph import NeighborGraph
from isoweave.optimise import Progress
from isoweave.options import EmbeddingOptions

logger = logging.getLogger("isoweave")

_SECONDS_BETWEEN_LINES = 1.0


@dataclass(frozen=True)
class Event:
    """A stage that begins (no iteration), or a step that has been taken."""

    stage: str
    iteration: int | None = None
    energy: float | None = None  #: in squared units of the distances
    relative_energy: float | None = None  #: energy over that of a collapsed map
    seconds_left: float | None = None  #: of the whole fit, a rough guess

    def __str__(self) -> str:
        parts = [self.stage]
        if self.iteration is not None:
            parts += [f"step {self.iteration}", f"energy {self.energy:.6g}"]
        if self.relative_energy is not None:
            parts[-1] += f", {self.relative_energy:.2%} of a collapsed map"
        if self.seconds_left is not None:
            parts.append(f"about {show_seconds(self.seconds_left)} left")
        return "  ".join(parts)


def show_seconds(seconds: float) -> str:
    """A rough duration: 8 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Reporter:
    """Tells of facts (INFO, printed from ``verbose=1`` on), stages (INFO) and steps (DEBUG; from 2 on).

    Steps are printed at most once a second. ``unit`` is that of the lengths, for the energies.
    """

    def __init__(self, verbose: int) -> None:
        self.unit = 1.0
        self._verbose = verbose
        # By the clock: when the run will have ended, and when a step was last printed.
        self._end, self._printed = math.nan, -math.inf

    def __call__(self, text: str) -> None:
        logger.info(text)
        if self._verbose:
            print(f"[isoweave] {text}", flush=True)

    def begin(self, graph: NeighborGraph, options: EmbeddingOptions) -> None:
        """Predict how long the run will take, if anybody wants to know: it takes a look at the graph."""
        if (self._verbose > 1 or logger.isEnabledFor(logging.DEBUG)) and graph.n_edges:
            expected = expected_seconds(graph, options, resolve_n_jobs(options.n_jobs))
            self._end = time.monotonic() + expected

    def stage(self, name: str) -> None:
        """A stage begins."""
        self._tell(logging.INFO, Event(name, seconds_left=self._predicted()), is_printed=True)

    def step(self, progress: Progress) -> None:
        """A step has been taken."""
        energy = progress.energy * self.unit * self.unit
        event = Event(progress.stage, progress.iteration, energy, progress.misfit**2, self._predicted())
        is_printed = (now := time.monotonic()) - self._printed >= _SECONDS_BETWEEN_LINES
        self._printed = now if is_printed else self._printed
        self._tell(logging.DEBUG, event, is_printed)

    def _tell(self, level: int, event: Event, is_printed: bool) -> None:
        logger.log(level, "%s", event, extra={"isoweave_event": event})
        if self._verbose > 1 and is_printed:
            print(f"[isoweave] {event}", flush=True)

    def _predicted(self) -> float | None:
        left = self._end - time.monotonic()
        # Predictions are right to a factor of two; one that has run out says nothing.
        return left if left > 0.0 else None
