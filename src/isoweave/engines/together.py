"""Kernel of many small components: a step of L-BFGS for each of them, with the bits that it has alone."""

import numpy as np

from isoweave.engines.alignment import align_edges, divergence
from isoweave.engines.compile import helper, kernel
from isoweave.engines.stress import edge_stress

# numpy sums up to so many values in eight strands, and halves what is longer.
_STRANDS = 128
EPSILON = 2.0**-52


@helper
def _strands(values, first, count):
    """Sum of a few in numpy's order."""
    whole = count - count % 8 if count >= 8 else 0
    total = 0.0
    if whole > 0:
        r0, r1, r2, r3 = values[first], values[first + 1], values[first + 2], values[first + 3]
        r4, r5, r6, r7 = values[first + 4], values[first + 5], values[first + 6], values[first + 7]
        for a in range(first + 8, first + whole, 8):
            r0 += values[a]
            r1 += values[a + 1]
            r2 += values[a + 2]
            r3 += values[a + 3]
            r4 += values[a + 4]
            r5 += values[a + 5]
            r6 += values[a + 6]
            r7 += values[a + 7]
        total = ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
    for a in range(first + whole, first + count):
        total += values[a]
    return total


@helper
def _total(values, first, count):
    """Sum in numpy's order."""
    if count <= _STRANDS:
        return _strands(values, first, count)
    # Halves to be added up, the next one last; 0 says that the last two sums belong together. (numba cannot
    # load a function that calls itself from its cache.)
    halves, sums = np.empty(64, np.int64), np.empty(64)
    halves[0] = count
    n_halves, n_sums, at = 1, 0, first
    while n_halves > 0:
        n_halves -= 1
        count = halves[n_halves]
        if count == 0:
            n_sums -= 1
            sums[n_sums - 1] += sums[n_sums]
        elif count > _STRANDS:
            half = count // 2 - (count // 2) % 8
            halves[n_halves], halves[n_halves + 1], halves[n_halves + 2] = 0, count - half, half
            n_halves += 3
        else:
            sums[n_sums] = _strands(values, at, count)
            n_sums, at = n_sums + 1, at + count
    return sums[0]


@helper
def _dot(a, b, lo, hi, products):
    """Scalar product over the rows lo..hi."""
    n_components, count = a.shape[1], 0
    for i in range(lo, hi):
        for c in range(n_components):
            products[count] = a[i, c] * b[i, c]
            count += 1
    return _total(products, 0, count)


@helper
def _evaluate(lo, hi, first_free, last_free, graph, terms, x, alignments, gradient, scratch):
    """Energy at the rows lo..hi, with rotations and half the gradient: of the frames, and of distances."""
    indptr, indices, reverse, lengths, sources = graph
    seen, frame, free, weights, measured, both = terms
    energies, flux, other, more = scratch
    align_edges(lo, hi, indptr, indices, seen, frame, x, alignments, energies, flux)
    if last_free > first_free:
        for i in range(lo, hi):
            more[i] = 0.0
        for f in range(first_free, last_free):
            e = free[f]
            i, j, square = sources[e], indices[e], 0.0
            for c in range(x.shape[1]):
                step = x[j, c] - x[i, c]
                square += step * step
            length = np.sqrt(square)
            excess = length - lengths[e]
            pull = weights[e] * excess / length if length > 0.0 else 0.0
            for c in range(x.shape[1]):
                flux[e, c] = pull * (x[j, c] - x[i, c])
            more[i] += weights[e] * excess * excess
        for i in range(lo, hi):
            energies[i] += more[i]
    divergence(lo, hi, indptr, reverse, flux, gradient)
    energy = _total(energies, lo, hi - lo)
    if len(both) > 0:
        edge_stress(lo, hi, indptr, indices, lengths, measured, both, x, energies, other)
        energy += _total(energies, lo, hi - lo)
        for i in range(lo, hi):
            for c in range(x.shape[1]):
                gradient[i, c] += other[i, c]
    return energy


@helper
def _direct(lo, hi, c, first_pair, n_pairs, state, memory, scales, products, direction):
    """The two loops of L-BFGS with the pairs ``first_pair .. n_pairs``, into the rows lo..hi."""
    _, gradient, image = state
    moves, changes, images, curvatures = memory
    n_slots, n_components = len(moves), gradient.shape[1]
    # The residual of the first loop is in the place of the slot to be filled next.
    residual = changes[n_pairs % n_slots]
    for i in range(lo, hi):
        for r in range(n_components):
            residual[i, r], direction[i, r] = gradient[i, r], image[i, r]
    for pair in range(n_pairs - 1, first_pair - 1, -1):
        at = pair % n_slots
        scale = 1.0 / curvatures[at, c] * _dot(moves[at], residual, lo, hi, products)
        scales[at] = scale
        for i in range(lo, hi):
            for r in range(n_components):
                residual[i, r] -= scale * changes[at, i, r]
                direction[i, r] -= scale * images[at, i, r]
    for pair in range(first_pair, n_pairs):
        at = pair % n_slots
        scale = scales[at] - 1.0 / curvatures[at, c] * _dot(changes[at], direction, lo, hi, products)
        for i in range(lo, hi):
            for r in range(n_components):
                direction[i, r] += moves[at, i, r] * scale
    for i in range(lo, hi):
        for r in range(n_components):
            direction[i, r] = -direction[i, r]


