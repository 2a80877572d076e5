"""Kernels of many small components: a step of L-BFGS for each of them, with the bits that it has alone.

Vectors of all components are flat where they are only added and multiplied: inner loops are then long.
"""

import numpy as np

from isoweave.engines.alignment import align_edges, align_edges_plane, divergence
from isoweave.engines.compile import helper, kernel
from isoweave.engines.stress import edge_stress, landmark_stress

# numpy sums up to so many values in eight strands, and halves what is longer.
_STRANDS = 128
EPSILON = 2.0**-52
# How a component stands; a bad one has to be embedded alone.
RUNNING, CONVERGED, STALLED, MAX_ITER, ODD = range(5)


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
def _dot(a, b, first, last, products):
    """Scalar product of two ranges."""
    for t in range(last - first):
        products[t] = a[first + t] * b[first + t]
    return _total(products, 0, last - first)


@helper
def _column_sums(rows, values, lo, hi, sums, column):
    """Sums over the rows ``rows[lo:hi]``, or lo..hi if there are none, in numpy's order."""
    for c in range(values.shape[1]):
        sums[c] = 0.0
    for i in range(lo, hi):
        row = rows[i] if len(rows) > 0 else i
        for c in range(values.shape[1]):
            sums[c] += values[row, c]
            column[i - lo] = values[row, c]
    if values.shape[1] == 1:
        sums[0] = _total(column, 0, hi - lo)


@helper
def _add_stress(p, lo, hi, far, x, gradient, scratch):
    """Add half the gradient of the long distances; their energy and sums (:class:`GlobalEnergy`)."""
    two, weights, totals, offsets, marks, landmarks, geodesics = far
    cross, squares, pulls, is_landmark, sums, places, column = scratch
    n, n_components = hi - lo, x.shape[1]
    first, last = marks[p], marks[p + 1]
    n_landmarks, at = last - first, offsets[p]
    chosen, felt = np.empty(n_landmarks, np.int32), np.empty((1, n_landmarks, n_components))
    for a in range(n_landmarks):
        chosen[a] = landmarks[first + a] - lo
    paths = geodesics[at : at + n * n_landmarks].reshape((n, n_landmarks))
    own = (x[lo:hi], chosen, paths, cross[lo:hi], squares[lo:hi], pulls[lo:hi], felt)
    landmark_stress(0, 1, n, *own)
    for i in range(lo, hi):
        is_landmark[i] = 0.0
    product, square = _total(cross, lo, n), _total(squares, lo, n)
    if product == 0.0:
        return weights[p], product, square
    _column_sums(landmarks, x, first, last, places, column)
    _column_sums(landmarks[:0], x, lo, hi, sums, column)
    # The power is that of Python, whose last bit is not always that of a product.
    spring, away = weights[p] * (product / square) ** two / totals[p], square / product
    for a in range(n_landmarks):
        is_landmark[lo + chosen[a]] = 1.0
        for c in range(n_components):
            pulls[lo + chosen[a], c] += felt[0, a, c]
    for i in range(lo, hi):
        for c in range(n_components):
            value = n_landmarks * x[i, c] - places[c]
            if is_landmark[i] > 0.0:
                value += n * x[i, c] - sums[c]
            value -= away * pulls[i, c]
            gradient[i, c] += value * spring
    value = weights[p] * max(0.0, 1.0 - product * product / (square * totals[p]))
    return value, product, square


@kernel
def stresses(start, stop, starts, far, x, gradient, scratch, found):
    """Energies of the long distances of components, and the two sums they are made of, shape (k, 3)."""
    for p in range(start, stop):
        found[p, 0], found[p, 1], found[p, 2] = _add_stress(
            p, starts[p], starts[p + 1], far, x, gradient, scratch
        )


