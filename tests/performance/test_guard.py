"""Operation counts and ratios against benchmarks/accepted/guard.json.

Where a number has become worse for a good reason: ``python benchmarks/guard.py --accept``.
"""

from __future__ import annotations

import pytest

import guard
import isoweave.optimise._lbfgs

QUICK = [name for name, case in guard.CASES.items() if case.quick]
SLOW = [name for name, case in guard.CASES.items() if not case.quick]


@pytest.fixture(scope="module")
def accepted():
    return guard.read_accepted()


def check(name, accepted):
    wrong = list(guard.violations(accepted[name], guard.count_operations(guard.CASES[name]), name))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", QUICK)
def test_operation_counts(name, accepted):
    check(name, accepted)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_operation_counts_of_larger_fits(name, accepted):
    check(name, accepted)


@pytest.mark.slow
def test_memory_compilation_and_processor_time(accepted):
    wrong = list(guard.violations(accepted["process"], guard.measure_process(), "process"))
    assert not wrong, "\n".join(wrong)


def test_more_steps_are_noticed(accepted, monkeypatch):
    # An optimiser without memory is the plain recursion, which needs more steps.
    monkeypatch.setattr(isoweave.optimise._lbfgs, "_MEMORY", 0)
    measured = guard.count_operations(guard.CASES["swiss-1500"])
    assert 1.2 < measured["steps"] / accepted["swiss-1500"]["steps"] < 3.0
    wrong = "\n".join(guard.violations(accepted["swiss-1500"], measured, "swiss-1500"))
    assert "swiss-1500: steps" in wrong
    assert "swiss-1500: solves" in wrong
    assert "frame_work" not in wrong


def test_larger_frames_are_noticed(accepted, monkeypatch):
    monkeypatch.setattr("isoweave.geometry._local_mds.FRAME_PER_NEIGHBOR", 3.0)
    measured = guard.count_operations(guard.CASES["swiss-1500"])
    wrong = "\n".join(guard.violations(accepted["swiss-1500"], measured, "swiss-1500"))
    assert "frame_work" in wrong
    assert "settled" in wrong


@pytest.mark.parametrize("name", guard.ALLOWED)
def test_a_third_more_is_too_much(name):
    accepted = {name: 1000.0}
    slowed = {name: 1000.0 * max(1.31, 1.05 * guard.ALLOWED[name].factor)}
    assert list(guard.violations(accepted, slowed, "here"))
    assert not list(guard.violations(accepted, {name: 1000.0}, "here"))
    assert not list(guard.violations(accepted, {name: 500.0}, "here"))


def test_a_count_that_vanished_is_noticed():
    (message,) = guard.violations({"steps": 10.0, "fill": 3.0}, {"steps": 10.0}, "here")
    assert "'fill' is no longer counted" in message


def test_every_accepted_number_has_an_allowance(accepted):
    assert {*accepted} == {*guard.CASES, "process"}
    for numbers in accepted.values():
        assert numbers
        assert {*numbers} <= {*guard.ALLOWED}
