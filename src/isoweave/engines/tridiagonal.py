"""Leading eigenpairs of small symmetric matrices by tridiagonal ones: a few vectors, and no others.

Where several directions are wanted, power iterations are slow, and LAPACK computes all vectors. Here all
values are found (QL), then the wanted vectors one by one (inverse iteration), and both are checked.
"""

import numpy as np

from isoweave.engines.compile import helper

# Of the tridiagonal matrix: residuals and products of vectors that are accepted, the distance of values whose
# vectors are made orthogonal to each other, and the least distance that is kept, in roundings.
_ACCEPTED = 1e-12
_CLOSE = 1e-3
_APART = 10.0
_EPSILON = 2.0**-52
_MOST_STEPS = 40
_SOLVES = 3


@helper
def leading_pairs(matrix, work, values, vectors, rows):
    """The algebraically largest eigenpairs; False where they do not pass the check, or are all.

    ``work`` (m, m) or larger and ``rows`` (11, m) or longer are scratch, m > 2.
    """
    m, n_wanted = len(matrix), len(values)
    if n_wanted >= m or m < 3:
        return False
    diagonal, off, scales, all_values, squares = rows[0], rows[1], rows[2], rows[3], rows[4]
    for r in range(m):
        for c in range(m):
            work[r, c] = matrix[r, c]
    _tridiagonal(work, m, diagonal, off, scales, rows[5], rows[6])
    size = 0.0
    for r in range(m):
        size = max(size, abs(diagonal[r]) + abs(off[r]))
        all_values[r], squares[r] = diagonal[r], off[r]
    if not size > 0.0 or not _ql_values(all_values, squares, m):
        return False
    for c in range(n_wanted):
        best = c
        for r in range(c + 1, m):
            if all_values[r] > all_values[best]:
                best = r
        all_values[c], all_values[best] = all_values[best], all_values[c]
        values[c] = all_values[c]
        # Of equal values the vectors are found next to each other.
        shifted = values[c]
        if c > 0 and squares[c - 1] - shifted < _APART * _EPSILON * size:
            shifted = squares[c - 1] - _APART * _EPSILON * size
        squares[c] = shifted
        if not _vector(c, shifted, values, size, diagonal, off, m, vectors, rows):
            return False
    # Back from the tridiagonal matrix.
    for c in range(n_wanted):
        for r in range(m):
            rows[5, r] = vectors[r, c]
        for k in range(m - 3, -1, -1):
            total = 0.0
            for r in range(k + 1, m):
                total += work[k, r] * rows[5, r]
            total *= scales[k]
            for r in range(k + 1, m):
                rows[5, r] -= total * work[k, r]
        for r in range(m):
            vectors[r, c] = rows[5, r]
    return True


@helper
def _tridiagonal(work, m, diagonal, off, scales, image, column):
    """Householder: the tridiagonal matrix, off[k] below diagonal[k]; row k of ``work`` holds reflector k."""
    for k in range(m - 2):
        diagonal[k] = work[k, k]
        square = 0.0
        for r in range(k + 1, m):
            column[r] = work[k, r]
            square += column[r] * column[r]
        first = column[k + 1]
        norm = np.sqrt(square)
        off[k] = -norm if first > 0.0 else norm
        scales[k] = 0.0
        if square == first * first:
            off[k] = first
            continue
        column[k + 1] = first - off[k]
        # 2 over the square of the reflector's length
        scale = 1.0 / (square - first * off[k])
        scales[k] = scale
        for c in range(k + 1, m):
            image[c] = 0.0
        for r in range(k + 1, m):
            x = column[r]
            for c in range(k + 1, m):
                image[c] += x * work[r, c]
        dot = 0.0
        for r in range(k + 1, m):
            image[r] *= scale
            dot += image[r] * column[r]
        half = 0.5 * scale * dot
        for r in range(k + 1, m):
            image[r] -= half * column[r]
        for r in range(k + 1, m):
            x, y = column[r], image[r]
            for c in range(k + 1, m):
                work[r, c] -= x * image[c] + y * column[c]
        for r in range(k + 1, m):
            work[k, r] = column[r]
    diagonal[m - 2], diagonal[m - 1] = work[m - 2, m - 2], work[m - 1, m - 1]
    off[m - 2], off[m - 1] = work[m - 2, m - 1], 0.0


