"""Runs that go on from a checkpoint, in one process: a crash is an exception after a chosen write."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_swiss_roll

import isoweave
from attacker import arrays_of, put_together, take_apart, with_arrays
from isoweave import Checkpoint, CheckpointError, IsometricEmbedding, embed_graph
from isoweave.graph import knn_graph
from isoweave.linalg._methods import Direct
from isoweave.optimise import Record
from isoweave.persist import _checkpoint, _fingerprint
from isoweave.persist._checkpoint import FileJournal

POINTS = make_swiss_roll(260, random_state=1)[0]
GRAPH = knn_graph(POINTS, 8).to_matrix()
SQUARE = knn_graph(np.random.default_rng(4).random((110, 2)), 9).to_matrix()
PARTS = sp.csr_array(
    sp.block_diag([knn_graph(np.random.default_rng(n).random((n, 3)), 8).to_matrix() for n in (90, 40, 30)])
)
CASES = {
    "two starts": (GRAPH, {}),
    "synchronized": (GRAPH, {"start": "synchronized"}),
    "coarse": (GRAPH, {"start": "coarse", "tol": 1e-3}),
    "given": (GRAPH, {"start": np.random.default_rng(0).normal(size=(260, 2)), "max_iter": 12}),
    "recursion": (SQUARE, {"preset": "paper", "max_iter": 20, "scale": "geodesics"}),
    "components": (PARTS, {"n_components": 3, "start": "identity"}),
}


class Crash(Exception):
    pass


def ignoring_warnings(function):
    return pytest.mark.filterwarnings("ignore:The optimiser stopped", "ignore:The graph has 3")(function)


def bits(result):
    """Everything a fit gives, as bytes."""
    arrays = (result.coordinates, result.alignments, result.stretch, result.component_labels)
    steps = [(s.iteration, s.energy, s.gradient_norm, s.step) for s in result.history]
    texts = f"{result.energy!r} {result.relative_energy!r} {result.status} {result.start} {result.solver}"
    return b"".join(a.tobytes() for a in (*arrays, result.dropped_edges, np.array(steps))) + texts.encode()


def crash_after(monkeypatch, n_writes):
    """Every journal fails once it has written so often."""
    seen = []
    write = FileJournal.write

    def counted(self):
        is_written = write(self)
        seen.append(self.path)
        if len(seen) == n_writes:
            raise Crash
        return is_written

    monkeypatch.setattr(FileJournal, "write", counted)
    return seen


@ignoring_warnings
@pytest.mark.parametrize("name", CASES)
def test_resumed_after_every_write(name, tmp_path, monkeypatch):
    matrix, options = CASES[name]
    expected = bits(embed_graph(matrix, **{"n_components": 2, **options}))
    keep = Checkpoint(tmp_path / "run", every=0, resume=True)

    def fit():
        return bits(embed_graph(matrix, **{"n_components": 2, **options}, checkpoint=keep))

    with monkeypatch.context() as patch:
        seen = crash_after(patch, -1)
        assert fit() == expected
        n_writes = len(seen)
    assert n_writes > 8
    # Resumed when it is finished, it has nothing to do.
    with monkeypatch.context() as patch:
        patch.setattr("isoweave.embed.embed_component", None)
        assert fit() == expected
    for number in range(1, n_writes, max(1, n_writes // 5)):
        (tmp_path / "run").unlink()
        with monkeypatch.context() as patch:
            crash_after(patch, number)
            with pytest.raises(Crash):
                fit()
        assert fit() == expected, f"write {number} of {n_writes}"


def test_crash_after_crash(tmp_path, monkeypatch):
    """Every attempt gets two writes further; the last one comes to the end."""
    expected = bits(embed_graph(GRAPH))
    keep = Checkpoint(tmp_path / "run", every=0, resume=True)
    found, attempts = None, 0
    while found is None and attempts < 100:
        attempts += 1
        with monkeypatch.context() as patch, suppress(Crash):
            crash_after(patch, 2)
            found = bits(embed_graph(GRAPH, checkpoint=keep))
    assert attempts > 4
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
    with monkeypatch.context() as patch:
        crash_after(patch, 7)
        with pytest.raises(Crash):
            embed_graph(GRAPH, **options, checkpoint=keep)
    assert bits(embed_graph(GRAPH, **options, checkpoint=keep)) == bits(expected)


def test_features(tmp_path, monkeypatch):
    """The neighbours are a stage too, and so is the estimated dimension."""
    plain = IsometricEmbedding(n_components="auto", n_neighbors=8).fit(POINTS)
    kept = clone(plain).set_params(checkpoint=Checkpoint(tmp_path / "run", every=0, resume=True))
    with monkeypatch.context() as patch:
        crash_after(patch, 9)
        with pytest.raises(Crash):
            kept.fit(POINTS)
    with monkeypatch.context() as patch:
        patch.setattr("isoweave.estimator.knn_graph", None)
        kept.set_params(n_jobs=2).fit(POINTS)
    assert kept.embedding_.tobytes() == plain.embedding_.tobytes()
    assert (kept.n_components_, kept.n_neighbors_) == (plain.n_components_, 8)
    assert (kept.graph_ != plain.graph_).nnz == 0


@pytest.fixture
def unfinished(tmp_path, monkeypatch):
    """The file of a run that has crashed."""
    with monkeypatch.context() as patch:
        crash_after(patch, 6)
        with pytest.raises(Crash):
            embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "run", every=0))
    return tmp_path / "run"


def test_another_parameter_is_refused(unfinished):
    keep = Checkpoint(unfinished, resume=True)
    with pytest.raises(CheckpointError, match=r"parameters\.tol was 0\.03 and is now 0\.01") as caught:
        embed_graph(GRAPH, tol=0.01, checkpoint=keep)
    assert (caught.value.field, caught.value.stored, caught.value.now) == ("parameters.tol", 0.03, 0.01)
    with pytest.raises(CheckpointError, match=r"parameters\.n_components was 2 and is now 3"):
        embed_graph(GRAPH, 3, checkpoint=keep)
    with pytest.raises(
        CheckpointError, match=r"parameters\.start was 'auto' and is now 'float64 260 x 2, sha256"
    ):
        embed_graph(GRAPH, start=POINTS[:, :2], checkpoint=keep)


def test_another_input_is_refused(unfinished):
    other = GRAPH.copy()
    other.data = other.data.copy()
    edge = (other.indices == 0).argmax()
    other.data[edge] *= 1.0 + 2**-50
    keep = Checkpoint(unfinished, resume=True)
    with pytest.raises(CheckpointError, match=r"input\.graph\.lengths was 'float64 \d+, sha256"):
        embed_graph(other, asymmetry="max", checkpoint=keep)


def test_another_version_is_refused(unfinished, monkeypatch):
    was = _fingerprint.versions()
    monkeypatch.setattr(_fingerprint, "versions", lambda: {**was, "numpy": "9.9.9"})
    with pytest.raises(CheckpointError, match=rf"versions\.numpy was '{was['numpy']}' and is now '9\.9\.9'"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))


def test_threads_and_memory_limit_may_differ(unfinished):
    keep = Checkpoint(unfinished, resume=True)
    result = embed_graph(GRAPH, n_jobs=2, memory_limit="none", checkpoint=keep)
    assert bits(result) == bits(embed_graph(GRAPH))


def test_unfinished_run_is_not_lost_by_mistake(unfinished):
    before = unfinished.read_bytes()
    with pytest.raises(CheckpointError, match="not finished. Go on with it .resume=True"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished))
    assert unfinished.read_bytes() == before


def test_finished_run_is_replaced(tmp_path):
    keep = Checkpoint(tmp_path / "run", every=0)
    embed_graph(GRAPH, checkpoint=keep)
    result = embed_graph(SQUARE, checkpoint=keep)
    assert bits(result) == bits(embed_graph(SQUARE))
    # Its maps stay, not the work on the way.
    assert slots(keep.path) == {"components", "graph"}
    assert take_apart(keep.path.read_bytes())[0]["__metadata__"]["content"]["finished"] is True


def slots(path):
    return set(take_apart(path.read_bytes())[0]["__metadata__"]["content"]["slots"])


@pytest.mark.parametrize("at", [0.5, 1.0], ids=["middle", "end"])
def test_damage_is_named(unfinished, at):
    data = bytearray(unfinished.read_bytes())
    data[int(at * (len(data) - 1))] ^= 1
    unfinished.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"is damaged \(.*sha256: the file has changed.*; remove it"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))
    assert unfinished.read_bytes() == data


def test_missing_stages_are_made_again(unfinished):
    """All that is kept follows from the input: any part of it may be gone."""
    header, body = take_apart(unfinished.read_bytes())
    gone = ("graph", "component-0.frames")
    for slot in gone:
        del header["__metadata__"]["content"]["slots"][slot]
    arrays = {n: a for n, a in arrays_of(header, body).items() if n.split("/")[0] not in gone}
    unfinished.write_bytes(with_arrays(header, arrays))
    result = embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))
    assert bits(result) == bits(embed_graph(GRAPH))


def test_hostile_record_is_refused(unfinished):
    """A right checksum does not make a graph that kernels may walk on."""
    header, body = take_apart(unfinished.read_bytes())
    arrays = arrays_of(header, body)
    arrays["graph/graph.indices"] = arrays["graph/graph.indices"] + np.int32(10**6)
    unfinished.write_bytes(with_arrays(header, arrays))
    with pytest.raises(ValueError, match="graph.indices points outside of 0 .. 259"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))
    header["__metadata__"]["content"]["slots"] = 3
    unfinished.write_bytes(put_together(header, body))
    with pytest.raises(CheckpointError, match="is damaged"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))


@pytest.mark.parametrize("resume", [False, True])
def test_what_is_no_checkpoint_is_never_touched(tmp_path, resume):
    isoweave.save(IsometricEmbedding(), tmp_path / "model")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("notes.txt")
    before = {path: path.lstat() for path in tmp_path.rglob("*")}
    for name in ("model", "notes.txt", "empty", "folder", "pipe", "link"):
        keep = Checkpoint(tmp_path / name, every=0, resume=resume)
        with pytest.raises(CheckpointError, match=f"checkpoint {tmp_path / name}: .*left alone"):
            embed_graph(GRAPH, checkpoint=keep)
    after = {path: path.lstat() for path in tmp_path.rglob("*")}
    assert {p: (s.st_ino, s.st_size, s.st_mtime_ns) for p, s in after.items()} == {
        p: (s.st_ino, s.st_size, s.st_mtime_ns) for p, s in before.items()
    }
    with pytest.raises(OSError, match="folder .*none does not exist"):
        embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "none" / "run"))


@pytest.mark.parametrize("way", ["removed", "written over"])
def test_a_file_that_takes_the_name_meanwhile_is_not_replaced(tmp_path, way):
    """Nor is it a reason to end: the run goes on without its checkpoint."""
    path = tmp_path / "run"
    journal = FileJournal(path, {}, every=0, resume=False)
    journal.keep("a", Record)
    assert journal.write()
    path.unlink()
    assert journal.write(), "removed by somebody, it is made again"
    if way == "removed":
        path.unlink()
    path.write_text("mine")
    with pytest.warns(UserWarning, match="another file now has its name"):
        assert not journal.write()
    journal.close()
    assert path.read_text() == "mine"
    assert os.listdir(tmp_path) == ["run"]


def test_links_keep_pointing(tmp_path):
    (tmp_path / "link").symlink_to("run.ckpt")
    embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "link", every=0))
    assert (tmp_path / "link").is_symlink()
    assert slots(tmp_path / "run.ckpt") == {"components", "graph"}
    embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "link"))
    assert os.listdir(tmp_path) == ["link"], "a short run leaves nothing"


HOLD = """
import os, sys, time
from multiprocessing import get_context
from pathlib import Path
from isoweave import CheckpointError
from isoweave.optimise import Record
from isoweave.persist._checkpoint import FileJournal

