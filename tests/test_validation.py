"""Checks of single values: what they return, and what their errors say."""

from __future__ import annotations

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
        result = check_real("tol", value, minimum=1, maximum=1)
        assert (result, type(result)) == (1.0, float)


@pytest.mark.parametrize("value", [True, np.True_, 3.0, np.float32(3), "3", None, [3], np.array([3])])
def test_what_is_no_integer_is_a_type_error(value):
    with pytest.raises(TypeError, match="k must be an integer, got .* of type"):
        check_integer("k", value)


@pytest.mark.parametrize("value", [True, "1", None, 1j, np.array([1.0])])
def test_what_is_no_real_number_is_a_type_error(value):
    with pytest.raises(TypeError, match="tol must be a real number, got"):
        check_real("tol", value)


@pytest.mark.parametrize(
    ("check", "value", "bounds", "text"),
    [
        (check_integer, 0, {"minimum": 1}, "k must be an integer >= 1, got 0"),
        (check_integer, 9, {"maximum": 8}, "k must be an integer <= 8, got 9"),
        (check_integer, 9, {"minimum": 1, "maximum": 8}, "k must be an integer from 1 to 8, got 9"),
        (check_real, -1, {"minimum": 0}, "finite number >= 0, got -1"),
        (check_real, 0.0, {"minimum": 0, "include_minimum": False}, "finite number > 0, got 0.0"),
        (check_real, 2, {"minimum": 0, "maximum": 1}, "finite number >= 0 and <= 1, got 2"),
        (check_real, 1, {"maximum": 1, "include_maximum": False}, "finite number < 1, got 1"),
        *((check_real, v, {}, "finite number, got") for v in (math.nan, math.inf, -math.inf, 10**400)),
    ],
)
def test_numbers_out_of_range(check, value, bounds, text):
    with pytest.raises(ValueError, match=text):
        check("k", value, **bounds)


def test_options():
    options = ("separate", "largest")
    assert check_option("components", "largest", options) == "largest"
    with pytest.raises(ValueError, match=r"components must be one of 'separate', 'largest', got 'bridge'\.$"):
        check_option("components", "bridge", options)
    with pytest.raises(ValueError, match="got 'Seperate'. Did you mean 'separate'?"):
        check_option("components", "Seperate", options)
    with pytest.raises(TypeError, match="components must be one of .* got 3 of type int"):
        check_option("components", 3, options)
    with pytest.raises(TypeError) as caught:
        check_integer("k", list(range(1000)))
    # A long value is cut short.
    assert len(str(caught.value)) < 150
