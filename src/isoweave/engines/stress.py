"""Kernels of distances: those of the edges, and those from all vertices to the landmarks."""

import numpy as np

from isoweave.engines.compile import kernel
from isoweave.engines.lanes import LANES, ONE, add_multiples, set_multiples, set_products
from isoweave.engines.vectors import aligned

# Vertices whose pulls the landmarks feel together.
_AT_ONCE = 16


@kernel
def edge_stress(
    start, stop, indptr, indices, reverse, lengths, weights, coordinates, energies, half_gradient
):
    """Energies of the vertices start..stop and half their gradients (eq. 22)."""
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
                    # Both directions of the edge pull.
                    pull = (weights[e] + weights[np.uint32(reverse[e])]) * excess / distance
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
                pull = (weights[e] + weights[reverse[e]]) * excess / distance
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
    n, n_components, n_landmarks = len(geodesics), coordinates.shape[1], len(landmarks)
    # A row for each coordinate of the landmarks; rows end on whole vectors.
    width = (n_landmarks + LANES - 1) // LANES * LANES
    n_vectors = width // LANES
    places = aligned(n_components * n_vectors).reshape(n_components, width)
    pulled = aligned(n_components * n_vectors).reshape(n_components, width)
    ratios = aligned(_AT_ONCE * n_vectors).reshape(_AT_ONCE, width)
    square, distance, geodesic = aligned(n_vectors), aligned(n_vectors), aligned(n_vectors)
    weights, total = aligned(n_vectors), aligned(1)
    for a in range(n_landmarks):
        for c in range(n_components):
            places[c, a] = coordinates[landmarks[a], c]
    for block in range(start, stop):
        pulled[:] = 0.0
        weights[:] = 0.0
        end = min((block + 1) * size, n)
        for first in range(block * size, end, _AT_ONCE):
            last = min(first + _AT_ONCE, end)
            for i in range(first, last):
                square[:] = 0.0
                for c in range(n_components):
                    x = coordinates[i, c]
                    for a in range(width):
                        square[a] += (x - places[c, a]) * (x - places[c, a])
                for a in range(n_landmarks):
                    geodesic[a], distance[a] = geodesics[i, a], np.sqrt(square[a])
                for a in range(width):
                    # Ends that coincide may part in any direction: none is taken.
                    ratios[i - first, a] = geodesic[a] / distance[a] if distance[a] > 0.0 else 0.0
                set_products(total, 0, 1.0, distance, 0, LANES, distance, 0, LANES, n_vectors)
                squares[i] = total.sum()
                set_products(total, 0, 1.0, distance, 0, LANES, geodesic, 0, LANES, n_vectors)
                cross[i] = total.sum()
                at = (i - first) * width
                set_multiples(total, 0, 1.0, ONE, 0, 0, ratios, at, LANES, n_vectors)
                weight = total.sum()
                for c in range(n_components):
                    set_products(total, 0, 1.0, ratios, at, LANES, places, c * width, LANES, n_vectors)
                    pulls[i, c] = weight * coordinates[i, c] - total.sum()
            for a in range(0, width, LANES):
                add_multiples(weights, a, 1.0, ONE, 0, 0, ratios, a, width, last - first)
                for c in range(n_components):
                    at, x = c * width + a, first * n_components + c
                    add_multiples(
                        pulled, at, 1.0, coordinates, x, n_components, ratios, a, width, last - first
                    )
        for a in range(n_landmarks):
            for c in range(n_components):
                landmark_pulls[block, a, c] = weights[a] * places[c, a] - pulled[c, a]