@helper
def _ql_values(diagonal, off, m):
    """Overwrite the diagonal with the eigenvalues, in no order; False if one takes too many steps."""
    for first in range(m):
        for step in range(_MOST_STEPS + 1):
            last = first
            while last < m - 1:
                size = abs(diagonal[last]) + abs(diagonal[last + 1])
                if abs(off[last]) <= _EPSILON * size:
                    break
                last += 1
            if last == first:
                break
            if step == _MOST_STEPS:
                return False
            g = (diagonal[first + 1] - diagonal[first]) / (2.0 * off[first])
            r = np.sqrt(g * g + 1.0)
            g = diagonal[last] - diagonal[first] + off[first] / (g + (r if g >= 0.0 else -r))
            s, c, p = 1.0, 1.0, 0.0
            i = last - 1
            while i >= first:
                f, b = s * off[i], c * off[i]
                r = np.sqrt(f * f + g * g)
                off[i + 1] = r
                if r == 0.0:
                    break
                s, c = f / r, g / r
                g = diagonal[i + 1] - p
                r = (diagonal[i] - g) * s + 2.0 * c * b
                p = s * r
                diagonal[i + 1] = g + p
                g = c * r - b
                i -= 1
            if i >= first:
                diagonal[i + 1] -= p
                off[last] = 0.0
                continue
            diagonal[first] -= p
            off[first] = g
            off[last] = 0.0
    return True


@helper
def _vector(at, value, values, size, diagonal, off, m, vectors, rows):
    """Eigenvector ``at`` of the tridiagonal matrix by inverse iteration; False if it is none."""
    x, upper, second, third, factors = rows[5], rows[6], rows[7], rows[8], rows[9]
    swapped, tiny = rows[10], _EPSILON * size
    # Factors of the matrix less the value, with pivots from the row below.
    upper[0], second[0] = diagonal[0] - value, off[0]
    for r in range(m - 1):
        below, middle, right = off[r], diagonal[r + 1] - value, off[r + 1] if r < m - 2 else 0.0
        if abs(upper[r]) >= abs(below):
            if upper[r] == 0.0:
                upper[r] = tiny
            swapped[r], factors[r], third[r] = 0.0, below / upper[r], 0.0
            upper[r + 1], second[r + 1] = middle - factors[r] * second[r], right
        else:
            swapped[r], factors[r] = 1.0, upper[r] / below
            left = second[r]
            upper[r], second[r], third[r] = below, middle, right
            upper[r + 1], second[r + 1] = left - factors[r] * middle, -factors[r] * right
    if upper[m - 1] == 0.0:
        upper[m - 1] = tiny
    # A start that no vector is orthogonal to by symmetry.
    seed = 0.5 + 0.1 * at
    for r in range(m):
        seed = 3.9 * seed * (1.0 - seed) if 0.0 < seed < 1.0 else 0.3
        x[r] = seed - 0.5
    for solve in range(_SOLVES):
        if solve > 0:
            for r in range(m - 1):
                if swapped[r] > 0.0:
                    x[r], x[r + 1] = x[r + 1], x[r]
                x[r + 1] -= factors[r] * x[r]
        for r in range(m - 1, -1, -1):
            right = x[r]
            if r < m - 1:
                right -= second[r] * x[r + 1]
            if r < m - 2:
                right -= third[r] * x[r + 2]
            x[r] = right / upper[r]
        largest = 0.0
        for r in range(m):
            largest = max(largest, abs(x[r]))
        if not 0.0 < largest < np.inf:
            return False
        for r in range(m):
            x[r] /= largest
        for other in range(at):
            if values[other] - value <= _CLOSE * size:
                dot = 0.0
                for r in range(m):
                    dot += x[r] * vectors[r, other]
                for r in range(m):
                    x[r] -= dot * vectors[r, other]
        square = 0.0
        for r in range(m):
            square += x[r] * x[r]
        norm = np.sqrt(square)
        if not norm > 1e-8:
            return False
        for r in range(m):
            x[r] /= norm
    worst = 0.0
    for r in range(m):
        y = (diagonal[r] - values[at]) * x[r]
        if r > 0:
            y += off[r - 1] * x[r - 1]
        if r < m - 1:
            y += off[r] * x[r + 1]
        worst = max(worst, abs(y))
        vectors[r, at] = x[r]
    for other in range(at):
        dot = 0.0
        for r in range(m):
            dot += x[r] * vectors[r, other]
        worst = max(worst, abs(dot) * size)
    return worst <= _ACCEPTED * size
