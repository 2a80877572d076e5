"""`mpiexec isoweave embed --engine petsc` from file to file, and what it says when something goes wrong."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

from fits import apart
from isoweave import embed_graph
from isoweave.graph import graph_from_matrix, knn_graph, renumber
from isoweave.io import read_embedding

pytestmark = pytest.mark.slow
TIGHT = ("--tol", "1e-6", "--max-iter", "2000")


@pytest.fixture(scope="module", autouse=True)
def _has_petsc():
    pytest.importorskip("petsc4py", reason="needs PETSc: make test-cluster")
    if shutil.which("mpiexec") is None:
        pytest.skip("needs mpiexec: make test-cluster")


@pytest.fixture(scope="module")
def roll():
    """A rolled sheet in random order, large enough for the ranks to share it; its misfit is not rounding."""
    rng = np.random.default_rng(0)
    u, v = rng.random((2, 3200))
    angle = 1.5 * np.pi * (1 + 2 * u)
    graph = knn_graph(np.column_stack((angle * np.cos(angle), 21 * v, angle * np.sin(angle))), 6)
    return renumber(graph, rng.permutation(3200))


@pytest.fixture(scope="module")
def on_one_machine(roll):
    # PETSc solves exactly, as one machine does by default up to 3,000 vertices only.
    return embed_graph(roll, n_components=2, tol=1e-6, max_iter=2000, solver="direct")


def start(n_ranks, *arguments):
    """The command on so many ranks, running."""
    # What MPI tells a process of its own job is not for another job.
    own = {k: v for k, v in os.environ.items() if not re.match("OMPI_(?!ALLOW|MCA_btl)|PMIX|PRTE|ORTE", k)}
    own |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "COLUMNS": "200"}
    line = ["mpiexec", "--oversubscribe", "-n", str(n_ranks), sys.executable, "-m", "isoweave", "embed"]
    line += [str(a) for a in arguments] + ["--engine", "petsc"]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own)


def run(n_ranks, *arguments):
    done = start(n_ranks, *arguments)
    out, err = done.communicate(timeout=900)
    return done.returncode, out, err


def errors(text):
    return [line for line in text.splitlines() if line.startswith("isoweave: error:")]


def write_edges(path, graph):
    once = graph.sources < graph.indices
    columns = [array[once] for array in (graph.sources, graph.indices, graph.lengths)]
    columns = dict(zip(("source", "target", "distance"), columns, strict=True))
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=5000)
    elif path.suffix == ".npz":
        sp.save_npz(path, graph.to_matrix())
    else:
        path.mkdir()
        for k in range(5):
            np.savez(path / f"{k}.npz", **{name: array[k::5] for name, array in columns.items()})
    return path


def read_map(path):
    if path.is_file():
        return read_embedding(path).coordinates
    parts = []
    for name in sorted(path.iterdir()):
        with np.load(name) as part:
            assert part["rows"][1] - part["rows"][0] == len(part["embedding"]) == len(part["stretch"])
            parts.append(part["embedding"])
    return np.concatenate(parts)


@pytest.mark.parametrize(
    ("n_ranks", "given", "made"),
    [(1, "g.npz", "m.npz"), (2, "g.parquet", "m.parquet"), (3, "g", "m"), (4, "g.npz", "m.csv")],
)
def test_the_same_map_as_on_one_machine(tmp_path, roll, on_one_machine, n_ranks, given, made):
    write_edges(tmp_path / given, roll)
    code, out, err = run(n_ranks, tmp_path / given, "-o", tmp_path / made, "-v", *TIGHT)
    assert (code, errors(err)) == (0, []), err
    assert apart(read_map(tmp_path / made), on_one_machine.coordinates) < 1e-5
    assert f"3,200 on {n_ranks} ranks" in out
    assert "sent in a step" in out
    energy = float(re.search(r"energy +│ ([\d.e+-]+),", out)[1])
    # Refining ends while edges still move by 1e-5 of their lengths, whatever the tolerance.
    assert energy == pytest.approx(on_one_machine.energy, rel=1e-6)


def test_duplicates_components_and_isolated_vertices(tmp_path):
    rng = np.random.default_rng(3)
    points = np.concatenate((rng.random((120, 2)), rng.random((60, 2)) + 5))
    points[150:] = points[:30]
    edges = knn_graph(points, 6).to_matrix().tocoo()
    graph = graph_from_matrix(sp.coo_array((edges.data, (edges.row, edges.col)), shape=(182, 182)))
    write_edges(tmp_path / "g.npz", graph)
    code, _, err = run(3, tmp_path / "g.npz", "-o", tmp_path / "m.npz", *TIGHT)
    assert code == 0, err
    with np.load(tmp_path / "m.npz") as found:
        points, labels = found["embedding"], found["component_labels"]
    with pytest.warns(UserWarning, match="4 connected components"):
        reference = embed_graph(graph, n_components=2, tol=1e-6, max_iter=2000)
    assert np.array_equal(labels, reference.component_labels)
    assert np.array_equal(points[150:180], points[:30])
    for c in (0, 1):
        inside = labels == c
        assert apart(points[inside], reference.coordinates[inside]) < 1e-5


def test_anchors_stay_where_they_are(tmp_path, roll, on_one_machine):
    rows = np.array([5, 700, 1300, 3000])
    places = on_one_machine.coordinates[rows] + [1e5, -3e4]
    lines = [f"{r},{x!r},{y!r}" for r, (x, y) in zip(rows, places.tolist(), strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    write_edges(tmp_path / "g.npz", roll)
    anchors = ("--anchors", tmp_path / "a.csv")
    code, _, err = run(2, tmp_path / "g.npz", "-o", tmp_path / "m.npy", *anchors, *TIGHT)
    assert code == 0, err
    found = np.load(tmp_path / "m.npy")
    assert np.array_equal(found[rows], places)
    assert np.abs(found - on_one_machine.coordinates - [1e5, -3e4]).max() < 1.0


def test_a_killed_rank_ends_the_job_and_others_go_on_from_the_checkpoint(tmp_path, roll, on_one_machine):
    write_edges(tmp_path / "g.npz", roll)
    keep = ("--checkpoint", tmp_path / "c", "--every", "0")
    line = (tmp_path / "g.npz", "-o", tmp_path / "m.npy", *keep, *TIGHT)
    job = start(3, *line)
    deadline = time.monotonic() + 600
    # Once there is a second state, or a later one, the index names the one before.
    while not any(int(path.name.split("-")[1]) > 1 for path in (tmp_path / "c").glob("state-*-part-*")):
        assert job.poll() is None, job.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    ps = ["ps", "-o", "pid=", "--ppid", str(job.pid)]
    children = subprocess.run(ps, capture_output=True, text=True).stdout
    os.kill(int(children.split()[-1]), signal.SIGKILL)
    # A minute is what a user is promised.
    _, err = job.communicate(timeout=60)
    assert job.returncode != 0
    assert "Killed" in err or "exited" in err
    assert not (tmp_path / "m.npy").exists()
    code, _, err = run(2, *line)
    assert code != 0
    assert len(errors(err)) == 1
    assert "holds a run that is not finished" in errors(err)[0]
    code, _, err = run(2, *line, "--resume")
    assert code == 0, err
    assert apart(np.load(tmp_path / "m.npy"), on_one_machine.coordinates) < 1e-5


def no_number(folder):
    """Only the last rank, which reads it, can know."""
    with np.load(folder / "4.npz") as part:
        columns = dict(part)
    columns["distance"][-1] = np.nan
    np.savez(folder / "4.npz", **columns)


def broken_part(folder):
    np.savez(folder / "3.npz", source=[1, 2], target=[3], distance=[1.0, 1.0])


@pytest.mark.parametrize(
    ("damage", "more", "said"),
    [
        (lambda folder: (folder / "2.npz").unlink(), "", "part 2 is missing; found 4 of 5 parts"),
        (broken_part, "", "3.npz: the arrays of a list of edges must be equally long"),
        (lambda folder: (folder / "4.npz").write_bytes(b"no"), "", "4.npz: not a .npz archive"),
        (no_number, "", "4.npz: distance nan between vertices"),
        (None, "--report page.html", "engine='petsc' does not support --report"),
        (None, "--metric cosine", "engine='petsc' does not support --metric"),
        (None, "--preset paper", "paper"),
        (None, "--n-components auto", "engine='petsc' does not support --n-components auto"),
        (None, "--anchors nowhere.csv", "nowhere.csv: no such file"),
        (None, "-o {folder}/g", "the folder is not empty"),
        (None, "-o {folder}/no/m.npy", "does not exist"),
    ],
)
def test_one_rank_says_what_is_wrong_and_none_hangs(tmp_path, damage, more, said):
    graph = knn_graph(np.random.default_rng(0).random((60, 2)), 5)
    write_edges(tmp_path / "g", graph)
    if damage:
        damage(tmp_path / "g")
    more = more.format(folder=tmp_path).split()
    code, _, err = run(3, tmp_path / "g", "-o", tmp_path / "m.npy", *more)
    assert code == 2
    (line,) = errors(err)
    assert said in line
    assert not (tmp_path / "m.npy").exists()
