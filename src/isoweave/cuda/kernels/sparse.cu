// Sparse matrices with blocks of N columns, conjugate gradients, multigrid. REAL is double, or float inside the
// preconditioner. Scalars of conjugate gradients stay on the device, one per column.
#include "common.cuh"

// Rows of A, those of more than LONGEST entries again in a list.
#define ROWS int n, const int *indptr, const int *indices, const REAL *data, int n_long, const int *long_rows
// FINISH does something with `total`, the sum over row i of A x in column c, for every place `at` of a block. Long
// rows are summed by teams.
#define PRODUCTS(x, FINISH) \
    FOR_EACH(at, (long long)n * N) { \
        int i = at / N, c = at % N, lo = indptr[i], hi = indptr[i + 1]; \
        if (hi - lo > LONGEST) continue; \
        REAL total = 0; \
        for (int e = lo; e < hi; e++) total += data[e] * (x)[(long long)indices[e] * N + c]; \
        FINISH; \
    } \
    FOR_ITEMS(k, (long long)n_long * N) { \
        int i = long_rows[k / N], c = k % N; \
        long long at = (long long)i * N + c; \
        double sum = 0; \
        for (int e = indptr[i] + lane(); e < indptr[i + 1]; e += LANES) \
            sum += data[e] * (x)[(long long)indices[e] * N + c]; \
        REAL total = team_sum(sum); \
        if (lane() == 0) { FINISH; } \
    }

KERNEL multiply(ROWS, const REAL *x, REAL *out) { PRODUCTS(x, out[at] = total) }

// out = b - A x
KERNEL residual(ROWS, const REAL *x, const REAL *b, REAL *out) { PRODUCTS(x, out[at] = b[at] - total) }

// x += P y
KERNEL add_product(ROWS, const REAL *y, REAL *x) { PRODUCTS(y, x[at] += total) }

// out = x + w D^-1 (b - A x)
KERNEL sweep(double w, ROWS, const REAL *inverse, const REAL *b, const REAL *x, REAL *out) {
    PRODUCTS(x, out[at] = x[at] + (REAL)w * inverse[i] * (b[at] - total))
}

// out = w D^-1 b: the first sweep of Jacobi, from zero.
KERNEL first_sweep(int n, double w, const REAL *inverse, const REAL *b, REAL *out) {
    FOR_EACH(at, (long long)n * N) out[at] = (REAL)w * inverse[at / N] * b[at];
}

KERNEL multiply_dense(int n, const REAL *matrix, const REAL *x, REAL *out) {
    FOR_EACH(at, (long long)n * N) {
        int i = at / N, c = at % N;
        REAL total = 0;
        for (int k = 0; k < n; k++) total += matrix[i * (long long)n + k] * x[k * N + c];
        out[at] = total;
    }
}

// Column sums of a b over chunks of rows, a team per chunk, and of a z if there is one.
KERNEL dot_chunks(int n_chunks, int n, int chunk, const double *a, const double *b, const REAL *z,
                  double *partial) {
    FOR_ITEMS(k, n_chunks) {
        long long begin = k * chunk, end = begin + chunk < n ? begin + chunk : n;
        for (int c = 0; c < N; c++) {
            double first = 0.0, second = 0.0;
            for (long long i = begin + lane(); i < end; i += LANES) {
                first += a[i * N + c] * b[i * N + c];
                if (z) second += a[i * N + c] * (double)z[i * N + c];
            }
            first = team_sum(first);
            second = team_sum(second);
            if (lane() == 0) {
                partial[k * N + c] = first;
                partial[(n_chunks + k) * N + c] = second;
            }
        }
    }
}

// The sums over chunks, a team per column, and what conjugate gradients make of them. what: 0 dots[c] = sum;
// 1 the curvature p.q; 2 r.r and r.z: whether the column goes on, and beta; 3 the same at the start.
// State: rows rz, curvature, beta, goal of N numbers each; active[c], and active[N] counts those.
KERNEL finish_dots(int n_chunks, int what, const double *partial, double *dots, double *state, int *active) {
    FOR_ITEMS(c, N) {
        double first = 0.0, second = 0.0;
        for (int k = lane(); k < n_chunks; k += LANES) {
            first += partial[(long long)k * N + c];
            if (what > 1) second += partial[((long long)n_chunks + k) * N + c];
        }
        first = team_sum(first);
        second = team_sum(second);
        if (lane() > 0) continue;
        if (what == 0) dots[c] = first;
        if (what == 1) state[N + c] = first;
        if (what > 1) {
            double rz = state[c];
            // A NaN, or a direction without positive curvature, ends the column with what it has.
            bool sound = what == 3 || (state[N + c] > 0.0 && rz > 0.0 && rz < INF && state[N + c] < INF);
            active[c] = (what == 3 || active[c]) && sound && sqrt(first) > state[3 * N + c];
            state[2 * N + c] = what == 3 || !(rz > 0.0) ? 0.0 : second / rz;
            state[c] = second;
        }
    }
}

// x += step p, r -= step q; low is r in the precision of the preconditioner.
KERNEL advance(int n, const double *state, const int *active, const double *p, const double *q, double *x,
               double *r, REAL *low) {
    FOR_EACH(at, (long long)n * N) {
        int c = at % N;
        double rz = state[c], curvature = state[N + c];
        bool sound = active[c] && curvature > 0.0 && rz > 0.0 && curvature < INF && rz < INF;
        double step = sound ? rz / curvature : 0.0;
        x[at] += step * p[at];
        double value = r[at] - step * q[at];
        r[at] = value;
        low[at] = (REAL)value;
    }
}

// p = z + beta p
KERNEL direction(int n, const double *state, const REAL *z, double *p) {
    FOR_EACH(at, (long long)n * N) p[at] = (double)z[at] + state[2 * N + at % N] * p[at];
}

// x - mean of every column, from the column sums.
KERNEL subtract_mean(int n, const double *sums, const double *x, double *out) {
    FOR_EACH(at, (long long)n * N) out[at] = x[at] - sums[at % N] / n;
}
