"""What start="lifted" is for: maps of few, exact distances. Prints the tables of docs/lifting.md.

``python benchmarks/lifting.py backbones atoms sensors rolls --start lifted``; proteins need ISOWEAVE_DATA.
Errors are root mean squares after a rigid motion, mirrored if need be: over all vertices, and over those of
the (N + 1)-core. A vertex outside of it can be moved without a change of any distance; in brackets the number
of those within, and of those outside with 0, 1, .. N distances to what is left when they are taken away.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components

from isoweave import embed_graph
from isoweave.datasets import load_protein, sensor_network, swiss_roll
from isoweave.geometry import rigid_motion
from isoweave.graph import knn_graph
from isoweave.metrics import local_distance, procrustes_error

BACKBONES = ["1ppt", "2erl", "1ptq", "1crn", "1hoe", "1pht", "1mbn", "1rgs", "1bpm", "1n4w", "1mqq", "2e7z"]
ATOMS = ["1a8o", "2beg", "il2", "1hpv"]
# Procrustes error of a roll that is neither folded nor bent.
RIGHT = 0.02
# Stiffness of a motion that changes no length, and how fast a distance changes that does not.
NO_STIFFNESS, NO_CHANGE = 1e-12, 1e-5


def thinned(graph: sp.csr_array, share: float, seed: int) -> sp.csr_array:
    once = sp.coo_array(sp.triu(graph))
    kept = np.random.default_rng(seed).random(once.nnz) < share
    half = sp.csr_array((once.data[kept], (once.row[kept], once.col[kept])), shape=graph.shape)
    return sp.csr_array(half + half.T)


def largest(graph: sp.csr_array) -> np.ndarray:
    labels = connected_components(graph, directed=False)[1]
    return np.flatnonzero(labels == np.bincount(labels).argmax())


def core(graph: sp.csr_array, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """What is left when vertices of a lower degree are taken away, those of the lowest first.

    Also how many of the others had 0, 1, .. distances to what was left then.
    """
    left, counts = np.ones(graph.shape[0], dtype=bool), np.zeros(degree, dtype=int)
    links = sp.csr_array((np.ones(graph.nnz), graph.indices, graph.indptr), shape=graph.shape)
    while (degrees := np.where(left, links @ left.astype(float), np.inf)).min() < degree:
        lowest = int(np.argmin(degrees))
        left[lowest] = False
        counts[int(degrees[lowest])] += 1
    return left, counts


def largest_body(graph: sp.csr_array, places: np.ndarray) -> tuple[int, np.ndarray]:
    """Motions in the plane that change no length, and the largest part (n,) that they all keep rigid."""
    once, n = sp.coo_array(sp.triu(graph)), len(places)
    along = places[once.row] - places[once.col]
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    columns = np.stack([2 * once.row, 2 * once.row + 1, 2 * once.col, 2 * once.col + 1], axis=1)
    edges = np.repeat(np.arange(once.nnz), 4)
    lengths = sp.csr_array((np.hstack([along, -along]).ravel(), (edges, columns.ravel())))
    stiffness, motions = eigh((lengths.T @ lengths).toarray(), subset_by_value=(-1.0, NO_STIFFNESS))
    motions = motions.reshape(n, 2, -1)

    def fixed_to(i: int) -> np.ndarray:
        changes = np.einsum("vc,vcm->vm", places - places[i], motions - motions[i])
        return np.abs(changes).max(axis=1) <= NO_CHANGE * np.ptp(places)

    best, seen = np.zeros(n, dtype=bool), np.zeros(once.nnz, dtype=bool)
    for at, (i, j) in enumerate(zip(once.row.tolist(), once.col.tolist(), strict=True)):
        if not seen[at]:
            body = fixed_to(i) & fixed_to(j)
            seen |= body[once.row] & body[once.col]
            best = body if body.sum() > best.sum() else best
    return len(stiffness) - 3, best


def error(x: np.ndarray, truth: np.ndarray) -> float:
    rotation, shift = rigid_motion(x, truth)
    return float(np.sqrt(np.mean(np.sum((x @ rotation + shift - truth) ** 2, axis=1))))


def row(name: str, graph: sp.csr_array, truth: np.ndarray | None, n_components: int, start: str) -> None:
    at = largest(graph)
    graph, truth = sp.csr_array(graph[at][:, at]), None if truth is None else truth[at]
    begin = time.process_time()
    found = embed_graph(graph, n_components, start=start, shortcuts="keep", n_jobs=1)
    seconds, x = time.process_time() - begin, found.coordinates
    errors = ["", ""]
    if truth is not None:
        inner, others = core(graph, n_components + 1)
        within = f"{error(x[inner], truth[inner]):.1e} ({inner.sum()}, {others.tolist()})"
        errors = [f"{error(x, truth):.1e}", within]
    cells = [
        name,
        len(x),
        f"{graph.nnz / len(x):.1f}",
        found.start,
        f"{local_distance(graph, x):.1e}",
        *errors,
    ]
    print("| " + " | ".join(map(str, [*cells, f"{seconds:.1f}"])) + " |", flush=True)


def sparse_roll(k: int, seed: int, start: str) -> float:
    """The procrustes error, after a line that also has the largest rigid part and the error within it."""
    roll = swiss_roll(1500, random_state=seed)
    graph = knn_graph(roll.data, k, n_jobs=1).to_matrix()
    at = largest(graph)
    graph, truth = sp.csr_array(graph[at][:, at]), roll.truth[at]
    n_motions, body = largest_body(graph, truth)
    x = embed_graph(graph, 2, start=start, n_jobs=1).coordinates
    errors = procrustes_error(x, truth), procrustes_error(x[body], truth[body])
    shown = [k, seed, len(at), n_motions, body.sum(), *(f"{value:.4f}" for value in errors)]
    print("| " + " | ".join(map(str, shown)) + " |", flush=True)
    return errors[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", choices=("backbones", "atoms", "sensors", "rolls"))
    parser.add_argument("--start", default="lifted")
    parser.add_argument("--names", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    start, seeds = arguments.start, range(arguments.seeds)
    print("| data | vertices | degree | start taken | LDE | error | error in the core | processor seconds |")
    print("|" + "---|" * 8)
    for name in (arguments.names or BACKBONES) if "backbones" in arguments.tables else ():
        row(name, load_protein(name).graph, None, 3, start)
    for name in (arguments.names or ATOMS) if "atoms" in arguments.tables else ():
        protein = load_protein(name)
        for share in (0.5, 0.3):
            row(f"{name}, {share:.0%}", thinned(protein.graph, share, 0), protein.truth, 3, start)
    for k in (5, 6, 8) if "sensors" in arguments.tables else ():
        for seed in seeds:
            places = sensor_network(500, random_state=seed).truth
            row(f"sensors, {k} nearest, seed {seed}", knn_graph(places, k).to_matrix(), places, 2, start)
    for k in (4, 5) if "rolls" in arguments.tables else ():
        right = [sparse_roll(k, seed, start) <= RIGHT for seed in seeds]
        print(f"swiss roll, k = {k}: {sum(right)} of {len(right)} right", flush=True)


if __name__ == "__main__":
    main()
