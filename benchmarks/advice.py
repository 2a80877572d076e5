"""Is the advice of ``isoweave.diagnose`` right? The table of docs/diagnose.md.

    python benchmarks/advice.py                      # 50 graphs, about 5 CPU minutes; needs ISOWEAVE_DATA
    python benchmarks/advice.py --only roads mesh

Every row embeds a graph with the defaults, diagnoses the map, embeds again with the options that the advice
names (``Diagnosis.options``), and compares the error of both maps. ``true`` says what is known about the
data: one of these codes must be among the findings, and no other may be the loudest one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order
from scipy.spatial import cKDTree
from sklearn.decomposition import PCA

from diagnose import annulus, cap, cube, cylinder, grid, moebius, path, planted, tree, two_rolls
from isoweave import Diagnosis, Embedding, IsometricEmbedding, as_embedding, diagnose, embed_graph
from isoweave.datasets import (
    DATA_VARIABLE,
    difficult,
    flat_torus,
    klein_bottle,
    load_city_miles,
    load_digits,
    load_faces,
    load_fashion_mnist,
    load_lungline_cells,
    load_lungline_mixtures,
    load_mesh,
    load_mnist,
    load_road,
    load_tcga,
    s_curve,
    sensor_network,
    sphere,
    swiss_roll,
)
from isoweave.graph import NeighborGraph
from isoweave.metrics import procrustes_error

QUIET = ("isometric", "approximate", "flat", "uncertain", "shape_kept")
LOW, SPARSE = ("dimension_too_low",), ("graph_too_sparse",)
SEED = 17


@dataclass(frozen=True)
class Data:
    """A graph, or features with the number of neighbours; positions in N dimensions where they are known."""

    graph: Any = None
    features: Any = None
    k: int = 10
    truth: Any = None

    def fit(self, **options: Any) -> Embedding:
        given = {"n_components": 2, "n_jobs": 1} | options
        if self.features is None:
            return embed_graph(self.graph, **given)
        return as_embedding(IsometricEmbedding(**{"n_neighbors": self.k} | given).fit(self.features))


@dataclass(frozen=True)
class Row:
    """Data, what is true of them, and the options of the first fit."""

    name: str
    make: Callable[[], Data]
    true: tuple[str, ...] = QUIET
    options: dict[str, Any] = field(default_factory=dict)


def arrays(filename: str, *names: str) -> list[Any]:
    """Arrays of a file of the data folder."""
    import os
    from pathlib import Path

    with np.load(Path(os.environ[DATA_VARIABLE]) / filename, allow_pickle=False) as archive:
        return [archive[name] for name in names]


def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


def points(draw: Callable[..., Any], n: int = 1500, k: int = 10) -> Callable[[], Data]:
    def make() -> Data:
        drawn = np.asarray(draw(rng(), n))
        return Data(features=drawn, k=k, truth=drawn if drawn.shape[1] == 2 else None)

    return make


def sample(function: Callable[..., Any], n: int = 1500, k: int = 10, **more: Any) -> Callable[[], Data]:
    def make() -> Data:
        data = function(n, random_state=SEED, **more)
        return Data(features=data.data, k=k, truth=data.truth)

    return make


def loaded(
    load: Callable[[], Any], k: int, n: int | None = None, pca: int | None = None
) -> Callable[[], Data]:
    """Features of a real data set, some of them, of their principal components."""

    def make() -> Data:
        X = load().data[:n]
        return Data(features=X if pca is None else PCA(pca, random_state=0).fit_transform(X), k=k)

    return make


def made(make: Callable[[int, int], NeighborGraph], n: int) -> Callable[[], Data]:
    return lambda: Data(graph=make(SEED, n).to_matrix())


def shortcuts() -> Data:
    """A swiss roll with twenty edges between random points."""
    truth = swiss_roll(1500, random_state=SEED).truth
    return Data(graph=planted(SEED, 1500).to_matrix(), truth=truth)


def lattice() -> Data:
    """A grid whose edges are a few per cent off; the positions are known but for that."""
    side = np.arange(30.0)
    return Data(graph=grid(SEED, 900).to_matrix(), truth=np.stack(np.meshgrid(side, side), -1).reshape(-1, 2))


def ball(load: Callable[[], Any], n: int, centre: int) -> Callable[[], Data]:
    """A part of a large graph."""

    def make() -> Data:
        data = load()
        near = np.sort(breadth_first_order(data.graph, centre, return_predecessors=False)[:n])
        return Data(graph=data.graph[near][:, near], truth=data.truth[near])

    return make


def graph(load: Callable[[], Any], flat: bool = True) -> Callable[[], Data]:
    def make() -> Data:
        data = load()
        return Data(graph=data.graph, truth=data.truth if flat else None)

    return make


def contacts(name: str, radius: float, with_truth: bool = True) -> Callable[[], Data]:
    """All distances below a radius between the atoms of a protein."""

    def make() -> Data:
        (atoms,) = arrays("protein_atoms.npz", name)
        tree = cKDTree(atoms)
        near = sp.csr_array(tree.sparse_distance_matrix(tree, radius, output_type="coo_matrix"))
        return Data(graph=near, truth=atoms if with_truth else None)

    return make


def backbone() -> Data:
    edges, lengths = arrays("protein_backbones.npz", "1mbn_edges", "1mbn_lengths")
    n = int(edges.max()) + 1
    return Data(graph=sp.coo_array((lengths, (edges[:, 0], edges[:, 1])), shape=(n, n)))


def noe() -> Data:
    i, j, d = arrays("nmr_ns1_noe.npz", "i", "j", "d")
    keep = i != j
    n = int(max(i.max(), j.max())) + 1
    matrix = sp.coo_array((d[keep].astype(np.float64), (i[keep], j[keep])), shape=(n, n))
    return Data(graph=sp.csr_array(matrix.tocsr().maximum(matrix.tocsr().T)))


def sensors(noise: float = 0.0, wrong: float = 0.0) -> Callable[[], Data]:
    """A square of sensors; some distances five times as long."""

    def make() -> Data:
        data = sensor_network(1000, noise=noise, random_state=SEED)
        upper = sp.triu(data.graph, format="coo")
        upper.data[rng().random(upper.nnz) < wrong] *= 5.0
        return Data(graph=sp.csr_array(upper + upper.T), truth=data.truth)

    return make


def cells() -> Data:
    values, indices, starts, shape = arrays("pbmc3k.npz", "data", "indices", "indptr", "shape")
    X = sp.csr_array(
        (values, indices.astype(np.int32), starts.astype(np.int32)), shape=tuple(shape)
    ).toarray()
    X = np.clip((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9), -10.0, 10.0)
    return Data(features=PCA(50, random_state=0).fit_transform(X), k=15)


def cities() -> Data:
    """Populated places on the globe."""
    lat, lon = (np.radians(a.astype(np.float64)[::40]) for a in arrays("world_cities.npz", "lat", "lon"))
    return Data(features=np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]))


def table(filename: str, name: str = "X", k: int = 10, every: int = 1) -> Callable[[], Data]:
    """Rows of one array."""

    def make() -> Data:
        rows = arrays(filename, name)[0][::every]
        return Data(features=rows.reshape(len(rows), -1).astype(np.float64), k=k)

    return make


def hubs() -> Data:
    """A square of points, five of which are joined to a fifth of all."""
    drawn = rng().uniform(size=(1000, 2))
    tree = cKDTree(drawn)
    near = sp.lil_array(tree.sparse_distance_matrix(tree, 0.06))
    for hub in range(5):
        far = np.argsort(np.linalg.norm(drawn - drawn[hub], axis=1))[1:200]
        near[hub, far] = np.linalg.norm(drawn[far] - drawn[hub], axis=1)
    matrix = sp.csr_array(near)
    return Data(graph=sp.csr_array(matrix.maximum(matrix.T)), truth=drawn)


ROWS = (
    Row("roads of Oldenburg", graph(lambda: load_road("oldenburg")), SPARSE),
    Row("streets of Helsinki, lengths along them", graph(lambda: load_road("helsinki_osm")), SPARSE),
    Row("roads of the USA", graph(lambda: load_road("usa78k")), SPARSE),
    Row("roads of the USA, 6,000 crossings", ball(lambda: load_road("usa78k"), 6000, 20_000), SPARSE),
    Row("highway miles under 500", graph(lambda: load_city_miles(max_miles=500))),
    Row("mesh of a camel's head", graph(load_mesh, flat=False), ("closed",)),
    Row("mesh of a bunny", graph(lambda: load_mesh("bunny"), flat=False), ("closed",)),
    Row("mesh of a camel's head, N = 3", graph(load_mesh), ("closed",), {"n_components": 3}),
    Row("mesh of a part of a dragon", ball(lambda: load_mesh("dragon"), 10_000, 0), ("curved", "closed")),
    Row("protein backbone, under 5 Å, N = 3", backbone, (*QUIET, "components"), {"n_components": 3}),
    Row("protein atoms, under 6 Å, N = 3", contacts("il2", 6.0), QUIET, {"n_components": 3}),
    Row("protein atoms, N = 2", contacts("il2", 6.0, with_truth=False), LOW),
    Row("NMR distances, N = 3", noe, (*SPARSE, "components"), {"n_components": 3}),
    Row("sensors, exact", sensors()),
    Row("sensors, noise 5 %", sensors(noise=0.05)),
    Row("sensors, 3 % wrong by a factor of 5", sensors(wrong=0.03), ("outlying_distances",)),
    Row("cells (pbmc3k), 50 components", cells, LOW),
    Row("cells (pbmc68k), 50 components", table("pbmc68k_reduced.npz", "X_pca", k=15), LOW),
    Row("cells of 5 lines, 20 components", loaded(load_lungline_cells, 15, pca=20), LOW),
    Row("RNA mixtures, 10 components", loaded(load_lungline_mixtures, 15, pca=10), LOW),
    Row("tumours (TCGA), 50 components", loaded(load_tcga, 15, pca=50), LOW),
    Row("digits", loaded(load_digits, 10), LOW),
    Row("MNIST, 1,000 images", loaded(load_mnist, 10, 1000), LOW),
    Row("Fashion-MNIST, 1,000 images", loaded(load_fashion_mnist, 10, 1000), LOW),
    Row("faces", loaded(load_faces, 8), LOW),
    Row("COIL-20", table("coil20_32.npz", k=8), ("components", *LOW)),
    Row("places on the globe", cities, ("curved", "closed", "components", "non_orientable")),
    Row("mammoth, 5,000 points", table("mammoth_50k.npz", every=10), ("curved", "closed", "distorted")),
    Row("swiss roll", sample(swiss_roll)),
    Row("swiss roll, k = 20", sample(swiss_roll, k=20), (*QUIET, "shortcuts_dropped")),
    Row("swiss roll, k = 4", sample(swiss_roll, k=4), SPARSE),
    Row("swiss roll, noise 0.6", sample(swiss_roll, noise=0.6), (*QUIET, *LOW)),
    Row("swiss roll, N = 3", sample(swiss_roll), ("dimension_too_high",), {"n_components": 3}),
    Row(
        "swiss roll, start='identity', global_weight=0",
        sample(swiss_roll),
        ("poor_minimum",),
        {"start": "identity", "global_weight": 0},
    ),
    Row("swiss roll, 20 planted shortcuts", shortcuts, ("shortcuts_left",)),
    Row("two swiss rolls", made(two_rolls, 1500), ("components",)),
    Row("S-curve", sample(s_curve)),
    Row("annulus", points(annulus)),
    Row("square with hubs", hubs),
    Row("sphere", sample(sphere), ("curved", "closed")),
    Row("hemisphere", points(cap(90.0)), ("curved",)),
    Row("cylinder", points(cylinder), ("closed",)),
    Row("flat torus, N = 3", sample(flat_torus), ("closed",), {"n_components": 3}),
    Row("Möbius strip", points(moebius), ("non_orientable",)),
    Row("Klein bottle", sample(klein_bottle, k=8), ("non_orientable",)),
    Row("cube of 5 dimensions", points(cube(5), 1000, 12), LOW),
    Row("5-D set, N = 5", sample(difficult, k=14), QUIET, {"n_components": 5}),
    Row("path", made(path, 500), SPARSE),
    Row("tree", made(tree, 500), SPARSE),
    Row("grid without diagonals", lattice, SPARSE),
)  # fmt: skip


def error_of(data: Data, result: Embedding, edges: Any) -> tuple[str, float]:
    """Procrustes error where positions of this dimension are known, else the mean error of the edges."""
    if data.truth is not None and data.truth.shape[1] == result.n_components:
        return "procrustes", float(procrustes_error(data.truth, result.coordinates))
    rows, columns, lengths = edges
    found = np.linalg.norm(result.coordinates[rows] - result.coordinates[columns], axis=1)
    return "edges", float(np.nanmean(np.abs(found / lengths - 1.0)))


def judged(row: Row, found: Diagnosis) -> bool:
    """Whether what is true was found, and nothing else that is loud."""
    loud = [v.code for v in found.verdicts if v.severity != "info" and v.code != "distorted"]
    return bool(set(row.true) & set(found.codes)) and (not loud or loud[0] in row.true)


def run_row(row: Row) -> tuple[bool, bool, str]:
    """Whether the verdict was true and the advice did not hurt, and the row of the table."""
    data = row.make()
    first = data.fit(**row.options)
    found = diagnose(first, n_jobs=1)
    kept = first.measured_graph("advice").to_matrix().tocoo()
    apart = kept.data > 0
    edges = (kept.row[apart], kept.col[apart], kept.data[apart])
    options = found.options or next((v.options for v in found.verdicts if v.options), {})
    what, before = error_of(data, first, edges)
    advice, change, unhurt = "none", f"{what} {before:.2g}", True
    if options:
        second = data.fit(**row.options | options)
        measure, after = error_of(data, second, edges)
        if measure != what:
            measure, before = error_of(Data(), first, edges)
            _, after = error_of(Data(), second, edges)
        unhurt = after <= 1.02 * before
        advice = ", ".join(f"{name}={value!r}" for name, value in options.items())
        change = f"{measure} {before:.2g} to {after:.2g}"
    true = judged(row, found)
    codes = ", ".join(f"`{code}`" for code in found.codes[:3])
    mark = ("" if true else " (wrong)", "" if unhurt else " (hurts)")
    return true, unhurt, f"| {row.name} | {codes}{mark[0]} | {advice} | {change}{mark[1]} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", default=[], help="words that names of rows must contain")
    only = parser.parse_args().only
    print("| data | verdicts | advice | error, before and after following it |")
    print("|---|---|---|---|")
    started, counts = time.process_time(), [0, 0, 0]
    for row in ROWS:
        if only and not any(word in row.name for word in only):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            true, unhurt, line = run_row(row)
        counts = [counts[0] + 1, counts[1] + true, counts[2] + (true and unhurt)]
        print(line, flush=True)
    seconds = time.process_time() - started
    print(f"\n{counts[0]} graphs, {counts[1]} verdicts true, {counts[2]} without harm, {seconds:.0f} CPU s")


if __name__ == "__main__":
    main()
