// Starts: balls around sampled vertices, shortest paths from landmarks, placing, smoothing.
#include "common.cuh"
#include "search.cuh"

// Balls around the centres of a list: members in order of distance. counts[s] = -1 where memory was too small.
KERNEL sample_balls(int n_items, const int *items, const int *centres, const int *is_sample, int n_wanted,
                    int width, int capacity, int words, double *scratch, const int *indptr,
                    const int *indices, const double *lengths, int *members, double *distances, int *counts) {
    FOR_ITEMS(item, n_items) {
        int s = items[item];
        Search search = make_search(scratch ? scratch + (long long)TEAM_NUMBER * words : TEAM_SHARED(words),
                                    capacity);
        int count = settle(search, centres[s], n_wanted + 1, is_sample, 0.0, width, width, indptr, indices,
                           lengths);
        for (int a = lane(); a < count; a += LANES) {
            int entry = search.order[a];
            members[s * (long long)width + a] = search.vertex[entry];
            distances[s * (long long)width + a] = search.distance[entry];
        }
        if (lane() == 0) counts[s] = count;
        sync();
    }
}

// One relaxation of shortest paths from several sources: rows of `from` (n, n_sources) to `to`.
KERNEL relax(int n, int n_sources, const int *indptr, const int *indices, const double *lengths,
             double *distances, int *changed) {
    FOR_EACH(at, (long long)n * n_sources) {
        int i = at / n_sources, a = at % n_sources;
        double best = distances[at], before = best;
        for (int e = indptr[i]; e < indptr[i + 1]; e++) {
            // In place: lengths only shrink, and every order of relaxations ends at the same fixed point.
            double t = ((volatile double *)distances)[indices[e] * (long long)n_sources + a] + lengths[e];
            if (t < best) best = t;
        }
        if (best < before) {
            distances[at] = best;
            *changed = 1;
        }
    }
}

// As engines.coarse.triangulate; the normal equations are solved by Cholesky.
KERNEL triangulate(int n, int width, const int *filled, const int *anchors, const double *distances,
                   const double *places, double *coordinates) {
    FOR_EACH(i, n) {
        int count = filled[i];
        if (count == 0) continue;
        const int *mine = anchors + i * width;
        const double *far = distances + i * width;
        double *out = coordinates + i * N;
        for (int c = 0; c < N; c++) out[c] = places[(long long)mine[0] * N + c];
        if (count < N + 2 || far[0] == 0.0) continue;
        double mean[N], right[N], gram[N][N], level = 0.0, trace = 0.0;
        for (int c = 0; c < N; c++) {
            mean[c] = right[c] = 0.0;
            for (int r = 0; r < N; r++) gram[c][r] = 0.0;
        }
        for (int a = 0; a < count; a++)
            for (int c = 0; c < N; c++) mean[c] += places[(long long)mine[a] * N + c] / count;
        for (int a = 0; a < count; a++) {
            double square = 0.0;
            for (int c = 0; c < N; c++) {
                double x = places[(long long)mine[a] * N + c] - mean[c];
                square += x * x;
            }
            level += (square - far[a] * far[a]) / count;
            trace += square;
        }
        for (int a = 0; a < count; a++) {
            double square = 0.0, x[N];
            for (int c = 0; c < N; c++) {
                x[c] = places[(long long)mine[a] * N + c] - mean[c];
                square += x[c] * x[c];
            }
            double value = 0.5 * (square - far[a] * far[a] - level);
            for (int r = 0; r < N; r++) {
                right[r] += x[r] * value;
                for (int c = 0; c < N; c++) gram[r][c] += x[r] * x[c];
            }
        }
        if (!(trace > 0.0)) continue;
        for (int r = 0; r < N; r++) gram[r][r] += 1e-3 * trace / N;
        for (int k = 0; k < N; k++) {
            gram[k][k] = sqrt(gram[k][k]);
            for (int r = k + 1; r < N; r++) gram[r][k] /= gram[k][k];
            for (int r = k + 1; r < N; r++)
                for (int c = k + 1; c <= r; c++) gram[r][c] -= gram[r][k] * gram[c][k];
        }
        for (int r = 0; r < N; r++) {
            for (int c = 0; c < r; c++) right[r] -= gram[r][c] * right[c];
            right[r] /= gram[r][r];
        }
        for (int r = N - 1; r >= 0; r--) {
            for (int c = r + 1; c < N; c++) right[r] -= gram[c][r] * right[c];
            right[r] /= gram[r][r];
        }
        for (int c = 0; c < N; c++) out[c] = mean[c] + right[c];
    }
}

// Half the vertex itself, half the mean of its neighbours.
KERNEL smooth_places(int n, const int *indptr, const int *indices, const double *from, double *to) {
    FOR_EACH(at, (long long)n * N) {
        int i = at / N, c = at % N;
        double total = 0.0;
        for (int e = indptr[i]; e < indptr[i + 1]; e++) total += from[(long long)indices[e] * N + c];
        to[at] = 0.5 * from[at] + 0.5 * total / (indptr[i + 1] - indptr[i]);
    }
}

KERNEL sums_of_lengths(int n, const int *indptr, const double *lengths, double *out) {
    FOR_EACH(i, n) {
        double total = 0.0;
        for (int e = indptr[i]; e < indptr[i + 1]; e++) total += lengths[e];
        out[i] = total;
    }
}
