"""Small dense matrices: orthogonal polar factors, leading eigenpairs."""

import numpy as np

from isoweave.engines.compile import helper, inlined
from isoweave.engines.lanes import LANES, SEVERAL, add_exact, set_exact, set_several_exact
from isoweave.engines.plain_frames import MAX_SWEEPS, TOLERANCE

_TWO_600 = 2.0**600


@inlined
def squares(n):
    """A matrix, its polar factor, and scratch."""
    return np.empty((n, n)), np.empty((n, n)), np.empty((n, n)), np.empty((n, n))


@helper
def _dot(x, p, y, r, m):
    """Scalar product of the first m entries of row p of x and row r of y."""
    total = 0.0
    for a in range(m):
        total += x[p, a] * y[r, a]
    return total


@inlined
def _jacobi_angle(theta):
    """Cosine and sine of the smaller rotation with ``cot(2 angle) = theta``."""
    t = 1.0 / (abs(theta) + np.sqrt(1.0 + theta * theta))
    if theta < 0.0:
        t = -t
    c = 1.0 / np.sqrt(1.0 + t * t)
    return c, t * c


@helper
def _polar_scale(b):
    """Power of two that brings a matrix near one, and 0 if it is zero."""
    # The factor does not depend on the size of b, but squares must not vanish or overflow, and near the
    # smallest number a length has few digits.
    largest = 0.0
    for p in range(len(b)):
        for k in range(len(b)):
            largest = max(largest, abs(b[k, p]))
    if largest == 0.0:
        return 0.0
    return _TWO_600 if largest < 1e-100 else 1.0 / _TWO_600 if largest > 1e100 else 1.0


@helper
def polar_plane(b, q, columns, rotation):
    """The same as :func:`polar` in one and two dimensions."""
    if len(b) == 1:
        q[0, 0] = -1.0 if b[0, 0] < 0.0 else 1.0
        return
    # The rotation or the reflection, whichever has the larger trace with b.
    scale = _polar_scale(b)
    x, y = scale * (b[0, 0] + b[1, 1]), scale * (b[1, 0] - b[0, 1])
    trace = np.hypot(x, y)
    mirrored = np.hypot(scale * (b[0, 0] - b[1, 1]), scale * (b[1, 0] + b[0, 1]))
    sign = 1.0
    if not trace >= mirrored:
        x, y = scale * (b[0, 0] - b[1, 1]), scale * (b[1, 0] + b[0, 1])
        trace, sign = mirrored, -1.0
    elif trace == 0.0:
        x = trace = 1.0
    q[0, 0], q[1, 0] = x / trace, y / trace
    q[0, 1], q[1, 1] = -sign * q[1, 0], sign * q[0, 0]


@helper
def polar(b, q, columns, rotation):
    """Orthogonal factor of the polar decomposition, ``q = U V^T`` for ``b = U S V^T`` (eq. 10)."""
    # One-sided Jacobi: rotate the columns of b (rows of the scratch) until they are orthogonal. Directions in
    # which b vanishes are completed to an orthonormal basis: q is orthogonal for every b, the zero matrix
    # included.
    n = len(b)
    if n <= 2:
        polar_plane(b, q, columns, rotation)
        return
    scale = _polar_scale(b)
    if scale == 0.0:
        # What is below would end here too: all points in one place ask for nothing else.
        for p in range(n):
            for k in range(n):
                q[p, k] = 1.0 if p == k else 0.0
        return
    for p in range(n):
        for k in range(n):
            columns[p, k] = scale * b[k, p]
            rotation[p, k] = 1.0 if p == k else 0.0
    for _ in range(30):
        rotated = False
        for p in range(n - 1):
            for r in range(p + 1, n):
                alpha = beta = gamma = 0.0
                for k in range(n):
                    x, y = columns[p, k], columns[r, k]
                    alpha += x * x
                    beta += y * y
                    gamma += x * y
                if abs(gamma) <= 1e-15 * np.sqrt(alpha) * np.sqrt(beta) or gamma == 0.0:
                    continue
                rotated = True
                c, s = _jacobi_angle(0.5 * (beta - alpha) / gamma)
                for k in range(n):
                    x, y = columns[p, k], columns[r, k]
                    columns[p, k], columns[r, k] = c * x - s * y, s * x + c * y
                    x, y = rotation[p, k], rotation[r, k]
                    rotation[p, k], rotation[r, k] = c * x - s * y, s * x + c * y
        if not rotated:
            break
    _normalise_columns(columns, q)
    for k in range(n):
        for r in range(n):
            value = 0.0
            for p in range(n):
                value += columns[p, k] * rotation[p, r]
            q[k, r] = value


