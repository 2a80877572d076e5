"""What else was tried: the default with one choice changed at a time; writes docs/choices.md.

    python benchmarks/choices.py --quick --rows swiss10 torus     # two seeds, prints only
    python benchmarks/choices.py                                  # three seeds, writes docs/choices.md

Rows and scores are those of cases.py, records are kept in build/benchmarks/choices.jsonl; real data need
ISOWEAVE_DATA.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from cases import (
    RECORDS,
    STALE,
    Case,
    Records,
    Row,
    keep,
    load_case,
    mark,
    markdown_table,
    mean,
    page_parser,
    publish,
    score,
    select_rows,
    show,
    standard_error,
)
from filter_and_starts import FILTER_SEEDS, filter_section, outline_section, run_filter, run_outlines
from isoweave.embed import embed
from isoweave.energy import EdgeEnergy, edge_energy
from isoweave.graph import NeighborGraph
from isoweave.options import resolve_options
from isoweave.result import Embedding
from optimiser_steps import optimiser_section, run_optimisers

COLUMNS = {
    "f1": "F1",
    "local_distance": "edge error",
    "procrustes_error": "procrustes",
    "parameter_error": "parameter error",
    "pearson": "Pearson",
    "global_stress": "stress",
    "accuracy": "accuracy",
    "relative_energy": "energy",
    "steps": "steps",
    "seconds": "seconds",
}


@dataclass(frozen=True)
class Variant:
    """The default with some fields of its options replaced.

    ``power`` of the lengths in the weights of edges and ``n_landmarks`` are no options of a fit;
    ``max_components`` leaves out the rows whose N makes the variant needlessly expensive.
    """

    label: str
    changes: dict[str, Any] = field(default_factory=dict)
    power: int = 0
    n_landmarks: int = 50
    max_components: int = 1000


VARIANTS = {
    "default": Variant("**default** (weights 1, frames 2.5 k, rows calibrated, 50 landmarks, tol 0.03)"),
    "weights-1": Variant("weights 1/d", power=-1),
    "weights-2": Variant("weights 1/d²", power=-2),
    "frame-1.5": Variant("frames 1.5 k", {"frame_size": 1.5}),
    "frame-2": Variant("frames 2 k", {"frame_size": 2.0}),
    "frame-3.5": Variant("frames 3.5 k", {"frame_size": 3.5}),
    "frame-all": Variant("frames all of Γ²", {"frame_size": "all"}),
    "calibrate-vertices": Variant("one factor per frame", {"calibrate": "vertices"}),
    "calibrate-none": Variant("not calibrated", {"calibrate": "none"}),
    "scale-geodesics": Variant('scale="geodesics"', {"scale": "geodesics"}),
    "landmarks-25": Variant("25 landmarks", n_landmarks=25),
    "landmarks-100": Variant("100 landmarks", n_landmarks=100),
    "tol-0.02": Variant("tol 0.02", {"tol": 0.02}),
    "tol-0.05": Variant("tol 0.05", {"tol": 0.05}),
    "tol-0.001": Variant("tol 0.001 (converged)", {"tol": 0.001}),
    "start-landmark": Variant("landmark start only", {"start": "landmark"}),
    "start-synchronized": Variant("synchronized start only", {"start": "synchronized"}, max_components=3),
}

_HEAD = """# Choices

Written by `benchmarks/choices.py`; do not edit by hand. Each line changes one thing against the default;
means over {seeds} seeds (flat torus: 15). The line ± is the standard error of the default's means: smaller
differences mean little. Synthetic samples are not those of [the results](results/README.md); real data are
the same in both (MNIST: the first groups). Energy is relative to the collapsed map and
comparable only between lines with the same weights, frames and calibration. Seconds: processor time of one
thread, without the neighbour search. Columns as in [quality](quality.md).
"""

_ELSEWHERE = [
    "## Elsewhere",
    "",
    "What was tried against noise, and where it fails: [noise](noise.md#what-was-tried). "
    "For views: [views](plotting.md#what-was-tried).",
]


def seeds_of(row: Row, n_seeds: int) -> tuple[int, ...]:
    """Other samples than the results'."""
    if len(row.seeds) < 15:
        return row.seeds[:n_seeds]
    # Maps of the torus differ so much from sample to sample that three tell nothing.
    return tuple(range(31, 31 + (15 if row.name == "torus" and n_seeds > 2 else n_seeds)))


