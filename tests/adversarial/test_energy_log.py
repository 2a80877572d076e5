"""The energy never rises, and is what it is said to be; energy_log.py is the long form."""

from __future__ import annotations

import pytest

from energy_log import log_steps


@pytest.mark.parametrize(
    "n_steps", [5_000, pytest.param(100_000, marks=pytest.mark.slow)], ids=["reduced", "full"]
)
def test_energy_never_rises(n_steps):
    log = log_steps(n_steps, seed=79)
    assert log.steps >= n_steps
    assert log.rises == 0
    assert log.recomputed > n_steps / 100
    # The recomputed energy is summed in another order.
    assert log.gap < 1e-9
