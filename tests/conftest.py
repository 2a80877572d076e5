"""Settings shared by all tests."""

import os
import sys
from pathlib import Path

import hypothesis
import pytest

# Slow twins of every stage: plain modules that tests of any folder import by name.
sys.path.insert(0, str(Path(__file__).parent / "reference"))

# Figures are drawn without a display.
os.environ.setdefault("MPLBACKEND", "Agg")
# Fits hold BLAS to one thread themselves. In what tests compare them with, threads that wait for a core that
# another worker uses would spin: 27 instead of 8 processor seconds for some 30 tests with dense matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The same examples in every run: a failure met once can be met again. Compiling a kernel during the first
# example would break any deadline.
hypothesis.settings.register_profile("isoweave", derandomize=True, deadline=None)
hypothesis.settings.load_profile("isoweave")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    from headless import CHROMIUM, Browser

    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()
