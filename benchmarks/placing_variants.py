"""Other ways to place new points, in plain numpy; prints the comparison quoted in docs/new_points.md.

    python benchmarks/placing_variants.py --rows swiss10 mnist --seeds 2

Ways: distances alone, directions alone, both with several weights, and the new point's own frame turned onto
the map. Splits and scores are those of ``new_points.py``. Slow: every point is a Python loop.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors

from cases import markdown_table
from isoweave import IsometricEmbedding
from new_points import NAMES, TABLE, score, split

WEIGHTS = (2, 4, 8, 16, 32, 64)
_FRAME_PER_NEIGHBOR = 2.5
COLUMNS = ("kept", "edges", "position", "parameters", "accuracy")


def directions(graph: sp.csr_array, places: np.ndarray, near: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Where every neighbour sees the new point (N1, N2), shape (k, N)."""
    far = dict(zip(near.tolist(), d.tolist(), strict=True))
    paths: dict[int, float] = {}
    for j, own in zip(near, d, strict=True):
        row = slice(graph.indptr[j], graph.indptr[j + 1])
        for v, length in zip(graph.indices[row].tolist(), graph.data[row].tolist(), strict=True):
            paths[v] = min(paths.get(v, np.inf), own + length)
    far = paths | far
    seen = []
    for j, own in zip(near, d, strict=True):
        row = slice(graph.indptr[j], graph.indptr[j + 1])
        x = places[graph.indices[row]] - places[j]
        to_new = np.array([far[v] for v in graph.indices[row].tolist()])
        products = 0.5 * (own**2 + graph.data[row] ** 2 - to_new**2)
        gram = x.T @ x
        gram += 1e-2 * np.trace(gram) / len(gram) * np.eye(len(gram))
        found = np.linalg.solve(gram, x.T @ products)
        seen.append(places[j] + found * own / max(float(np.linalg.norm(found)), 1e-300))
    return np.array(seen)


def settle(
    anchors: np.ndarray, d: np.ndarray, seen: np.ndarray, seen_weight: float, weight: float
) -> np.ndarray:
    """Minimum of (N3) with any weights, by majorisation."""
    w = (1.0 / d)[:, None]
    y = np.sum(w * seen, axis=0) / w.sum()
    for _ in range(1000):
        apart = y - anchors
        pull = anchors + d[:, None] * apart / np.maximum(np.linalg.norm(apart, axis=1)[:, None], 1e-300)
        new = np.sum(w * (seen_weight * seen + weight * pull), axis=0) / (w.sum() * (seen_weight + weight))
        if np.linalg.norm(new - y) < 1e-7 * d.mean():
            return new
        y = new
    return y


def own_frame(graph: sp.csr_array, places: np.ndarray, near: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The frame of the new point (eqs. 1 to 3, 5), turned and shifted onto its neighbours in the map."""
    n_components = places.shape[1]
    size = int(_FRAME_PER_NEIGHBOR * len(near))
    best: dict[int, float] = {}
    for j, own in zip(near, d, strict=True):
        row = slice(graph.indptr[j], graph.indptr[j + 1])
        for v, length in zip(graph.indices[row].tolist(), graph.data[row].tolist(), strict=True):
            best[v] = min(best.get(v, np.inf), own + length)
    others = [v for v in sorted(best, key=lambda v: best[v]) if v not in set(near.tolist())]
    room = np.concatenate([near, np.array(others[: 2 * size - len(near)], dtype=near.dtype)])
    inner = graph[room][:, room].toarray()
    paths = np.full((len(room) + 1, len(room) + 1), np.inf)
    paths[1:, 1:] = np.where(inner > 0, inner, np.inf)
    paths[0, 1 : len(near) + 1] = paths[1 : len(near) + 1, 0] = d
    np.fill_diagonal(paths, 0.0)
    for via in range(len(paths)):
        np.minimum(paths, paths[:, via : via + 1] + paths[via : via + 1], out=paths)
    squares = paths[: size + 1, : size + 1] ** 2
    gram = 0.5 * (squares[0, 1:, None] + squares[0, None, 1:] - squares[1:, 1:])
    values, vectors = np.linalg.eigh(gram)
    frame = (vectors * np.sqrt(np.maximum(values, 0.0)))[: len(near), ::-1][:, :n_components]
    frame *= (d / np.maximum(np.linalg.norm(frame, axis=1), 1e-300))[:, None]
    anchors = places[near]
    u, _, v = np.linalg.svd((frame - frame.mean(axis=0)).T @ (anchors - anchors.mean(axis=0)))
    return anchors.mean(axis=0) - frame.mean(axis=0) @ u @ v


def ways(
    graph: sp.csr_array, places: np.ndarray, near: np.ndarray, d: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Every way's place of one new point."""
    seen = directions(graph, places, near, d)
    anchors = places[near]
    yield "own frame", own_frame(graph, places, near, d)
    yield "distances alone", settle(anchors, d, seen, 0.0, 1.0)
    yield "directions alone", settle(anchors, d, seen, 1.0, 0.0)
    for weight in WEIGHTS:
        yield f"both, μ = {weight}", settle(anchors, d, seen, 1.0, float(weight))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", nargs="+", choices=NAMES, default=["swiss10", "torus", "difficult", "mnist"]
    )
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    for name in options.rows:
        row = TABLE[name]
        found: dict[str, list[dict[str, float]]] = {}
        for seed in row.seeds[: options.seeds]:
            data = row.load(seed)
            X = np.asarray(data.data, dtype=np.float64)
            parts = split(len(X), seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = IsometricEmbedding(row.n_components, n_neighbors=row.n_neighbors).fit(X[parts[0]])
            d, near = NearestNeighbors(n_neighbors=row.n_neighbors).fit(X[parts[0]]).kneighbors(X[parts[1]])
            placed: dict[str, list[np.ndarray]] = {"transform": list(model.transform(X[parts[1]]))}
            for one, own in zip(near, d, strict=True):
                for way, place in ways(model.graph_, model.embedding_, one, own):
                    placed.setdefault(way, []).append(place)
            for way, points in placed.items():
                scores = score(row, data, parts, model.embedding_, np.array(points), scaled=True)
                found.setdefault(way, []).append(scores)
        print(f"\n{row.title}\n")
        columns = [c for c in COLUMNS if c in found["transform"][0]]
        lines = [
            [way, *(f"{np.mean([s[c] for s in scores]):.3f}" for c in columns)]
            for way, scores in found.items()
        ]
        print("\n".join(markdown_table(["", *columns], lines)), flush=True)


if __name__ == "__main__":
    main()
