"""Time of fits on a GPU, everything compiled: python benchmarks/gpu.py [VERTICES|features|mnist]... [--cpu].

Numbers are vertices of a swiss roll, k = 10, N = 2, graph in; "features" are the points of one of a million,
neighbours included; "mnist" (k = 15, N = 13) needs ISOWEAVE_DATA. Results are in docs/gpu.md.
"""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import numpy as np

from isoweave import IsometricEmbedding, embed_graph
from isoweave.cuda import knn_on_device
from isoweave.datasets import load_mnist, swiss_roll
from isoweave.geometry import rigid_motion
from isoweave.graph import knn_graph

TIMES = 5


def fits(word):
    """The fit of a case, as a function of the engine."""
    if word == "features":
        points = swiss_roll(1_000_000, random_state=1).data
        return lambda engine: _found(IsometricEmbedding(n_neighbors=10, engine=engine).fit(points))
    if word == "mnist":
        images = np.concatenate([load_mnist(subset).data for subset in ("train", "test")])
        graph, n_components = knn_graph(images, 15), 13
    else:
        points, n_components = swiss_roll(int(word), random_state=1).data, 2
        graph = knn_on_device(points, 10, "euclidean", None) or knn_graph(points, 10)
    return lambda engine: embed_graph(graph, n_components, engine=engine)


def _found(model):
    return SimpleNamespace(coordinates=model.embedding_, energy=model.energy_, solver="features in")


def timed(fit, engine):
    start = time.perf_counter()
    return fit(engine), time.perf_counter() - start


def main(words):
    from cupy import get_default_memory_pool

    for word in [word for word in words if word != "--cpu"]:
        fit, seconds = fits(word), []
        for _ in range(TIMES):
            get_default_memory_pool().free_all_blocks()
            ours, one = timed(fit, "cuda")
            seconds.append(one)
        memory = get_default_memory_pool().total_bytes() / 1e9
        after = ", ".join(f"{one:.2f}" for one in sorted(seconds[1:]))
        print(f"{word}: first {seconds[0]:.2f} s, then {after}; {memory:.1f} GB, {ours.solver}", flush=True)
        if "--cpu" in words:
            theirs, one = timed(fit, "cpu")
            rotation, shift = rigid_motion(ours.coordinates, theirs.coordinates)
            away = np.abs(ours.coordinates @ rotation + shift - theirs.coordinates).max()
            away /= np.abs(theirs.coordinates).max()
            energy = ours.energy / theirs.energy - 1
            print(f"  CPU {one:.2f} s; energy {energy:.1e}, coordinates {away:.1e}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
