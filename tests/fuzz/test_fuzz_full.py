"""10,000 hostile inputs by mutation and 10,000 led by coverage; ``make test-full``."""

from __future__ import annotations

import os
import re

import pytest

if os.name != "posix":
    pytest.skip("the fuzzer forks", allow_module_level=True)

from fuzz_process import run_fuzzer, run_script
from fuzz_targets import guided_targets

pytestmark = pytest.mark.slow


def test_10000_mutated_inputs():
    out = run_fuzzer(10_000, 20262)
    count, failures = re.search(r"(\d+) inputs, (\d+) failures", out).groups()
    assert int(count) >= 10_000
    assert int(failures) == 0


@pytest.mark.parametrize("target", guided_targets())
def test_10000_inputs_led_by_coverage(target, tmp_path):
    pytest.importorskip("atheris", reason="coverage needs atheris: pip install 'isoweave[full-tests]'")
    count = -(-10_000 // len(guided_targets()))
    out = run_script("guided.py", "--target", target, "--inputs", count, "--seed", 20263, "--keep", tmp_path)
    assert int(re.search(r"number_of_executed_units:\s*(\d+)", out)[1]) >= count
    # Where nothing new is ever reached, the readers were not instrumented, and chance led alone.
    assert len(list((tmp_path / "corpus" / target).iterdir())) > 20
