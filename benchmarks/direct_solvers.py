"""Time and memory of sparse direct solvers on graph Laplacians, and of the iterative ones beside them.

    python benchmarks/direct_solvers.py                 # up to 50,000 vertices, about a minute
    python benchmarks/direct_solvers.py --large         # also 200,000
    python benchmarks/direct_solvers.py --orderings     # fill of several elimination orders
    python benchmarks/direct_solvers.py --fits          # whole fits with direct, amg and jacobi

Packages that are not installed (cholespy, scikit-sparse, pymetis) are left out. Every measurement of a
direct solver runs in a process of its own, on one thread and in CPU seconds, so that a busy machine gives
nearly the same table; memory is the growth of the process's peak.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import laplacian as graph_laplacian
from scipy.sparse.linalg import splu
from sklearn.datasets import make_swiss_roll
from sklearn.neighbors import kneighbors_graph
from threadpoolctl import threadpool_limits

from isoweave import datasets, embed_graph, linalg
from isoweave._parallel import ThreadTeam
from isoweave.graph import graph_from_matrix, knn_graph
from isoweave.linalg import prepare_laplacian
from isoweave.linalg._cholesky import factorise, plan_elimination

# Name and the module it needs. "isoweave" is the factor alone, as the others are; "isoweave, checked" is
# what linalg.factor returns, which also projects the block and measures the true residual.
PACKAGES = {
    "isoweave": None,
    "isoweave, checked": None,
    "splu": None,
    "cholespy": "cholespy",
    "cholmod": "sksparse",
}
Solve = Callable[[np.ndarray], np.ndarray]


def make_laplacian(shape: str, n: int, pattern: str) -> sp.csr_array:
    """Laplacian of a neighbourhood graph ("A") or its square, which has the paper's pattern ("A2")."""
    if shape == "swiss":
        points, k = make_swiss_roll(n, random_state=3)[0], 10
    else:
        dim = int(shape.removeprefix("cube"))
        points, k = np.random.default_rng(3).random((n, dim)), 14
    adjacency = kneighbors_graph(points, k)
    matrix = sp.csr_array(graph_laplacian(adjacency.maximum(adjacency.T)))
    return sp.csr_array(matrix @ matrix) if pattern == "A2" else matrix


def factor(package: str, matrix: sp.csr_array) -> Solve:
    """Factor a Laplacian, its first vertex held at zero, and return the function that solves."""
    team = ThreadTeam(1)
    if package == "isoweave":
        lap = prepare_laplacian(matrix)
        found = factorise(lap.elimination(), lap.data)
        return lambda rhs: found.solve(rhs, team)
    if package == "isoweave, checked":
        state = linalg.factor(matrix, solver="direct", team=team)
        return lambda rhs: state.solve(rhs).value
    inner = sp.csc_matrix(matrix[1:, 1:])
    if package == "splu":
        options = {"SymmetricMode": True}
        return splu(inner, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options).solve
    if package == "cholespy":
        from cholespy import CholeskySolverD, MatrixType

        indptr, indices = inner.indptr.astype(np.int32), inner.indices.astype(np.int32)
        solver = CholeskySolverD(inner.shape[0], indptr, indices, inner.data, MatrixType.CSC)

        def solve(rhs: np.ndarray) -> np.ndarray:
            out = np.empty_like(rhs)
            solver.solve(rhs, out)
            return out

        return solve
    from sksparse import cholmod

    if hasattr(cholmod, "cho_factor"):
        return cholmod.cho_factor(inner, lower=True, order="amd").solve
    return cholmod.cholesky(inner, ordering_method="amd")


def measure(package: str, shape: str, n: int, pattern: str) -> dict[str, float]:
    """Factor time, best solve time for two right-hand sides, growth of the peak memory."""
    warm = make_laplacian("cube2", 500, "A")
    matrix = make_laplacian(shape, n, pattern)
    rhs = matrix @ np.random.default_rng(4).normal(size=(n, 2))
    cut = slice(None) if package.startswith("isoweave") else slice(1, None)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Compiled kernels and lazy imports are not what is measured.
        factor(package, warm)(np.ascontiguousarray((warm @ np.ones((500, 2)))[cut]))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.process_time()
        solve = factor(package, matrix)
        factor_time = time.process_time() - start
        block = np.ascontiguousarray(rhs[cut])
        times = []
        for _ in range(7):
            start = time.process_time()
            value = solve(block)
            times.append(time.process_time() - start)
    full = np.zeros((n, 2))
    full[cut] = value
    residual = np.linalg.norm(rhs - matrix @ full) / np.linalg.norm(rhs)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"factor": factor_time, "solve": min(times), "memory": grown / 1024, "residual": residual}


def print_header(*titles: str) -> None:
    print("| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|")


