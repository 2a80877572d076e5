"""Who wins where, on made-up records."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave.experiments import EXPERIMENTS, FULL, Records, compare, count_wins, summary_markdown
from isoweave.experiments._records import fingerprint
from isoweave.experiments._tables import make_table


def add(records, method, values, *, experiment="klein", row="k8", metric="f1", error=None):
    for seed, value in enumerate(values, start=501):
        records.add(
            {
                "experiment": experiment,
                "row": row,
                "seed": seed,
                "method": method,
                "scale": "full",
                "n_vertices": 9,
                "n_neighbors": 8,
                "n_components": 3,
                "note": "",
                "error": error,
                "code": fingerprint(method),
                "scores": {} if error else {metric: value},
            }
        )


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path / "records.jsonl")


def test_a_clear_difference_has_a_winner(records):
    add(records, "default", [0.9, 0.91, 0.92])
    add(records, "isomap", [0.8, 0.81, 0.81])
    add(records, "lle", [0.1, 0.2, 0.3])
    (found,) = compare(records, FULL)
    assert (found.winner, found.other, found.metric) == ("default", "isomap", "f1")
    np.testing.assert_allclose([found.ours, found.best_other], [0.91, 0.806666667])
    assert "isoweave is best in 1 and level with the best in 0." in count_wins([found])


def test_errors_are_better_small(records):
    add(records, "default", [0.1, 0.11, 0.12], metric="local_distance")
    add(records, "umap", [0.02, 0.03, 0.03], metric="local_distance")
    (found,) = compare(records, FULL)
    assert found.winner == "umap"
    assert "others are better: UMAP in 1" in count_wins([found])
    assert "| 0.110 | 0.027 (UMAP) | UMAP |" in summary_markdown([found])


def test_a_difference_within_the_noise_is_level(records):
    add(records, "default", [0.9, 0.8, 0.7])
    add(records, "isomap", [0.8, 0.9, 0.69])
    (found,) = compare(records, FULL)
    assert found.winner is None
    assert "| level |" in summary_markdown([found])


def test_only_common_seeds_are_compared(records):
    add(records, "default", [0.9, 0.5, 0.5, 0.5])
    add(records, "mde", [0.8])
    (found,) = compare(records, FULL)
    assert (found.ours, found.best_other, found.winner) == (0.9, 0.8, "default")


def test_failed_runs_and_lonely_methods_are_left_out(records):
    add(records, "default", [0.9, 0.9, 0.9])
    add(records, "isomap", [0.8], error="RuntimeError: no")
    assert compare(records, FULL) == []


def test_a_reference_does_not_beat_itself(records):
    add(records, "default", [0.02, 0.03, 0.02], metric="parameter_error")
    add(records, "isomap", [0.0, 0.0, 0.0], metric="parameter_error")
    add(records, "lle", [0.5, 0.4, 0.5], metric="parameter_error")
    (found,) = compare(records, FULL)
    assert found.other == "lle"
    assert found.winner == "default"
    experiment = EXPERIMENTS["klein"]
    table = make_table(experiment, experiment.rows[0], records, FULL, with_printed=False)
    lines = {line[0]: line for line in table.lines}
    assert lines["Isomap"][1] == "reference"
    assert (0, 1) in table.best