@helper
def _normalise_columns(columns, scratch):
    """Scale orthogonal rows to unit length; replace vanishing ones by a completion of the basis."""
    n = len(scratch)
    squares = scratch[0]
    largest = 0.0
    for p in range(n):
        squares[p] = _dot(columns, p, columns, p, n)
        largest = max(largest, squares[p])
    for p in range(n):
        for k in range(n):
            columns[p, k] = columns[p, k] / np.sqrt(squares[p]) if squares[p] > 1e-26 * largest else 0.0
    for p in range(n):
        if squares[p] > 1e-26 * largest:
            continue
        # The unit vector that the rows present cover least is the safest one to add.
        best, coverage = 0, np.inf
        for k in range(n):
            covered = 0.0
            for r in range(n):
                covered += columns[r, k] * columns[r, k]
            if covered < coverage - 1e-12:
                best, coverage = k, covered
        columns[p, best] = 1.0
        # Gram-Schmidt, twice.
        for r in range(2 * n):
            if r % n == p:
                continue
            dot = _dot(columns, r % n, columns, p, n)
            for k in range(n):
                columns[p, k] -= dot * columns[r % n, k]
        square = _dot(columns, p, columns, p, n)
        for k in range(n):
            columns[p, k] /= np.sqrt(square)


@helper
def full_spectrum(matrix, values, vectors):
    """The algebraically largest eigenpairs by LAPACK, which computes all of them; values beyond m stay."""
    m = len(matrix)
    all_values, all_vectors = np.linalg.eigh(matrix)
    for c in range(min(m, len(values))):
        values[c] = all_values[m - 1 - c]
        for a in range(m):
            vectors[a, c] = all_vectors[a, m - 1 - c]


@helper
def _project_out(rows, c, m):
    """Take the directions of the rows before c out of row c; what is left of its squared length."""
    for p in range(c):
        dot = _dot(rows, c, rows, p, m)
        for a in range(m):
            rows[c, a] -= dot * rows[p, a]
    return _dot(rows, c, rows, c, m)


@helper
def jacobi_eigh(matrix, vectors):
    """Cyclic Jacobi of a tiny symmetric matrix, in place: eigenvalues on the diagonal, vectors in columns."""
    n = len(matrix)
    for p in range(n):
        for q in range(n):
            vectors[p, q] = 1.0 if p == q else 0.0
    for _ in range(30):
        off = total = 0.0
        for p in range(n):
            total += matrix[p, p] * matrix[p, p]
            for q in range(p):
                off += matrix[p, q] * matrix[p, q]
        if not off > 1e-32 * total:
            return
        for p in range(n - 1):
            for q in range(p + 1, n):
                if matrix[p, q] == 0.0:
                    continue
                c, s = _jacobi_angle(0.5 * (matrix[q, q] - matrix[p, p]) / matrix[p, q])
                for k in range(n):
                    x, y = matrix[k, p], matrix[k, q]
                    matrix[k, p], matrix[k, q] = c * x - s * y, s * x + c * y
                for k in range(n):
                    x, y = matrix[p, k], matrix[q, k]
                    matrix[p, k], matrix[q, k] = c * x - s * y, s * x + c * y
                    x, y = vectors[k, p], vectors[k, q]
                    vectors[k, p], vectors[k, q] = c * x - s * y, s * x + c * y


