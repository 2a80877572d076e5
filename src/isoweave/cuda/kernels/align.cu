// Energies: rotations of frames, residual fluxes and their divergence; distances of edges; stress to landmarks.
// One lane per vertex in up to three dimensions, otherwise a warp (TEAMS) whose lanes share the entries of matrices.
// Vertices of more than LONGEST edges are left out and come in a list of their own, for warps in any dimension.
#include "common.cuh"
#define TWO_600 4.149515568880993e180
#define MANY_DIMENSIONS 8
#define NEWTON_SWEEPS 15
#define LARGEST_CONDITION 1e16

DEVICE void jacobi_angle(double theta, double &c, double &s) {
    double t = 1.0 / (fabs(theta) + sqrt(1.0 + theta * theta));
    if (theta < 0.0) t = -t;
    c = 1.0 / sqrt(1.0 + t * t);
    s = t * c;
}

DEVICE double row_dot(const double *x, const double *y) {
    double total = 0.0;
    for (int k = lane(); k < N; k += LANES) total += x[k] * y[k];
    return team_sum(total);
}

// Rotate rows p and r of a and of v until the rows of a are orthogonal (one-sided Jacobi).
DEVICE void orthogonalise(double *a, double *v) {
    for (int sweep = 0; sweep < 30; sweep++) {
        bool rotated = false;
        for (int p = 0; p < N - 1; p++)
            for (int r = p + 1; r < N; r++) {
                double alpha = row_dot(a + p * N, a + p * N), beta = row_dot(a + r * N, a + r * N);
                double gamma = row_dot(a + p * N, a + r * N);
                if (fabs(gamma) <= 1e-15 * sqrt(alpha) * sqrt(beta) || gamma == 0.0) continue;
                rotated = true;
                double c, s;
                jacobi_angle(0.5 * (beta - alpha) / gamma, c, s);
                for (int k = lane(); k < N; k += LANES) {
                    double x = a[p * N + k], y = a[r * N + k];
                    a[p * N + k] = c * x - s * y;
                    a[r * N + k] = s * x + c * y;
                    x = v[p * N + k], y = v[r * N + k];
                    v[p * N + k] = c * x - s * y;
                    v[r * N + k] = s * x + c * y;
                }
            }
        if (!rotated) return;
    }
}

// Scale orthogonal rows to unit length; replace vanishing ones by a completion of the basis.
DEVICE void normalise_rows(double *a) {
    double squares[N], most = 0.0;
    for (int p = 0; p < N; p++) {
        squares[p] = row_dot(a + p * N, a + p * N);
        most = largest(most, squares[p]);
    }
    for (int p = 0; p < N; p++)
        for (int k = lane(); k < N; k += LANES)
            a[p * N + k] = squares[p] > 1e-26 * most ? a[p * N + k] / sqrt(squares[p]) : 0.0;
    for (int p = 0; p < N; p++) {
        if (squares[p] > 1e-26 * most) continue;
        sync();
        int best = 0;
        double coverage = INF;
        for (int k = 0; k < N; k++) {
            double covered = 0.0;
            for (int r = 0; r < N; r++) covered += a[r * N + k] * a[r * N + k];
            if (covered < coverage - 1e-12) { best = k; coverage = covered; }
        }
        sync();
        for (int k = lane(); k < N; k += LANES) if (k == best) a[p * N + k] = 1.0;
        for (int r = 0; r < 2 * N; r++) {
            if (r % N == p) continue;
            double share = row_dot(a + r % N * N, a + p * N);
            for (int k = lane(); k < N; k += LANES) a[p * N + k] -= share * a[r % N * N + k];
        }
        double length = sqrt(row_dot(a + p * N, a + p * N));
        for (int k = lane(); k < N; k += LANES) a[p * N + k] /= length;
    }
}

// q = U V^T of b = U S V^T, as engines.small.polar; columns and rotation are scratch.
DEVICE void polar(const double *b, double *q, double *columns, double *rotation) {
#if N == 1
    q[0] = b[0] < 0.0 ? -1.0 : 1.0;
#else
    double most = 0.0;
    for (int p = 0; p < N * N; p++) most = largest(most, fabs(b[p]));
    double scale = most < 1e-100 ? TWO_600 : most > 1e100 ? 1.0 / TWO_600 : 1.0;
#if N == 2
    double x = scale * (b[0] + b[3]), y = scale * (b[2] - b[1]), trace = hypot(x, y), sign = 1.0;
    double mirrored = hypot(scale * (b[0] - b[3]), scale * (b[2] + b[1]));
    if (!(trace >= mirrored)) {
        x = scale * (b[0] - b[3]);
        y = scale * (b[2] + b[1]);
        trace = mirrored;
        sign = -1.0;
    } else if (trace == 0.0) x = trace = 1.0;
    q[0] = x / trace;
    q[2] = y / trace;
    q[1] = -sign * q[2];
    q[3] = sign * q[0];
#else
    for (int k = lane(); k < N; k += LANES)
        for (int p = 0; p < N; p++) {
            columns[p * N + k] = scale * b[k * N + p];
            rotation[p * N + k] = p == k ? 1.0 : 0.0;
        }
    orthogonalise(columns, rotation);
    normalise_rows(columns);
    sync();
    for (int at = lane(); at < N * N; at += LANES) {
        double value = 0.0;
        for (int p = 0; p < N; p++) value += columns[p * N + at / N] * rotation[p * N + at % N];
        q[at] = value;
    }
    sync();
#endif
#endif
}

