"""Nothing opens a socket: programs run with an audit hook that raises whenever the socket module is used."""

import os
import subprocess
import sys

import pytest

# Audit events come from the interpreter itself, before anything is done, whoever calls. The list is kept in
# case somebody catches the error.
GUARD = """
import sys
used = []
def refuse(event, arguments):
    if event.split(".")[0] in ("socket", "urllib", "http", "ftplib", "smtplib", "webbrowser"):
        used.append(event)
        raise PermissionError(f"{event}{arguments}")
sys.addaudithook(refuse)
"""
DATA = """
import numpy as np
import scipy.sparse as sp
from pathlib import Path
X = np.random.default_rng(5).normal(size=(80, 3)) * np.array([4.0, 3.0, 0.1])
"""
END = "\nassert not used, used\nprint('quiet')\n"

PROGRAMS = {
    "fits, readers, commands and libraries": DATA
    + """
from isoweave import IsometricEmbedding, embed_graph, estimate_resources, load, save
model = IsometricEmbedding(n_neighbors=8, n_jobs=2).fit(X)
model.transform(X[:3] + 0.01)
model.save("model")
assert np.array_equal(load("model").embedding_, model.embedding_)
save(embed_graph(model.graph_), "map")
load("map")
from isoweave.io import InputFileError, read_embedding, read_input, read_labels
np.save("x.npy", X)
np.savetxt("x.csv", X, delimiter=",")
Path("labels.csv").write_text("a\\nb\\n")
Path("x.edges").write_text("0 1 1.5\\n1 2 2.5\\n")
Path("x.mtx").write_text("%%MatrixMarket matrix coordinate real symmetric\\n3 3 2\\n2 1 1\\n3 2 1\\n")
sp.save_npz("x.npz", sp.csr_array(np.ones((4, 4)) - np.eye(4)))
for name in ("x.npy", "x.csv", "x.edges", "x.mtx", "x.npz"):
    read_input(name)
read_embedding("x.npy")
read_labels("labels.csv")
# Names that look like addresses are names of files.
for name in ("http://localhost/x.csv", "s3://bucket/x.npz", "file:///x.npy", "//host/share/x.csv"):
    try:
        read_input(name)
    except InputFileError:
        continue
    raise AssertionError(name)
from typer.testing import CliRunner
from isoweave.cli import app
from isoweave.graph import knn_graph
sp.save_npz("graph.npz", sp.csr_matrix(knn_graph(X, 8).to_matrix()))
commands = "--version,embed x.npy -o map.npz -k 8,dimension x.npy,forecast x.npy"
commands += ",evaluate graph.npz map.npz --json"
codes = [CliRunner().invoke(app, command.split()).exit_code for command in commands.split(",")]
assert codes == [0] * 5, codes
assert CliRunner().invoke(app, ["embed", "http://localhost/x.npy", "-o", "map.npz"]).exit_code == 2
# The work of the process for pyarrow and libhdf5, done here, where the hook sees it.
import io, h5py, pyarrow, pyarrow.parquet
from isoweave.io import _worker
pyarrow.parquet.write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1]}), "x.parquet")
with h5py.File("x.h5ad", "w") as file:
    file["X"] = X
for kind in ("parquet", "h5ad"):
    _worker.produce(kind, "features", f"x.{kind}", 1 << 27, output := io.BytesIO(), ())
    assert output.getvalue().startswith(b"PK")
""",
    # That the hook sees every way out; and a data set is fetched only when asked: without fetch=True the
    # missing file is named, with it the connection is tried.
    "ways out": """
import socket
from sklearn.datasets import fetch_openml
from isoweave.datasets import DatasetMissingError, load_mnist

try:
    load_mnist(data_home=".")
    raise AssertionError("there is no data here")
except DatasetMissingError:
    assert not used
for way in (
    socket.socket,
    lambda: socket.getaddrinfo("localhost", 80),
    lambda: fetch_openml(data_id=61, data_home=".", n_retries=1),
    lambda: load_mnist(data_home=".", fetch=True),
):
    try:
        way()
    except OSError:
        assert used
        used.clear()
""",
}


def run(program, folder):
    return subprocess.run(
        [sys.executable, "-c", GUARD + program + END],
        cwd=folder,
        env=os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "SCIKIT_LEARN_DATA": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_socket(tmp_path, name):
    done = run(PROGRAMS[name], tmp_path)
    assert done.stdout.endswith("quiet\n"), done.stdout + done.stderr
    if name == "ways out":  # a refusal that is caught is remembered
        done = run("import socket\ntry:\n    socket.socket()\nexcept OSError:\n    pass", tmp_path)
        assert (done.returncode, done.stdout, "socket.__new__" in done.stderr) == (1, "", True)
