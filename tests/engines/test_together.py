"""Sums of small components: the order is numpy's, so that each has the bits it has alone."""

import numba
import numpy as np
import pytest

from isoweave.engines import together


@numba.njit
def total(values):
    return together._total(values, 0, len(values))


@pytest.mark.parametrize("n", [1, 7, 8, 20, 127, 128, 129, 250, 777, 2450])
def test_sums_are_those_of_numpy(n):
    rng = np.random.default_rng(n)
    values = rng.standard_normal(n) * 10.0 ** rng.integers(-8, 8, n)
    assert total(values) == np.sum(values)
