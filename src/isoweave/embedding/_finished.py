"""Components that are finished, as one record of a journal, and back.

One record for all: a graph may have thousands of components, and a file each would cost more than most of
them take to embed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.embedding._component import ComponentResult
from isoweave.embedding._records import rows_of
from isoweave.optimise import IterationResult, Record, StepRecord


def finished_record(results: Sequence[ComponentResult | None]) -> Record:
    """All components that have a result, one after the other."""
    at = [c for c, result in enumerate(results) if result is not None]
    found = [result for result in results if result is not None]
    iterations = [result.iteration for result in found]
    steps = [
        [(s.iteration, s.energy, s.gradient_norm, s.step) for s in iteration.history]
        for iteration in iterations
    ]
    # Few of them differ, and a manifest is no place for long lists.
    texts = [(result.iteration.status, result.start, result.solver) for result in found]
    known = {text: code for code, text in enumerate(dict.fromkeys(text for row in texts for text in row))}
    arrays = {
        "components": np.array(at, dtype=np.int64),
        "texts": np.array([[known[text] for text in row] for row in texts], dtype=np.int64),
        "coordinates": _joined([iteration.coordinates for iteration in iterations]),
        "alignments": _joined([iteration.alignments for iteration in iterations]),
        "stretch": _joined([result.stretch for result in found]),
        "energies": np.array([iteration.energy for iteration in iterations]),
        "masses": np.array([result.mass for result in found]),
        "n_steps": np.array([len(rows) for rows in steps], dtype=np.int64),
        "steps": np.array([row for rows in steps for row in rows], dtype=np.float64).reshape(-1, 4),
    }
    return Record({"texts": list(known)}, arrays)


def _joined(parts: list[FloatArray]) -> FloatArray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def finished_from(record: Record, parts: Sequence[AnyArray], n_components: int) -> dict[int, ComponentResult]:
    """Results by the number of the component."""
    at = record.array("components", (None,), np.int64).tolist()
    codes = record.array("texts", (len(at), 3), np.int64)
    known = [str(text) for text in record.value("texts", list)]
    n_steps = record.array("n_steps", (len(at),), np.int64).tolist()
    inside = all(0 <= c < len(parts) for c in at) and all(0 <= code < len(known) for code in codes.flat)
    if not inside or min(n_steps, default=1) < 1:
        raise ValueError("The checkpoint cannot be used: its components are not those of the graph.")
    sizes = [len(parts[c]) for c in at]
    square = (n_components, n_components)
    coordinates = rows_of(record, sizes, "coordinates", (n_components,))
    alignments = rows_of(record, sizes, "alignments", square)
    stretch = rows_of(record, sizes, "stretch", (n_components,))
    steps = rows_of(record, n_steps, "steps", (4,))
    energies, masses = record.array("energies", (len(at),)), record.array("masses", (len(at),))
    results: dict[int, ComponentResult] = {}
    for k, c in enumerate(at):
        history = tuple(StepRecord(int(i), float(e), float(g), float(s)) for i, e, g, s in steps[k])
        status, start, solver = (known[code] for code in codes[k])
        results[c] = ComponentResult(
            iteration=IterationResult(coordinates[k], alignments[k], float(energies[k]), history, status),
            stretch=stretch[k],
            mass=float(masses[k]),
            start=start,
            solver=solver,
        )
    return results
