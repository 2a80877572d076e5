"""Time of fits on a GPU, everything compiled: python benchmarks/gpu.py [VERTICES | mnist]... [--cpu].

Numbers are vertices of a swiss roll, k = 10, N = 2; "mnist" (k = 15, N = 13) needs ISOWEAVE_DATA. Results are
in docs/gpu.md.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from isoweave import embed_graph
from isoweave.datasets import load_mnist, swiss_roll
from isoweave.geometry import rigid_motion
from isoweave.graph import knn_graph


def fit(graph, engine, n_components):
    start = time.perf_counter()
    result = embed_graph(graph, n_components, engine=engine)
    return result, time.perf_counter() - start


def main(words):
    from cupy import get_default_memory_pool

    for word in [word for word in words if word != "--cpu"]:
        if word == "mnist":
            images = np.concatenate([load_mnist(subset).data for subset in ("train", "test")])
            graph, n_components = knn_graph(images, 15), 13
        else:
            graph, n_components = knn_graph(swiss_roll(int(word), random_state=1).data, 10), 2
        times = []
        for _ in range(2):
            get_default_memory_pool().free_all_blocks()
            ours, seconds = fit(graph, "cuda", n_components)
            times.append(seconds)
        memory = get_default_memory_pool().total_bytes() / 1e9
        print(f"{word}: {times[0]:.2f} s, then {times[1]:.2f} s, {memory:.1f} GB, {ours.solver}", flush=True)
        if "--cpu" in words:
            theirs, seconds = fit(graph, "cpu", n_components)
            rotation, shift = rigid_motion(ours.coordinates, theirs.coordinates)
            away = np.abs(ours.coordinates @ rotation + shift - theirs.coordinates).max()
            away /= np.abs(theirs.coordinates).max()
            print(
                f"  CPU {seconds:.2f} s; energy {ours.energy / theirs.energy - 1:.1e}, coordinates {away:.1e}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