@helper
def block_iteration(matrix, values, vectors, rows, image, small, rotation, order):
    """The same as :func:`full_spectrum` by block power iteration with a Rayleigh-Ritz step."""
    # For a few vectors of a matrix with a clear gap this is several times cheaper than the whole spectrum.
    # False when it does not settle, or when most of the spectrum is wanted: then LAPACK must do it. The
    # scratch holds ``n_wanted + EXTRA_VECTORS`` vectors of length m or more.
    m, n_wanted, b = len(matrix), len(values), len(small)
    if 3 * b >= m:
        return False
    # Start: columns of largest diagonal after projecting out the ones taken (a pivoted Cholesky choice).
    weight = image[0]
    power = 0.0
    for a in range(m):
        weight[a] = matrix[a, a]
        for k in range(m):
            power += matrix[a, k] * matrix[a, k]
    for c in range(b):
        best = 0
        for a in range(m):
            if weight[a] > weight[best]:
                best = a
        for a in range(m):
            rows[c, a] = matrix[best, a]
        square = _project_out(rows, c, m)
        if not square > 0.0:
            return False
        norm = np.sqrt(square)
        for a in range(m):
            rows[c, a] /= norm
            weight[a] -= norm * rows[c, a] * rows[c, a]
        weight[best] = -np.inf
    for sweep in range(MAX_SWEEPS):
        for c in range(b):
            before = _dot(rows, c, rows, c, m)
            # Gram-Schmidt, twice.
            _project_out(rows, c, m)
            square = _project_out(rows, c, m)
            if not square > 1e-24 * before:
                return False
            scale = 1.0 / np.sqrt(square)
            for a in range(m):
                rows[c, a] *= scale
                image[c, a] = 0.0
            for k in range(m):
                factor = rows[c, k]
                for a in range(m):
                    image[c, a] += factor * matrix[k, a]
        if sweep % 3 == 2:
            for p in range(b):
                for q in range(p + 1):
                    small[p, q] = small[q, p] = _dot(rows, p, image, q, m)
            jacobi_eigh(small, rotation)
            for c in range(b):
                p = c
                while p > 0 and small[order[p - 1], order[p - 1]] < small[c, c]:
                    order[p] = order[p - 1]
                    p -= 1
                order[p] = c
            # Residual of each wanted pair, and a gap below them: power iteration finds large |values| first,
            # so a wanted value under the size of a dropped negative one would be wrong.
            worst = 0.0
            for c in range(n_wanted):
                k = order[c]
                value = small[k, k]
                residual = 0.0
                for a in range(m):
                    x = y = 0.0
                    for p in range(b):
                        x += rows[p, a] * rotation[p, k]
                        y += image[p, a] * rotation[p, k]
                    vectors[a, c] = x
                    y -= value * x
                    residual += y * y
                values[c] = value
                worst = max(worst, np.sqrt(residual))
            if values[n_wanted - 1] <= 0.0:
                return False
            if worst <= TOLERANCE * values[0]:
                # What the block has not seen may hide a larger value only if it is large enough itself.
                for c in range(b):
                    power -= small[c, c] * small[c, c]
                return power < values[n_wanted - 1] * values[n_wanted - 1]
        for c in range(b):
            for a in range(m):
                rows[c, a] = image[c, a]
    return False


@helper
def _project_out_lanes(rows, c, m, dots):
    """As :func:`_project_out` side by side; the squared lengths are in ``dots``."""
    down = m * LANES
    for p in range(c):
        set_exact(dots, 0, 1.0, rows, c * down, LANES, rows, p * down, LANES, m)
        for at in range(0, down, LANES):
            add_exact(rows, c * down + at, -1.0, dots, 0, 0, rows, p * down + at, 0, 1)
    set_exact(dots, 0, 1.0, rows, c * down, LANES, rows, c * down, LANES, m)


