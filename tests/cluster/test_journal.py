"""A run kept in parts goes on with another number of ranks, and says what is wrong with a folder."""

from contextlib import nullcontext

import numpy as np
import pytest

from fits import refusals
from isoweave.cluster import Ranks, _journal
from isoweave.cluster._build import distribute
from isoweave.cluster._journal import ClusterInterrupt, ClusterJournal
from isoweave.graph import knn_graph
from isoweave.optimise import Record
from isoweave.persist import Checkpoint, write_store

POINTS = np.concatenate(
    [np.random.default_rng(0).random((90, 2)), np.random.default_rng(1).random((40, 2)) + 9]
)


def journal(comm, path, *, fields=None, **how):
    """A journal on some of the ranks, with their share."""
    graph, ranks = knn_graph(POINTS, 5), Ranks(comm)
    ends = graph.sources.astype(np.int64), graph.indices.astype(np.int64)
    share, rows = distribute(ranks, [(*ends, graph.lengths)] if ranks.rank == 0 else [], graph.n_vertices)
    return share, ClusterJournal(Checkpoint(path, every=0, **how), share, rows, fields or {"tol": 1})


def record(share, component=None):
    """Numbers by which a row is recognised wherever it is."""
    ids = share.caller_ids if component is None else share.caller_ids[share.component == component]
    rows = np.column_stack((ids, -ids)).astype(float)
    history = np.arange(12.0).reshape(3, 4)
    return Record({"iteration": 7, "notes": ["a"]}, {"x": rows, "pairs.0": rows + 0.5, "history": history})


def on_first(comm, action=lambda: None):
    """What the first rank does while the others wait."""
    comm.Barrier()
    if comm.rank == 0:
        action()
    comm.Barrier()


def check(found, share, component=None):
    wanted = record(share, component)
    assert dict(found.values) == dict(wanted.values)
    for name, array in wanted.arrays.items():
        assert np.array_equal(found.arrays[name], array), name


