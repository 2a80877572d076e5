"""Every system call of every writer fails once, with every error a disk has: nothing is ever lost."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from failing_calls import SPACE_KINDS, Calls, fail_with
from isoweave import IsometricEmbedding, save
from isoweave._files import WriteError, append_text, write_text
from isoweave.io import write_embedding
from isoweave.optimise import Record
from isoweave.persist._checkpoint import FileJournal

CODES = {
    "ENOSPC": "no space is left on the device",
    "EDQUOT": "the disk quota is exhausted",
    "EROFS": "the file system is read-only",
    "EIO": "the device failed",
}
UNCHANGED = "what was there before is unchanged"
COMPLETE = "the file is complete, but may not survive a power failure"
OLD, NEW = np.random.default_rng(31).normal(size=(2, 60, 2))
LARGE = np.random.default_rng(5).normal(size=(200_000, 2))
EVERY = (*((name, False) for name in CODES), ("ENOSPC", True), ("EDQUOT", True))


def fates(operation, reset, least_calls):
    """Run an operation with its first, second, ... call failing, until none is left to fail.

    Once with that call alone failing, for every code; once as on a full disk, with all that follow too.
    """
    for name, is_lasting in EVERY:
        kinds = {"kinds": SPACE_KINDS} if is_lasting else {}
        for number in itertools.count(1):
            reset()
            calls = Calls(number, fail_with(getattr(errno, name)), is_lasting=is_lasting, **kinds)
            error = None
            with calls.active():
                try:
                    operation()
                except OSError as caught:
                    error = caught
            if not calls.has_acted:
                assert error is None
                assert is_lasting or number > least_calls, f"only {calls.seen}"
                break
            if error is not None:
                assert type(error) is WriteError
                assert error.errno == getattr(errno, name)
                assert CODES[name] in str(error)
                assert "\n" not in str(error)
            yield error


def save_number(path, number):
    model = IsometricEmbedding()
    model.part_ = np.full(3000, number)
    save(model, path)


WRITERS = {
    ".npz": write_embedding,
    ".npy": write_embedding,
    ".csv": write_embedding,
    ".parquet": write_embedding,
    ".isoweave": lambda path, array: save_number(path, array[0, 0]),
    ".html": lambda path, array: write_text(path, str(array[0, 0]) * 10_000),
    ".large.npy": lambda path, array: write_embedding(path, LARGE + array[0]),
}


@pytest.mark.parametrize("had_old", [True, False])
@pytest.mark.parametrize("suffix", WRITERS)
def test_files(tmp_path, suffix, had_old):
    path = tmp_path / f"y{suffix}"
    contents = {}
    for key, array in (("new", NEW), ("old", OLD)):
        WRITERS[suffix](path, array)
        contents[key] = path.read_bytes()

    def reset():
        path.unlink(missing_ok=True)
        if had_old:
            path.write_bytes(contents["old"])

    outcomes = set()
    # Open folder and file, write, fsync, link, rename, fsync folder, close two.
    for error in fates(partial(WRITERS[suffix], path, NEW), reset, 8):
        is_complete = error is None or COMPLETE in str(error)
        outcomes.add((is_complete, error is None))
        assert is_complete or (UNCHANGED in str(error)) == had_old
        assert error is None or str(error).startswith(f"cannot write {path}: ")
        assert list(tmp_path.iterdir()) == ([path] if had_old or is_complete else [])
        if had_old or is_complete:
            assert path.read_bytes() == contents["new" if is_complete else "old"]
    assert outcomes == {(True, True), (True, False), (False, False)}


def test_appended_lines(tmp_path):
    path = tmp_path / "log.jsonl"
    for error in fates(lambda: append_text(path, "two\n"), lambda: path.write_text("one\n"), 4):
        assert path.read_text() == ("one\ntwo\n" if error is None else "one\n")


@pytest.mark.filterwarnings("ignore:The checkpoint was not written")
def test_checkpoints(tmp_path):
    """A write that fails leaves the file before it, and the journal can go on."""
    path, journals = tmp_path / "run.ckpt", []

    def reset():
        while journals:
            journals.pop().close()
        path.unlink(missing_ok=True)
        journals.append(FileJournal(path, {}, every=0, resume=False))
        keep(1)

    def keep(number):
        journals[-1].keep("a", lambda: Record({}, {"x": np.full(3000, number)}))
        return journals[-1].write()

    n_failed = 0
    for _ in fates(lambda: keep(2), reset, 8):
        left = FileJournal.load
        assert list(tmp_path.iterdir()) == [path]
        journals.pop().close()
        again = FileJournal(path, {}, every=0, resume=True)
        number = left(again, "a").arrays["x"][0]
        n_failed += number == 1
        journals.append(again)
        assert keep(3)
    assert n_failed > 10
    reset()
    journals.pop().close()


LIMITED = """
import resource, sys, warnings
import numpy as np
from isoweave import Checkpoint, IsometricEmbedding
from isoweave.io import write_embedding
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
large = np.random.default_rng(5).normal(size=(50_000, 2))
model = IsometricEmbedding(start=large)
for name in sys.argv[1:]:
    try:
        model.save(name) if name.endswith("isoweave") else write_embedding(name, large)
    except OSError as error:
        print(error)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fit = IsometricEmbedding(n_neighbors=8, checkpoint=Checkpoint("run.ckpt", every=0)).fit(large[:2000])
print(caught[0].message)
print(fit.embedding_.tobytes() == IsometricEmbedding(n_neighbors=8).fit(large[:2000]).embedding_.tobytes())
"""


def test_a_limit_the_system_sets(tmp_path):
    """The same with a failure of the kernel's own making, in the middle of the data."""
    pytest.importorskip("resource")
    names = ["y.npz", "y.npy", "y.csv", "y.parquet", "y.isoweave"]
    for name in names:
        (tmp_path / name).write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *names],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    reason = "the file would be larger than allowed; what was there before is unchanged"
    *lines, warning, is_same = done.stdout.splitlines()
    assert lines == [f"cannot write {name}: {reason}." for name in names]
    # A checkpoint that cannot be written does not end the fit.
    assert warning == f"The checkpoint was not written; the fit continues: cannot write run.ckpt: {reason}."
    assert is_same == "True"
    assert {name: (tmp_path / name).read_text() for name in names} == dict.fromkeys(names, "old")


def test_a_file_is_synced_before_it_gets_its_name_and_its_folder_afterwards(tmp_path):
    calls = Calls(10**9, None)
    with calls.active():
        write_text(tmp_path / "y.txt", "text")
    seen = [kind for kind in calls.seen if kind not in ("open", "close", "link")]
    assert seen == ["write", "fsync", "replace", "fsync"]
