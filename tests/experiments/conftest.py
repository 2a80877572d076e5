from __future__ import annotations

import pytest

from isoweave.experiments import Scale, runs_frame
from isoweave.experiments._records import fingerprint
from reference_data import write_folder


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def tiny():
    """One seed and few points of every experiment."""
    return Scale("tiny", n_samples=110, n_seeds=1, all_rows=False, paper_steps=20)


@pytest.fixture
def runs():
    """A frame of made-up runs: ``runs((method, scores of each seed, changes), ...)``."""

    def record(method, seed, scores, experiment="klein", row="k8", error=None):
        places = {"experiment": experiment, "row": row, "seed": seed, "method": method, "scale": "full"}
        sizes = {"n_vertices": 1500, "n_edges": 9000, "n_neighbors": 8, "n_components": 3}
        status = "max_iter" if method == "paper" else "converged"
        took = {"status": status, "steps": 5, "dropped_edges": 0, "seconds": 9.0, "cpu_seconds": 1.0 + seed}
        code = {"note": "", "error": error, "code": fingerprint(method)}
        return places | sizes | took | code | {"scores": {} if error else scores}

    def make(*parts):
        return runs_frame(
            record(method, seed, scores, **(changes[0] if changes else {}))
            for method, values, *changes in parts
            for seed, scores in enumerate(values)
        )

    return make
