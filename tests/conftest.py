"""Settings shared by all tests."""

import os
from unittest import mock

import hypothesis
import pytest

# Figures are drawn without a display.
os.environ.setdefault("MPLBACKEND", "Agg")
# Fits hold BLAS to one thread themselves. In what tests compare them with, threads that wait for a core that
# another worker uses would spin: 27 instead of 8 processor seconds for some 30 tests with dense matrices.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# More kernels that many tests need, with their types as in ``engines/ahead.py``: what takes long is first.
KERNELS = {
    "placing.place_rows": "n n n1 i1 i1 f1 i1 i1 f1 n f2 i1 f2 f1 i1 i1",
    "cells.ball_curvature": "n n i1 n i1 i1 f1 i1 f2 f3 t1 f1",
    "coarse.triangulate": "n n i1 i2 f2 f2 f2",
    "alignment.align_rank": "n n i1 i1 f2 f2 f2 f3 f1 f2",
    "stress.landmark_stress": "n n n f2 i1 f2 f1 f1 f2 f3",
    "cells.hole_loops": "n n i1 n i1 i1 f1 i1 i3 i1",
    "paths.geodesics_together": "n n i1 i1 i1 f1 f2",
    "paths.neighborhood_shapes": "n n i1 i1 f1 f2 f1 f1 f1 f1",
    "coarse.sample_balls": "n n i1 i1 n i1 i1 f1 i2 f2 n1 i2",
    "neighbors.measure_rows": "n n f2 i1 f2 i2 f2 i2 f2",
    "lifting.gauss_newton": "n n i1 i1 f1 f1 f n f2 f1",
    "paths.edge_geodesics": "n n i1 i1 f1 f1",
    "paths.geodesics_from": "n n i1 i1 i1 f1 f2",
}

# The same examples in every run: a failure met once can be met again. Compiling a kernel during the first
# example would break any deadline.
hypothesis.settings.register_profile("isoweave", derandomize=True, deadline=None)
hypothesis.settings.load_profile("isoweave")


def pytest_configure(config):
    """Kernels that are not on disk yet are compiled by one worker each, before a test needs them.

    Otherwise every worker compiles most of them, and every fit that meets one would start other processes,
    which end with it a moment later. Every other worker takes the list from behind, until they meet.
    """
    from isoweave.engines import ahead

    ahead._MOST_PROCESSES = 0
    if os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1":
        is_odd = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) % 2
        names = [*KERNELS, *ahead.KERNELS][:: -1 if is_odd else 1]
        with mock.patch.dict(ahead.KERNELS, KERNELS):
            for kernel, types in map(ahead.kernel_and_types, names):
                kernel.compile(types)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    from headless import CHROMIUM, Browser

    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()
