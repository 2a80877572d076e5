"""Noise: rolls and trees under noise, distances of maps against the true geodesics of the clean data.

    python benchmarks/noise.py run --methods isoweave isomap umap --seeds 901-910
    python benchmarks/noise.py table --seeds 901-910

The scores are those of HeatGeo's toy benchmark: Pearson and Spearman of every row of the distances in the map
with the same row of true geodesics, mean over the rows. ``run`` adds to build/benchmarks/noise.jsonl what is
missing there, ``table`` prints means. Data are made by numpy alone, and isoweave is imported where it is
called: methods that want other versions (phate, heatgeo 0.0.1) run in an environment of their own.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from scipy.stats import rankdata

RECORDS = Path(__file__).resolve().parents[1] / "build" / "benchmarks" / "noise.jsonl"
N = 2000
# Neighbours in a mean; chosen on seeds 1 to 5.
DENOISE = 30

Sample = tuple[np.ndarray, np.ndarray]


def roll(seed: int, noise: float, *, height: float, n_dims: int = 3, n: int = N) -> Sample:
    """A swiss roll (sheets 2 pi apart), turned into n_dims dimensions, and distances on the flat sheet."""
    rng = np.random.RandomState(seed)
    t = 1.5 * np.pi * (1.0 + 2.0 * rng.uniform(size=n))
    h = height * rng.uniform(size=n)
    data = np.column_stack([t * np.cos(t), h, t * np.sin(t)])
    if n_dims > 3:
        data = data @ np.linalg.qr(rng.normal(size=(n_dims, n_dims)))[0][:3]
    flat = np.column_stack([0.5 * (t * np.sqrt(1.0 + t * t) + np.arcsinh(t)), h])
    return data + noise * rng.normal(size=data.shape), cdist(flat, flat)


def tree(seed: int, noise: float, *, n_dims: int = 10, n_branches: int = 5, n: int = N) -> Sample:
    """PHATE's tree: random walks with steps uniform in [-1, 1]^D, each from a random point of those before.

    True distances are shortest paths between the clean points, joined to their 10 nearest; the noise has ten
    times the given deviation. Both as in HeatGeo's benchmark, whose branches have 500 points.
    """
    rng = np.random.RandomState(seed)
    length = n // n_branches
    walks = np.cumsum(rng.uniform(-1.0, 1.0, size=(n_branches, length, n_dims)), axis=1)
    clean = walks[0]
    for walk in walks[1:]:
        clean = np.concatenate([clean, clean[rng.randint(len(clean))] + walk])
    distances, neighbors = cKDTree(clean).query(clean, 11)
    joined = np.zeros((len(clean), len(clean)))
    np.put_along_axis(joined, neighbors, distances, axis=1)
    true = shortest_path(joined, directed=False)
    return clean + 10.0 * noise * rng.normal(size=clean.shape), true


DATA: dict[str, Callable[[int, float], Sample]] = {
    "swiss roll": partial(roll, height=21.0),
    "stretched roll, 3-D": partial(roll, height=5.0),
    "stretched roll, 10-D": partial(roll, height=5.0, n_dims=10),
    "tree, 10-D": tree,
}
CASES = [("swiss roll", 0.3), ("swiss roll", 0.6)]
CASES += [(name, noise) for name in list(DATA)[1:] for noise in (0.1, 0.5, 1.0)]


def row_scores(embedding: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """Pearson and Spearman of the rows of all distances, means over the rows."""
    found = cdist(embedding, embedding)
    return {"pearson": _rows(found, true), "spearman": _rows(rankdata(found, axis=1), rankdata(true, axis=1))}


def _rows(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    return float(np.mean(np.sum(a * b, axis=1) / np.sqrt(np.sum(a * a, axis=1) * np.sum(b * b, axis=1))))


def isoweave(data: np.ndarray, seed: int, **options: Any) -> np.ndarray:
    from isoweave import IsometricEmbedding

    return IsometricEmbedding(n_jobs=1, **options).fit_transform(data)


def isomap(data: np.ndarray, seed: int, n_neighbors: int = 10) -> np.ndarray:
    from sklearn.manifold import Isomap

    return Isomap(n_components=2, n_neighbors=n_neighbors).fit_transform(data)


def umap(data: np.ndarray, seed: int) -> np.ndarray:
    import umap

    return umap.UMAP(random_state=seed, n_jobs=1).fit_transform(data)


def phate(data: np.ndarray, seed: int) -> np.ndarray:
    import phate

    return phate.PHATE(random_state=seed, n_jobs=1, verbose=False).fit_transform(data)


def heatgeo(data: np.ndarray, seed: int, **options: Any) -> np.ndarray:
    from heatgeo.embedding import HeatGeo

    given: dict[str, Any] = {"knn": 10, "n_pca": None, "tau": "auto", "emb_dim": 2, "order": 30}
    return HeatGeo(**given | options).fit_transform(data)


def isomap_of_means(data: np.ndarray, seed: int) -> np.ndarray:
    """What the means alone do for Isomap."""
    from isoweave.graph import NeighborhoodMeans

    return isomap(NeighborhoodMeans(data, DENOISE, n_jobs=1).points, seed)


METHODS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "isoweave": isoweave,
    "isoweave-denoise": partial(isoweave, denoise=DENOISE),
    "isomap": isomap,
    "isomap-denoise": isomap_of_means,
    "umap": umap,
    "phate": phate,
    "heatgeo": heatgeo,
}


def read() -> dict[tuple[str, float, str, int], dict[str, float]]:
    """The records, the newest of each."""
    lines = RECORDS.read_text(encoding="utf-8").splitlines() if RECORDS.exists() else []
    return {(r["data"], r["noise"], r["method"], r["seed"]): r for r in map(json.loads, lines)}


def run(cases: Iterable[tuple[str, float]], methods: list[str], seeds: list[int]) -> None:
    """Fill in what is missing."""
    done = read()
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    for name, noise in cases:
        for seed in seeds:
            missing = [m for m in methods if (name, noise, m, seed) not in done]
            if not missing:
                continue
            data, true = DATA[name](seed, noise)
            for method in missing:
                started = time.process_time()
                embedding = METHODS[method](data, seed)
                record: dict[str, Any] = {"data": name, "noise": noise, "method": method, "seed": seed}
                record |= {"seconds": time.process_time() - started} | row_scores(embedding, true)
                with RECORDS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
                print(record, flush=True)


def table(cases: Iterable[tuple[str, float]], methods: list[str], seeds: list[int]) -> None:
    """Means over the seeds, Pearson / Spearman; in brackets the number of seeds where there are fewer."""
    done = read()
    print("| data | noise | " + " | ".join(methods) + " |")
    print("|" + "---|" * (2 + len(methods)))
    for name, noise in cases:
        cells = []
        for method in methods:
            found = [done[name, noise, method, s] for s in seeds if (name, noise, method, s) in done]
            means = [np.mean([r[c] for r in found]) for c in ("pearson", "spearman")] if found else []
            few = f" ({len(found)})" if 0 < len(found) < len(seeds) else ""
            cells.append(" / ".join(f"{m:.3f}".replace("0.", ".") for m in means) + few)
        print(f"| {name} | {noise:g} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", default="1-5", help="first-last")
    parser.add_argument("--cases", nargs="+", type=int, help="numbers of rows, all by default")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    first, _, last = given.seeds.partition("-")
    seeds = list(range(int(first), int(last or first) + 1))
    cases = [CASES[i] for i in given.cases] if given.cases else CASES
    (run if given.what == "run" else table)(cases, given.methods, seeds)


if __name__ == "__main__":
    main()
