"""Clocks inside a fit: the functions that make up the stages are wrapped while a fit runs.

The fit itself is the ordinary one, so the stages add up to it, and a stage that moves or is renamed is
noticed (tests/performance looks for every name below).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from wrapping import import_core, replace

# Functions by stage. One that is called inside another stage counts for that one: frames of the coarse start
# are part of the start.
STAGES: dict[str, tuple[str, ...]] = {
    "neighbours": ("isoweave.graph.knn_graph",),
    "order": (
        "isoweave.graph.merge_duplicates",
        "isoweave.graph.local_order",
        "isoweave.graph.renumber",
        "isoweave.graph.connected_components",
    ),
    "shortcuts": ("isoweave.graph.drop_shortcuts",),
    "frames": ("isoweave.geometry.local_frames", "isoweave.geometry.calibrate_frames"),
    "assembly": ("isoweave.energy.edge_energy", "isoweave.energy.edge_laplacian"),
    "factor": ("isoweave.linalg.factor",),
    "start": ("isoweave.optimise._starts._start", "isoweave.optimise.find_landmarks"),
    "optimise": ("isoweave.optimise.minimise",),
    "stretch": ("isoweave.geometry.local_stretch",),
}
# Parts of "optimise", counted there only.
INNER = {
    "solve": "isoweave.linalg.PoissonState.solve",
    "energy": "isoweave.optimise.Problem.evaluate",
}


class StageClock:
    """Wall and processor seconds and calls per stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, dict[str, float]] = {}
        self._inside: list[str] = []

    def wrap(self, stage: str, function: Callable[..., Any], *, inside: str | None) -> Callable[..., Any]:
        """The function with a clock that runs if ``inside`` is the stage at work."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            if (self._inside[-1] if self._inside else None) != inside:
                return function(*args, **kwargs)
            self._inside.append(stage)
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                total = self.seconds.setdefault(stage, {"wall": 0.0, "cpu": 0.0, "calls": 0})
                total["wall"] += wall
                total["cpu"] += cpu
                total["calls"] += 1
                self._inside.pop()

        return timed

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure every fit inside the block."""
        import_core()
        with ExitStack() as stack:
            for stage, names in STAGES.items():
                for name in names:
                    replace(stack, name, partial(self.wrap, stage, inside=None))
            for stage, name in INNER.items():
                replace(stack, name, partial(self.wrap, stage, inside="optimise"))
            yield
