"""Digests of many small fits, to tell whether a change of the code changes any bit of what it computes.

Not a test: bits are promised only for the same versions on the same processor. ``python tests/digests.py``
compares with ``digests.json`` beside it and exits with 1 if a case differs, with 2 if the environment does;
``--write`` records the present bits; ``--only '*anchors*'`` takes some of the cases.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import platform
import re
import time
import warnings
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_info

from isoweave import Anchors, IsometricEmbedding, Weights, diagnose, embed_graph
from isoweave.datasets import difficult, flat_torus, klein_bottle, s_curve, sensor_network, swiss_roll
from isoweave.graph import knn_graph
from isoweave.metrics import evaluate

RECORD = Path(__file__).with_suffix(".json")
# The public interface: where it changes, these functions follow, and the digests stay. A case is a dict of
# arrays, numbers and words; its keys are hashed too, and mostly are this script's own.
COMMON = "alignments stretch energy component_labels dropped_edges status n_iter"


def anchored(*given: Any) -> dict:
    return {"anchors": Anchors(*given)}


def weighted(edges: Any = None, vertices: Any = None) -> dict:
    return {"weights": Weights(edges, vertices)}


def graph_of(X: Any, k: int = 9) -> sp.csr_array:
    return knn_graph(X, k).to_matrix()


def model_of(X: Any, n_components: Any = 2, k: int = 9, known: Any = None, **options: Any) -> Any:
    options = {"refine": "none", **options}  # so that the optimiser's own bits are seen
    return IsometricEmbedding(n_components, n_neighbors=k, **options).fit(X, **(known or {}))


def parts(source: Any, names: str, suffix: str = "") -> dict:
    return {name: getattr(source, name + suffix) for name in names.split()}


def embed(matrix: Any, n_components: int = 2, **options: Any) -> dict:
    options = {"refine": "none", **options}
    return parts(embed_graph(matrix, n_components, **options), f"coordinates start {COMMON}")


def fitted(model: Any) -> dict:
    return parts(model, f"embedding {COMMON}", "_") | parts(model.graph_, "indptr indices data")


def fit(*given: Any, **options: Any) -> dict:
    return fitted(model_of(*given, **options))


def placed(model: Any, X: Any) -> dict:
    found = {"transform": model.transform(X), "score": model.score(X)}
    return found | parts(model.place(X), "coordinates residual n_iter n_used n_given")


def diagnosed(source: Any, **options: Any) -> dict:
    """Codes and numbers; the wording is free to change."""
    found = diagnose(source, **options)
    told = found.to_dict()
    for verdict in told["verdicts"]:
        del verdict["text"], verdict["advice"]
    arrays = {} if found.map is None else parts(found, "edge_distortion stretch")
    return {"told": json.dumps(told, sort_keys=True), "curvature": found.curvature} | arrays


# Data: made on first use, and nothing writes into it.
sheet = cache(lambda n=500: s_curve(n, random_state=13))
swiss = cache(lambda n=500: swiss_roll(n, random_state=5))
roll = cache(lambda n=500, k=9: graph_of(swiss(n).data, k))
torus = cache(lambda n=400: graph_of(flat_torus(n, random_state=7).data, 10))
bottle = cache(lambda: klein_bottle(500, random_state=37).data)
cloud = cache(lambda n, n_features: np.random.default_rng(11).normal(size=(n, n_features)))
two_sheets = cache(lambda: np.vstack([sheet(250).data, sheet(150).data + 30.0]))
repeated = cache(lambda: np.vstack([sheet(300).data, sheet(300).data[:40], sheet(300).data[:3]]))
two_truths = cache(lambda: np.vstack([sheet(250).truth, sheet(150).truth + 20.0]))
unrolled = cache(lambda: sheet().data[np.argsort(sheet().truth[:, 0])])
net = cache(lambda n_dims=2: sensor_network(300, n_anchors=8, noise=0.05, n_dims=n_dims, random_state=23))
sensors = cache(lambda: net().graph)
weights = cache(lambda: sensors().power(-2.0))
lopsided = cache(lambda: sp.csr_array(roll().multiply(1.0 + 0.01 * np.abs(cloud(500, 500)))))
spots = cache(lambda n_dims=2: (net(n_dims).anchors, net(n_dims).truth[net(n_dims).anchors]))
pins = cache(lambda weight=None, n_dims=2: anchored(*spots(n_dims), weight))
# A model of points, one of distances, and the distances to its points from others and from some of them.
half = cache(lambda **options: model_of(sheet().data[:350], **options))
measured = cache(lambda: model_of(cdist(sheet().data[:350], sheet().data[:350]), metric="precomputed"))
apart = cache(lambda: cdist(sheet().data[340:], sheet().data[:350]))


def hub() -> sp.csr_array:
    """A sheet with one vertex that is joined to most of the others."""
    lengths, rim = np.random.default_rng(19).uniform(1.0, 4.0, size=300), np.arange(100, 400)
    spokes = sp.csr_array((lengths, (np.zeros(300, dtype=int), rim)), shape=(400, 400))
    return sp.csr_array(graph_of(sheet(400).data).maximum(spokes).maximum(spokes.T))


def updated(kept: Any) -> dict:
    model = model_of(graph_of(sheet().data[:300]), metric="precomputed")
    return fitted(model.update_graph(graph_of(sheet().data[np.append(kept, range(300, 360))]), kept=kept))


def each(option, values, data, more="", run=embed, known=dict, **rest) -> dict:
    """A case for every value of an option."""
    chosen = {f"{option}-{value}{more}": {option: value} | rest for value in values}
    return {name: lambda x=x: run(data(), **x, **known()) for name, x in chosen.items()}


SOLVERS = ("auto", "direct", "amg", "jacobi", "ic")
PAPER = {"preset": "paper", "max_iter": 25}
MIXED = (np.inf, 1.0, 0.5, np.inf, 3.0, 9.0, 0.1, 1.0)
RAMP, SPREAD, THIRDS = np.linspace(0.5, 2.0, 300), np.arange(0, 400, 40), np.arange(500) % 3
# What is known of the sensors beside their distances.
KNOWN = {
    "weights-edges": lambda: weighted(weights()),
    "weights-vertices": lambda: weighted(vertices=RAMP),
    "weights-both": lambda: weighted(weights(), RAMP),
    "anchors-hard": pins,
    "anchors-soft": lambda: pins(2.0),
    "anchors-mixed": lambda: pins(MIXED),
    "anchors-few": lambda: anchored([4, 70], net().truth[[4, 70]]),
    "anchors-weights": lambda: pins(MIXED) | weighted(weights(), RAMP),
}
CASES = {
    **each("start", ("auto", "landmark", "synchronized", "coarse", "identity"), roll),
    **each("start", ("auto", "synchronized", "coarse"), torus, "-3d", n_components=3),
    "start-array": lambda: embed(roll(), start=cloud(500, 2)),
    "start-array-anchors": lambda: embed(sensors(), start=net().truth + 0.1 * cloud(300, 2), **pins()),
    "start-auto-coarse": lambda: embed(roll(3500)),
    "start-auto-reordered": lambda: embed(roll(20500)),
    **each("solver", SOLVERS, roll),
    **each("solver", SOLVERS, roll, "-paper", inner_product="paper"),
    "paper": lambda: embed(roll(300), preset="paper", tol=0.001),
    "paper-3d": lambda: embed(torus(250), 3, **PAPER),
    "paper-8d": lambda: embed(graph_of(cloud(40, 9)), 8, random_state=5, **PAPER),
    "paper-known": lambda: embed(sensors(), **PAPER, **pins(MIXED) | weighted(vertices=RAMP)),
    **each("inner_product", ("edge", "paper"), torus, "-3d", n_components=3),
    **each("frame_size", ("all", 15, 1.5), roll),
    **each("calibrate", ("rows", "vertices", "none"), torus),
    **each("scale", ("edges", "geodesics"), torus),
    **each("shortcuts", ("drop", "keep"), lambda: roll(1000, 16)),
    **each("asymmetry", ("max", "min", "mean"), lopsided),
    **each("components", ("separate", "largest", "bridge"), two_sheets, run=fit),
    "components-anchors": lambda: fit(two_sheets(), known=anchored(SPREAD, two_truths()[SPREAD])),
    "components-anchors-1": lambda: fit(two_sheets(), known=anchored(SPREAD[:6], two_truths()[:201:40], 1.0)),
    "duplicates-features": lambda: fit(repeated()),
    "duplicates-graph": lambda: embed(graph_of(repeated())),
    **each("refine", ("distances", "auto"), sensors),
    **each("loss", ("robust",), sensors),
    **each("max_iter", (3,), roll),
    **each("tol", (0.001,), torus),
    **each("n_jobs", (1, 2), lambda: swiss(700).data, run=fit),
    **each("n_components", (1, 2, 3, "auto"), lambda: flat_torus(500, random_state=41).data, run=fit),
    **each("n_components", (2, 3), bottle, "-bottle", fit),
    **each("n_components", (2, 3), hub, "-hub"),
    "n_components-auto-graph": lambda: fit(torus(), "auto", metric="precomputed"),
    "n_components-auto-anchors": lambda: fit(sensors(), "auto", metric="precomputed", known=pins()),
    "n_components-3-anchors": lambda: embed(net(3).graph, 3, **pins(n_dims=3)),
    "n_components-5": lambda: fit(difficult(400, random_state=31).data, 5, 14),
    "n_components-13": lambda: embed(graph_of(cloud(300, 15), 20), 13),
    "features-tree": lambda: fit(sheet().data),
    "features-brute": lambda: fit(cloud(300, 40), 3, 12),
    "features-float32": lambda: fit(sheet().data.astype(np.float32)),
    "features-sparse": lambda: fit(sp.csr_array(np.maximum(cloud(300, 30), 0.0)), k=12),
    **each("metric", ("cosine", "manhattan"), lambda: cloud(300, 12), run=fit, k=12),
    "metric-precomputed": lambda: fitted(measured()),
    "place": lambda: placed(half(), sheet().data[340:]),
    "place-geodesics": lambda: placed(half(scale="geodesics"), sheet().data[340:]),
    "place-brute-3d": lambda: placed(model_of(cloud(500, 40)[:350], 3, 12), cloud(500, 40)[340:]),
    "place-distances": lambda: placed(measured(), apart()),
    "place-distances-sparse": lambda: placed(measured(), sp.csr_array(apart() * (apart() < 0.6))),
    "add_samples": lambda: fitted(model_of(sheet().data[:350]).add_samples(sheet().data[350:])),
    "add_samples-beyond": lambda: fitted(model_of(unrolled()[:350]).add_samples(unrolled()[350:])),
    "update_graph": lambda: updated(np.arange(300)),
    "update_graph-kept": lambda: updated(np.arange(20, 290)),
    "diagnose-graph": lambda: diagnosed(roll()),
    "diagnose-graph-3d": lambda: diagnosed(torus(), n_components=3),
    "diagnose-map": lambda: diagnosed(embed_graph(roll(), refine="none")),
    "diagnose-model": lambda: diagnosed(model_of(bottle(), calibrate="vertices")),
    "evaluate": lambda: evaluate(roll(), embed(roll())["coordinates"], truth=swiss().truth, labels=THIRDS),
}
for _name, _known in KNOWN.items():
    CASES |= each("solver", SOLVERS, sensors, f"-{_name}", known=_known)
    CASES |= each("refine", ("distances",), sensors, f"-{_name}", known=_known)


def digest(case: dict) -> str:
    sha = hashlib.sha256()
    for name, value in case.items():
        # Recorded before "synchronized" had one spelling.
        array = np.asarray(value.replace("ized", "ised") if isinstance(value, str) else value)
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode() + array.tobytes())
    return sha.hexdigest()[:16]


def environment() -> dict:
    """What bits depend on beside the code; numba compiles for the processor that LLVM names."""
    found = {"python": platform.python_version(), "llvm_cpu": llvmlite.binding.get_host_cpu_name()}
    found |= {name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")}
    models = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    blas = [x for x in threadpool_info() if x["user_api"] == "blas"]
    kinds = sorted(f"{x['internal_api']} {x['version']} {x.get('architecture')}" for x in blas)
    return found | {"cpu": models[0], "blas": ", ".join(kinds)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="record the present bits")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of cases, as 'start-*'")
    asked = parser.parse_args()
    record = json.loads(RECORD.read_text())
    here, there = environment(), record["environment"]
    other = [f"{x}: {here[x]} here, {there.get(x)} there" for x in here if here[x] != there.get(x)]
    if other and not (asked.write and asked.only == "*"):
        print("recorded in another environment, whose bits cannot be compared:", *other, sep="\n")
        return 2
    warnings.simplefilter("ignore", UserWarning)  # of graphs in parts, and of too few steps
    found = {}
    for name in fnmatch.filter(CASES, asked.only):
        began = time.process_time()
        found[name] = digest(CASES[name]())
        print(f"{name}: {found[name]} ({time.process_time() - began:.2f} s)", flush=True)
    recorded = {name: record["digests"][name] for name in fnmatch.filter(record["digests"], asked.only)}
    differ = [name for name in recorded | found if recorded.get(name) != found.get(name)]
    print(f"{len(found)} cases, {time.process_time():.0f} s; different:", *differ or ["none"], sep="\n")
    if asked.write:
        kept = {x: old for x, old in record["digests"].items() if x in found or x not in recorded}
        RECORD.write_text(json.dumps({"environment": here, "digests": kept | found}, indent=1) + "\n")
    return int(not asked.write and bool(differ or not found))


if __name__ == "__main__":
    raise SystemExit(main())
