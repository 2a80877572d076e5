// Leading eigenpairs of symmetric matrices, by a team: block power iteration, or the whole spectrum.
#define BLOCK (N + 2)
#define MAX_SWEEPS 40
#define TOLERANCE 1e-11

DEVICE double dot(const double *x, const double *y, int m) {
    double total = 0.0;
    for (int a = lane(); a < m; a += LANES) total += x[a] * y[a];
    return team_sum(total);
}

// Take the directions of the rows before c out of row c; what is left of its squared length.
DEVICE double project_out(double *rows, int c, int m) {
    for (int p = 0; p < c; p++) {
        double share = dot(rows + c * m, rows + p * m, m);
        for (int a = lane(); a < m; a += LANES) rows[c * m + a] -= share * rows[p * m + a];
    }
    return dot(rows + c * m, rows + c * m, m);
}

DEVICE void jacobi_angle(double theta, double &c, double &s) {
    double t = 1.0 / (fabs(theta) + sqrt(1.0 + theta * theta));
    if (theta < 0.0) t = -t;
    c = 1.0 / sqrt(1.0 + t * t);
    s = t * c;
}

// Cyclic Jacobi of a tiny matrix by one lane: eigenvalues on the diagonal, vectors in columns.
DEVICE void tiny_eigh(double *a, double *v, int n) {
    for (int p = 0; p < n * n; p++) v[p] = p % (n + 1) == 0 ? 1.0 : 0.0;
    NO_UNROLL
    for (int sweep = 0; sweep < 30; sweep++) {
        double off = 0.0, total = 0.0;
        for (int p = 0; p < n; p++) {
            total += a[p * n + p] * a[p * n + p];
            for (int q = 0; q < p; q++) off += a[p * n + q] * a[p * n + q];
        }
        if (!(off > 1e-32 * total)) return;
        NO_UNROLL
        for (int p = 0; p < n - 1; p++)
            NO_UNROLL
            for (int q = p + 1; q < n; q++) {
                if (a[p * n + q] == 0.0) continue;
                double c, s;
                jacobi_angle(0.5 * (a[q * n + q] - a[p * n + p]) / a[p * n + q], c, s);
                for (int k = 0; k < n; k++) {
                    double x = a[k * n + p], y = a[k * n + q];
                    a[k * n + p] = c * x - s * y;
                    a[k * n + q] = s * x + c * y;
                }
                for (int k = 0; k < n; k++) {
                    double x = a[p * n + k], y = a[q * n + k];
                    a[p * n + k] = c * x - s * y;
                    a[q * n + k] = s * x + c * y;
                    x = v[k * n + p], y = v[k * n + q];
                    v[k * n + p] = c * x - s * y;
                    v[k * n + q] = s * x + c * y;
                }
            }
    }
}

// Matrices are stored by rows up to the diagonal; the Gram matrix is that of the distances less its first row.
DEVICE int packed(int u, int v) { return u < v ? v * (v + 1) / 2 + u : u * (u + 1) / 2 + v; }
DEVICE double gram_at(const double *g, int u, int v) { return g[packed(u + 1, v + 1)]; }