#if N >= MANY_DIMENSIONS
// The same by Newton's iteration, as engines.small.newton_polar; false if b is near singular.
DEVICE bool newton_polar(const double *b, double *q, double *work, double *inverse, double *column) {
    for (int at = lane(); at < N * N; at += LANES) q[at] = b[at];
    for (int sweep = 0; sweep < NEWTON_SWEEPS; sweep++) {
        for (int at = lane(); at < N * N; at += LANES) {
            work[at] = q[at];
            inverse[at] = at / N == at % N ? 1.0 : 0.0;
        }
        sync();
        for (int p = 0; p < N; p++) {
            double key = INF;
            int best = 0x7fffffff;
            for (int r = p + lane(); r < N; r += LANES)
                if (-fabs(work[r * N + p]) < key) { key = -fabs(work[r * N + p]); best = r; }
            team_argmin(key, best);
            if (best == 0x7fffffff) return false;
            double pivot = work[best * N + p];
            if (pivot == 0.0) return false;
            sync();
            for (int c = lane(); c < N; c += LANES) {
                double x = work[best * N + c], y = inverse[best * N + c];
                work[best * N + c] = work[p * N + c];
                inverse[best * N + c] = inverse[p * N + c];
                work[p * N + c] = x / pivot;
                inverse[p * N + c] = y / pivot;
            }
            sync();
            for (int r = lane(); r < N; r += LANES) column[r] = work[r * N + p];
            sync();
            for (int at = lane(); at < N * N; at += LANES) {
                int r = at / N, c = at % N;
                if (r == p) continue;
                work[at] -= column[r] * work[p * N + c];
                inverse[at] -= column[r] * inverse[p * N + c];
            }
            sync();
        }
        double size = 0.0, inverse_size = 0.0, change = 0.0;
        for (int at = lane(); at < N * N; at += LANES) {
            size += q[at] * q[at];
            inverse_size += inverse[at] * inverse[at];
        }
        size = team_sum(size);
        inverse_size = team_sum(inverse_size);
        if (!(size * inverse_size < LARGEST_CONDITION)) return false;
        double balance = sqrt(sqrt(inverse_size / size));
        for (int at = lane(); at < N * N; at += LANES) {
            double x = 0.5 * (balance * q[at] + inverse[at % N * N + at / N] / balance);
            change += (x - q[at]) * (x - q[at]);
            q[at] = x;
        }
        change = team_sum(change);
        sync();
        if (change < 1e-25 * N) return true;
    }
    return false;
}
#endif

// Memory of a team: registers where one lane does it all, shared memory otherwise.
#if TEAMS
#define SQUARES(count) double *squares = TEAM_SHARED(5 * N * N + N)
#else
#define SQUARES(count) double squares[(count) * N * N + N]
#endif