@helper
def _evaluate(p, lo, hi, first_free, last_free, graph, terms, far, x, alignments, gradient, scratch):
    """Energy at the rows lo..hi, with rotations and half the gradient: of frames, and of distances."""
    indptr, indices, reverse, lengths, sources = graph
    seen, frame, free, weights, measured, rest = terms
    energies, flux, other, more, stress = scratch
    if x.shape[1] == 2:
        align_edges_plane(lo, hi, indptr, indices, seen, frame, x, alignments, energies, flux)
    else:
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
    if len(measured) > 0:
        edge_stress(lo, hi, indptr, indices, reverse, rest, measured, x, energies, other)
        energy += _total(energies, lo, hi - lo)
        for i in range(lo, hi):
            for c in range(x.shape[1]):
                gradient[i, c] += other[i, c]
    if len(far[1]) > 0:
        energy += _add_stress(p, lo, hi, far, x, gradient, stress)[0]
    return energy


@helper
def _direct(first, last, p, first_pair, n_pairs, gradient, image, memory, scales, products):
    """The two loops of L-BFGS with the pairs ``first_pair .. n_pairs``, into the slot of the next move."""
    moves, changes, images, curvatures = memory
    n_slots = len(moves)
    # The residual of the first loop is in the place of the slot to be filled next.
    residual, direction = changes[n_pairs % n_slots], moves[n_pairs % n_slots]
    for t in range(first, last):
        residual[t], direction[t] = gradient[t], image[t]
    for pair in range(n_pairs - 1, first_pair - 1, -1):
        at = pair % n_slots
        move, change, moved = moves[at], changes[at], images[at]
        scale = 1.0 / curvatures[at, p] * _dot(move, residual, first, last, products)
        scales[at] = scale
        for t in range(first, last):
            residual[t] -= scale * change[t]
        for t in range(first, last):
            direction[t] -= scale * moved[t]
    if first_pair < n_pairs:
        at = (n_pairs - 1) % n_slots
        bend = _dot(changes[at], images[at], first, last, products)
        scale = curvatures[at, p] / bend if bend > 0.0 else 1.0
        for t in range(first, last):
            direction[t] *= scale
    for pair in range(first_pair, n_pairs):
        at = pair % n_slots
        move = moves[at]
        scale = scales[at] - 1.0 / curvatures[at, p] * _dot(changes[at], direction, first, last, products)
        for t in range(first, last):
            direction[t] += move[t] * scale
    for t in range(first, last):
        direction[t] = -direction[t]


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
def _take_solution(p, lo, hi, tol, metric, rhs, block, solved, means):
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
        allowed = max(tol * np.sqrt(size), 4.0 * EPSILON * norms[p] * np.sqrt(length))
        good = good and np.sqrt(residual) <= allowed and residual < np.inf
    return good