// Leading eigenpairs of the Gram matrix by block power iteration; false when it does not settle.
// vectors[c * m + a]; rows and image hold BLOCK vectors, small and rotation BLOCK squared.
ROUTINE bool block_iteration(const double *g, int m, double *values, double *vectors, double *rows,
                            double *image, double *small, double *rotation) {
    if (3 * BLOCK >= m) return false;
    double *weight = image, power = 0.0;
    for (int a = lane(); a < m; a += LANES) {
        weight[a] = gram_at(g, a, a);
        for (int k = 0; k < m; k++) power += gram_at(g, k, a) * gram_at(g, k, a);
    }
    power = team_sum(power);
    sync();
    for (int c = 0; c < BLOCK; c++) {
        double key = INF;
        int best = 0x7fffffff;
        for (int a = lane(); a < m; a += LANES)
            if (-weight[a] < key) { key = -weight[a]; best = a; }
        team_argmin(key, best);
        if (best == 0x7fffffff) return false;
        for (int a = lane(); a < m; a += LANES) rows[c * m + a] = gram_at(g, best, a);
        double square = project_out(rows, c, m);
        if (!(square > 0.0)) return false;
        double norm = sqrt(square);
        for (int a = lane(); a < m; a += LANES) {
            rows[c * m + a] /= norm;
            weight[a] -= norm * rows[c * m + a] * rows[c * m + a];
            if (a == best) weight[a] = -INF;
        }
        sync();
    }
    for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
        for (int c = 0; c < BLOCK; c++) {
            double *row = rows + c * m;
            double before = dot(row, row, m);
            project_out(rows, c, m);
            double square = project_out(rows, c, m);
            if (!(square > 1e-24 * before)) return false;
            double scale = 1.0 / sqrt(square);
            for (int a = lane(); a < m; a += LANES) row[a] *= scale;
        }
        sync();
        for (int a = lane(); a < m; a += LANES) {
            double total[BLOCK];
            for (int c = 0; c < BLOCK; c++) total[c] = 0.0;
            int at = packed(a + 1, 1);
            for (int k = 0; k < m; k++) {
                for (int c = 0; c < BLOCK; c++) total[c] += rows[c * m + k] * g[at];
                at += k < a ? 1 : k + 2;
            }
            for (int c = 0; c < BLOCK; c++) image[c * m + a] = total[c];
        }
        sync();
        if (sweep % 3 == 2) {
            for (int p = 0; p < BLOCK; p++)
                for (int q = 0; q <= p; q++) {
                    double value = dot(rows + p * m, image + q * m, m);
                    if (lane() == 0) small[p * BLOCK + q] = small[q * BLOCK + p] = value;
                }
            sync();
            if (lane() == 0) tiny_eigh(small, rotation, BLOCK);
            sync();
            int order[BLOCK];
            for (int c = 0; c < BLOCK; c++) {
                int p = c;
                for (; p > 0 && small[order[p - 1] * (BLOCK + 1)] < small[c * (BLOCK + 1)]; p--)
                    order[p] = order[p - 1];
                order[p] = c;
            }
            double worst = 0.0;
            for (int c = 0; c < N; c++) {
                int k = order[c];
                double value = small[k * (BLOCK + 1)], residual = 0.0;
                for (int a = lane(); a < m; a += LANES) {
                    double x = 0.0, y = 0.0;
                    for (int p = 0; p < BLOCK; p++) {
                        x += rows[p * m + a] * rotation[p * BLOCK + k];
                        y += image[p * m + a] * rotation[p * BLOCK + k];
                    }
                    vectors[c * m + a] = x;
                    y -= value * x;
                    residual += y * y;
                }
                if (lane() == 0) values[c] = value;
                worst = largest(worst, sqrt(team_sum(residual)));
            }
            sync();
            if (values[N - 1] <= 0.0) return false;
            if (worst <= TOLERANCE * values[0]) {
                for (int c = 0; c < BLOCK; c++) power -= small[c * (BLOCK + 1)] * small[c * (BLOCK + 1)];
                return power < values[N - 1] * values[N - 1];
            }
        }
        sync();
        // Turned by the rotation just found, the next small matrix is nearly diagonal.
        bool turned = sweep % 3 == 2;
        for (int a = lane(); a < m; a += LANES)
            for (int c = 0; c < BLOCK; c++) {
                double x = image[c * m + a];
                if (turned) {
                    x = 0.0;
                    for (int p = 0; p < BLOCK; p++) x += image[p * m + a] * rotation[p * BLOCK + c];
                }
                rows[c * m + a] = x;
            }
        sync();
    }
    return false;
}

