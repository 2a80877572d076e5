"""Leading eigenpairs of small symmetric matrices by tridiagonal ones: a few vectors, and no others.

Where several directions are wanted, power iterations are slow, and LAPACK computes all vectors. Here all
values are found (QL), then the wanted vectors one by one (inverse iteration), and both are checked, for
``LANES`` matrices side by side. Arrays are flat and hold vectors of :mod:`isoweave.engines.vectors`.
"""

import numpy as np

from isoweave.engines.compile import helper
from isoweave.engines.lanes import LANES
from isoweave.engines.vectors import choose, get, put, root, size_of, some, spread

# Of the tridiagonal matrix: residuals and products of vectors that are accepted, the distance of values whose
# vectors are made orthogonal to each other, and the least distance that is kept, in roundings.
_ACCEPTED = 1e-12
_CLOSE = 1e-3
_APART = 10.0
_EPSILON = 2.0**-52
_MOST_STEPS = 40
_SOLVES = 3
# Vectors of scratch for every row of a matrix, beside those that are wanted.
ROWS = 11


@helper
def leading_pairs(matrix, m, orders, values, vectors, settled, scratch):
    """The algebraically largest eigenpairs of ``LANES`` matrices (m, m), which are overwritten.

    A matrix of a lower order is followed by zeros, which change no bit of its pairs. ``values`` (N, LANES)
    and ``vectors`` (LANES, m or more, N) are those of lanes that are ``settled``, 1: they pass the check, and
    are not all that there are. ``scratch`` has ``ROWS + N`` vectors for every row.
    """
    n_wanted, length = len(values), m * LANES
    n_settled = 0
    for w in range(LANES):
        settled[w] = n_wanted < orders[w] and orders[w] > 2
        n_settled += settled[w]
    if n_settled == 0:
        return
    diagonal, off, scales, x = (
        scratch[0:length],
        scratch[length : 2 * length],
        scratch[2 * length : 3 * length],
        scratch[3 * length : 4 * length],
    )
    all_values, squares = scratch[4 * length : 5 * length], scratch[5 * length : 6 * length]
    rest, found = scratch[6 * length : ROWS * length], scratch[ROWS * length :]
    _tridiagonal(matrix, m, diagonal, off, scales, x)
    size = spread(0.0)
    for r in range(m):
        d, e = get(diagonal, r), get(off, r)
        total = size_of(d) + size_of(e)
        size = choose(total > size, total, size)
        put(all_values, r, d)
        put(squares, r, e)
    put(x, 0, size)
    for w in range(LANES):
        settled[w] *= x[w] > 0.0
    _ql_values(all_values, squares, m, settled, x)
    for c in range(n_wanted):
        put(x, 0, size)
        for w in range(LANES):
            if settled[w] == 0:
                continue
            best = c
            for r in range(c + 1, orders[w]):
                if all_values[r * LANES + w] > all_values[best * LANES + w]:
                    best = r
            value = all_values[best * LANES + w]
            all_values[best * LANES + w] = all_values[c * LANES + w]
            all_values[c * LANES + w] = values[c, w] = value
            # Of equal values the vectors are found next to each other.
            least = _APART * _EPSILON * x[w]
            if c > 0 and squares[(c - 1) * LANES + w] - value < least:
                value = squares[(c - 1) * LANES + w] - least
            squares[c * LANES + w] = value
        _start(c, m, orders, x)
        _vector(c, get(squares, c), all_values, size, diagonal, off, m, x, rest, found, settled)
    # Back from the tridiagonal matrix.
    for k in range(m - 3, -1, -1):
        scale = get(scales, k)
        for c in range(n_wanted):
            total = scale * _dot(matrix, k * m, found, c * m, k + 1, m)
            for r in range(k + 1, m):
                put(found, c * m + r, get(found, c * m + r) - total * get(matrix, k * m + r))
    for c in range(n_wanted):
        for r in range(m):
            for w in range(LANES):
                vectors[w, r, c] = found[(c * m + r) * LANES + w]


@helper
def _dot(x, a, y, b, first, stop):
    """Sum of the products of ``x[a + r]`` and ``y[b + r]``."""
    even, odd = spread(0.0), spread(0.0)
    for r in range(first, stop - 1, 2):
        even += get(x, a + r) * get(y, b + r)
        odd += get(x, a + r + 1) * get(y, b + r + 1)
    if (stop - first) % 2 == 1:
        even += get(x, a + stop - 1) * get(y, b + stop - 1)
    return even + odd


