"""Running the fuzzers from a test: in fresh processes, since one forks and the other is libFuzzer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"


def run_script(name, *arguments):
    """What a fuzzer printed; its exit status is 0 only if no promise was broken."""
    command = [sys.executable, str(FUZZ / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def run_fuzzer(n_inputs, seed):
    """Mutated seeds of every target."""
    return run_script("campaign.py", "--inputs", n_inputs, "--seed", seed)
