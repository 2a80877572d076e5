"""Hostile inputs, those that once broke a promise, and whether the fuzzer would notice a broken one.

100 inputs, and 20,000 with ``make test-full``.
"""

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

if os.name != "posix":
    pytest.skip("the fuzzer forks", allow_module_level=True)

import campaign
import fuzz_targets
from fuzz_mutate import MUTATORS, mutated
from fuzz_targets import TARGETS, guided_targets, seeds

# Later versions of Python warn of every fork in a process that has threads, as those of pytest-xdist have.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


REGRESSIONS = sorted(path for path in (Path(__file__).parent / "regressions").rglob("*") if path.is_file())


def printed(name, *arguments):
    """What a fuzzer printed, in a fresh process; its exit status is 0 only if no promise was broken."""
    command = [sys.executable, str(Path(campaign.__file__).with_name(name)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.mark.parametrize("n_inputs", [100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_mutated_inputs(n_inputs):
    out = printed("campaign.py", "--inputs", n_inputs, "--seed", 20262)
    count, failures = re.search(r"(\d+) inputs, (\d+) failures", out).groups()
    assert int(count) >= 0.95 * n_inputs
    assert int(failures) == 0


@pytest.mark.slow
@pytest.mark.parametrize("target", guided_targets())
def test_10000_inputs_led_by_coverage(target, tmp_path):
    pytest.importorskip("atheris", reason="coverage needs atheris: pip install 'isoweave[full-tests]'")
    count = -(-10_000 // len(guided_targets()))
    out = printed("guided.py", "--target", target, "--inputs", count, "--seed", 20263, "--keep", tmp_path)
    assert int(re.search(r"number_of_executed_units:\s*(\d+)", out)[1]) >= count
    # Where nothing new is ever reached, the readers were not instrumented, and chance led alone.
    assert len(list((tmp_path / "corpus" / target).iterdir())) > 20


def test_inputs_that_once_broke_a_promise():
    assert len(REGRESSIONS) >= 5
    for path in REGRESSIONS:
        # Of a package that is not installed there is no target.
        TARGETS.get(path.parent.name, len)(path.read_bytes())


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_every_target_has_seeds_that_pass_and_inputs_that_depend_on_the_seed_alone(target):
    corpus = seeds(target)
    assert len(corpus) >= 3
    for data in corpus if target not in ("parquet", "h5ad") else ():
        TARGETS[target](data)
    inputs = [campaign.input_of(target, 5, number, corpus) for number in range(30)]
    assert inputs == [campaign.input_of(target, 5, number, corpus) for number in range(30)]
    assert inputs != [campaign.input_of(target, 6, number, corpus) for number in range(30)]
    assert len(set(inputs)) > 25
    assert set(MUTATORS) <= set(TARGETS)


def test_mutated_archives_pass_the_checksums():
    """Otherwise nothing behind them would ever be reached."""
    rng = random.Random(8)
    corpus = seeds("npz_sparse")
    read = 0
    for _ in range(200):
        data = mutated("npz_sparse", corpus, rng)
        path = fuzz_targets._written(data, ".npz")
        try:
            fuzz_targets.read_input(path)
        except fuzz_targets.InputFileError as error:
            read += "CRC" not in error.reason and "archive" not in error.reason
        else:
            read += 1
    assert read > 100


def recurse(data):
    recurse(data)


def raise_error(data):
    raise KeyError("surprise")


def loop(data):
    while True:
        time.process_time()


FAULTS = {  # readers with one fault each, and what is said of it
    "KeyError: 'surprise'": raise_error,
    "ended by signal 11": lambda data: os.kill(os.getpid(), 11),
    "SystemExit": lambda data: sys.exit(0),
    "TooSlow": loop,
    "TooLarge": lambda data: bytearray(b"x") * (campaign.MEMORY_GROWTH + (100 << 20)),
    "RecursionError": recurse,
}


@pytest.mark.parametrize("message", FAULTS)
def test_the_fuzzer_notices(monkeypatch, message):
    # A busy machine may take long for anything but the loop.
    monkeypatch.setattr(campaign, "CPU_SECONDS", 1 if message == "TooSlow" else 60)
    monkeypatch.setattr(campaign, "MEMORY_GROWTH", 50 << 20)
    # The fault shows on every third input.
    monkeypatch.setitem(TARGETS, "broken", lambda data: len(data) % 3 == 0 and FAULTS[message](data))
    monkeypatch.setattr(campaign, "seeds", lambda name: [b"0 1 2\n"])
    inputs = [campaign.input_of("broken", 3, number, [b"0 1 2\n"]) for number in range(12)]
    first = next(number for number, data in enumerate(inputs) if len(data) % 3 == 0)
    found = list(campaign.run_target("broken", first + 1, 3))
    assert [failure.number for failure in found] == [first]
    assert message in found[0].what
    assert not found[0].is_contained


def test_crashes_of_libraries_are_told_apart(monkeypatch):
    monkeypatch.setattr(campaign, "CONTAINED", {"broken"})
    monkeypatch.setattr(campaign, "seeds", lambda name: [b"0 1 2\n"])
    for message, is_contained in (("ended by signal 11", True), ("KeyError: 'surprise'", False)):
        monkeypatch.setitem(TARGETS, "broken", FAULTS[message])
        assert {failure.is_contained for failure in campaign.run_target("broken", 2, 3)} == {is_contained}


def test_promises_are_checked():
    class Loaded:
        features, graph, names, n_rows = None, None, None, 0

    with pytest.raises(fuzz_targets.BrokenPromise, match="features and graph"):
        fuzz_targets.check_loaded(Loaded())
    error = fuzz_targets.InputFileError("x.csv", "two\nlines")

    def refuse():
        raise error

    with pytest.raises(fuzz_targets.BrokenPromise, match="not one printable line"):
        fuzz_targets.attempt(refuse)
