"""Cells on the measures of the openproblems board, beside other methods. Prints the tables of docs/board.md.

``python benchmarks/board.py pbmc3k tcga --methods isoweave umap`` needs ISOWEAVE_DATA and the packages of the
methods (umap-learn, openTSNE, phate, pymde); those that are missing are left out. Every method gets 50
principal components; the measures compare its map with the normalised counts of all genes.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA

from isoweave import IsometricEmbedding
from isoweave.metrics import BOARD_MEANINGS, board_scores


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Normalised counts and labels."""
    files = {
        "pbmc3k": "pbmc3k",
        "pbmc68k": "pbmc68k_reduced",
        "tcga": "tcga_pancan11_rnaseq",
        "5lines": "lungline_5cl_celseq2",
        "rnamix": "lungline_rnamix",
    }
    with np.load(Path(os.environ["ISOWEAVE_DATA"]) / f"{files[name]}.npz") as a:
        if name == "pbmc3k":
            matrix = sp.csr_matrix(
                (a["data"], a["indices"].astype(np.int32), a["indptr"]), shape=tuple(a["shape"])
            )
            return matrix.toarray(), a["y"]
        if name == "pbmc68k":
            return a["logX"], a["y"]
        if name == "tcga":
            return np.maximum(a["X100"] / 100.0, -2.0), a["y"]
        return np.log1p(a["counts"] / a["total_counts"][:, None] * 1e4), a["y"]


def isoweave(x: np.ndarray, n: int = 2, **options: Any) -> np.ndarray:
    return IsometricEmbedding(n, n_neighbors=15, components="bridge", **options).fit_transform(x)


def view(x: np.ndarray) -> np.ndarray:
    model = IsometricEmbedding("auto", n_neighbors=30, components="bridge").fit(x)
    return model.view().coordinates


def umap(x: np.ndarray, **options: Any) -> np.ndarray:
    from umap import UMAP

    return UMAP(random_state=0, **options).fit_transform(x)


def tsne(x: np.ndarray) -> np.ndarray:
    from openTSNE import TSNE

    return np.asarray(TSNE(random_state=0, n_jobs=2).fit(x))


def phate(x: np.ndarray) -> np.ndarray:
    from phate import PHATE

    return PHATE(random_state=0, verbose=0, n_jobs=2).fit_transform(x)


def mde(x: np.ndarray, kind: str) -> np.ndarray:
    import pymde
    import torch

    pymde.seed(0)
    problem = getattr(pymde, f"preserve_{kind}")(torch.tensor(x, dtype=torch.float32), embedding_dim=2)
    return problem.embed().numpy()


METHODS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "isoweave": ("isoweave", isoweave),
    "isoweave, global_weight=10": ("isoweave", lambda x: isoweave(x, global_weight=10.0)),
    "isoweave, N = 10": ("isoweave", lambda x: isoweave(x, 10)),
    "isoweave, view": ("openTSNE", view),
    "PCA": ("sklearn", lambda x: x[:, :2]),
    "UMAP": ("umap", umap),
    "densMAP": ("umap", lambda x: umap(x, densmap=True)),
    "t-SNE": ("openTSNE", tsne),
    "PHATE": ("phate", phate),
    "MDE, neighbours": ("pymde", lambda x: mde(x, "neighbors")),
    "MDE, distances": ("pymde", lambda x: mde(x, "distances")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=["pbmc3k", "pbmc68k", "tcga", "5lines", "rnamix"])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.sets:
        counts, labels = load(name)
        reduced = PCA(50, random_state=0).fit_transform(counts)
        n_labels = len(np.unique(labels))
        print(f"\n**{name}**: {len(counts):,} points, {counts.shape[1]:,} genes, {n_labels} labels\n")
        heads = [measure.replace("_", " ").replace("correlation", "corr.") for measure in BOARD_MEANINGS]
        print(f"| method | {' | '.join(heads)} | CPU s |\n|{'---|' * (len(heads) + 2)}")
        for method in given.methods:
            package, fit = METHODS[method]
            if find_spec(package) is None:
                continue
            begin = time.process_time()
            found = fit(reduced)
            seconds = time.process_time() - begin
            scores = board_scores(counts, found, labels=labels)
            row = " | ".join(f"{scores[measure]:.3f}".replace("0.", ".", 1) for measure in BOARD_MEANINGS)
            print(f"| {method} | {row} | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
