"""Runs that go on from a checkpoint, in one process: a crash is an exception after a chosen write."""

from __future__ import annotations

import logging
import shutil
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_swiss_roll

import isoweave
from isoweave import Checkpoint, CheckpointError, IsometricEmbedding, embed_graph
from isoweave._files import WriteError
from isoweave.checkpoints import _fingerprint, _folder
from isoweave.checkpoints._folder import FolderJournal
from isoweave.graph import knn_graph
from isoweave.linalg._direct import Direct
from isoweave.optimise import Record

POINTS = make_swiss_roll(260, random_state=1)[0]
GRAPH = knn_graph(POINTS, 8).to_matrix()
SQUARE = knn_graph(np.random.default_rng(4).random((110, 2)), 9).to_matrix()
PARTS = sp.csr_array(
    sp.block_diag([knn_graph(np.random.default_rng(n).random((n, 3)), 8).to_matrix() for n in (90, 40, 30)])
)
CASES = {
    "two starts": (GRAPH, {}),
    "synchronised": (GRAPH, {"start": "synchronised"}),
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
    write = FolderJournal.write

    def counted(self):
        is_written = write(self)
        seen.append(self.path)
        if len(seen) == n_writes:
            raise Crash
        return is_written

    monkeypatch.setattr(FolderJournal, "write", counted)
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
        patch.setattr("isoweave.embedding._embed.embed_component", None)
        assert fit() == expected
    for number in range(1, n_writes, max(1, n_writes // 5)):
        shutil.rmtree(tmp_path / "run")
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
        patch.setattr("isoweave._estimator_graph.knn_graph", None)
        kept.set_params(n_jobs=2).fit(POINTS)
    assert kept.embedding_.tobytes() == plain.embedding_.tobytes()
    assert (kept.n_components_, kept.n_neighbors_) == (plain.n_components_, 8)
    assert (kept.graph_ != plain.graph_).nnz == 0


@pytest.fixture
def unfinished(tmp_path, monkeypatch):
    """The folder of a run that has crashed."""
    with monkeypatch.context() as patch:
        crash_after(patch, 6)
        with pytest.raises(Crash):
            embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "run", every=0))
    return tmp_path / "run"


def test_another_parameter_is_refused(unfinished):
    keep = Checkpoint(unfinished, resume=True)
    with pytest.raises(CheckpointError, match=r"parameters\.tol was 0\.03 and is 0\.01 now") as caught:
        embed_graph(GRAPH, tol=0.01, checkpoint=keep)
    assert (caught.value.field, caught.value.stored, caught.value.now) == ("parameters.tol", 0.03, 0.01)
    with pytest.raises(CheckpointError, match=r"parameters\.n_components was 2 and is 3 now"):
        embed_graph(GRAPH, 3, checkpoint=keep)
    with pytest.raises(CheckpointError, match=r"parameters\.start was auto and is float64 260 x 2, sha256"):
        embed_graph(GRAPH, start=POINTS[:, :2], checkpoint=keep)


def test_another_input_is_refused(unfinished):
    other = GRAPH.copy()
    other.data = other.data.copy()
    edge = (other.indices == 0).argmax()
    other.data[edge] *= 1.0 + 2**-50
    keep = Checkpoint(unfinished, resume=True)
    with pytest.raises(CheckpointError, match=r"input\.graph\.lengths was float64 \d+, sha256"):
        embed_graph(other, asymmetry="max", checkpoint=keep)


def test_another_version_is_refused(unfinished, monkeypatch):
    was = _fingerprint.versions()
    monkeypatch.setattr(_fingerprint, "versions", lambda: {**was, "numpy": "9.9.9"})
    with pytest.raises(CheckpointError, match=rf"versions\.numpy was {was['numpy']} and is 9\.9\.9 now"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))


def test_threads_and_memory_limit_may_differ(unfinished):
    keep = Checkpoint(unfinished, resume=True)
    result = embed_graph(GRAPH, n_jobs=2, memory_limit="none", checkpoint=keep)
    assert bits(result) == bits(embed_graph(GRAPH))