def attempt(path, seconds):
    # Enter, look whether somebody else is inside, leave; the file comes and goes.
    inside, entered, number = Path(path + ".inside"), 0, 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        number += 1
        try:
            journal = FileJournal(Path(path), {}, every=0, resume=True)
        except CheckpointError as error:
            assert "in use by another process" in str(error), error
            continue
        inside.open("x").close()
        entered += 1
        if number % 3:
            journal.keep("a", Record)
            assert journal.write() and journal.write()
        inside.unlink()
        if number % 5 == 0:
            Path(path).unlink(missing_ok=True)
        journal.close()
    assert entered > 10, "it must come in now and then"

workers = [get_context("fork").Process(target=attempt, args=(sys.argv[1], 3.0)) for _ in range(3)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
assert not any(worker.exitcode for worker in workers)
"""


def test_two_processes_never_hold_one_checkpoint(tmp_path):
    """Three race for a file that is made, replaced and removed all the time."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HOLD, str(tmp_path / "run")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_checkpoint_in_use_is_refused(unfinished):
    fields = take_apart(unfinished.read_bytes())[0]["__metadata__"]["content"]["fingerprint"]
    journal = FileJournal(unfinished, fields, every=None, resume=True)
    with pytest.raises(CheckpointError, match="in use by another process"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))
    journal.close()
    embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))


