"""Operation counts and ratios against benchmarks/accepted/guard.json.

Where a number has become worse for a good reason: ``python benchmarks/guard.py --accept``.
"""

from __future__ import annotations

import pytest

import guard


@pytest.fixture(scope="module")
def accepted():
    return guard.read_accepted()


@pytest.mark.parametrize(
    "name",
    [
        name if case.quick else pytest.param(name, marks=pytest.mark.slow)
        for name, case in guard.CASES.items()
    ],
)
def test_operation_counts(name, accepted):
    wrong = list(guard.violations(accepted[name], guard.count_operations(guard.CASES[name]), name))
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_memory_compilation_and_processor_time(accepted):
    wrong = list(guard.violations(accepted["process"], guard.measure_process(), "process"))
    assert not wrong, "\n".join(wrong)


def sweep(problem, gradient, preconditioned, *_):
    """The direction of an optimiser without memory, which is the plain recursion."""
    return -preconditioned


@pytest.mark.parametrize(
    ("name", "value", "noticed", "same"),
    [
        ("isoweave.optimise._optimisers._two_loop", sweep, ("steps", "solves"), ("frame_work",)),
        ("isoweave.geometry._local_mds.FRAME_PER_NEIGHBOR", 3.0, ("frame_work", "settled"), ()),
    ],
)
def test_more_work_is_noticed(name, value, noticed, same, accepted, monkeypatch):
    monkeypatch.setattr(name, value)
    measured = guard.count_operations(guard.CASES["swiss-1500"])
    wrong = "\n".join(guard.violations(accepted["swiss-1500"], measured, "swiss-1500"))
    assert all(f"swiss-1500: {count}" in wrong for count in noticed)
    assert not any(count in wrong for count in same)


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
