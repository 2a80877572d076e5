"""Every system call of every writer fails once, with every error a disk has: nothing is ever lost."""

import errno
import gc
import itertools
import os
from functools import partial

import numpy as np
import pytest

from failing_calls import Calls, fail_with
from isoweave import Checkpoint, IsometricEmbedding, save
from isoweave._files import WriteError, append_text, write_text
from isoweave.io import write_embedding
from isoweave.optimise import Record
from isoweave.persist._checkpoint import FileJournal

CODES = ("ENOSPC", "EDQUOT", "EROFS", "EIO")
UNCHANGED = "what was there before is unchanged"
COMPLETE = "the file is complete, but may not survive a power failure"
OLD, NEW = np.random.default_rng(31).normal(size=(2, 60, 2))
LARGE = np.random.default_rng(5).normal(size=(100_000, 2))


def fates(operation, reset, least_calls):
    """Run an operation with its first, second, ... call failing, until none is left to fail.

    Once with that call alone failing, for every code; once as on a full disk, with all that follow too.
    """
    for name, is_lasting in (*((name, False) for name in CODES), ("ENOSPC", True), ("EDQUOT", True)):
        code = getattr(errno, name)
        words = "no space is left on the device" if name == "ENOSPC" else os.strerror(code)
        for number in itertools.count(1):
            reset()
            calls, error = Calls(number, fail_with(code), is_lasting=is_lasting), None
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
                assert (type(error), error.errno) == (WriteError, code)
                assert words in str(error) or COMPLETE in str(error)
                assert "\n" not in str(error)
            yield error


def save_number(path, array):
    model = IsometricEmbedding()
    model.part_ = np.full(3000, array[0, 0])
    save(model, path)


WRITERS = {
    **dict.fromkeys((".npz", ".npy", ".csv", ".parquet"), write_embedding),
    ".isoweave": save_number,
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
    # What a writer left open would complain now, and not in somebody else's test.
    gc.collect()


def test_appended_lines_and_the_order_of_syncs(tmp_path):
    path = tmp_path / "log.jsonl"
    for error in fates(lambda: append_text(path, "two\n"), lambda: path.write_text("one\n"), 4):
        assert path.read_text() == ("one\ntwo\n" if error is None else "one\n")
    # A file is synced before it gets its name, and its folder afterwards.
    with (calls := Calls(10**9, None)).active():
        write_text(tmp_path / "y.txt", "text")
    seen = [kind for kind in calls.seen if kind not in ("open", "close", "link")]
    assert seen == ["write", "fsync", "replace", "fsync"]


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
        assert list(tmp_path.iterdir()) == [path]
        journals.pop().close()
        journals.append(FileJournal(path, {}, every=0, resume=True))
        n_failed += journals[-1].load("a").arrays["x"][0] == 1
        assert keep(3)
    assert n_failed > 10
    journals.pop().close()


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_fit(tmp_path):
    model = IsometricEmbedding(n_neighbors=8)
    expected = model.fit_transform(LARGE[:90])
    model.set_params(checkpoint=Checkpoint(tmp_path / "run.ckpt", every=0))
    # After the file that takes the name.
    said = "was not written; the fit continues: cannot write .*large"
    with Calls(12, fail_with(errno.EFBIG), is_lasting=True).active(), pytest.warns(UserWarning, match=said):
        found = model.fit_transform(LARGE[:90])
    assert found.tobytes() == expected.tobytes()
