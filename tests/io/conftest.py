"""Ways to run the readers that have a process of their own."""

from __future__ import annotations

import io
from contextlib import contextmanager

import pytest

from isoweave.io import _h5ad, _isolated, _open, _parquet, _worker


@pytest.fixture
def in_process(monkeypatch):
    """The worker's work done in this process: quick, for files that cannot crash it."""

    @contextmanager
    def frames_of(path, what):
        with _open.open_input(path) as (_, size):
            output = io.BytesIO()
            max_bytes = max(_isolated.FREE_BYTES, _isolated.MAX_EXPANSION * size)
            _worker.produce(what, str(path), max_bytes, output)
            output.seek(0)
            yield _isolated.Frames(path, output, size)

    for module in (_parquet, _h5ad):
        monkeypatch.setattr(module, "frames_of", frames_of)
