"""Pictures of clusters: what views keep, beside UMAP. Prints the table of docs/plotting.md.

``python benchmarks/view.py pbmc3k mnist --pull 0 0.05 0.1`` needs ISOWEAVE_DATA, openTSNE and umap-learn.
MNIST are 10,000 images of the training set, drawn by ``--seed``, or as ``mnist-test`` those of the test set;
maps have 13 dimensions and 15 neighbours.
Columns: accuracy of 15 nearest neighbours / trustworthiness (15) / rank correlation of distances, against
the data.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from advice import cells
from isoweave import IsometricEmbedding
from isoweave.metrics import GeodesicRows, spearman, trustworthiness


def load(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels."""
    folder = Path(os.environ["ISOWEAVE_DATA"])
    if name == "pbmc3k":
        with np.load(folder / "pbmc3k.npz") as a:
            return np.asarray(cells().features), a["y"]
    if name == "mnist-test":
        with np.load(folder / "mnist_test.npz") as a:
            return a["X"].reshape(len(a["X"]), -1) / 255.0, a["y"]
    with np.load(folder / "mnist_train.npz") as a:
        some = np.sort(np.random.default_rng(seed).choice(len(a["y"]), 10_000, replace=False))
        return a["X"][some].reshape(10_000, -1) / 255.0, a["y"][some]


def scores(x: np.ndarray, labels: np.ndarray, picture: np.ndarray, k: int = 15) -> tuple[float, float, float]:
    """Accuracy over all points; trust and rank correlation from 400 of them."""
    near = cKDTree(picture).query(picture, k + 1)[1][:, 1:]
    votes = np.array([np.bincount(labels[row]).argmax() for row in near])
    rows = np.sort(np.random.default_rng(1).choice(len(x), 400, replace=False))
    far = GeodesicRows(rows, cdist(x[rows], x))
    trust = trustworthiness(far, picture, n_neighbors=k)
    return float(np.mean(votes == labels)), trust, spearman(far, picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=["pbmc3k", "mnist"])
    parser.add_argument("--pull", nargs="*", type=float, default=[0.0, 0.05, 0.1])
    parser.add_argument("--seed", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.sets:
        x, labels = load(name, given.seed)

        def tell(
            what: str, picture: np.ndarray, begin: float, name: str = name, x: object = x, y: object = labels
        ) -> None:
            found = " / ".join(f"{s:.3f}".lstrip("0") for s in scores(x, y, picture))
            print(f"| {name} | {what} | {found} | {time.process_time() - begin:.0f} |", flush=True)

        begin = time.process_time()
        model = IsometricEmbedding(13, n_neighbors=15, n_jobs=1).fit(x)
        tell("isoweave, N = 13", model.embedding_, begin)
        for pull in given.pull:
            begin = time.process_time()
            tell(f"view, pull={pull:g}", model.view(pull=pull).coordinates, begin)
        from umap import UMAP

        begin = time.process_time()
        tell("UMAP", UMAP(random_state=0, n_jobs=1).fit_transform(x), begin)


if __name__ == "__main__":
    main()