// As engines.alignment.align_edges. Edges with free[e] have no direction and count with their lengths (eq. 27).
// `list` are the n vertices with many edges; without it they are all but those.
KERNEL align_edges(int n, const int *list, const int *indptr, const int *indices, const double *weights,
                   const unsigned char *free, const double *lengths, const double *frame,
                   const double *coordinates, double *alignments, double *energies, double *flux) {
    FOR_ITEMS(item, n) {
        SQUARES(4);
        double *b = squares, *q = b + N * N, *columns = q + N * N, *rotation = columns + N * N;
        long long i = list ? list[item] : item;
        int lo = indptr[i], hi = indptr[i + 1];
        if (!list && hi - lo > LONGEST) continue;
        const double *here = coordinates + i * N;
#if TEAMS
        for (int at = 0; list && at < N * N; at++) {
            int r = at / N, c = at % N;
            double total = 0.0;
            for (int e = lo + lane(); e < hi; e += LANES)
                if (!free || !free[e])
                    total += weights[e] * frame[e * (long long)N + r] *
                             (coordinates[(long long)indices[e] * N + c] - here[c]);
            total = team_sum(total);
            if (lane() == 0) b[at] = total;
        }
        for (int at = lane(); !list && at < N * N; at += LANES) {
            int r = at / N, c = at % N;
            double total = 0.0;
            for (int e = lo; e < hi; e++)
                if (!free || !free[e])
                    total += weights[e] * frame[e * (long long)N + r] *
                             (coordinates[(long long)indices[e] * N + c] - here[c]);
            b[at] = total;
        }
        sync();
#else
        for (int at = 0; at < N * N; at++) b[at] = 0.0;
        for (int e = lo; e < hi; e++) {
            if (free && free[e]) continue;
            const double *there = coordinates + (long long)indices[e] * N;
            for (int r = 0; r < N; r++) {
                double left = weights[e] * frame[e * (long long)N + r];
                for (int c = 0; c < N; c++) b[r * N + c] += left * (there[c] - here[c]);
            }
        }
#endif
#if N >= MANY_DIMENSIONS
        if (!newton_polar(b, q, columns, rotation, rotation + N * N)) {
            sync();
            polar(b, q, columns, rotation);
        }
#else
        polar(b, q, columns, rotation);
        sync();
#endif
        double total = 0.0;
        for (int at = lane(); at < (hi - lo) * N; at += LANES) {
            int e = lo + at / N, c = at % N;
            double w = weights[e], value = coordinates[(long long)indices[e] * N + c] - here[c];
            if (free && free[e]) {
                double square = 0.0;
                for (int k = 0; k < N; k++) {
                    double step = coordinates[(long long)indices[e] * N + k] - here[k];
                    square += step * step;
                }
                double length = sqrt(square), excess = length - lengths[e];
                if (c == 0) total += w * excess * excess;
                flux[e * (long long)N + c] = length > 0.0 ? w * excess / length * value : 0.0;
                continue;
            }
            for (int r = 0; r < N; r++) value -= frame[e * (long long)N + r] * q[r * N + c];
            total += w * value * value;
            flux[e * (long long)N + c] = w * value;
        }
        total = team_sum(total);
        if (lane() == 0) energies[i] = total;
        for (int at = lane(); at < N * N; at += LANES) alignments[i * N * N + at] = q[at];
        sync();
    }
}

// out_i = sum_j flux_ji - flux_ij, of vertices as above
KERNEL divergence(int n, const int *list, const int *indptr, const int *reverse, const double *flux, double *out) {
    for (int c = 0; list && c < N; c++)
        FOR_ITEMS(k, n) {
            double total = 0.0;
            for (int e = indptr[list[k]] + lane(); e < indptr[list[k] + 1]; e += LANES)
                total += flux[(long long)reverse[e] * N + c] - flux[e * (long long)N + c];
            total = team_sum(total);
            if (lane() == 0) out[(long long)list[k] * N + c] = total;
        }
    if (list) return;
    FOR_EACH(at, (long long)n * N) {
        int i = at / N, c = at % N;
        double total = 0.0;
        if (indptr[i + 1] - indptr[i] > LONGEST) continue;
        for (int e = indptr[i]; e < indptr[i + 1]; e++)
            total += flux[(long long)reverse[e] * N + c] - flux[e * (long long)N + c];
        out[at] = total;
    }
}

// As engines.stress.edge_stress; with `more` it is added to energies and half gradient. All kernels of a module
// with teams have warps; here a lane takes a vertex all the same, unless there is a list.
KERNEL edge_stress(int n, const int *list, int more, const int *indptr, const int *indices,
                   const double *lengths, const double *weights, const double *both, const double *coordinates,
                   double *energies, double *half_gradient) {
    int lanes = list ? LANES : 1, first = list ? lane() : 0;
    FOR_EACH(thread, (long long)n * lanes) {
        long long i = list ? list[thread / LANES] : thread;
        double energy = 0.0, half[N], step[N];
        if (!list && indptr[i + 1] - indptr[i] > LONGEST) continue;
        for (int c = 0; c < N; c++) half[c] = 0.0;
        for (int e = indptr[i] + first; e < indptr[i + 1]; e += lanes) {
            double square = 0.0;
            for (int c = 0; c < N; c++) {
                step[c] = coordinates[i * N + c] - coordinates[(long long)indices[e] * N + c];
                square += step[c] * step[c];
            }
            double distance = sqrt(square), excess = distance - lengths[e];
            energy += weights[e] * excess * excess;
            if (distance > 0.0) {
                double pull = both[e] * excess / distance;
                for (int c = 0; c < N; c++) half[c] += pull * step[c];
            }
        }
        if (list) {
            energy = team_sum(energy);
            for (int c = 0; c < N; c++) half[c] = team_sum(half[c]);
            if (first > 0) continue;
        }
        energies[i] = more ? energies[i] + energy : energy;
        for (int c = 0; c < N; c++)
            half_gradient[i * N + c] = more ? half_gradient[i * N + c] + half[c] : half[c];
    }
}