def test_unfinished_run_is_not_lost_by_mistake(unfinished):
    before = sorted(path.name for path in unfinished.iterdir())
    with pytest.raises(CheckpointError, match="not finished. Go on with it .resume=True"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished))
    assert sorted(path.name for path in unfinished.iterdir()) == before


def test_finished_run_is_replaced(tmp_path):
    keep = Checkpoint(tmp_path / "run", every=0)
    embed_graph(GRAPH, checkpoint=keep)
    result = embed_graph(SQUARE, checkpoint=keep)
    assert bits(result) == bits(embed_graph(SQUARE))
    assert sorted(path.name for path in keep.path.iterdir()) == ["components", "graph", "lock", "run"]


@pytest.mark.parametrize("file", ["graph/graph.lengths.npy", "run/manifest.json", "graph/manifest.sha256"])
def test_damage_is_named(unfinished, file):
    data = bytearray((unfinished / file).read_bytes())
    data[len(data) // 2] ^= 1
    (unfinished / file).write_bytes(data)
    with pytest.raises(CheckpointError, match=f"is damaged .*{file.split('/')[0]}.* remove the folder"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))


def test_stage_of_another_run_is_refused(unfinished, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        crash_after(patch, 4)
        with pytest.raises(Crash):
            embed_graph(SQUARE, checkpoint=Checkpoint(tmp_path / "other", every=0))
    shutil.rmtree(unfinished / "graph")
    shutil.copytree(tmp_path / "other" / "graph", unfinished / "graph")
    with pytest.raises(CheckpointError, match="graph belongs to another run"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))


def test_missing_stages_are_made_again(unfinished):
    """All that is kept follows from the input: any part of it may be gone."""
    expected = bits(embed_graph(GRAPH))
    for slot in ("graph", "component-0.frames"):
        shutil.rmtree(unfinished / slot)
    assert bits(embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))) == expected


def test_foreign_folders_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=r"holds notes\.txt, which is no part of a checkpoint"):
        embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path))
    with pytest.raises(CheckpointError, match="is a file; a checkpoint is a folder"):
        embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "notes.txt"))
    isoweave.save(embed_graph(SQUARE), tmp_path / "map")
    with pytest.raises(CheckpointError, match=r"holds \w+\.npy"):
        embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "map"))
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_two_processes_at_once_are_refused(unfinished):
    journal = FolderJournal(unfinished, read_fields(unfinished), every=None, resume=True)
    with pytest.raises(CheckpointError, match="in use by another process"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))
    journal.close()
    embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))


def read_fields(path):
    from isoweave.persist import read_store

    return read_store(path / "run").scalars["fingerprint"]


@pytest.mark.parametrize("exists", [True, False])
def test_short_run_leaves_nothing(tmp_path, exists):
    path = tmp_path / "run"
    if exists:
        path.mkdir()
    embed_graph(GRAPH, checkpoint=Checkpoint(path))
    assert path.exists() == exists
    assert not exists or not list(path.iterdir())


def test_full_disk_does_not_end_the_fit(tmp_path, monkeypatch):
    expected = bits(embed_graph(GRAPH))
    write, seen = _folder.write_store, []

    def full(path, *arguments, **named):
        seen.append(path)
        if 3 <= len(seen) <= 6:
            raise WriteError(28, "no space is left on the device", path)
        write(path, *arguments, **named)

    monkeypatch.setattr(_folder, "write_store", full)
    with pytest.warns(UserWarning, match="not written, the fit goes on: .*no space is left"):
        result = embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "run", every=0))
    assert bits(result) == expected
    assert bits(embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "run", resume=True))) == expected