@helper
def _tridiagonal(work, m, diagonal, off, scales, image):
    """Householder: tridiagonal matrices, off[k] below diagonal[k]; row k of ``work`` holds reflector k."""
    zero, one = spread(0.0), spread(1.0)
    for k in range(m - 2):
        row = k * m
        put(diagonal, k, get(work, row + k))
        square = _dot(work, row, work, row, k + 1, m)
        first = get(work, row + k + 1)
        norm = root(square)
        below = choose(first > zero, -norm, norm)
        is_done = square == first * first
        below = choose(is_done, first, below)
        put(off, k, below)
        put(work, row + k + 1, choose(is_done, first, first - below))
        # 2 over the square of the reflector's length
        scale = choose(is_done, zero, one / choose(is_done, one, square - first * below))
        put(scales, k, scale)
        dot = zero
        for r in range(k + 1, m):
            value = scale * _dot(work, r * m, work, row, k + 1, m)
            put(image, r, value)
            dot += value * get(work, row + r)
        half = spread(0.5) * scale * dot
        for r in range(k + 1, m):
            put(image, r, get(image, r) - half * get(work, row + r))
        for r in range(k + 1, m):
            x, y, at = get(work, row + r), get(image, r), r * m
            for c in range(k + 1, m):
                put(work, at + c, get(work, at + c) - (x * get(image, c) + y * get(work, row + c)))
    put(diagonal, m - 2, get(work, (m - 2) * m + m - 2))
    put(diagonal, m - 1, get(work, m * m - 1))
    put(off, m - 2, get(work, (m - 2) * m + m - 1))
    put(off, m - 1, zero)


@helper
def _ql_values(diagonal, off, m, settled, ends):
    """Overwrite the diagonals with the eigenvalues, in no order; lanes of too many steps are not settled."""
    zero, one, two, epsilon = spread(0.0), spread(1.0), spread(2.0), spread(_EPSILON)
    for first in range(m):
        start = spread(float(first))
        for step in range(_MOST_STEPS + 1):
            # Where the part that begins here ends.
            last, bottom = spread(float(m - 1)), get(diagonal, m - 1)
            for i in range(m - 2, first - 1, -1):
                d = get(diagonal, i)
                is_small = size_of(get(off, i)) <= epsilon * (size_of(d) + size_of(get(diagonal, i + 1)))
                last, bottom = choose(is_small, spread(float(i)), last), choose(is_small, d, bottom)
            put(ends, 0, last)
            top = first
            for w in range(LANES):
                if settled[w] == 1 and step == _MOST_STEPS and ends[w] > first:
                    settled[w] = 0
                if settled[w] == 0:
                    ends[w] = first
                top = max(top, int(ends[w]))
            if top == first:
                break
            last = get(ends, 0)
            is_open = last > start
            here, edge = get(diagonal, first), choose(is_open, get(off, first), one)
            g = (get(diagonal, first + 1) - here) / (two * edge)
            r = root(g * g + one)
            g = bottom - here + edge / (g + choose(g >= zero, r, -r))
            s, c, p = one, one, zero
            is_going = is_open
            for i in range(top - 1, first - 1, -1):
                has_begun = is_going & (spread(float(i)) < last)
                f, b = s * get(off, i), c * get(off, i)
                r = root(f * f + g * g)
                is_null = has_begun & (r == zero)
                put(off, i + 1, choose(has_begun, r, get(off, i + 1)))
                below = get(diagonal, i + 1)
                moves = has_begun & ~is_null
                inverse = one / choose(moves, r, one)
                s, c = choose(moves, f * inverse, s), choose(moves, g * inverse, c)
                shifted = below - p
                r = (get(diagonal, i) - shifted) * s + two * c * b
                # Where a rotation is undefined the part falls into two.
                next_p = s * r
                below = choose(moves, shifted + next_p, choose(is_null, shifted, below))
                put(diagonal, i + 1, below)
                p, g = choose(moves, next_p, p), choose(moves, c * r - b, g)
                is_going = is_going & ~is_null
            put(diagonal, first, choose(is_going, get(diagonal, first) - p, get(diagonal, first)))
            put(off, first, choose(is_going, g, get(off, first)))
            put(ends, 0, last)
            for w in range(LANES):
                if ends[w] > first:
                    off[int(ends[w]) * LANES + w] = 0.0