def test_short_run_leaves_nothing(tmp_path):
    embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "run"))
    assert list(tmp_path.iterdir()) == []
    # A run killed before its first write leaves a file without slots, which is in nobody's way.
    journal = FileJournal(tmp_path / "run", {"a": 1}, every=None, resume=False)
    data = (tmp_path / "run").read_bytes()
    journal.close()
    for resume in (False, True):
        (tmp_path / "run").write_bytes(data)
        embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "run", resume=resume))
        assert list(tmp_path.iterdir()) == []


def test_writes_stay_a_small_share(tmp_path, monkeypatch):
    """A clock by hand: 300 MB at the assumed 150 MB/s are 2 s, which 100 s can afford."""
    now = [1000.0]
    monkeypatch.setattr(_checkpoint, "time", SimpleNamespace(monotonic=lambda: now[0]))
    journal = FileJournal(tmp_path / "run", {}, every=None, resume=False)

    def is_due_after(seconds, megabytes):
        now[0] = 1000.0 + seconds
        return journal.is_due(megabytes * 1_000_000)

    assert not is_due_after(59, 0)
    assert not is_due_after(61, 300)
    assert not is_due_after(99, 300)
    assert is_due_after(101, 300)
    small = np.zeros(250_000)
    journal.keep("x", lambda: Record({}, {"x": small}))
    write_store = _checkpoint.write_store

    def slow(*arguments, **named):
        write_store(*arguments, **named)
        now[0] += 4.0

    monkeypatch.setattr(_checkpoint, "write_store", slow)
    assert journal.write()
    # 2 MB took 4 s: 0.5 MB/s. The whole file and another 2 MB would make 12 s of 600 s.
    assert not is_due_after(599, 2)
    assert is_due_after(601, 2)
    journal.close()


