"""The forecast: what the formulas see, the solver, refusals, and the limits of machine and process."""

import math
import re
import sys
from functools import cache

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from isoweave import IsometricEmbedding, _memory, embed_graph, estimate_resources, forecast
from isoweave._parallel import ThreadTeam
from isoweave.datasets import difficult, flat_torus, swiss_roll
from isoweave.forecast import fit_sizes
from isoweave.graph import check_search_memory, graph_from_matrix, knn_graph
from isoweave.linalg import prepare_laplacian
from isoweave.linalg._methods import Direct
from isoweave.options import resolve_options


@cache
def roll_of(n, k):
    return knn_graph(swiss_roll(n, random_state=811).data, k)


@cache
def normal(n, dimension, k):
    return knn_graph(np.random.default_rng(839).normal(size=(n, dimension)), k)


def pieces(*sizes):
    return graph_from_matrix(sp.block_diag([roll_of(size, 8).to_matrix() for size in sizes], format="csr"))


@pytest.mark.parametrize(("make", "sizes"), [(roll_of, (4000, 9)), (normal, (3500, 3, 10))])
def test_the_factor_is_counted_exactly(make, sizes):
    """The sizes counted from the pattern are those of the factor that a solver makes."""
    graph = make(*sizes)
    counted = fit_sizes(graph, resolve_options(2, solver="direct"), 1).largest
    made = Direct(prepare_laplacian(sp.csgraph.laplacian(graph.to_matrix())), ThreadTeam(1))
    assert counted.fill == len(made.factor.values)


CASES = {
    "plane": (lambda: roll_of(2900, 9), 2, {}, "direct"),
    "space": (lambda: knn_graph(flat_torus(600, random_state=827).data, 10), 3, {}, "direct"),
    "surface": (lambda: roll_of(4000, 9), 2, {}, "amg"),
    "5-D": (lambda: knn_graph(difficult(3050, random_state=829).data, 9), 5, {}, "jacobi"),
    "9-D": (lambda: normal(3050, 9, 12), 9, {"frame_size": 12}, "jacobi"),
    "asked": (lambda: roll_of(600, 9), 2, {"solver": "jacobi"}, "jacobi"),
    "pieces": (lambda: pieces(900, 700), 3, {"start": "landmark"}, "direct"),
    "paper": (lambda: roll_of(300, 8), 2, {"preset": "paper"}, "ic"),
}


