"""Kernels of distances: those of the edges, and those from all vertices to the landmarks."""

import numpy as np

from isoweave.engines.compile import kernel


@kernel
def edge_stress(start, stop, indptr, indices, lengths, weights, both, coordinates, energies, half_gradient):
    """Energies of the vertices start..stop and half their gradients (eq. 22)."""
    # ``both`` (m,) are the weights of the two directions of an edge together.
    n_components = coordinates.shape[1]
    step = np.empty(n_components)
    for i in range(start, stop):
        if n_components == 2:
            x, y, total, u, v = coordinates[i, 0], coordinates[i, 1], 0.0, 0.0, 0.0
            for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                j = np.uint32(indices[e])
                a, b = x - coordinates[j, 0], y - coordinates[j, 1]
                distance = np.sqrt(a * a + b * b)
                excess = distance - lengths[e]
                total += weights[e] * excess * excess
                if distance > 0.0:
                    pull = both[e] * excess / distance
                    u += pull * a
                    v += pull * b
            energies[i], half_gradient[i, 0], half_gradient[i, 1] = total, u, v
            continue
        energies[i] = 0.0
        half_gradient[i] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            square = 0.0
            for c in range(n_components):
                step[c] = coordinates[i, c] - coordinates[indices[e], c]
                square += step[c] * step[c]
            distance = np.sqrt(square)
            excess = distance - lengths[e]
            energies[i] += weights[e] * excess * excess
            if distance > 0.0:
                # Ends that coincide may part in any direction: none is taken.
                pull = both[e] * excess / distance
                for c in range(n_components):
                    half_gradient[i, c] += pull * step[c]


@kernel
def landmark_stress(
    start, stop, size, coordinates, landmarks, geodesics, cross, squares, pulls, landmark_pulls
):
    """Sums over the landmarks for every vertex, and over the vertices of every block (eq. 25)."""
    # Blocks of ``size`` vertices are the items: their sums are added in a fixed order later. With ``d`` the
    # distance and ``g`` the geodesic, ``cross`` is the sum of ``d g``, ``squares`` that of ``d d``, and
    # ``pulls`` that of ``g / d`` times the difference. Landmarks may stand behind the vertices that have
    # geodesics.
    n, n_components = len(geodesics), coordinates.shape[1]
    step = np.empty(n_components)
    for block in range(start, stop):
        landmark_pulls[block] = 0.0
        for i in range(block * size, min((block + 1) * size, n)):
            cross[i] = squares[i] = 0.0
            pulls[i] = 0.0
            for a in range(len(landmarks)):
                square = 0.0
                for c in range(n_components):
                    step[c] = coordinates[i, c] - coordinates[landmarks[a], c]
                    square += step[c] * step[c]
                if square == 0.0:
                    # Ends that coincide may part in any direction: none is taken.
                    continue
                distance = np.sqrt(square)
                squares[i] += square
                cross[i] += distance * geodesics[i, a]
                ratio = geodesics[i, a] / distance
                for c in range(n_components):
                    pulls[i, c] += ratio * step[c]
                    landmark_pulls[block, a, c] -= ratio * step[c]