@helper
def _centred(lo, hi, values, means):
    """Take the means over the rows lo..hi out, which are added up row by row."""
    for r in range(values.shape[1]):
        means[r] = 0.0
    for i in range(lo, hi):
        for r in range(values.shape[1]):
            means[r] += values[i, r]
    for r in range(values.shape[1]):
        means[r] /= hi - lo
    for i in range(lo, hi):
        for r in range(values.shape[1]):
            values[i, r] -= means[r]


@helper
def _take_solution(c, lo, hi, tol, metric, rhs, block, solved, means):
    """Read the solution from ``block``; whether its residual is small enough."""
    place, indptr, indices, data, norms = metric
    for i in range(lo, hi):
        for r in range(rhs.shape[1]):
            solved[i, r] = block[r, place[i]] if place[i] >= 0 else 0.0
    _centred(lo, hi, solved, means)
    good = True
    for r in range(rhs.shape[1]):
        size = residual = length = 0.0
        for i in range(lo, hi):
            value = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                value += data[e] * solved[indices[e], r]
            value = rhs[i, r] - value
            residual += value * value
            size += rhs[i, r] * rhs[i, r]
            length += solved[i, r] * solved[i, r]
        allowed = max(tol * np.sqrt(size), 4.0 * EPSILON * norms[c] * np.sqrt(length))
        good = good and np.sqrt(residual) <= allowed and residual < np.inf
    return good


@kernel
def advance(
    start, stop, k, limits, rules, starts, free_starts, graph, terms, metric, block, state, following, rhs,
    alignments, scalars, flags, memory, table, scratch,
):  # fmt: skip
    """Step k of the components start..stop that are running (:meth:`isoweave.optimise.LBFGS.step`)."""
    # Takes over where the step before has led, unless that is odd: ``following`` is half the gradient there,
    # ``rhs`` the same without its mean, whose solution is in ``block``, in the order of the factor. Notes it
    # in ``table``, ends what has converged, and leads the others to a place of less energy, whose right-hand
    # side it leaves in ``block`` to be solved.
    most, max_halvings = limits
    tol, least, good_fit, decrease, no_gain, solve_tol = rules
    x, gradient, image = state
    energy, there, slope, step, mass = scalars
    running, is_odd, n_steps = flags
    moves, changes, images, curvatures = memory
    n_slots, n_components = len(moves), x.shape[1]
    products, scales, means = np.empty(starts[-1] * n_components), np.empty(n_slots), np.empty(n_components)
    trial, solved = np.empty_like(x), np.empty_like(x)
    for c in range(start, stop):
        if not running[c]:
            continue
        lo, hi = starts[c], starts[c + 1]
        if k > 0:
            at = (k - 1) % n_slots
            is_odd[c] = not _take_solution(c, lo, hi, solve_tol, metric, rhs, block, solved, means)
            for i in range(lo, hi):
                for r in range(n_components):
                    changes[at, i, r] = following[i, r] - gradient[i, r]
                    images[at, i, r] = solved[i, r] - image[i, r]
            curvature = _dot(moves[at], changes[at], lo, hi, products)
            gains = energy[c] - there[c] > no_gain * there[c]
            if not (gains and curvature > 1e-12 * abs(slope[c]) * step[c]):
                is_odd[c] = True
            if not is_odd[c]:
                curvatures[at, c], energy[c] = curvature, there[c]
                n_steps[c] += 1
                for i in range(lo, hi):
                    for r in range(n_components):
                        x[i, r] += moves[at, i, r]
                        gradient[i, r], image[i, r] = following[i, r], solved[i, r]
        if not is_odd[c]:
            scale = mass[c] if mass[c] > 0.0 else np.inf
            size = np.sqrt(abs(_dot(gradient, image, lo, hi, products)) / scale)
            table[k, 0, c], table[k, 1, c], table[k, 2, c] = energy[c], size, step[c]
            misfit = np.sqrt(energy[c] / scale)
            if size <= max(tol * misfit * min(1.0, misfit / good_fit), least):
                running[c] = False
                continue
            is_odd[c] = k == most
        if not is_odd[c]:
            direction, first = moves[k % n_slots], max(0, k - n_slots + 1)
            _direct(lo, hi, c, first, k, state, memory, scales, products, direction)
            slope[c], length, refused = 2.0 * _dot(gradient, direction, lo, hi, products), 1.0, True
            if slope[c] < 0.0:
                for _ in range(max_halvings):
                    for i in range(lo, hi):
                        for r in range(n_components):
                            trial[i, r] = x[i, r] + length * direction[i, r]
                    free = (free_starts[c], free_starts[c + 1])
                    there[c] = _evaluate(
                        lo, hi, free[0], free[1], graph, terms, trial, alignments, following, scratch
                    )
                    refused = not there[c] <= energy[c] + decrease * length * slope[c]
                    if not refused:
                        break
                    length *= 0.5
            step[c], is_odd[c] = length, refused
            for i in range(lo, hi):
                for r in range(n_components):
                    direction[i, r] *= length
                    rhs[i, r] = following[i, r]
            _centred(lo, hi, rhs, means)
        if is_odd[c]:
            running[c] = False
        for i in range(lo, hi):
            for r in range(n_components):
                if metric[0][i] >= 0:
                    block[r, metric[0][i]] = rhs[i, r] if running[c] else 0.0