def weighted_energy(
    power: int, graph: NeighborGraph, *given: Any, confidence: Any, **more: Any
) -> EdgeEnergy:
    """With powers of the lengths over their median; near duplicates must not outweigh everything else."""
    relative = np.maximum(graph.lengths / np.median(graph.lengths), 1e-3) ** power
    weights = relative if confidence is None else relative * confidence
    return edge_energy(graph, *given, confidence=weights, **more)


def fit(case: Case, variant: Variant) -> Embedding:
    """The embedding of one variant."""
    options = replace(resolve_options(case.row.n_components, n_jobs=1), **variant.changes)
    with (
        warnings.catch_warnings(),
        patch("isoweave.optimise._starts.N_LANDMARKS", variant.n_landmarks),
        patch("isoweave._component.edge_energy", partial(weighted_energy, variant.power)),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The graph has .* connected components")
        return embed(case.graph, options)


def run(rows: list[Row], variants: list[str], n_seeds: int, records: Records) -> None:
    """Fill in what is missing."""
    warm = False
    for row in rows:
        names = [name for name in variants if row.n_components <= VARIANTS[name].max_components]
        for seed in seeds_of(row, n_seeds):
            missing = [name for name in names if (row.name, seed, name) not in records]
            case = load_case(row, seed) if missing else None
            for name in missing:
                assert case is not None
                if not warm:
                    # Compile before the clock runs.
                    fit(case, VARIANTS["default"])
                    warm = True
                started = time.process_time()
                result = fit(case, VARIANTS[name])
                values: dict[str, float] = {"seconds": time.process_time() - started}
                values |= {"steps": result.n_iter, "relative_energy": result.relative_energy}
                values |= score(case, result.coordinates)
                keep(records, row.name, seed, name, values)


def page(rows: list[Row], records: Records, n_seeds: int) -> str:
    """The whole of docs/choices.md."""
    lines = [_HEAD.format(seeds=n_seeds)]
    for row in rows:
        lines += ["", f"## {row.title}, N = {row.n_components}", "", *_section(row, records, n_seeds)]
    for section in (filter_section, outline_section, optimiser_section):
        lines += ["", *section(records)]
    lines += ["", *_ELSEWHERE]
    if any("†" in line for line in lines):
        lines += ["", STALE]
    return "\n".join(lines) + "\n"


def _section(row: Row, records: Records, n_seeds: int) -> Iterator[str]:
    # More seeds of one variant than of another would not compare.
    seeds = seeds_of(row, n_seeds)
    found = {name: [r for r in records.of(row.name, name) if r["seed"] in seeds] for name in VARIANTS}
    present = [c for c in COLUMNS if any(c in r for rs in found.values() for r in rs)]
    if row.short_circuited:
        yield "Short-circuited graphs: Pearson and stress are against the true distances."
        yield ""
    cells = []
    for name, variant in VARIANTS.items():
        values = [mean(found[name], c) for c in present]
        if found[name]:
            cells.append(
                (
                    mark(variant.label, found[name]),
                    *(_cell(v, c) for v, c in zip(values, present, strict=True)),
                )
            )
        if name == "default" and len(found[name]) > 1:
            errors = [standard_error(found[name], c) for c in present]
            cells.append(("±", *(_cell(v, c) for v, c in zip(errors, present, strict=True))))
    yield from markdown_table(("", *(COLUMNS[c] for c in present)), cells)


def _cell(value: float, column: str) -> str:
    return f"{value:.4f}" if column == "relative_energy" and not np.isnan(value) else show(value, column)


def main() -> None:
    parser = page_parser(__doc__, 3)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    arguments = parser.parse_args()
    records = Records(RECORDS / "choices.jsonl", any_code=arguments.any_code)
    rows = select_rows(arguments.rows)
    n_seeds = 2 if arguments.quick else arguments.seeds
    with threadpool_limits(1):
        if not arguments.write_only:
            run(rows, arguments.variants, n_seeds, records)
            if not arguments.rows:
                run_filter(records, 2 if arguments.quick else len(FILTER_SEEDS))
                run_outlines(records, n_seeds)
                run_optimisers(records, n_seeds)
    text = page(rows if arguments.quick else select_rows(None), records, n_seeds)
    publish("choices.md", text, quick=arguments.quick)


if __name__ == "__main__":
    main()
