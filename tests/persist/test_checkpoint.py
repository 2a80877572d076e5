"""Runs that go on from a checkpoint, in one process: a crash is an exception after a chosen write."""

import logging
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import deepcopy
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone

import isoweave
from attacker import arrays_of, put_together, take_apart, with_arrays
from isoweave import Checkpoint, CheckpointError, IsometricEmbedding, embed_graph
from isoweave.linalg._methods import Direct
from isoweave.optimise import Record
from isoweave.persist import _checkpoint
from isoweave.persist._checkpoint import FileJournal
from runs import CASES, GRAPH, POINTS, SQUARE

VERSIONS = _checkpoint.versions()


class Crash(Exception):
    pass


def bits(result):
    """Everything a fit gives, as bytes."""
    arrays = (result.coordinates, result.alignments, result.stretch, result.component_labels)
    rest = (result.history, result.energy, result.relative_energy, result.status, result.start, result.solver)
    return b"".join(a.tobytes() for a in (*arrays, result.dropped_edges)) + repr(rest).encode()


@contextmanager
def crash_after(n_writes):
    """Every journal fails once it has written so often."""
    seen, write = [], FileJournal.write

    def counted(self):
        is_written = write(self)
        seen.append(self.path)
        if len(seen) == n_writes:
            raise Crash
        return is_written

    with mock.patch.object(FileJournal, "write", counted):
        yield seen


def content(path):
    return take_apart(path.read_bytes())[0]["__metadata__"]["content"]


@pytest.mark.filterwarnings("ignore:The optimiser stopped", "ignore:The graph has 3")
@pytest.mark.parametrize("name", CASES)
def test_crash_after_crash(name, tmp_path, monkeypatch):
    """Every attempt gets some writes further, whatever is written; the last one comes to the end."""
    matrix, options = CASES[name]
    path = tmp_path / "run"
    if name == "half of the digits":
        monkeypatch.setattr("isoweave.optimise._problem.MANY_NUMBERS", 99)

    def fit(**more):
        return bits(embed_graph(matrix, **{"n_components": 2, **options}, **more))

    keep = {"checkpoint": Checkpoint(path, every=0, resume=True)}
    expected = fit()
    with crash_after(-1) as seen:
        assert fit(**keep) == expected
    assert len(seen) > 8
    # Resumed when it is finished, it has nothing to do.
    with monkeypatch.context() as patch:
        patch.setattr("isoweave.embed.embed_component", None)
        assert fit(**keep) == expected
    path.unlink()
    found, attempts = None, 0
    while found is None and attempts < 50:
        attempts += 1
        # At least two: what is written first may be what was there.
        with suppress(Crash), crash_after(max(2, len(seen) // 5)):
            found = fit(**keep)
    assert 3 < attempts < 50
    assert found == expected


def test_a_solver_that_has_failed_is_not_tried_again(tmp_path, monkeypatch):
    """The ladder of the solver is part of the state: another first guess would give other bits."""
    attempt = Direct.attempt

    def inaccurate(self, rhs, guess, goal):
        return (0.9 * attempt(self, rhs, None, goal)[0], 0) if guess is None else (guess, 1)

    monkeypatch.setattr(Direct, "attempt", inaccurate)
    options = {"start": "landmark", "tol": 1e-4}
    expected = embed_graph(GRAPH, **options)
    assert expected.solver.startswith("jacobi")
    keep = Checkpoint(tmp_path / "run", every=0, resume=True)
    with pytest.raises(Crash), crash_after(7):
        embed_graph(GRAPH, **options, checkpoint=keep)
    assert bits(embed_graph(GRAPH, **options, checkpoint=keep)) == bits(expected)


def test_features(tmp_path, monkeypatch):
    """The neighbours are a stage too, and so is the estimated dimension."""
    plain = IsometricEmbedding(n_components="auto", n_neighbors=8).fit(POINTS)
    kept = clone(plain).set_params(checkpoint=Checkpoint(tmp_path / "run", every=0, resume=True))
    with pytest.raises(Crash), crash_after(9):
        kept.fit(POINTS)
    monkeypatch.setattr("isoweave.graph.knn_graph", None)
    kept.set_params(n_jobs=2).fit(POINTS)
    assert kept.embedding_.tobytes() == plain.embedding_.tobytes()
    assert (kept.n_components_, kept.n_neighbors_) == (plain.n_components_, 8)
    assert (kept.graph_ != plain.graph_).nnz == 0
    # What is no array at all is refused in our words, not by numpy on the way to its checksum.
    other = IsometricEmbedding(metric="precomputed", checkpoint=Checkpoint(tmp_path / "other"))
    with pytest.raises(TypeError, match=r"anchors must be isoweave\.Anchors"):
        other.fit(plain.graph_, anchors=10**400)


@pytest.fixture(scope="module")
def unfinished_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("unfinished") / "run"
    with pytest.raises(Crash), crash_after(6):
        embed_graph(GRAPH, checkpoint=Checkpoint(path, every=0))
    return path.read_bytes()


@pytest.fixture
def unfinished(tmp_path, unfinished_bytes):
    """The file of a run that has crashed."""
    (tmp_path / "run").write_bytes(unfinished_bytes)
    return tmp_path / "run"


def test_another_run_is_refused(unfinished, unfinished_bytes, monkeypatch):
    nudged = GRAPH.copy()
    nudged.data[(nudged.indices == 0).argmax()] *= 1.0 + 2**-50
    start = r"start was 'auto' and is now 'float64 130 x 2, sha256"
    for matrix, options, reason in (
        (GRAPH, {"n_components": 3}, r"parameters\.n_components was 2 and is now 3"),
        (GRAPH, {"start": POINTS[:, :2]}, start),
        (nudged, {"asymmetry": "max"}, r"input\.graph\.lengths was 'float64 \d+, sha256"),
        (GRAPH, {"tol": 0.01}, r"parameters\.tol was 0\.03 and is now 0\.01"),
    ):
        with pytest.raises(CheckpointError, match=reason) as caught:
            embed_graph(matrix, **options, checkpoint=Checkpoint(unfinished, resume=True))
    told = caught.value
    assert (told.field, told.stored, told.now) == ("parameters.tol", 0.03, 0.01)
    # Nor is it lost by mistake.
    with pytest.raises(CheckpointError, match="not finished. Continue it .resume=True"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished))
    monkeypatch.setattr(_checkpoint, "versions", lambda: {**VERSIONS, "numpy": "9.9.9"})
    with pytest.raises(CheckpointError, match=r"versions\.numpy was .* and is now '9\.9\.9'"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))
    assert unfinished.read_bytes() == unfinished_bytes


