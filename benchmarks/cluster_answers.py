"""Maps of engine="petsc" on several numbers of ranks beside those of one machine, at a tight tolerance.

    python benchmarks/cluster_answers.py                        # the quality table's graphs and roads
    python benchmarks/cluster_answers.py --ranks 2 7 --graphs klein torus awkward

Prints a table: relative difference of the energies, and the largest difference of a coordinate after a rigid
motion, as a part of the map's size. Runs mpiexec with the Python it is run by, which needs petsc4py. Real
data are read from the folder that ISOWEAVE_DATA names. "awkward" are the twenty graphs of tests/cluster.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cases import ROOT, ROWS, markdown_table
from isoweave import datasets, embed_graph
from isoweave.geometry import rigid_motion
from isoweave.graph import NeighborGraph, graph_from_matrix, knn_graph
from isoweave.optimise import _optimisers as optimisers
from isoweave.options import resolve_options

ROADS = ("oldenburg", "helsinki_osm")
# Of the solves that shape a direction, 1e-5 otherwise: over hundreds of steps in many dimensions the last
# digits decide in which of many minima a fit ends.
optimisers._SOLVE_TOL = 1e-13
# Where there are many minima, in many dimensions and on roads, fits start near the one that one machine
# finds, moved by so much of its size; those of TCGA, thousands of steps away from one, near the map that it
# has after sixty, for sixty more.
NEAR = 1e-4
TIGHT: dict[str, Any] = {"tol": 1e-10, "max_iter": 5000}


def graphs(name: str) -> Iterator[tuple[str, NeighborGraph, int, dict[str, Any]]]:
    """Graphs of a name, with their dimension and options."""
    if name == "awkward":
        sys.path.insert(0, str(ROOT / "tests" / "cluster"))
        from test_awkward_graphs import GRAPHS

        for one, (graph, n_components, unique) in GRAPHS.items():
            # Where a map is free to bend, rounding decides which vertices are far apart.
            more: dict[str, Any] = {"start": "landmark", "refine": "none", "unique": unique}
            yield f"{one}, small", graph, n_components, more | ({} if unique else {"global_weight": 0.0})
    elif name in ROADS:
        graph = graph_from_matrix(datasets.load_road(name).graph)
        yield name, graph, 2, {"start": "coarse", "global_weight": 0.0, "refine": "none", "near": True}
    else:
        row = ROWS[name]
        graph = knn_graph(row.load(row.seeds[0]).data, row.n_neighbors, n_jobs=1)
        more = {"start": "coarse" if row.n_components <= 3 else "landmark"}
        if row.n_components > 8:
            more |= {"global_weight": 0.0, "refine": "none", "near": True}
            more |= {} if name == "mnist" else {"max_iter": 60}
        yield name, graph, row.n_components, more


def compare(names: list[str], folder: Path) -> None:
    """On every rank: the fits of all graphs; the first compares them and writes a line for each."""
    from mpi4py import MPI

    from isoweave.cluster import embed_share
    from isoweave.cluster._build import share_of

    comm = MPI.COMM_WORLD
    for name, graph, n_components, more in (one for kind in names for one in graphs(kind)):
        unique = more.pop("unique", True)
        share = share_of(graph, comm)
        options = TIGHT | more
        if options.pop("near", False):
            options["start"] = np.load(_file(folder, name))["start"][share.caller_ids]
        began = time.process_time()
        x, facts = embed_share(share, resolve_options(n_components, engine="petsc", **options), alone_up_to=0)
        seconds = time.process_time() - began
        rows, ids = (np.concatenate(share.ranks.gather(part)) for part in (x, share.caller_ids))
        if comm.rank == 0:
            one = np.load(_file(folder, name))
            apart = _apart(rows, one["coordinates"][ids]) if unique else float("nan")
            # Energies of maps that fit exactly are rounding: as a part of the collapsed map's.
            size = max(one["energy"], 1e-12 * one["mass"], np.finfo(float).tiny)
            line = {
                "graph": name, "ranks": comm.size, "n": len(ids), "seconds": seconds,
                "energy": abs(facts["energy"] - one["energy"]) / size, "apart": apart,
                "relative_energy": facts["relative_energy"],
                "weights": [facts["global_weight"], float(one["global_weight"])],
                "steps": [facts["n_iter"], int(one["n_iter"])],
                "status": [facts["status"], str(one["status"])],
                "dropped": [facts["n_dropped"], int(one["n_dropped"])],
                "bits": hashlib.sha256(rows.tobytes()).hexdigest()[:16],
            }  # fmt: skip
            print(json.dumps(line), flush=True)


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '-')}.npz"


def _on_one(path: Path, graph: NeighborGraph, n_components: int, options: dict[str, Any]) -> None:
    """The map of one machine, made once."""
    options.pop("unique", None)
    if near := options.pop("near", False):
        x = embed_graph(graph.to_matrix(), n_components, n_jobs=1, solver="direct", **options).coordinates
        noise = np.random.default_rng(0).standard_normal(x.shape)
        options["start"] = x + NEAR * np.abs(x - x.mean(axis=0)).max() * noise
    one = embed_graph(graph.to_matrix(), n_components, n_jobs=1, solver="direct", **options)
    mass = one.energy / one.relative_energy if one.relative_energy else 0.0
    np.savez(
        path, start=options["start"] if near else [], coordinates=one.coordinates, energy=one.energy,
        mass=mass, global_weight=one.global_weight,
        n_iter=len(one.history) - 1, status=one.status, n_dropped=len(one.dropped_edges),
    )  # fmt: skip


def _apart(x: np.ndarray, y: np.ndarray) -> float:
    rotation, shift = rigid_motion(x, y)
    return float(np.abs(x @ rotation + shift - y).max() / np.abs(y - y.mean(axis=0)).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2, 3, 4, 7])
    parser.add_argument("--graphs", nargs="+", default=[*ROWS, *ROADS])
    parser.add_argument("--folder", type=Path, help="where the maps of one machine are kept; a temporary one")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.worker:
        compare(asked.graphs, asked.folder)
        return
    with tempfile.TemporaryDirectory() as made:
        folder = asked.folder or Path(made)
        folder.mkdir(exist_ok=True)
        for kind in asked.graphs:
            for name, graph, n_components, more in graphs(kind):
                if not _file(folder, name).exists():
                    _on_one(_file(folder, name), graph, n_components, TIGHT | more)
        found: dict[str, dict[int, Any]] = {}
        for ranks in asked.ranks:
            line = ["mpiexec", "--oversubscribe", "-n", str(ranks), sys.executable, "-W", "ignore", __file__]
            line += ["--worker", "--folder", str(folder), "--graphs", *asked.graphs]
            env = os.environ | {"OMP_NUM_THREADS": "1"}
            done = subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=env)
            assert done.stdout is not None
            for text in done.stdout:
                print(text, end="", file=sys.stderr, flush=True)
                if text.startswith("{"):
                    record = json.loads(text)
                    before = found.setdefault(record["graph"], {}).setdefault(ranks, record)
                    record["same bits"] = before["bits"] == record["bits"]
                    if not record["same bits"]:
                        print(f"{record['graph']} on {ranks} ranks: other bits than before", file=sys.stderr)
            if done.wait():
                print(f"mpiexec -n {ranks} ended with {done.returncode}", file=sys.stderr)
    print("\n".join(_table(found, asked.ranks)))


def _table(found: dict[str, dict[int, Any]], ranks: list[int]) -> Iterator[str]:
    rows = []
    for name, records in found.items():
        cells = []
        for r in ranks:
            record = records.get(r)
            far = "" if record is None or np.isnan(record["apart"]) else f", {record['apart']:.0e}"
            cells.append("missing" if record is None else f"{record['energy']:.0e}{far}")
        first = next(iter(records.values()))
        rows.append([name, f"{first['n']:,}", f"{first['weights'][1]:.2g}", *cells])
    heads = ["graph", "vertices", "long distances", *(f"{r} rank{'s' * (r > 1)}" for r in ranks)]
    yield from markdown_table(heads, rows)


if __name__ == "__main__":
    main()