// As engines.stress.landmark_stress for the vertices, and with of_landmarks for the landmarks themselves: both
// are sums over the columns or the rows of one table of geodesics (n, l), in the order of that table.
KERNEL vertex_stress(int n, int n_landmarks, const double *coordinates, const int *landmarks,
                     const double *geodesics, double *cross, double *squares, double *pulls) {
    FOR_EACH(i, n) {
        double here[N], pull[N], step[N], product = 0.0, total = 0.0;
        for (int c = 0; c < N; c++) { here[c] = coordinates[i * N + c]; pull[c] = 0.0; }
        for (int a = 0; a < n_landmarks; a++) {
            double square = 0.0;
            for (int c = 0; c < N; c++) {
                step[c] = here[c] - coordinates[(long long)landmarks[a] * N + c];
                square += step[c] * step[c];
            }
            if (square == 0.0) continue;
            double distance = sqrt(square), g = geodesics[i * n_landmarks + a];
            total += square;
            product += distance * g;
            for (int c = 0; c < N; c++) pull[c] += g / distance * step[c];
        }
        cross[i] = product;
        squares[i] = total;
        for (int c = 0; c < N; c++) pulls[i * N + c] = pull[c];
    }
}

// The pulls on the landmarks from the vertices of every block of `size`: (n_blocks, l, N).
KERNEL block_stress(int n_items, int n, int size, int n_landmarks, const double *coordinates,
                    const int *landmarks, const double *geodesics, double *pulls) {
    FOR_EACH(item, n_items) {
        int block = item / n_landmarks, a = item % n_landmarks;
        double here[N], pull[N], step[N];
        for (int c = 0; c < N; c++) {
            here[c] = coordinates[(long long)landmarks[a] * N + c];
            pull[c] = 0.0;
        }
        long long stop = (block + 1LL) * size;
        for (long long i = block * (long long)size; i < stop && i < n; i++) {
            double square = 0.0;
            for (int c = 0; c < N; c++) {
                step[c] = coordinates[i * N + c] - here[c];
                square += step[c] * step[c];
            }
            if (square == 0.0) continue;
            double ratio = geodesics[i * n_landmarks + a] / sqrt(square);
            for (int c = 0; c < N; c++) pull[c] -= ratio * step[c];
        }
        for (int c = 0; c < N; c++) pulls[item * N + c] = pull[c];
    }
}

// Singular values of the local differential, largest first (eq. 17); directions without extent are 1.
KERNEL local_stretch(int n, const int *indptr, const int *indices, const unsigned char *included,
                     const double *frame, const double *coordinates, double *stretch) {
    FOR_ITEMS(i, n) {
        SQUARES(5);
        double *gram = squares, *cross = gram + N * N, *vectors = cross + N * N, *fit = vectors + N * N;
        double *spare = fit + N * N, values[N], order[N], most = 0.0;
        int lo = indptr[i], hi = indptr[i + 1], present = 0;
        for (int at = lane(); at < N * N; at += LANES) {
            int r = at / N, c = at % N;
            double product = 0.0, total = 0.0;
            for (int e = lo; e < hi; e++) {
                if (!included[e]) continue;
                product += frame[e * (long long)N + r] * frame[e * (long long)N + c];
                total += frame[e * (long long)N + r] *
                         (coordinates[(long long)indices[e] * N + c] - coordinates[i * N + c]);
            }
            gram[at] = product;
            cross[at] = total;
            vectors[at] = r == c ? 1.0 : 0.0;
        }
        sync();
        // Rows of gram become lambda v^T, those of `vectors` v^T: gram is positive semi-definite.
        orthogonalise(gram, vectors);
        for (int p = 0; p < N; p++) {
            values[p] = sqrt(row_dot(gram + p * N, gram + p * N));
            most = largest(most, values[p]);
        }
        sync();
        for (int at = lane(); at < N * N; at += LANES) {
            double total = 0.0;
            for (int k = 0; k < N; k++) total += vectors[at / N * N + k] * cross[k * N + at % N];
            double value = values[at / N];
            fit[at] = value > 1e-10 * largest(most, 2.2250738585072014e-308) ? total / value : 0.0;
        }
        for (int p = 0; p < N; p++) present += values[p] > 1e-10 * largest(most, 2.2250738585072014e-308);
        sync();
        // The rotation in front of the fit does not change its singular values.
        orthogonalise(fit, spare);
        for (int p = 0; p < N; p++) order[p] = sqrt(row_dot(fit + p * N, fit + p * N));
        for (int p = 1; p < N; p++)
            for (int r = p; r > 0 && order[r] > order[r - 1]; r--) {
                double swap = order[r];
                order[r] = order[r - 1];
                order[r - 1] = swap;
            }
        if (lane() == 0)
            for (int p = 0; p < N; p++) stretch[i * N + p] = p < present ? order[p] : 1.0;
        sync();
    }
}