@helper
def _start(at, m, orders, x):
    """A vector to begin with that none is orthogonal to by symmetry."""
    seed = 0.5 + 0.1 * at
    for r in range(m):
        seed = 3.9 * seed * (1.0 - seed) if 0.0 < seed < 1.0 else 0.3
        for w in range(LANES):
            x[r * LANES + w] = seed - 0.5 if r < orders[w] else 0.0


@helper
def _vector(at, value, values, size, diagonal, off, m, x, rest, found, settled):
    """Eigenvectors ``at`` of the tridiagonal matrices by inverse iteration from x, put into ``found``."""
    length = m * LANES
    inverted, second, third = rest[:length], rest[length : 2 * length], rest[2 * length : 3 * length]
    factors, swapped = rest[3 * length : 4 * length], rest[4 * length : 5 * length]
    zero, one, tiny = spread(0.0), spread(1.0), spread(_EPSILON) * size
    # Factors of the matrix less the value, with pivots from the row below.
    upper, right = get(diagonal, 0) - value, get(off, 0)
    for r in range(m - 1):
        below, middle = get(off, r), get(diagonal, r + 1) - value
        beyond = get(off, r + 1) if r < m - 2 else zero
        stays = size_of(upper) >= size_of(below)
        upper = choose(stays & (upper == zero), tiny, upper)
        pivot = choose(stays, upper, below)
        inverse = one / pivot
        factor = choose(stays, below, upper) * inverse
        put(inverted, r, inverse)
        put(factors, r, factor)
        put(swapped, r, choose(stays, zero, one))
        put(second, r, choose(stays, right, middle))
        put(third, r, choose(stays, zero, beyond))
        upper = choose(stays, middle - factor * right, right - factor * middle)
        right = choose(stays, beyond, -(factor * beyond))
    put(inverted, m - 1, one / choose(upper == zero, tiny, upper))
    is_good, most = one > zero, spread(np.inf)
    for solve in range(_SOLVES):
        if solve > 0:
            here = get(x, 0)
            for r in range(m - 1):
                there, stays = get(x, r + 1), get(swapped, r) == zero
                upper = choose(stays, here, there)
                put(x, r, upper)
                here = choose(stays, there, here) - get(factors, r) * upper
            put(x, m - 1, here)
        largest, next_x, after = zero, zero, zero
        for r in range(m - 1, -1, -1):
            here = get(x, r)
            if r < m - 1:
                here -= get(second, r) * next_x + get(third, r) * after
            here *= get(inverted, r)
            put(x, r, here)
            largest = choose(size_of(here) > largest, size_of(here), largest)
            next_x, after = here, next_x
        is_good = is_good & (largest > zero) & (largest < most)
        scale = one / largest
        for r in range(m):
            put(x, r, get(x, r) * scale)
        for other in range(at):
            is_close = get(values, other) - get(values, at) <= spread(_CLOSE) * size
            if some(is_close):
                dot = choose(is_close, _dot(x, 0, found, other * m, 0, m), zero)
                for r in range(m):
                    put(x, r, get(x, r) - dot * get(found, other * m + r))
        norm = root(_dot(x, 0, x, 0, 0, m))
        is_good = is_good & (norm > spread(1e-8))
        scale = one / norm
        for r in range(m):
            put(x, r, get(x, r) * scale)
    worst, value = zero, get(values, at)
    before = zero
    for r in range(m):
        here = get(x, r)
        y = (get(diagonal, r) - value) * here
        if r > 0:
            y += get(off, r - 1) * before
        if r < m - 1:
            y += get(off, r) * get(x, r + 1)
        worst = choose(size_of(y) > worst, size_of(y), worst)
        put(found, at * m + r, here)
        before = here
    for other in range(at):
        y = size_of(_dot(x, 0, found, other * m, 0, m)) * size
        worst = choose(y > worst, y, worst)
    is_good = is_good & (worst <= spread(_ACCEPTED) * size)
    put(x, 0, choose(is_good, one, zero))
    for w in range(LANES):
        if not x[w] > 0.0:
            settled[w] = 0