// The N largest eigenpairs of a (m x m), which is overwritten: Householder's tridiagonal form, implicit QL with all
// its vectors in z (z[i * m + k] is entry k of vector i), and the reflections back. `work` holds 7 * m numbers.
ROUTINE void full_spectrum(double *a, int m, double *values, double *vectors, double *z, double *work) {
    double *d = work, *e = d + m, *scale = e + m, *v = scale + m, *w = v + m, *cosines = w + m;
    double *sines = cosines + m;
    for (int at = lane(); at < m * m; at += LANES) z[at] = at % (m + 1) == 0 ? 1.0 : 0.0;
    for (int k = 0; k < m - 2; k++) {
        // Reflect what is below the diagonal of column k onto its first entry; the reflector stays in row k.
        double square = 0.0;
        for (int r = k + 1 + lane(); r < m; r += LANES) square += a[k * m + r] * a[k * m + r];
        square = team_sum(square);
        double first = a[k * m + k + 1], norm = first > 0.0 ? -sqrt(square) : sqrt(square);
        double half = square - first * norm, factor = half > 0.0 ? 1.0 / half : 0.0;
        sync();
        if (lane() == 0) {
            a[k * m + k + 1] = first - norm;
            d[k] = a[k * m + k];
            e[k] = factor > 0.0 ? norm : first;
            scale[k] = factor;
        }
        sync();
        if (factor == 0.0) continue;
        double share = 0.0;
        for (int r = k + 1 + lane(); r < m; r += LANES) {
            double total = 0.0;
            for (int c = k + 1; c < m; c++) total += a[c * m + r] * a[k * m + c];
            v[r] = a[k * m + r];
            w[r] = factor * total;
            share += w[r] * v[r];
        }
        share = 0.5 * factor * team_sum(share);
        for (int r = k + 1 + lane(); r < m; r += LANES) w[r] -= share * v[r];
        sync();
        for (int r = k + 1 + lane(); r < m; r += LANES)
            for (int c = k + 1; c < m; c++) a[c * m + r] -= v[r] * w[c] + w[r] * v[c];
        sync();
    }
    if (lane() == 0) {
        if (m > 1) { d[m - 2] = a[(m - 2) * m + m - 2]; e[m - 2] = a[(m - 2) * m + m - 1]; }
        d[m - 1] = a[m * m - 1];
        e[m - 1] = 0.0;
    }
    sync();
    for (int l = 0; l < m; l++) {
        for (int sweep = 0; sweep < 60; sweep++) {
            int end = l;
            for (; end < m - 1; end++)
                if (fabs(e[end]) <= 1.1e-16 * (fabs(d[end]) + fabs(d[end + 1]))) break;
            if (end == l) break;
            sync();
            // One lane chases the bulge, all of them turn the vectors.
            if (lane() == 0) {
                double g = (d[l + 1] - d[l]) / (2.0 * e[l]), r = sqrt(g * g + 1.0), s = 1.0, c = 1.0, p = 0.0;
                g = d[end] - d[l] + e[l] / (g + (g < 0.0 ? -r : r));
                int i = end - 1;
                for (; i >= l; i--) {
                    double f = s * e[i], b = c * e[i];
                    r = sqrt(f * f + g * g);
                    e[i + 1] = r;
                    if (r == 0.0) {
                        d[i + 1] -= p;
                        e[end] = 0.0;
                        break;
                    }
                    s = f / r;
                    c = g / r;
                    g = d[i + 1] - p;
                    r = (d[i] - g) * s + 2.0 * c * b;
                    p = s * r;
                    d[i + 1] = g + p;
                    g = c * r - b;
                    cosines[i] = c;
                    sines[i] = s;
                }
                for (int left = l; left <= i; left++) { cosines[left] = 1.0; sines[left] = 0.0; }
                if (i < l) {
                    d[l] -= p;
                    e[l] = g;
                    e[end] = 0.0;
                }
            }
            sync();
            for (int k = lane(); k < m; k += LANES) {
                double f = z[end * m + k];
                for (int i = end - 1; i >= l; i--) {
                    double c = cosines[i], s = sines[i], x = z[i * m + k];
                    z[(i + 1) * m + k] = s * x + c * f;
                    f = c * x - s * f;
                }
                z[l * m + k] = f;
            }
            sync();
        }
    }
    // Largest first; those taken are marked in `cosines`.
    for (int k = lane(); k < m; k += LANES) cosines[k] = -d[k];
    sync();
    for (int c = 0; c < N; c++) {
        double key = INF, *y = vectors + c * m;
        int best = 0x7fffffff;
        for (int k = lane(); k < m; k += LANES)
            if (cosines[k] < key) { key = cosines[k]; best = k; }
        team_argmin(key, best);
        sync();
        if (best == 0x7fffffff) {
            for (int k = lane(); k < m; k += LANES) y[k] = 0.0;
            if (lane() == 0) values[c] = 0.0;
            continue;
        }
        for (int k = lane(); k < m; k += LANES) y[k] = z[best * m + k];
        if (lane() == 0) {
            values[c] = d[best];
            cosines[best] = INF;
        }
        sync();
        for (int k = m - 3; k >= 0; k--) {
            double share = 0.0;
            for (int r = k + 1 + lane(); r < m; r += LANES) share += a[k * m + r] * y[r];
            share = scale[k] * team_sum(share);
            for (int r = k + 1 + lane(); r < m; r += LANES) y[r] -= share * a[k * m + r];
            sync();
        }
    }
}