def compare_packages(large: bool) -> None:
    sizes = [("swiss", 10_000), ("swiss", 50_000), ("cube5", 5_000)]
    if large:
        sizes.append(("swiss", 200_000))
    print_header("graph", "pattern", "solver", "factor s", "solve 2 rhs ms", "MB", "residual")
    for shape, n in sizes:
        for pattern in ("A", "A2"):
            for package, module in PACKAGES.items():
                if module is not None and importlib.util.find_spec(module) is None:
                    continue
                call = [sys.executable, __file__, "--one", package, shape, str(n), pattern]
                done = subprocess.run(call, capture_output=True, text=True, check=True)
                m = json.loads(done.stdout.splitlines()[-1])
                print(
                    f"| {shape} {n:,} | {pattern} | {package} | {m['factor']:.2f} | {1e3 * m['solve']:.1f} "
                    f"| {m['memory']:.0f} | {m['residual']:.0e} |",
                    flush=True,
                )


def compare_orderings(large: bool) -> None:
    sizes = [("swiss", 50_000), ("cube3", 20_000), ("cube5", 5_000), ("cube5", 20_000)]
    if large:
        sizes.append(("swiss", 200_000))
    print_header("graph", "pattern", "order", "s", "fill / entries")
    for shape, n in sizes:
        for pattern in ("A", "A2") if n <= 50_000 and shape != "cube5" else ("A",):
            lap = prepare_laplacian(make_laplacian(shape, n, pattern))
            natural = np.arange(n, dtype=np.int32)
            orders: dict[str, Callable[[], np.ndarray]] = {
                "isoweave": lambda lap=lap: lap.elimination().order
            }
            if n <= 20_000:
                orders["natural"] = lambda natural=natural: natural
            if importlib.util.find_spec("pymetis") is not None:
                orders["metis"] = lambda lap=lap: _metis(lap.indptr, lap.indices)
            for name, make in orders.items():
                start = time.perf_counter()
                order = make()
                seconds = time.perf_counter() - start
                plan = plan_elimination(lap.indptr, lap.indices, order)
                ratio = plan.fill / len(lap.data)
                print(
                    f"| {shape} {n:,} | {pattern} | {name} | {seconds:.2f} | {ratio:.1f} |",
                    flush=True,
                )


def _metis(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    import pymetis

    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    off = indices != rows
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[off], minlength=len(indptr) - 1))])
    adjacency = pymetis.CSRAdjacency(starts.astype(np.int32), indices[off].astype(np.int32))
    return np.asarray(pymetis.nested_dissection(adjacency)[0], dtype=np.int32)


def compare_fits() -> None:
    """Whole fits with each solver: what residuals of .1 instead of none cost in steps and energy."""
    rng, hub = np.random.default_rng(4), knn_graph(datasets.swiss_roll(20_000, random_state=5).data, 10)
    spokes = hub.to_matrix().tolil()
    spokes[0, 9::10] = spokes[9::10, 0] = 300.0
    graphs = {
        "swiss roll, 20,000": (knn_graph(datasets.swiss_roll(20_000, random_state=4).data, 10), 2),
        "swiss roll, 200,000": (knn_graph(datasets.swiss_roll(200_000, random_state=4).data, 10), 2),
        "sphere, 20,000": (knn_graph(_normalised(rng.normal(size=(20_000, 3))), 8), 3),
        "cube, 30,000": (knn_graph(rng.uniform(size=(30_000, 3)), 10), 3),
        "difficult, 20,000": (knn_graph(datasets.difficult(20_000, random_state=4).data, 14), 5),
        "normal in R^9, 10,000": (knn_graph(rng.normal(size=(10_000, 9)), 12), 9),
        "roll with a hub, 20,000": (graph_from_matrix(sp.csr_array(spokes)), 2),
    }
    print_header("graph", "N", "auto", "solver", "CPU s", "steps", "relative energy")
    for name, (graph, n_components) in graphs.items():
        auto = embed_graph(graph, n_components, n_jobs=1).solver.split(":")[0]
        for solver in ("direct", "amg", "jacobi"):
            begin = time.process_time()
            result = embed_graph(graph, n_components, solver=solver, n_jobs=1)
            seconds = time.process_time() - begin
            print(
                f"| {name} | {n_components} | {auto} | {solver} | {seconds:.2f} | {result.n_iter} "
                f"| {result.relative_energy:.5g} |",
                flush=True,
            )


def _normalised(points: np.ndarray) -> np.ndarray:
    return points / np.linalg.norm(points, axis=1)[:, None]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--orderings", action="store_true")
    parser.add_argument("--fits", action="store_true")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        package, shape, n, pattern = arguments.one
        print(json.dumps(measure(package, shape, int(n), pattern)))
    elif arguments.orderings:
        compare_orderings(arguments.large)
    elif arguments.fits:
        compare_fits()
    else:
        compare_packages(arguments.large)