def test_another_number_of_ranks_goes_on(comm, folder):
    share, one = journal(comm, folder / "c")
    assert one.is_due()
    assert one.load("state") is None
    one.keep("state", lambda: record(share))
    one.keep("component-1.state", lambda: record(share, 1))
    assert one.write()
    assert one.write()  # replaces the first
    on_first(comm)
    assert len(comm.bcast(sorted(p.name for p in (folder / "c").iterdir()))) == comm.size + 1
    said = refusals(comm, lambda: journal(comm, folder / "c", resume=True))
    assert said == [f"checkpoint {folder / 'c' / 'index'}: is in use by another process."]
    one.close()
    # On fewer ranks, which read several parts each.
    few = comm.Split(0 if comm.rank < (comm.size + 1) // 2 else 1, comm.rank)
    if comm.rank < (comm.size + 1) // 2:
        here, other = journal(few, folder / "c", resume=True)
        assert other.is_resumed
        check(other.load("state"), here)
        check(other.load("component-1.state"), here, 1)
        other.forget("component-")
        assert other.load("component-1.state") is None
        other.keep("state", lambda: record(here))
        assert other.write()
        other.close()
    on_first(comm)
    # And on more again.
    share, third = journal(comm, folder / "c", resume=True)
    check(third.load("state"), share)
    third.keep("state", lambda: record(share))
    third.finish()
    comm.Barrier()
    journal(comm, folder / "c")[1].close()  # a finished run may be replaced
    few.Free()


def test_folders_that_cannot_be_continued(comm, folder):
    share, one = journal(comm, folder / "c")
    one.keep("state", lambda: record(share))
    one.write()
    one.close()
    comm.Barrier()
    said = refusals(comm, lambda: journal(comm, folder / "c"))
    hint = "Continue it (resume=True, --resume), or remove it."
    assert said == [f"checkpoint {folder / 'c' / 'index'}: holds a run that is not finished. {hint}"]
    said = refusals(comm, lambda: journal(comm, folder / "c", resume=True, fields={"tol": 2}))
    assert (
        "belongs to another run: tol was 1 and is now 2. Use the former value, or remove the folder."
        in said[0]
    )
    on_first(comm, lambda: next((folder / "c").glob("state-1-part-00000*")).unlink())
    _, again = journal(comm, folder / "c", resume=True)
    (said,) = refusals(comm, lambda: again.load("state"))
    assert "state-1-part-00000" in said
    again.close()
    file = folder / "d" / "notes.txt"
    on_first(comm, lambda: (file.parent.mkdir(), file.write_text("mine")))
    assert "is a folder that holds no checkpoint" in refusals(comm, lambda: journal(comm, folder / "d"))[0]
    assert "is not a folder; engine='petsc' keeps" in refusals(comm, lambda: journal(comm, file))[0]


def test_what_others_have_put_there_stays(comm, folder):
    share, one = journal(comm, folder / "c")
    one.keep("state", lambda: record(share))
    assert one.write()
    theirs = [f"1-part-{name}" for name in ("notes", "00000-of-00009", "00000-of-00001.bak")]
    theirs.append(f"3-part-00000-of-{comm.size:05d}")
    on_first(comm, lambda: [(folder / "c" / f"state-{name}").write_text("mine") for name in theirs])
    assert one.write()
    not_written(comm, one, "another file has its name")
    comm.Barrier()
    found = {path.name: path.read_bytes() for path in (folder / "c").glob("state-[13]*")}
    assert set(found.values()) == {b"mine"}
    assert len(found) == len(theirs)
    one.close()
    # A folder that was there before is not removed, though a short run leaves nothing in it.
    on_first(comm, (folder / "d").mkdir)
    for name, was_there in (("d", True), ("e", False)):
        journal(comm, folder / name)[1].finish()
        on_first(comm)
        assert (folder / name).exists() is was_there


def test_an_index_of_somebody_elses_making(comm, folder):
    whole = {"generation": 1, "parts": 1, "rows": {"state": ["x"]}}
    odd = ({"generation": "x"}, {"generation": -1}, {"parts": 0}, {"parts": 1e300}, {"rows": [1]})
    odd += ({"rows": {"state": 1}}, {"rows": {"no": ["x"]}})
    on_first(comm, (folder / "c").mkdir)
    for change in odd:
        content = {"fingerprint": {"tol": 1}, "slots": {"parts": whole | change, "state": {}}}
        with (folder / f"{comm.rank}").open("wb") as file:
            write_store(file, "checkpoint in parts", content, {})
        on_first(comm, lambda: (folder / "0").rename(folder / "c" / "index"))
        assert "is damaged" in refusals(comm, lambda: journal(comm, folder / "c", resume=True))[0], change


def not_written(comm, journal, match):
    """The first rank says why, and the run goes on."""
    with pytest.warns(UserWarning, match=match) if comm.rank == 0 else nullcontext():
        assert not journal.write()


def test_a_part_that_cannot_be_written_is_a_warning(comm, folder, monkeypatch):
    share, one = journal(comm, folder / "c")
    one.keep("state", lambda: record(share))
    assert one.write()

    def full(path):
        raise OSError(28, "No space left on device")

    if comm.rank == comm.size - 1:
        monkeypatch.setattr(_journal, "atomic_write", full)
    not_written(comm, one, "not written; the fit continues: .*no space is left")
    one.close()
    comm.Barrier()
    here, other = journal(comm, folder / "c", resume=True)
    check(other.load("state"), here)
    other.close()


def test_a_file_system_without_locks(comm, folder, monkeypatch):
    def none(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    journal(comm, folder / "c")[1].close()


def test_an_interrupt_of_one_rank_is_one_of_all(comm):
    interrupt = ClusterInterrupt(Ranks(comm))
    assert interrupt.ending == ""
    if comm.rank == comm.size - 1:
        interrupt.is_asked = True
    assert not interrupt.is_asked  # until all know
    assert interrupt.ending == "interrupted"
    assert interrupt.is_asked
