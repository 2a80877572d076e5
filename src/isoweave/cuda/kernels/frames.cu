// Local frames: engines.local_mds for the device. A team makes the frame of one vertex in memory of its own.
#include "common.cuh"
#include "search.cuh"
#define BLOCK (N + 2)
#define MAX_SWEEPS 40
#define TOLERANCE 1e-11
#define RANK_TOLERANCE 1e-10
#define TIE (1.0 + 1e-9)

// Rows of up to `longest` edges in order of length, ties as stored, by insertion.
KERNEL sort_rows(int n, int longest, const int *indptr, const int *indices, const double *lengths,
                 int *near_indices, double *near_lengths) {
    FOR_EACH(i, n) {
        int lo = indptr[i], hi = indptr[i + 1];
        if (hi - lo > longest) continue;
        for (int a = lo; a < hi; a++) {
            double length = lengths[a];
            int b = a;
            for (; b > lo && near_lengths[b - 1] > length; b--) {
                near_lengths[b] = near_lengths[b - 1];
                near_indices[b] = near_indices[b - 1];
            }
            near_lengths[b] = length;
            near_indices[b] = indices[a];
        }
    }
}

DEVICE int find_edge(const int *indices, int lo, int end, int v) {
    int hi = end;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (indices[mid] < v) lo = mid + 1;
        else hi = mid;
    }
    return lo < end && indices[lo] == v ? lo : -1;
}

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
    for (int sweep = 0; sweep < 30; sweep++) {
        double off = 0.0, total = 0.0;
        for (int p = 0; p < n; p++) {
            total += a[p * n + p] * a[p * n + p];
            for (int q = 0; q < p; q++) off += a[p * n + q] * a[p * n + q];
        }
        if (!(off > 1e-32 * total)) return;
        for (int p = 0; p < n - 1; p++)
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

// Leading eigenpairs of g (m rows, ld apart) by block power iteration; false when it does not settle.
// vectors[c * m + a]; rows and image hold BLOCK vectors, small and rotation BLOCK squared.
DEVICE bool block_iteration(const double *g, int ld, int m, double *values, double *vectors, double *rows,
                            double *image, double *small, double *rotation) {
    if (3 * BLOCK >= m) return false;
    double *weight = image, power = 0.0;
    for (int a = lane(); a < m; a += LANES) {
        weight[a] = g[a * ld + a];
        for (int k = 0; k < m; k++) power += g[k * ld + a] * g[k * ld + a];
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
        for (int a = lane(); a < m; a += LANES) rows[c * m + a] = g[best * ld + a];
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
            sync();
            for (int a = lane(); a < m; a += LANES) {
                double total = 0.0;
                for (int k = 0; k < m; k++) total += row[k] * g[k * ld + a];
                image[c * m + a] = total;
            }
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
        for (int a = lane(); a < BLOCK * m; a += LANES) rows[a] = image[a];
        sync();
    }
    return false;
}

// All eigenpairs of g, which is overwritten, by Jacobi rotations of disjoint pairs at once; then the N largest.
// `full` holds m * m numbers, `angles` 2 * m.
DEVICE void full_spectrum(double *g, int ld, int m, double *values, double *vectors, double *full,
                          double *angles) {
    for (int a = lane(); a < m * m; a += LANES) full[a] = a % (m + 1) == 0 ? 1.0 : 0.0;
    int even = m + m % 2, half = even / 2;
    for (int sweep = 0; sweep < 30; sweep++) {
        double off = 0.0, total = 0.0;
        sync();
        for (int p = 0; p < m; p++)
            for (int q = lane(); q < m; q += LANES) {
                double square = g[p * ld + q] * g[p * ld + q];
                if (p == q) total += square;
                else off += square;
            }
        off = team_sum(off);
        total = team_sum(total);
        if (!(off > 1e-31 * total)) break;
        for (int round = 0; round < even - 1; round++) {
            // Pairs of a tournament: the last stays, the others go around.
            for (int k = lane(); k < half; k += LANES) {
                int p = k == 0 ? even - 1 : (round + k) % (even - 1), q = (round + even - 1 - k) % (even - 1);
                double c = 1.0, s = 0.0;
                if (p > q) { int swap = p; p = q; q = swap; }
                if (q < m && g[p * ld + q] != 0.0)
                    jacobi_angle(0.5 * (g[q * ld + q] - g[p * ld + p]) / g[p * ld + q], c, s);
                angles[2 * k] = c;
                angles[2 * k + 1] = s;
            }
            sync();
            for (int item = lane(); item < half * m; item += LANES) {
                int k = item / m, a = item % m;
                int p = k == 0 ? even - 1 : (round + k) % (even - 1), q = (round + even - 1 - k) % (even - 1);
                if (p > q) { int swap = p; p = q; q = swap; }
                if (q >= m) continue;
                double c = angles[2 * k], s = angles[2 * k + 1], x = g[a * ld + p], y = g[a * ld + q];
                g[a * ld + p] = c * x - s * y;
                g[a * ld + q] = s * x + c * y;
                x = full[p * m + a], y = full[q * m + a];
                full[p * m + a] = c * x - s * y;
                full[q * m + a] = s * x + c * y;
            }
            sync();
            for (int item = lane(); item < half * m; item += LANES) {
                int k = item / m, a = item % m;
                int p = k == 0 ? even - 1 : (round + k) % (even - 1), q = (round + even - 1 - k) % (even - 1);
                if (p > q) { int swap = p; p = q; q = swap; }
                if (q >= m) continue;
                double c = angles[2 * k], s = angles[2 * k + 1], x = g[p * ld + a], y = g[q * ld + a];
                g[p * ld + a] = c * x - s * y;
                g[q * ld + a] = s * x + c * y;
            }
            sync();
        }
    }
    // Largest first; those taken are marked in `angles`.
    for (int a = lane(); a < m; a += LANES) angles[a] = -g[a * ld + a];
    sync();
    for (int c = 0; c < N; c++) {
        double key = INF;
        int best = 0x7fffffff;
        for (int a = lane(); a < m; a += LANES)
            if (angles[a] < key) { key = angles[a]; best = a; }
        team_argmin(key, best);
        sync();
        if (best == 0x7fffffff) {
            for (int a = lane(); a < m; a += LANES) vectors[c * m + a] = 0.0;
            if (lane() == 0) values[c] = 0.0;
            continue;
        }
        for (int a = lane(); a < m; a += LANES) vectors[c * m + a] = full[best * m + a];
        if (lane() == 0) {
            values[c] = g[best * ld + best];
            angles[best] = INF;
        }
        sync();
    }
}

// 8-byte words of a team's memory: search, room, matrix, eigenvectors; `full` with all of them.
DEVICE int frame_words(int capacity, int most, int room, int full) {
    return search_words(capacity, most) + (room + 1) / 2 + room * room + (2 * BLOCK + N) * room +
           2 * BLOCK * BLOCK + N + full * (room * room + 2 * room + 2);
}

KERNEL frame_memory(int capacity, int most, int room, int full, int *out) {
    FOR_EACH(i, 1) *out = frame_words(capacity, most, room, full);
}

// The frames of the vertices of a list. status[i]: 0 done, 1 too little memory, 2 all eigenpairs are needed.
KERNEL local_frames(int n_items, const int *items, int frame_size, int room_size, int row_limit, int most,
                    int capacity, int room_limit, int full, int words, double *scratch, const int *indptr,
                    const int *indices, const double *lengths, const int *near_indices,
                    const double *near_lengths, const unsigned char *forced, double *frame,
                    unsigned char *included, double *spectrum, int *status) {
    FOR_ITEMS(item, n_items) {
        int i = items[item], lo = indptr[i], hi = indptr[i + 1];
        double *memory = scratch ? scratch + (long long)TEAM_NUMBER * words : TEAM_SHARED(words);
        Search s = make_search(memory, capacity);
        memory += search_words(capacity, most);
        int *room = (int *)memory, *place = s.rank;  // entries in the room; place of an entry, once settled
        memory += (room_limit + 1) / 2;
        double *dense = memory, *rows = dense + room_limit * room_limit;
        int found = settle(s, i, room_size, 0, TIE, most, most, indptr, near_indices, near_lengths);
        bool fits = found >= 0;
        sync();
        for (int a = lane(); fits && a < s.count; a += LANES) place[a] = -1;
        sync();
        // 1. The vertices of the frame, and those that paths may lead through.
        int n_room = 0;
        if (fits) {
            if (lane() == 0) { room[0] = 0; place[0] = 0; }
            n_room = 1;
            sync();
            for (int pass = 0; pass < (forced ? 2 : 1); pass++) {
                int end = pass == 0 && hi - lo > row_limit ? lo + row_limit : hi;
                for (int first = lo; fits && first < end; first += LANES) {
                    int e = first + lane(), at = -1, v = -1;
                    bool mine = e < end && (pass == 0 || forced[e]);
                    if (mine) {
                        v = pass == 0 ? near_indices[e] : indices[e];
                        at = look_up(s, v);
                    }
                    bool is_new = mine && at < 0;
                    sync();
                    fits = insert(s, is_new, v, INF, at);
                    if (!fits) break;
                    mine = mine && (is_new || place[at] < 0);
                    int total, rank = team_rank(mine, total);
                    fits = n_room + total <= room_limit;
                    if (fits && mine) { room[n_room + rank] = at; place[at] = n_room + rank; }
                    n_room += total;
                    sync();
                }
            }
        }
        int n_frame = n_room;
        if (fits) {
            double reach = n_room < frame_size ? INF : -1.0;
            for (int a = 0; fits && a < found; a++) {
                int entry = s.order[a];
                if (s.distance[entry] > reach) break;
                bool is_new = place[entry] < 0;
                sync();
                if (is_new) {
                    fits = n_room < room_limit;
                    if (fits && lane() == 0) { room[n_room] = entry; place[entry] = n_room; }
                    n_room++;
                }
                if (n_room >= frame_size && reach == INF) reach = s.distance[entry] * TIE;
                sync();
            }
            n_frame = n_room;
            for (int a = 0; fits && a < found; a++) {
                int entry = s.order[a];
                bool is_new = place[entry] < 0;
                sync();
                if (!is_new) continue;
                fits = n_room < room_limit;
                if (fits && lane() == 0) { room[n_room] = entry; place[entry] = n_room; }
                n_room++;
                sync();
            }
        }
        if (!fits) {
            if (lane() == 0) status[i] = 1;
            sync();
            continue;
        }
        // 2. Geodesics among the frame's vertices: edges, then Floyd-Warshall, outsiders first.
        int ld = n_room, n_hubs = 0;
        for (int a = lane(); a < n_room * ld; a += LANES) dense[a] = a % (ld + 1) == 0 ? 0.0 : INF;
        sync();
        for (int a = 0; a < n_room; a++) {
            int u = s.vertex[room[a]], begin = indptr[u], end = indptr[u + 1];
            if (end - begin > row_limit) { n_hubs++; continue; }
            for (int e = begin + lane(); e < end; e += LANES) {
                int entry = look_up(s, indices[e]);
                int b = entry < 0 ? -1 : place[entry];
                if (b >= 0) dense[a * ld + b] = dense[b * ld + a] = lengths[e];
            }
        }
        for (int a = 0; n_hubs > 1 && a < n_room; a++) {
            int u = s.vertex[room[a]];
            if (indptr[u + 1] - indptr[u] <= row_limit) continue;
            for (int b = lane(); b < a; b += LANES) {
                int v = s.vertex[room[b]];
                if (indptr[v + 1] - indptr[v] <= row_limit) continue;
                int e = find_edge(indices, indptr[u], indptr[u + 1], v);
                if (e >= 0) dense[a * ld + b] = dense[b * ld + a] = lengths[e];
            }
        }
        sync();
        for (int k = n_room - 1; k >= 0; k--) {
            int width = k > n_frame ? k : n_frame;
            for (int v = lane(); v < width; v += LANES) {
                double from_k = dense[k * ld + v];
#ifndef HOST_TWIN
#pragma unroll 4
#endif
                for (int u = 0; u < width; u++) {
                    double t = dense[u * ld + k] + from_k, now = dense[u * ld + v];
                    if (t < now) dense[u * ld + v] = t;
                }
            }
            sync();
        }
        // 3. Gram matrix with the origin at i, in place of the squares.
        int m = n_frame - 1;
        double *gram = dense + ld + 1, power = 0.0;
        for (int u = 0; u < m; u++)
            for (int v = lane(); v < m; v += LANES) {
                double a = dense[u + 1], b = dense[v + 1], d = gram[u * ld + v];
                gram[u * ld + v] = 0.5 * (a * a + b * b - d * d);
                power += gram[u * ld + v] * gram[u * ld + v];
            }
        power = team_sum(power);
        sync();
        // 4. Leading eigenpairs; directions that the neighbourhood does not have stay zero.
        double *image = rows + BLOCK * room_limit, *vectors = rows + 2 * BLOCK * room_limit;
        double *small = vectors + N * room_limit, *rotation = small + BLOCK * BLOCK;
        double *values = rotation + BLOCK * BLOCK, *more = values + N;
        bool settled = block_iteration(gram, ld, m, values, vectors, rows, image, small, rotation);
        sync();
        if (!settled && !full) {
            if (lane() == 0) status[i] = 2;
            sync();
            continue;
        }
        if (!settled) full_spectrum(gram, ld, m, values, vectors, more, more + room_limit * room_limit);
        sync();
        if (lane() == 0) {
            for (int c = 0; c < N; c++)
                spectrum[i * (long long)(N + 1) + c] = c < m ? largest(values[c], 0.0) : 0.0;
            spectrum[i * (long long)(N + 1) + N] = power;
            status[i] = 0;
        }
        double threshold = RANK_TOLERANCE * (m > 0 ? largest(values[0], 0.0) : 0.0);
        for (int e = lo + lane(); e < hi; e += LANES) {
            int entry = look_up(s, indices[e]), b = entry < 0 ? -1 : place[entry] - 1;
            bool has_row = b >= 0 && b < m;
            included[e] = has_row;
            for (int c = 0; c < N; c++) {
                double value = c < m ? largest(values[c], 0.0) : 0.0;
                frame[e * (long long)N + c] = has_row && value > threshold ? vectors[c * m + b] * sqrt(value) : 0.0;
            }
        }
        sync();
    }
}
