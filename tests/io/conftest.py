"""Files of one test, and a quick way to run the readers that have a process of their own."""

import pytest

from isoweave.io import _read, _source, _worker


@pytest.fixture
def put(tmp_path):
    """Writes a file: from bytes, from text, or with a function that takes the path."""

    def write(name, content):
        path = tmp_path / name
        if callable(content):
            content(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def in_process(monkeypatch):
    """The worker's work done in this process: quick, for files that cannot crash it."""

    def run_worker(path, kind, what, size, output, *genes):
        _worker.produce(kind, what, str(path), _source.memory_limit(size), output, genes)

    monkeypatch.setattr(_read, "run_worker", run_worker)
