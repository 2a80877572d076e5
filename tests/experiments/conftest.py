from __future__ import annotations

import pytest

from isoweave.experiments import Scale
from reference_data import write_folder


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def tiny():
    """One seed and few points of every experiment."""
    return Scale("tiny", n_samples=110, n_seeds=1, all_rows=False, paper_steps=20)