@helper
def block_iterations(matrix, m, values, vectors, settled, scratch, small, rotation, order):
    """:func:`block_iteration` of ``LANES`` matrices (m, m) side by side, with the same bits.

    ``matrix`` is flat, lanes last. ``values`` (N, LANES) and ``vectors`` (LANES, N, m or more) are those of
    lanes that are ``settled``, 1; others are not 1. ``scratch`` is flat, of ``(3 b + N + 1) m + 3 (b + N) b``
    vectors, where b is the length of ``small``.
    """
    n_wanted, b, down = len(values), len(small), m * LANES
    rows, image, trial = scratch[: b * down], scratch[b * down : 2 * b * down], scratch[2 * b * down :]
    weight, between = trial[n_wanted * down :], trial[(n_wanted + 1) * down :]
    turn = between[b * b * LANES :]
    power, dots, before, seen = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    best = np.zeros(LANES, np.int32)
    set_exact(power, 0, 1.0, matrix, 0, LANES, matrix, 0, LANES, m * m)
    for a in range(m):
        for w in range(LANES):
            weight[a * LANES + w] = matrix[a * (down + LANES) + w]
    for w in range(LANES):
        settled[w] = 0 if 3 * b < m else -1
    for c in range(b):
        at = c * down
        for w in range(LANES):
            best[w] = 0
            for a in range(m):
                if weight[a * LANES + w] > weight[best[w] * LANES + w]:
                    best[w] = a
            for a in range(0, down, LANES):
                rows[at + a + w] = matrix[best[w] * down + a + w]
        _project_out_lanes(rows, c, m, dots)
        for w in range(LANES):
            if not dots[w] > 0.0:
                settled[w] = -1
            dots[w] = np.sqrt(dots[w])
        for a in range(0, down, LANES):
            for w in range(LANES):
                rows[at + a + w] /= dots[w]
                weight[a + w] -= dots[w] * rows[at + a + w] * rows[at + a + w]
        for w in range(LANES):
            weight[best[w] * LANES + w] = -np.inf
    for sweep in range(MAX_SWEEPS):
        for c in range(b):
            at = c * down
            set_exact(before, 0, 1.0, rows, at, LANES, rows, at, LANES, m)
            _project_out_lanes(rows, c, m, dots)
            _project_out_lanes(rows, c, m, dots)
            for w in range(LANES):
                if settled[w] == 0 and not dots[w] > 1e-24 * before[w]:
                    settled[w] = -1
                dots[w] = 1.0 / np.sqrt(dots[w])
            for a in range(at, at + down, LANES):
                set_exact(rows, a, 1.0, rows, a, 0, dots, 0, 0, 1)
        for a in range(0, down, LANES):
            # The matrix is symmetric.
            for c in range(0, b, SEVERAL):
                at, many = c * down, min(SEVERAL, b - c)
                set_several_exact(
                    image, at + a, 1.0, rows, at, LANES, matrix, a * m, LANES, m, many, down, down
                )
        if sweep % 3 == 2:
            for p in range(b):
                for q in range(p + 1):
                    at = (p * b + q) * LANES
                    set_exact(between, at, 1.0, rows, p * down, LANES, image, q * down, LANES, m)
            for w in range(LANES):
                if settled[w] != 0:
                    continue
                for p in range(b):
                    for q in range(p + 1):
                        small[p, q] = small[q, p] = between[(p * b + q) * LANES + w]
                jacobi_eigh(small, rotation)
                seen[w] = power[w]
                for c in range(b):
                    seen[w] -= small[c, c] * small[c, c]
                    p = c
                    while p > 0 and small[order[p - 1], order[p - 1]] < small[c, c]:
                        order[p] = order[p - 1]
                        p -= 1
                    order[p] = c
                for c in range(n_wanted):
                    values[c, w] = small[order[c], order[c]]
                    for p in range(b):
                        turn[(c * b + p) * LANES + w] = rotation[p, order[c]]
            before[:] = 0.0
            for c in range(n_wanted):
                at = c * b * LANES
                for a in range(0, down, LANES):
                    set_exact(trial, c * down + a, 1.0, rows, a, down, turn, at, LANES, b)
                    set_exact(weight, a, 1.0, image, a, down, turn, at, LANES, b)
                    add_exact(weight, a, -1.0, values, c * LANES, 0, trial, c * down + a, 0, 1)
                set_exact(dots, 0, 1.0, weight, 0, LANES, weight, 0, LANES, m)
                for w in range(LANES):
                    before[w] = max(before[w], np.sqrt(dots[w]))
            n_left = 0
            for w in range(LANES):
                least = values[n_wanted - 1, w]
                if settled[w] == 0 and least <= 0.0:
                    settled[w] = -1
                elif settled[w] == 0 and before[w] <= TOLERANCE * values[0, w]:
                    settled[w] = 1 if seen[w] < least * least else -1
                    for c in range(n_wanted):
                        for a in range(m):
                            vectors[w, a, c] = trial[c * down + a * LANES + w]
                n_left += settled[w] == 0
            if n_left == 0:
                return
        rows, image = image, rows


@helper
def factor_small(matrix, ridge, lower):
    """Cholesky factor of a positive semi-definite matrix plus ``ridge`` on the diagonal."""
    for c in range(len(matrix)):
        for r in range(c, len(matrix)):
            value = matrix[r, c] + ridge if r == c else matrix[r, c]
            for k in range(c):
                value -= lower[r, k] * lower[c, k]
            # Rounding can eat the ridge of a singular matrix.
            lower[r, c] = np.sqrt(max(value, 0.5 * ridge)) if r == c else value / lower[c, c]


@helper
def substitute_small(lower, x):
    """Solve with a Cholesky factor, in place."""
    n = len(x)
    for r in range(n):
        for k in range(r):
            x[r] -= lower[r, k] * x[k]
        x[r] /= lower[r, r]
    for r in range(n - 1, -1, -1):
        for k in range(r + 1, n):
            x[r] -= lower[k, r] * x[k]
        x[r] /= lower[r, r]
