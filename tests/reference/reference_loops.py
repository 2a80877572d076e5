"""Slow twins by loops and dense algebra: frames, the shortcut filter, starts, operators and energies."""

from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp
from scipy.linalg import polar
from scipy.sparse.csgraph import dijkstra, minimum_spanning_tree

from reference_graphs import edges_of, graph_of, row_of

SUPPORT, CHANCE, FEWEST_COMMON, DETOUR = 0.6, 1.5, 5, 8.0


def hops(graph, i, n_hops):
    """Vertices within some edges of i."""
    reached = {i}
    for _ in range(n_hops):
        reached |= {v for u in reached for _, v, _ in row_of(graph, u)}
    return reached


def spanning_forest(edges, n):
    """Edges (i, j) of a minimum spanning forest."""
    i, j, lengths = (np.array(part) for part in zip(*edges, strict=True))
    # 32-bit indices: the oldest scipy knows no others.
    ends = (i.astype(np.int32), j.astype(np.int32))
    tree = minimum_spanning_tree(sp.coo_array((lengths, ends), shape=(n, n)).tocsr()).tocoo()
    return set(zip(tree.row.tolist(), tree.col.tolist(), strict=True))


def members(graph, i, size, row_limit):
    """Frame and room of i: neighbours up to a limit (and forced ones), the nearest along the graph."""
    distances = dijkstra(graph.to_matrix(), indices=i)
    nearest = [v for v in np.argsort(distances, kind="stable").tolist() if np.isfinite(distances[v])]
    own = [v for _, v, _ in sorted(row_of(graph, i), key=lambda edge: edge[2])]
    frame = [i, *own[:row_limit]]
    hubs = {v for v in range(graph.n_vertices) if graph.degrees[v] > row_limit}
    if i in hubs:
        tree = spanning_forest(edges_of(graph), graph.n_vertices)
        frame += [v for v in own[row_limit:] if v in hubs and {(i, v), (v, i)} & tree]
    frame += [v for v in nearest if v not in frame][: max(0, size + 1 - len(frame))]
    return frame, set(frame) | set(nearest[: 2 * size + 1])


def frame_loop(graph, i, n_components, *, size=None, row_limit=10**9):
    """Neighbours in the frame of i, their coordinates, inverse rows, spectrum, fidelity.

    ``size=None`` is the paper's second-order neighbourhood with paths inside the third.
    """
    if size is None:
        frame, room = sorted(hops(graph, i, 2), key=lambda v: v != i), hops(graph, i, 3)
    else:
        frame, room = members(graph, i, size, row_limit)
    order, others = frame + sorted(room - set(frame)), frame[1:]
    distances = dijkstra(graph.to_matrix()[order][:, order])[: len(frame), : len(frame)]
    home, among = distances[0, 1:], distances[1:, 1:]
    gram = 0.5 * (home[:, None] ** 2 + home**2 - among**2)
    values, vectors = np.linalg.eigh(gram)
    values, vectors = np.maximum(values[::-1][:n_components], 0.0), vectors[:, ::-1][:, :n_components]
    present = values > 1e-10 * values[0]
    roots = np.sqrt(np.where(present, values, 1.0))
    neighbors = [v for _, v, _ in row_of(graph, i) if v in others]
    own = vectors[[others.index(v) for v in neighbors]]
    width = n_components - len(values)
    return SimpleNamespace(
        neighbors=neighbors,
        rows=np.pad(own * np.where(present, roots, 0.0), ((0, 0), (0, width))),
        inverse=np.pad(own * np.where(present, 1.0 / roots, 0.0), ((0, 0), (0, width))),
        values=np.pad(values, (0, width)),
        fidelity=float(np.sum(values**2) / np.sum(gram**2)),
    )


