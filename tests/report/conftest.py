from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    from headless import CHROMIUM, Browser

    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()