def test_writes_stay_a_small_share(tmp_path, monkeypatch):
    """A clock by hand: 300 MB at the assumed 150 MB/s are 2 s, which 100 s can afford."""
    now = [1000.0]
    monkeypatch.setattr(_folder, "time", SimpleNamespace(monotonic=lambda: now[0]))
    journal = FolderJournal(tmp_path / "run", {}, every=None, resume=False)

    def is_due_after(seconds, megabytes):
        now[0] = 1000.0 + seconds
        return journal.is_due(megabytes * 1_000_000)

    assert not is_due_after(59, 0)
    assert not is_due_after(61, 300)
    assert not is_due_after(99, 300)
    assert is_due_after(101, 300)
    small = np.zeros(250_000)
    journal.keep("x", lambda: Record({}, {"x": small}))
    write_store = _folder.write_store

    def slow(*arguments, **named):
        write_store(*arguments, **named)
        now[0] += 2.0

    monkeypatch.setattr(_folder, "write_store", slow)
    assert journal.write()
    # The head and 2 MB took 4 s: 0.5 MB/s. Another 2 MB would make 8 s of 400 s.
    assert not is_due_after(399, 2)
    assert is_due_after(401, 2)
    journal.close()


def test_finished_but_too_large_to_keep(tmp_path, monkeypatch):
    """Then the last state stays, and leads to the same map."""
    expected = bits(embed_graph(GRAPH))
    monkeypatch.setattr(_folder, "_SECONDS", 0.0)
    monkeypatch.setattr(_folder, "_SPEED", 1e15)
    keep = Checkpoint(tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(FolderJournal, "_is_affordable", affordable_but_at_the_end())
        assert bits(embed_graph(GRAPH, checkpoint=keep)) == expected
    assert (keep.path / "component-0.frames").exists()
    again = Checkpoint(tmp_path / "run", resume=True)
    assert bits(embed_graph(GRAPH, checkpoint=again)) == expected
    # It is marked as finished: another run may replace it.
    assert bits(embed_graph(SQUARE, checkpoint=keep)) == bits(embed_graph(SQUARE))


def affordable_but_at_the_end():
    def is_affordable(self, n_bytes, now):
        return "components" not in self._pending

    return is_affordable


def test_wrong_types():
    with pytest.raises(TypeError, match=r"checkpoint must be an isoweave\.Checkpoint or None, got 'run'"):
        embed_graph(GRAPH, checkpoint="run")
    with pytest.raises(ValueError, match="every must be"):
        Checkpoint("run", every=-1)
    assert Checkpoint("run", every=3) == Checkpoint("run", every=3.0)
    assert "resume=True" in repr(Checkpoint("run", resume=True))


def test_hostile_record_is_refused(unfinished):
    """Right checksums do not make a graph that kernels may walk on."""
    from isoweave.persist import read_store, write_store

    store = read_store(unfinished / "graph")
    arrays = dict(store.arrays)
    arrays["graph.indices"] = arrays["graph.indices"] + 10**6
    write_store(unfinished / "graph", store.kind, scalars=store.scalars, arrays=arrays)
    with pytest.raises(ValueError, match="graph.indices points outside of 0 .. 259"):
        embed_graph(GRAPH, checkpoint=Checkpoint(unfinished, resume=True))


def test_saved_model_does_not_know_its_checkpoint(tmp_path):
    model = IsometricEmbedding(n_neighbors=8, checkpoint=Checkpoint(tmp_path / "run")).fit(POINTS)
    model.save(tmp_path / "model")
    assert IsometricEmbedding.load(tmp_path / "model").checkpoint is None


def test_nothing_is_logged_above_info(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG, logger="isoweave"):
        embed_graph(GRAPH, checkpoint=Checkpoint(tmp_path / "run", every=0))
    assert max(record.levelno for record in caplog.records) <= logging.INFO


def test_slots_go_only_when_nobody_needs_them(tmp_path):
    journal = FolderJournal(tmp_path / "run", {}, every=0, resume=False)

    def slots():
        return {path.name for path in (tmp_path / "run").iterdir() if path.is_dir()}

    journal.keep("a.start", Record)
    journal.keep("a.state", Record)
    assert journal.write()
    assert slots() == {"run", "a.start", "a.state"}
    journal.forget("a.")
    journal.keep("a.state", lambda: Record({"status": "converged"}))
    # Nothing goes before what replaces it has been written.
    assert slots() == {"run", "a.start", "a.state"}
    assert journal.write()
    assert slots() == {"run", "a.state"}
    journal.forget("a.")
    journal.keep("b", Record)
    assert journal.write()
    assert slots() == {"run", "b"}
    journal.close()
