"""The methods that are compared: ours, the paper's, and the baselines, behind one call."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from isoweave._typing import FloatArray
from isoweave.embed import embed_graph
from isoweave.experiments.baselines import BASELINES, available_baselines, run_baseline
from isoweave.graph import NeighborGraph, knn_graph


@dataclass(frozen=True)
class Method:
    """A column of the figures, a line of the tables: options of ``embed_graph``, or a baseline."""

    name: str
    title: str
    options: dict[str, Any] = field(default_factory=dict)
    baseline: str | None = None
    n_seeds: int | None = None


# Each takes longer than all the others together.
_FEWER_SEEDS = {"tsne": 5, "mde": 3}

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("default", "isoweave"),
        Method("paper-energy", "paper's energy, good start", {"inner_product": "paper", "start": "landmark"}),
        # A thousand solves with one matrix: a factor gives the same recursion five times sooner.
        Method("paper", "paper as printed", {"preset": "paper", "solver": "direct"}),
        *(
            Method(b.name, b.title, baseline=b.name, n_seeds=_FEWER_SEEDS.get(b.name))
            for b in BASELINES.values()
        ),
    )
}


def choose_methods(asked: Sequence[str] | None, usual: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Of the methods asked for (None: the usual ones) those that can run here, and why others cannot."""
    unknown = [name for name in asked or () if name not in METHODS]
    if unknown:
        raise ValueError(f"unknown method {unknown[0]!r}; choose from {', '.join(METHODS)}.")
    chosen, missing = [], {}
    installed = available_baselines()
    for name in asked or usual:
        baseline = METHODS[name].baseline
        if baseline is None or baseline in installed:
            chosen.append(name)
        else:
            extra = BASELINES[baseline].extra
            missing[name] = f"{BASELINES[baseline].package} is not installed: pip install 'isoweave[{extra}]'"
    return chosen, missing


def run_method(
    name: str,
    graph: NeighborGraph,
    n_components: int,
    *,
    n_neighbors: int,
    seed: int,
    paper_steps: int | None = None,
) -> tuple[FloatArray, dict[str, Any]]:
    """Embed a graph on one thread: the embedding, and what it took, the making of the graph not counted."""
    method = METHODS[name]
    options = dict(method.options)
    if name == "paper" and paper_steps is not None:
        options["max_iter"] = paper_steps
    told: dict[str, Any] = {"status": "done", "steps": None, "dropped_edges": None}
    wall, cpu = time.perf_counter(), time.process_time()
    if method.baseline is not None:
        embedding = run_baseline(
            method.baseline, graph, n_components, n_neighbors=n_neighbors, random_state=seed, n_jobs=1
        )
    else:
        with warnings.catch_warnings(), threadpool_limits(1):
            # The paper's recursion may well run to its limit; the record says so.
            warnings.simplefilter("ignore")
            result = embed_graph(graph.to_matrix(), n_components, n_jobs=1, random_state=seed, **options)
        embedding = result.coordinates
        told |= {"status": result.status, "steps": result.n_iter, "dropped_edges": len(result.dropped_edges)}
    return embedding, told | {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}


def warm_up(name: str, n_components: int) -> None:
    """Embed a little data, so that no clock runs while numba compiles."""
    if METHODS[name].baseline not in (None, "umap"):
        return
    rng = np.random.default_rng(7)
    graph = knn_graph(rng.normal(size=(40 + 6 * n_components, n_components)), n_components + 4, n_jobs=1)
    run_method(name, graph, n_components, n_neighbors=n_components + 4, seed=7, paper_steps=2)