@kernel
def advance(
    start, stop, k, limits, rules, starts, free_starts, graph, terms, far, metric, block, vectors, flat, rhs,
    alignments, scalars, counts, memory, table, scratch,
):  # fmt: skip
    """Step k of the components start..stop that are running (:meth:`isoweave.optimise.LBFGS.step`)."""
    # Takes over where the step before has led (``there``, with half the gradient ``following``; ``rhs`` is
    # the same without its mean, and its solution is in ``block``, in the order of the factor), unless that is
    # odd. Notes it in ``table``, ends what has converged, and leads the others to a place of less energy,
    # whose right-hand side it leaves in ``block`` to be solved. The first call, with k = -1, goes nowhere.
    # With long distances every component has one row more in the metric, its ground.
    most, max_iter, max_halvings, max_idle, has_ground = limits
    tol, least, good_fit, decrease, no_gain, solve_tol = rules
    x, trial, following = vectors
    here, there_x, gradient, image, follows = flat
    energy, there, slope, step, mass = scalars
    status, n_steps, iteration, first_pair, n_pairs, idle = counts
    moves, changes, images, curvatures = memory
    n_slots, width = len(moves), x.shape[1]
    products, scales, means = np.empty(starts[-1] * width), np.empty(n_slots), np.empty(width)
    solved = np.empty_like(rhs)
    for p in range(start, stop):
        if status[p] != RUNNING:
            continue
        lo, hi, shift, ground = starts[p], starts[p + 1], 0, 0
        if has_ground:
            shift, ground = p, 1
        first, last, free = lo * width, hi * width, (free_starts[p], free_starts[p + 1])
        if k < 0:
            there[p] = _evaluate(
                p, lo, hi, free[0], free[1], graph, terms, far, x, alignments, following, scratch
            )
        else:
            rows = (lo + shift, hi + shift + ground)
            if not _take_solution(p, rows[0], rows[1], solve_tol, metric, rhs, block, solved, means):
                status[p] = ODD
            for i in range(lo, hi):
                for r in range(width):
                    below = solved[hi + shift, r] if ground > 0 else 0.0
                    trial[i, r] = solved[i + shift, r] - below
            if k > 0:
                at = n_pairs[p] % n_slots
                for t in range(first, last):
                    changes[at, t] = follows[t] - gradient[t]
                    images[at, t] = there_x[t] - image[t]
                    here[t] += moves[at, t]
                curvature = _dot(moves[at], changes[at], first, last, products)
                if curvature > 1e-12 * abs(slope[p]) * step[p]:
                    curvatures[at, p] = curvature
                    n_pairs[p] += 1
                    first_pair[p] = max(first_pair[p], n_pairs[p] - n_slots + 1)
                idle[p] = idle[p] + 1 if energy[p] - there[p] <= no_gain * there[p] else 0
            for t in range(first, last):
                gradient[t], image[t] = follows[t], there_x[t]
            energy[p], n_steps[p] = there[p], k
            scale = mass[p] if mass[p] > 0.0 else np.inf
            size = np.sqrt(abs(_dot(gradient, image, first, last, products)) / scale)
            table[k, 0, p], table[k, 1, p] = iteration[p], energy[p]
            table[k, 2, p], table[k, 3, p] = size, step[p]
            iteration[p] += 1
            misfit = np.sqrt(energy[p] / scale)
            if status[p] != RUNNING:
                pass
            elif idle[p] == max_idle:
                status[p] = STALLED
            elif size <= max(tol * misfit * min(1.0, misfit / good_fit), least):
                status[p] = CONVERGED
            elif iteration[p] > max_iter:
                status[p] = MAX_ITER
            elif k == most:
                status[p] = ODD
        # At most twice: where the memory has misled, once more without it.
        while k >= 0 and status[p] == RUNNING:
            direction = moves[n_pairs[p] % n_slots]
            _direct(first, last, p, first_pair[p], n_pairs[p], gradient, image, memory, scales, products)
            slope[p] = 2.0 * _dot(gradient, direction, first, last, products)
            if slope[p] >= 0.0 and first_pair[p] < n_pairs[p]:
                first_pair[p] = n_pairs[p]
                for t in range(first, last):
                    direction[t] = -image[t]
                slope[p] = 2.0 * _dot(gradient, direction, first, last, products)
            length, refused = 1.0, True
            for _ in range(max_halvings if not slope[p] >= 0.0 else 0):
                for t in range(first, last):
                    there_x[t] = here[t] + length * direction[t]
                there[p] = _evaluate(
                    p, lo, hi, free[0], free[1], graph, terms, far, trial, alignments, following, scratch
                )
                refused = not there[p] <= energy[p] + decrease * length * slope[p]
                if not refused or not there[p] < np.inf:
                    break
                length *= 0.5
            step[p] = length
            if not refused:
                for t in range(first, last):
                    direction[t] *= length
                break
            if not there[p] < np.inf:
                status[p] = ODD
            elif slope[p] >= 0.0 or first_pair[p] == n_pairs[p]:
                status[p] = STALLED
            else:
                first_pair[p], iteration[p] = n_pairs[p], iteration[p] + 1
                status[p] = MAX_ITER if iteration[p] > max_iter else RUNNING
        if status[p] == STALLED or status[p] == MAX_ITER:
            # The rotations are those of a place that was not taken.
            _evaluate(p, lo, hi, free[0], free[1], graph, terms, far, x, alignments, following, scratch)
        for r in range(width):
            means[r] = 0.0
        for i in range(lo, hi):
            for r in range(width):
                rhs[i + shift, r] = following[i, r] if status[p] == RUNNING else 0.0
        if ground > 0:
            _column_sums(far[5][:0], following, lo, hi, means, products)
            for r in range(width):
                rhs[hi + shift, r] = -means[r] if status[p] == RUNNING else 0.0
        _centred(lo + shift, hi + shift + ground, rhs, means)
        for i in range(lo + shift, hi + shift + ground):
            for r in range(width):
                if metric[0][i] >= 0:
                    block[r, metric[0][i]] = rhs[i, r]
