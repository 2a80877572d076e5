"""Commands that take data: embed, forecast, dimension, diagnose."""

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave import IsometricEmbedding, diagnose, estimate_resources
from isoweave.datasets import sensor_network
from isoweave.io import read_embedding
from isoweave.metrics import procrustes_error

NET = sensor_network(150, radius=0.2, n_anchors=5, random_state=6)


def test_features_and_graph_agree(run, sheet):
    """The same neighbours, given as points or as distances, make the same map."""
    run("embed", "x.npy", "-o", "y.npz", "-k", 8, "-n", 2, "--seed", 5)
    run("embed", "a.npz", "-o", "z.npz", "-n", 2, "--seed", 5)
    run("embed", "a.npz", "-o", "z.csv", "-n", 2, "--seed", 5)
    y, z = np.load("y.npz")["embedding"], np.load("z.npz")["embedding"]
    assert y.shape == (300, 2)
    np.testing.assert_array_equal(read_embedding("z.csv").coordinates, z)
    assert procrustes_error(y, z) < 1e-10
    assert procrustes_error(sheet, y) < 1e-2


def test_output(run, graph):
    """What an archive holds is tested in tests/io."""
    shown = run("embed", "uneven.npz", "-o", "y.npz", "--scale", "geodesics", "--asymmetry", "mean").output
    for word in ("points", "300", f"{graph.nnz // 2:,}", "components", "dropped edges", "energy", "seconds"):
        assert word in shown
    found = read_embedding("y.npz")
    assert found.status in shown
    expected = {"n_components": 2, "scale": "geodesics", "metric": "precomputed", "asymmetry": "mean"}
    assert expected.items() <= found.parameters.items()
    # The line for a diagnosis can be typed; its options are those that made the graph.
    typed = "diagnose uneven.npz --embedding y.npz --asymmetry mean"
    assert typed in " ".join(shown.replace("│", " ").split())
    assert run(*typed.split()).output.startswith("map of 300 vertices")


@pytest.mark.parametrize("named", [False, True])
def test_anchors(folder, run, named):
    """The map is in the coordinates of the anchors, given by number or by name."""
    name = "s{}".format if named else str
    edges = sp.triu(NET.graph).tocoo()
    rows = zip(edges.row, edges.col, edges.data.tolist(), strict=True)
    (folder / "net.edges").write_text("".join(f"{name(i)} {name(j)} {d!r}\n" for i, j, d in rows))
    places = NET.truth[NET.anchors].tolist()
    known = [f"{name(a)},{x!r},{y!r}" for a, (x, y) in zip(NET.anchors, places, strict=True)]
    (folder / "known.csv").write_text("\n".join(["sensor,x,y", *known]) + "\n")
    command = ("embed", "net.edges", "-o", "y.npz", "--refine", "distances", "--anchors", "known.csv")
    assert run(*command, "--quiet").output == ""
    found = read_embedding("y.npz")
    # Named vertices come back in order of their first appearance.
    order = [int(name[1:]) for name in found.names] if named else range(150)
    hard = np.empty_like(found.coordinates)
    hard[list(order)] = found.coordinates
    np.testing.assert_array_equal(hard[NET.anchors], NET.truth[NET.anchors])
    assert np.abs(hard - NET.truth).max() < 0.02
    run(*command, "--anchor-weight", 0.5)
    assert not np.array_equal(read_embedding("y.npz").coordinates, found.coordinates)


def test_forecast(run, run_json, graph, sheet):
    shown = run("forecast", "a.npz", "-n", 2, "--n-jobs", 1).stdout
    for word in ("vertices", "300", f"{graph.nnz // 2:,}", "solver", "direct", "frames", "optimise", "fits"):
        assert word in shown
    assert "the memory of the" in shown.replace("\n", " ")
    wanted = estimate_resources(graph, 3, solver="jacobi", n_jobs=1)
    for source in (["a.npz"], ["x.npy", "-k", 8]):
        options = ("-n", 3, "--solver", "jacobi", "-j", 1, "--tol", 0.1, "--seed", 3)
        found = run_json("forecast", *source, *options)
        assert (found["n_vertices"], found["n_edges"], found["n_components"]) == (300, graph.nnz // 2, 3)
        assert (found["solver"], found["solver_reason"], found["fits"]) == ("jacobi", "asked for", True)
        assert found["growth_bytes"] == pytest.approx(wanted.growth_bytes, rel=0.01 * (source != ["a.npz"]))
        assert [stage["name"] for stage in found["stages"]] == [stage.name for stage in wanted.stages]
    # What does not fit has its own exit code.
    assert "does not fit" in run("forecast", "a.npz", "--memory-limit", "20MB", code=3).stdout
    found = run_json("forecast", "a.npz", "--memory-limit", "20MB", code=3)
    assert (found["fits"], found["limit_bytes"]) == (False, 20_000_000)
    run("forecast", "a.npz", "--memory-limit", "none")
    # Pieces are bridged.
    np.save("two.npy", np.concatenate([sheet, sheet + 50.0]))
    command = ("forecast", "two.npy", "-k", 8, "--components")
    apart, joined = (run_json(*command, how) for how in ("separate", "bridge"))
    assert apart["n_edges"] < joined["n_edges"] <= apart["n_edges"] + 3


def test_dimension(run):
    x = np.random.default_rng(23).uniform(size=(800, 5))
    np.save("y.npy", np.pad(x, ((0, 0), (0, 3))))
    # The estimator's spread over seeds is about 4 % at this size; boundaries lower it in 5-D.
    assert float(run("dimension", "y.npy").stdout) == pytest.approx(5, rel=0.2)
    for source in ("a.npz", "uneven.npz"):  # 300 points
        assert float(run("dimension", source, "--asymmetry", "min").stdout) == pytest.approx(2, rel=0.2)


def test_diagnosis_and_an_estimated_dimension(run, run_json, sheet):
    estimator = IsometricEmbedding(n_neighbors=8, n_jobs=1).fit(sheet[:200])
    graph = estimator.graph_
    np.save("points.npy", sheet[:200])
    expected = diagnose(graph)
    assert run_json("diagnose", "points.npy", "-k", 8) == expected.to_dict()
    sp.save_npz("graph.npz", graph)
    assert run("diagnose", "graph.npz").stdout.strip() == str(expected)
    np.savez("map.npz", embedding=estimator.embedding_)
    found = run_json("diagnose", "graph.npz", "--embedding", "map.npz")
    assert found == diagnose(estimator.embedding_, graph=graph).to_dict()
    assert found["map"]["status"] is None
    assert run_json("diagnose", "points.npy", "-k", 8, "--solve") == diagnose(estimator).to_dict()
    for command, source in (("forecast", "points.npy"), ("diagnose", "graph.npz")):
        assert run_json(command, source, "-n", "auto")["n_components"] == 2