@pytest.mark.filterwarnings("ignore:The optimiser stopped:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The graph has .* connected components:UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_the_solver_is_the_one_the_fit_takes_and_the_bound_is_a_bound(name):
    make, n_components, options, solver = CASES[name]
    graph = make()
    for other in ("auto", "direct", "jacobi", "amg", "ic"):
        resolved = resolve_options(n_components, **{**options, "solver": other})
        bound = forecast._bound(fit_sizes(graph, resolved, 2, counted=0))
        assert bound >= fit_sizes(graph, resolved, 2).growth
    estimate = estimate_resources(graph, n_components, **options)
    result = embed_graph(graph.to_matrix(), n_components, max_iter=1, **options)
    assert result.solver == f"{estimate.solver}: {estimate.solver_reason}"
    assert estimate.solver == solver
    assert (estimate.n_vertices, estimate.n_edges) == (graph.n_vertices, graph.n_edges)


def scale_free(n, m):
    """Every vertex is joined to m earlier ones, drawn as often as they have edges (Barabási and Albert)."""
    return graph_from_matrix(nx.to_scipy_sparse_array(nx.barabasi_albert_graph(n, m, seed=853), dtype=float))


def test_a_limit_knows_the_multigrid_of_hubs():
    graph, options = scale_free(25_000, 3), resolve_options(2, solver="amg")
    fit = fit_sizes(graph, options, 1)
    assert fit.largest.solver == "amg"
    assert forecast._bound(fit_sizes(graph, options, 1, counted=0)) >= fit.growth
    limit = int(_memory.resident_bytes() + 0.8 * fit.growth)
    with pytest.raises(MemoryError, match="memory_limit"):
        embed_graph(graph, 2, n_jobs=1, memory_limit=limit, solver="amg")


def test_an_estimate_adds_up():
    roll = roll_of(4000, 9)
    estimate = estimate_resources(roll, 2, n_jobs=2)
    names = [stage.name for stage in estimate.stages]
    assert names == ["graph", "shortcuts", "frames", "solver", "start", "optimise"]
    growths = [stage.growth_bytes for stage in estimate.stages]
    assert estimate.growth_bytes == max(growths)
    assert estimate.cpu_seconds == pytest.approx(sum(stage.cpu_seconds for stage in estimate.stages))
    assert estimate.seconds < estimate.cpu_seconds
    resident = estimate.peak_bytes - estimate.growth_bytes
    assert resident == pytest.approx(_memory.resident_bytes(), rel=0.2)
    assert estimate.fits
    assert not estimate_resources(roll, 2, memory_limit=resident).fits
    assert estimate_resources(roll, 2, memory_limit="none").limit_bytes is None
    # A matrix is counted with the graph made of it.
    of_matrix = estimate_resources(roll.to_matrix(), 2, n_jobs=2)
    assert of_matrix.growth_bytes > estimate.growth_bytes + 12 * len(roll.indices)


def test_more_of_anything_takes_more():
    for name, less, more, common in (
        ("n_components", 2, 3, {}),
        ("n_components", 3, 9, {"start": "landmark"}),
        ("n_jobs", 1, 8, {}),
        ("solver", "jacobi", "amg", {}),
        ("frame_size", 20, 1500, {}),
    ):
        found = (estimate_resources(normal(3500, 3, 10), **{name: value}, **common) for value in (less, more))
        small, large = (estimate.growth_bytes for estimate in found)
        assert small < large, name
    sizes = ((400, 8), (1500, 8), (1500, 16), (4000, 16), (7000, 16), (7000, 40))
    for start, n_components in (("landmark", 5), ("coarse", 1)):
        found = [estimate_resources(roll_of(n, k), n_components, start=start) for n, k in sizes]
        assert np.all(np.diff([estimate.growth_bytes for estimate in found]) > 0)
        assert np.all(np.diff([estimate.cpu_seconds for estimate in found]) > 0)


def test_hubs_density_crumbs_and_equal_lengths_are_seen():
    """Graphs with about the same numbers of vertices, or of edges, that take far more memory or time."""
    n = 20_000
    ring = sp.diags_array([1.0, 1.0, 1.0], offsets=[1, 2, 3], shape=(n, n)).tocsr()
    rim = np.arange(9, n, 10)
    spokes = sp.csr_array((np.ones(len(rim)), (np.zeros(len(rim), dtype=int), rim)), shape=(n, n))
    plain, hub = (estimate_resources(g, 5, solver="amg") for g in (ring, ring.maximum(spokes)))
    # Multigrid leaves a hub out, not many vertices of high degree.
    assert hub.growth_bytes < 1.1 * plain.growth_bytes
    even, uneven = (
        estimate_resources(g, 2, solver="amg") for g in (normal(25_000, 3, 3), scale_free(25_000, 3))
    )
    assert uneven.growth_bytes > 1.5 * even.growth_bytes
    lengths = np.triu(np.random.default_rng(853).random((300, 300)), 1)
    joined = sp.csr_array(lengths * (lengths > 0.4))
    for slow, fast, factor in (
        (
            estimate_resources(pieces(*[30] * 100), 2, solver="direct"),
            estimate_resources(pieces(3000), 2),
            1.7,
        ),
        (estimate_resources(roll_of(1500, 100), 2), estimate_resources(roll_of(1500, 10), 2), 10),
        # Frames hold what lies at equal distances, and nothing stands out in their spectra.
        (estimate_resources(joined.sign(), 2), estimate_resources(joined, 2), 2),
    ):
        assert slow.cpu_seconds > factor * fast.cpu_seconds


def test_components_are_seen():
    graph = pieces(500, 200, 60, 60)
    fit = fit_sizes(graph, resolve_options(2), 1)
    assert (fit.largest.n, fit.n_others) == (500, 3)
    alone = fit_sizes(graph, resolve_options(2, components="largest"), 1)
    assert alone.n_others == 0
    assert sum(alone.cpu_seconds().values()) < sum(fit.cpu_seconds().values())
    # A large one takes as long per vertex as the largest.
    one, two = (estimate_resources(graph, 2).cpu_seconds for graph in (roll_of(2000, 8), pieces(2000, 1000)))
    assert two == pytest.approx(1.5 * one, rel=0.02)
    # Small ones share overhead and threads: some 2 ms each together, 10 ms alone (measured).
    crumbs = sp.block_diag([roll_of(20, 6).to_matrix()] * 400, format="csr")
    together, alone = (estimate_resources(crumbs, 2, n_jobs=2, solver=s) for s in ("auto", "direct"))
    assert 400 * 0.001 < together.cpu_seconds < 400 * 0.004 < 400 * 0.008 < alone.cpu_seconds
    called = estimate_resources(crumbs, 2, n_jobs=2, callback=lambda state: None)
    assert alone.cpu_seconds <= called.cpu_seconds < 400 * 0.04
    assert together.seconds < 0.6 * together.cpu_seconds
    # Pairs of duplicates are single points, and every vertex twice is one component as before.
    pairs = sp.coo_array(
        (np.zeros(5000), (np.arange(0, 10_000, 2), np.arange(1, 10_000, 2))), shape=(10_000,) * 2
    )
    assert estimate_resources(pairs, 2).cpu_seconds < 0.1
    # Of every thread some hundreds are in memory, and a result of each.
    assert together.growth_bytes > alone.growth_bytes + 1e6


# Processor milliseconds of each of 256 components together (two busy cores, 16 November 2026).
MEASURED = {
    ("pair", 2, 1): 0.13,
    ("sheet", 3, 2): 0.13,
    ("sheet", 4, 2): 0.17,
    ("sheet", 10, 2): 0.63,
    ("sheet", 20, 2): 1.8,
    ("sheet", 40, 2): 7.7,
    ("tree", 10, 2): 0.97,
    ("tree", 30, 2): 8.3,
    ("tree", 50, 2): 18.0,
    ("tree", 30, 3): 36.0,
    ("random", 15, 2): 1.7,
    ("random", 30, 2): 6.7,
    ("random", 50, 2): 14.6,
    ("ball", 15, 2): 1.7,
    ("ball", 30, 2): 5.5,
    ("ball", 50, 2): 11.7,
    ("ball", 20, 3): 4.1,
}


@pytest.mark.parametrize(("kind", "n", "n_components"), list(MEASURED))
def test_small_components_of_every_kind(kind, n, n_components):
    rng = np.random.default_rng(167)

    def piece():
        if kind in ("pair", "sheet", "ball"):
            points = rng.standard_normal((n, 3)) if kind == "ball" else rng.random((n, 2))
            return knn_graph(points, min(8 if n_components == 3 else 6, n - 1)).to_matrix()
        back = 5 if kind == "tree" else n
        ends = [rng.integers(max(0, i - back + 1), i) for i in range(1, n)]
        edges = np.array([np.arange(1, n), ends])
        if kind == "random":
            more = rng.integers(0, n, (2, n + 4))
            edges = np.hstack([edges, more[:, more[0] != more[1]]])
        return sp.csr_array((rng.uniform(0.5, 2.0, edges.shape[1]), tuple(edges)), shape=(n, n))

    graph = sp.block_diag([piece() for _ in range(16)] * 4, format="csr")
    each = 1e3 * estimate_resources(graph, n_components, n_jobs=1, asymmetry="max").cpu_seconds / 64
    assert 0.5 < each / MEASURED[kind, n, n_components] < 2


def test_every_start_is_counted():
    roll = roll_of(4000, 9)
    for start in ("landmark", "synchronized", "coarse", "identity", np.zeros((4000, 2))):
        stage = estimate_resources(roll, 2, start=start).stages[4]
        assert stage.name == "start"
        is_searched = isinstance(start, str) and start != "identity"
        assert (stage.cpu_seconds > 0.01) == is_searched
        assert stage.growth_bytes > 10e6
    assert estimate_resources(sp.csr_array((5, 5)), 1).n_edges == 0
    for n in (2, 3, 17):
        # Sampling one vertex in eight ends at two vertices: the forecast once went on for ever.
        path = sp.diags_array([1.0], offsets=[1], shape=(n, n))
        assert estimate_resources(path, n_components=1, start="coarse").peak_bytes > 0


def test_the_factor_is_counted_only_where_it_matters(monkeypatch):
    """Neither for the time left of a large graph, nor for fits far below the limit."""
    roll = roll_of(4000, 9)
    seconds = forecast.expected_seconds(roll, resolve_options(2), 1)
    assert seconds == pytest.approx(estimate_resources(roll, 2, n_jobs=1).seconds)
    monkeypatch.setattr(forecast, "_COUNTED", 1000)
    monkeypatch.setattr(forecast, "with_solver", lambda *_: pytest.fail("was counted"))
    assert 0.5 < forecast.expected_seconds(roll, resolve_options(2), 1) / seconds < 2
    embed_graph(roll_of(300, 8).to_matrix(), 2)


def test_refused_before_any_work(capsys):
    roll = roll_of(4000, 9)
    estimate = estimate_resources(roll, 10, n_jobs=2)
    limit = estimate.peak_bytes - estimate.growth_bytes // 2
    with pytest.raises(MemoryError, match=r"^The fit would need .* in its stage 'optimise'") as caught:
        embed_graph(roll.to_matrix(), 10, memory_limit=limit, n_jobs=2, verbose=2)
    assert capsys.readouterr().out == ""
    message = str(caught.value)
    assert f"the limit is {_memory.show_bytes(limit)} (memory_limit)" in message
    assert re.search(r"To lower it: .*n_components=5 saves [\d.]+ MB", message)
    assert "Or raise memory_limit" in message
    # Resident memory moves by some MB from one call to the next.
    matrix = roll_of(300, 8).to_matrix()
    limits = (estimate_resources(matrix, 2).peak_bytes + 60e6, "none")
    first, second = (embed_graph(matrix, 2, memory_limit=limit) for limit in limits)
    np.testing.assert_array_equal(second.coordinates, first.coordinates)


def test_settings_lower_the_prediction_as_the_message_says():
    roll = roll_of(4000, 9)
    fit = fit_sizes(roll, resolve_options(5, frame_size=1500), 8)
    message = forecast._cures(fit, 0, _memory.MemoryLimit(1.0, "test"))
    assert "enough" not in message
    promised = dict(re.findall(r"(\S+=\S+) saves ([\d.]+ \w+)", message))
    assert {"frame_size=10", "n_jobs=1"} <= set(promised)
    for setting, saved in promised.items():
        name, value = setting.split("=")
        changed = {"frame_size": 1500, "n_jobs": 8, name: value.strip("'") if "'" in value else int(value)}
        n_jobs = changed.pop("n_jobs")
        other = fit_sizes(roll, resolve_options(changed.pop("n_components", 5), **changed), n_jobs)
        assert _memory.parse_memory_limit(saved) == pytest.approx(fit.growth - other.growth, rel=0.01)
    enough = forecast._cures(fit, 0, _memory.MemoryLimit(0.99 * fit.growth, "test"))
    assert enough.count(", enough") == len(promised) + enough.count("n_neighbors")


def test_searches_that_would_not_fit_are_refused(monkeypatch):
    check_search_memory(10_000, 3, 10, None)
    check_search_memory(10**9, 1000, 10, math.inf)
    base = _memory.resident_bytes() + 8e6
    for n, d, k, growth in ((100_000, 3, 10, 82e6), (20_000, 400, 10, 161e6), (60_000, 50, 30, 230e6)):
        # Measured by knn_graph with one thread.
        check_search_memory(n, d, k, base + 1.4 * growth, 1)
        with pytest.raises(MemoryError, match=rf"^The search for {k} neighbours of {n:,} points .*PCA"):
            check_search_memory(n, d, k, base + 0.8 * growth, 1)
    # What denoise searches is refused, too, before it is searched.
    model = IsometricEmbedding(denoise=299, memory_limit=_memory.resident_bytes() + 12e6)
    with pytest.raises(MemoryError, match=r"^The search for 299 neighbours of 300 points .*denoise"):
        model.fit(swiss_roll(300, random_state=863).data)
    monkeypatch.setattr("isoweave.graph.knn_graph", lambda *_, **__: pytest.fail("searched"))
    for kind in (np.asarray, sp.csr_array):
        with pytest.raises(MemoryError, match=r"^The search for 10 neighbours of 300 points with 3 features"):
            IsometricEmbedding(memory_limit="1MB").fit(kind(swiss_roll(300, random_state=863).data))


def test_limits_are_read():
    read = {5000: 5000.0, 2.5e9: 2.5e9, "4 gb": 4e9, "1.5G": 1.5e9, "512MiB": 512 * 2**20, "7": 7.0}
    read |= {None: None, "none": math.inf, math.inf: math.inf, np.int64(12): 12.0}
    assert {given: resolve_options(2, memory_limit=given).memory_limit for given in read} == read
    wrong = dict.fromkeys(("much", "4XB", "-1GB", "", "GB", 0, -5, math.nan), ValueError)
    for value, error in [*wrong.items(), (True, TypeError), ([1], TypeError), ({"bytes": 3}, TypeError)]:
        with pytest.raises(error, match=r"memory_limit must be None, a number of bytes, text .* '4GB'.*got"):
            resolve_options(2, memory_limit=value)


@pytest.mark.parametrize(
    ("version", "path", "limits", "wanted"),
    [
        (2, "/jobs/mine", {"": "max\n", "jobs": "5000000\n", "jobs/mine": "max\n"}, 5e6),
        (2, "/jobs/mine", {"jobs": "5000000\n", "jobs/mine": "4000000\n"}, 4e6),
        # Inside a container the path is the host's, and the mount is the group itself.
        (2, "/../elsewhere", {"": "3000000\n"}, 3e6),
        (1, "/docker/abc", {"": "9223372036854771712\n", "docker/abc": "2000000\n"}, 2e6),
        (1, "/", {"": "9223372036854771712\n"}, math.inf),
    ],
)
def test_control_groups(tmp_path, version, path, limits, wanted):
    line, mount, name = {
        1: (f"4:memory:{path}", "sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        2: (f"0::{path}", "sys/fs/cgroup", "memory.max"),
    }[version]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(f"3:cpuset:/\n{line}\n")
    for folder, text in limits.items():
        (tmp_path / mount / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / mount / folder / name).write_text(text)
    assert _memory._cgroup(tmp_path) == wanted
    if wanted < math.inf:
        found = _memory.allowed_memory(tmp_path)
        assert (found.bytes, found.source) == (wanted, "the memory of the container (cgroup)")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_most_of_what_is_allowed_and_the_address_space(monkeypatch):
    limit = _memory.resolve_limit(None)
    assert limit.bytes == pytest.approx(0.9 * _memory.allowed_memory().bytes)
    assert limit.source.startswith("90% of ")
    resource = pytest.importorskip("resource")
    status = _memory.process_status()
    limits = {resource.RLIMIT_AS: status["VmSize"] + 10**6}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits.get(kind, resource.RLIM_INFINITY),) * 2)
    found = _memory.allowed_memory()
    assert found.source == "RLIMIT_AS of the process"
    # Resident memory moves a little between the two readings.
    assert found.bytes == pytest.approx(status["VmRSS"] + 10**6, abs=5e6)