def test_wrong_types():
    with pytest.raises(TypeError, match=r"checkpoint must be an isoweave\.Checkpoint or None, got 'run'"):
        embed_graph(GRAPH, checkpoint="run")
    with pytest.raises(ValueError, match="every must be"):
        Checkpoint("run", every=-1)
    assert Checkpoint("run", every=3) == Checkpoint("run", every=3.0)
    assert "resume=True" in repr(Checkpoint("run", resume=True))


def test_nothing_is_logged_above_info(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG, logger="isoweave"):
        embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "run", every=0))
    assert max(record.levelno for record in caplog.records) <= logging.INFO


def test_slots_go_only_when_nobody_needs_them(tmp_path):
    path = tmp_path / "run"
    journal = FileJournal(path, {}, every=0, resume=False)
    journal.keep("a.start", Record)
    journal.keep("a.state", lambda: Record({"n": 1}, {"x": np.arange(3)}))
    assert journal.write()
    journal.forget("a.")
    journal.keep("a.state", lambda: Record({"status": "converged"}))
    # Nothing goes before what replaces it has been written.
    assert slots(path) == {"a.start", "a.state"}
    assert journal.write()
    assert slots(path) == {"a.state"}
    journal.close()
    # What a run goes on from is written again with the rest, until it is forgotten.
    again = FileJournal(path, {}, every=0, resume=True)
    assert again.has("a.state")
    assert again.load("a.state").values == {"status": "converged"}
    assert again.load("b") is None
    again.keep("b", Record)
    assert again.write()
    assert slots(path) == {"a.state", "b"}
    again.forget("a.")
    assert again.write()
    assert slots(path) == {"b"}
    again.close()