def support_loop(graph):
    """Common neighbours of every edge (i, j), i < j: their number and share of the smaller neighbourhood."""
    around = [{v for _, v, _ in row_of(graph, i)} for i in range(graph.n_vertices)]
    counts = {(i, j): len(around[i] & around[j]) for i, j, _ in edges_of(graph)}
    shares = {(i, j): c / min(len(around[i]), len(around[j])) for (i, j), c in counts.items()}
    return counts, shares


def suspects_loop(graph):
    """Edges (i, j), i < j, whose ends share too few neighbours."""
    counts, shares = support_loop(graph)
    typical = np.median(list(counts.values()))
    if typical < FEWEST_COMMON:
        return set()
    threshold = min(SUPPORT, 1.0 - CHANCE / np.sqrt(typical)) * np.median(list(shares.values()))
    return {edge for edge, share in shares.items() if share < threshold}


def dropped_loop(graph):
    """Edges the filter removes, sorted."""
    n = graph.n_vertices
    lengths = {(i, j): d for i, j, d in edges_of(graph)}
    rows = [sorted(d for _, _, d in row_of(graph, i)) for i in range(n)]
    typical = [own[len(own) // 2] if own else 0.0 for own in rows]
    suspects = suspects_loop(graph)
    _, shares = support_loop(graph)
    while suspects:
        trusted = [(i, j, d) for (i, j), d in lengths.items() if (i, j) not in suspects]
        rest = dijkstra(graph_of(trusted, n).to_matrix()) if trusted else np.full((n, n), np.inf)
        restored = set()
        for i, j in suspects:
            usual = max(typical[i], typical[j])
            if rest[i, j] <= max(lengths[i, j], usual) + DETOUR * usual:
                restored.add((i, j))
        if not restored:
            # Suspects that a spanning forest needs once all trusted edges are in it: best supported, then
            # shortest.
            free = [(i, j, 0.5) for i, j, _ in trusted]
            ranked = sorted(suspects, key=lambda edge: (-shares[edge], lengths[edge]))
            paid = [(i, j, 1.0 + rank) for rank, (i, j) in enumerate(ranked)]
            restored = spanning_forest(free + paid, n) & suspects
        if not restored:
            break
        suspects -= restored
    return sorted(suspects)


def landmarks_loop(graph, n_landmarks):
    """Farthest points, the first one farthest from the vertex with the shortest mean edge."""
    distances = dijkstra(graph.to_matrix())
    means = [np.mean([d for _, _, d in row_of(graph, i)]) for i in range(graph.n_vertices)]
    chosen = [int(np.argmax(distances[int(np.argmin(means))]))]
    while len(chosen) < n_landmarks:
        chosen.append(int(np.argmax([min(distances[a, v] for a in chosen) for v in range(graph.n_vertices)])))
    return chosen, distances[chosen]


def landmark_start_loop(chosen, distances, n_components):
    """Landmark MDS (de Silva and Tenenbaum): scaling of the landmarks, the rest by distances to them."""
    squared = distances[:, chosen] ** 2
    centring = np.eye(len(chosen)) - 1.0 / len(chosen)
    values, vectors = np.linalg.eigh(-0.5 * centring @ squared @ centring)
    order = np.argsort(values)[::-1][:n_components]
    deviations = distances.T**2 - squared.mean(axis=0)
    return -0.5 * deviations @ vectors[:, order] / np.sqrt(values[order])


def seen_by_both(graph, frames, i, j):
    """Where i and j see the vertices that both see, each centred, shapes (c, N)."""

    def rows(v):
        seen = {w: frames.rows[e] for e, w, _ in row_of(graph, v) if frames.included[e]}
        return seen | {v: np.zeros(frames.n_components)}

    at_i, at_j = rows(i), rows(j)
    common = sorted({*at_i} & {*at_j})
    x, y = (np.array([at[v] for v in common]) for at in (at_i, at_j))
    return x - x.mean(axis=0), y - y.mean(axis=0)


def transition_loop(graph, frames, i, j):
    """Orthogonal map from the frame of j to that of i over what both see, and the part it explains.

    Over too few vertices to tell: the normalised cross product, at little weight.
    """
    x, y = seen_by_both(graph, frames, i, j)
    if len(x) == 0:
        return np.eye(frames.n_components), 0.0
    size = np.linalg.norm(x) * np.linalg.norm(y)
    if len(x) <= frames.n_components:
        return x.T @ y / (size or 1.0), 1e-3
    o, _ = polar(x.T @ y)
    return o, np.trace(o.T @ x.T @ y) / size


def connection_loop(graph, frames):
    """Dense matrix of the form sum over stored edges of w |Q_i - O Q_j|^2 / 2, both directions averaged."""
    n, size = graph.n_vertices, frames.n_components
    result = np.zeros((n, size, n, size))
    for i in range(n):
        for _, j, _ in row_of(graph, i):
            o, w = transition_loop(graph, frames, i, j)
            back, w_back = transition_loop(graph, frames, j, i)
            weight = 0.5 * (w + w_back)
            result[i, :, i] += weight * np.eye(size)
            result[i, :, j] -= weight * 0.5 * (o + back.T)
    return result.reshape(n * size, n * size)


def inner_matrix(graph, inner, i):
    """W_i as a dense matrix over the neighbours of i; ``inner`` has weights per edge or inverse frames."""
    lo, hi = graph.indptr[i], graph.indptr[i + 1]
    if hasattr(inner, "weights"):
        return np.diag(inner.weights[lo:hi])
    return inner.inverse[lo:hi] @ inner.inverse[lo:hi].T


def differences_at(graph, i, values):
    """Matrix of f_j - f_i over the neighbours of i."""
    return np.array([values[j] - values[i] for _, j, _ in row_of(graph, i)])


def laplacian_loop(graph, inner):
    """Sum over vertices of delta^T W delta, from its definition."""
    deltas = [differences_at(graph, i, np.eye(graph.n_vertices)) for i in range(graph.n_vertices)]
    return sum(delta.T @ inner_matrix(graph, inner, i) @ delta for i, delta in enumerate(deltas))


def laplacian_printed(graph, inner):
    """The paper's formula for the Laplacian (eq_lplc).

    In the last term the row sums multiply the rows of F and the columns of F^T, as the entry-wise form of the
    appendix (eqApp_lplc) has it; rows of both, as printed, would not be symmetric.
    """
    total = 0.0
    for column in inner.inverse.T:
        # The paper's FrmInv of one direction.
        f = sp.csr_array((column, graph.indices, graph.indptr)).toarray()
        sums = f.sum(axis=1)
        total = total + f.T @ f + np.diag(sums**2) - (sums[:, None] * f + f.T * sums[None, :])
    return total


def divergence_loop(graph, flux):
    """Adjoint of the differences: every edge gives to its end and takes from its source."""
    out = np.zeros((graph.n_vertices, flux.shape[1]))
    for i in range(graph.n_vertices):
        for e, j, _ in row_of(graph, i):
            out[j] += flux[e]
            out[i] -= flux[e]
    return out


def energy_loop(graph, frames, inner, coordinates, alignments=None):
    """Energies per vertex, alignments (the best ones unless given) and half the gradient."""
    n, n_components = coordinates.shape
    energies, rotations = np.zeros(n), np.zeros((n, n_components, n_components))
    flux = np.zeros((len(graph.indices), n_components))
    for i in range(n):
        at = slice(graph.indptr[i], graph.indptr[i + 1])
        w, e, steps = inner_matrix(graph, inner, i), frames.rows[at], differences_at(graph, i, coordinates)
        rotations[i] = polar(e.T @ w @ steps)[0] if alignments is None else alignments[i]
        residual = steps - e @ rotations[i]
        flux[at] = w @ residual
        energies[i] = np.sum(residual * flux[at])
    return energies, rotations, divergence_loop(graph, flux)
