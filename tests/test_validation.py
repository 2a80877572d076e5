"""Checks of single values: what they return, and what their errors say."""

import math
from fractions import Fraction

import numpy as np
import pytest

from isoweave._validation import check_integer, check_option, check_real


def test_numbers_of_every_kind_become_plain():
    for value in (3, np.int8(3), np.uint64(3), np.int32(3)):
        result = check_integer("k", value, minimum=1, maximum=3)
        assert (result, type(result)) == (3, int)
    for value in (1, 1.0, np.float32(1), np.int64(1), Fraction(1)):
        result = check_real("k", value, minimum=1, maximum=1)
        assert (result, type(result)) == (1.0, float)
    assert check_option("k", "largest", ("separate", "largest")) == "largest"


NO_INTEGERS = (True, np.True_, 3.0, np.float32(3), "3", None, [3], np.array([3]))
OPTIONS = {"options": ("separate", "largest")}
REFUSED = [
    *((check_integer, v, {}, TypeError, "k must be an integer, got .* of type") for v in NO_INTEGERS),
    # A long value is cut short.
    (check_integer, [1] * 1000, {}, TypeError, r"^.{,150}$"),
    (check_integer, 0, {"minimum": 1}, ValueError, "k must be an integer >= 1, got 0"),
    (check_integer, 9, {"maximum": 8}, ValueError, "k must be an integer <= 8, got 9"),
    (check_integer, 9, {"minimum": 1, "maximum": 8}, ValueError, "k must be an integer from 1 to 8, got 9"),
    *(
        (check_real, v, {}, TypeError, "k must be a real number, got")
        for v in (True, "1", None, 1j, np.array([1.0]))
    ),
    (check_real, -1, {"minimum": 0}, ValueError, "finite number >= 0, got -1"),
    (check_real, 0.0, {"minimum": 0, "include_minimum": False}, ValueError, "finite number > 0, got 0.0"),
    (check_real, 2, {"minimum": 0, "maximum": 1}, ValueError, "finite number >= 0 and <= 1, got 2"),
    (check_real, 1, {"maximum": 1, "include_maximum": False}, ValueError, "finite number < 1, got 1"),
    *(
        (check_real, v, {}, ValueError, "finite number, got")
        for v in (math.nan, math.inf, -math.inf, 10**400)
    ),
    (check_option, "bridge", OPTIONS, ValueError, r"k must be one of 'separate', 'largest', got 'bridge'\.$"),
    (check_option, "Seperate", OPTIONS, ValueError, "got 'Seperate'. Did you mean 'separate'?"),
    (check_option, 3, OPTIONS, TypeError, "k must be one of .* got 3 of type int"),
]


@pytest.mark.parametrize(("check", "value", "bounds", "error", "text"), REFUSED)
def test_what_is_refused(check, value, bounds, error, text):
    with pytest.raises(error, match=text):
        check("k", value, **bounds)
