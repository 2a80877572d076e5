"""Operation counts and ratios against benchmarks/accepted/guard.json; forecast peaks of memory.

Where a number has become worse for a good reason: ``python benchmarks/guard.py --accept``.
"""

import sys

import pytest

import forecast
import guard

SLOW = ("S-curve 5k, synchronized", "swiss 20k", "40 pieces 20k", "paper, swiss 2k", "swiss 100k")
SLOW += ("sphere 50k", "cube 30k", "5-D 20k", "13-D normal 8k", "hub 60k", "scale-free 20k")


@pytest.fixture(scope="module")
def accepted():
    return guard.read_accepted()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if c.quick else pytest.mark.slow) for name, c in guard.CASES.items()]
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


def test_a_third_more_is_too_much_and_a_count_that_vanished_is_noticed(accepted):
    assert {*accepted} == {*guard.CASES, "process"}
    assert all(numbers and {*numbers} <= {*guard.ALLOWED} for numbers in accepted.values())
    for name, allowance in guard.ALLOWED.items():
        for measured in (1000.0 * max(1.31, 1.05 * allowance.factor), 1000.0, 500.0):
            wrong = list(guard.violations({name: 1000.0}, {name: measured}, "here"))
            assert bool(wrong) == (measured > 1000.0)
    (message,) = guard.violations({"steps": 10.0, "fill": 3.0}, {"steps": 10.0}, "here")
    assert "'fill' is no longer counted" in message


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads and resets peaks in /proc")
@pytest.mark.filterwarnings("ignore:The graph has .* connected components:UserWarning")
@pytest.mark.parametrize("name", ["5-D 5k", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_peaks_of_processes(name, tmp_path, monkeypatch):
    monkeypatch.setattr(forecast, "FOLDER", tmp_path)
    (case,) = (case for case in forecast.CASES if case.name == name)
    found = forecast.compared(case, keep=False)
    assert forecast.LOW <= found["error"] <= forecast.HIGH
    # Small fits add little to a process, so that the growth itself is told less well.
    assert 0.8 <= found["estimate"].growth_bytes / found["growth"] <= 3.0
    assert found["solver"] == found["estimate"].solver