def test_threads_and_memory_limit_may_differ_and_stages_be_missing(unfinished):
    """All that is kept follows from the input: any part of it may be gone."""
    header, body = take_apart(unfinished.read_bytes())
    del header["__metadata__"]["content"]["slots"]["component-0.landmark.start"]
    arrays = {n: a for n, a in arrays_of(header, body).items() if "landmark.start/" not in n}
    unfinished.write_bytes(with_arrays(header, arrays))
    result = embed_graph(GRAPH, n_jobs=2, memory_limit="none", checkpoint=Checkpoint(unfinished, resume=True))
    assert bits(result) == bits(embed_graph(GRAPH))


def test_finished_run_is_replaced(tmp_path, caplog):
    (tmp_path / "link").symlink_to("run.ckpt")
    keep = Checkpoint(tmp_path / "link", every=0)
    with caplog.at_level(logging.DEBUG, logger="isoweave"):
        embed_graph(GRAPH, checkpoint=keep)
    assert max(record.levelno for record in caplog.records) <= logging.INFO
    result = embed_graph(SQUARE, checkpoint=keep)
    assert bits(result) == bits(embed_graph(SQUARE))
    # Its maps stay, not the work on the way.
    assert (tmp_path / "link").is_symlink()
    assert set(content(tmp_path / "run.ckpt")["slots"]) == {"components"}
    assert content(tmp_path / "run.ckpt")["finished"] is True
    embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "link"))
    assert os.listdir(tmp_path) == ["link"], "a short run leaves nothing"


def test_damage_is_named(unfinished):
    data = bytearray(unfinished.read_bytes())
    data[len(data) // 2] ^= 1
    header, body = take_apart(data)
    header["__metadata__"]["content"]["slots"] = 3
    said = r"is damaged \(.*sha256: the file has changed.*; remove it"
    for spoiled, reason in ((bytes(data), said), (put_together(header, body), "is damaged")):
        unfinished.write_bytes(spoiled)
        with pytest.raises(CheckpointError, match=reason):
            embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))
        assert unfinished.read_bytes() == spoiled


NUMBERS = {"f": (np.nan, np.inf, 1e308, -1e200, 0.0), "i": (-1, 0, 10**6, 2**31 - 1), "b": (False, True)}


@pytest.mark.parametrize("name", ["coarse", "recursion"])
@pytest.mark.filterwarnings("ignore")
def test_hostile_records_are_refused(name, tmp_path):
    """A right checksum does not make numbers that can be continued with: a finite map, or our own error."""
    matrix, options = CASES[name]
    path, outcomes = tmp_path / "run", Counter()

    def fit(every=None, **more):
        keep = Checkpoint(path, every=every, resume=True)
        return embed_graph(matrix, 2, **options, **more, checkpoint=keep)

    with pytest.raises(Crash), crash_after(13):
        fit(every=0)
    header, body = take_apart(path.read_bytes())
    arrays, rng = arrays_of(header, body), np.random.default_rng(3)
    files = [with_arrays(header, {**arrays, at: a.astype(np.float16)}) for at, a in arrays.items() if a.size]
    for at, array in arrays.items():
        for number in rng.permutation(NUMBERS[array.dtype.kind])[:2] if array.size else ():
            for spoiled in (np.full_like(array, number), array.copy()):
                spoiled.reshape(-1)[rng.integers(array.size)] = number
                files.append(with_arrays(header, {**arrays, at: spoiled}))
    for slot, values in header["__metadata__"]["content"]["slots"].items():
        for key in values:
            for new in (None, -1, "x", [], ["x"]):
                changed = deepcopy(header)
                changed["__metadata__"]["content"]["slots"][slot][key] = new
                files.append(put_together(changed, body))
    for at in rng.permutation(len(files))[:25]:
        path.write_bytes(files[at])
        try:
            assert np.isfinite(fit().coordinates).all()
            outcomes["finite"] += 1
        except CheckpointError as error:
            outcomes["refused" if f"{path}: cannot be continued: " in str(error) else str(error)] += 1
    assert set(outcomes) == {"finite", "refused"}
    # An error of the user's own is not the file's fault.
    path.write_bytes(put_together(header, body))
    with pytest.raises(ZeroDivisionError, match="^float"):
        fit(callback=lambda state: 1.0 / 0.0)


def test_what_is_no_checkpoint_is_never_touched(tmp_path):
    isoweave.save(IsometricEmbedding(), tmp_path / "model")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("notes.txt")

    def states():
        found = {path: path.lstat() for path in tmp_path.rglob("*")}
        return {path: (s.st_ino, s.st_size, s.st_mtime_ns) for path, s in found.items()}

    before = states()
    for name in ("model", "notes.txt", "empty", "folder", "pipe", "link"):
        for resume in (False, True):
            keep = Checkpoint(tmp_path / name, every=0, resume=resume)
            with pytest.raises(CheckpointError, match=f"checkpoint {tmp_path / name}: .*left alone"):
                embed_graph(GRAPH, checkpoint=keep)
    assert states() == before
    with pytest.raises(OSError, match="folder .*none does not exist"):
        embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "none" / "run"))


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_file_that_takes_the_name_meanwhile_is_not_replaced(tmp_path, is_removed):
    """Nor is it a reason to end: the run goes on without its checkpoint."""
    path = tmp_path / "run"
    journal = FileJournal(path, {}, every=0, resume=False)
    journal.keep("a", Record)
    assert journal.write()
    path.unlink()
    assert journal.write(), "removed by somebody, it is made again"
    if is_removed:
        path.unlink()
    path.write_text("mine")
    with pytest.warns(UserWarning, match="another file now has its name"):
        assert not journal.write()
    journal.close()
    assert path.read_text() == "mine"
    assert os.listdir(tmp_path) == ["run"]


def test_two_never_hold_one_checkpoint(tmp_path, unfinished):
    """Three race for a file that is made, replaced and removed all the time; locks belong to open files."""
    path, inside = tmp_path / "raced", tmp_path / "inside"

    def attempt(_):
        entered = number = 0
        while entered < 30:
            number += 1
            try:
                journal = FileJournal(path, {}, every=0, resume=True)
            except CheckpointError as error:
                if "in use by another process" not in str(error):
                    raise
                continue
            inside.open("x").close()  # nobody else is
            entered += 1
            if number % 3:
                journal.keep("a", Record)
                assert journal.write()
                assert journal.write()
            inside.unlink()
            if number % 5 == 0:
                path.unlink(missing_ok=True)
            journal.close()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(attempt, range(3)))
    journal = FileJournal(unfinished, content(unfinished)["fingerprint"], every=None, resume=True)
    with pytest.raises(CheckpointError, match="in use by another process"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))
    journal.close()
    embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))
    # A run that was killed before its first write is in nobody's way.
    path = tmp_path / "begun"
    journal = FileJournal(path, {"a": 1}, every=None, resume=False)
    data = path.read_bytes()
    journal.close()
    for resume in (False, True):
        assert not path.exists()
        path.write_bytes(data)
        embed_graph(GRAPH, checkpoint=Checkpoint(path, resume=resume))
    assert not path.exists()


def test_writes_stay_a_small_share(tmp_path, monkeypatch):
    """A clock by hand: after a write of 4 s the next comes 200 s later."""
    now, write_store = [1000.0], _checkpoint.write_store

    def slow(*arguments):
        write_store(*arguments)
        now[0] += 4.0

    monkeypatch.setattr(_checkpoint, "time", SimpleNamespace(monotonic=lambda: now[0]))
    journal = FileJournal(tmp_path / "run", {}, every=None, resume=False)
    monkeypatch.setattr(_checkpoint, "write_store", slow)
    for seconds in (60, 200):
        now[0] += seconds - 1
        assert not journal.is_due()
        now[0] += 2
        assert journal.is_due()
        assert journal.write()
    journal.close()
    with pytest.raises(ValueError, match="every must be"):
        Checkpoint("run", every=-1)
    assert Checkpoint("run", every=3) == Checkpoint("run", every=3.0)
    assert "resume=True" in repr(Checkpoint("run", resume=True))
