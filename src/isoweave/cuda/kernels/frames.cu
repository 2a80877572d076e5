// Local frames: engines.local_mds for the device. Teams find the room of every vertex, the vertices of its frame
// and those that paths may lead through, and then its frame, in memory of their own.
#include "common.cuh"
#include "search.cuh"
#define BLOCK (N + 2)
#define MAX_SWEEPS 40
#define TOLERANCE 1e-11
#define RANK_TOLERANCE 1e-10
#define TIE (1.0 + 1e-9)
// Lanes that share a row of the graph.
#define GROUP (LANES < 8 ? 1 : 8)

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

// The rooms of the vertices of a list, which have slots in the tables: rooms[k] holds them in order, the first
// n_frames[k] of n_rooms[k] are the frame. status[i]: 4 found, 1 too many entries, 3 too large a room.
KERNEL find_rooms(int n_items, const int *items, const int *slots, int frame_size, int room_size, int row_limit,
                  int most, int capacity, int room_limit, int words, double *scratch, const int *indptr,
                  const int *indices, const int *near_indices, const double *near_lengths,
                  const unsigned char *forced, int *rooms, int *n_frames, int *n_rooms, int *status) {
    FOR_ITEMS(item, n_items) {
        int i = items[item], lo = indptr[i], hi = indptr[i + 1], why = 1;
        Search s = make_search(scratch ? scratch + (long long)TEAM_NUMBER * words : TEAM_SHARED(words), capacity);
        int *room = rooms + slots[item] * (long long)room_limit, *taken = s.rank;
        int found = settle(s, i, room_size, 0, TIE, most, most, indptr, near_indices, near_lengths);
        bool fits = found >= 0;
        sync();
        // From here on ranks say whether an entry is in the room.
        for (int a = lane(); fits && a < s.count; a += LANES) taken[a] = a == 0 ? 0 : -1;
        sync();
        if (lane() == 0) room[0] = i;
        int n_room = 1;
        for (int pass = 0; fits && pass < (forced ? 2 : 1); pass++) {
            int end = pass == 0 && hi - lo > row_limit ? lo + row_limit : hi;
            for (int begin = lo; fits && begin < end; begin += LANES) {
                int e = begin + lane(), at = -1, v = -1;
                bool mine = e < end && (pass == 0 || forced[e]);
                if (mine) {
                    v = pass == 0 ? near_indices[e] : indices[e];
                    at = look_up(s, v);
                }
                bool is_new = mine && at < 0;
                sync();
                fits = insert(s, is_new, v, INF, at);
                if (!fits) break;
                mine = mine && taken[at] < 0;
                int total, rank = team_rank(mine, total);
                if (n_room + total > room_limit) { fits = false; why = 3; }
                if (fits && mine) { room[n_room + rank] = v; taken[at] = 0; }
                n_room += total;
                sync();
            }
        }
        int n_frame = n_room;
        double reach = n_room < frame_size ? INF : -1.0;
        // First those of the frame, in order of distance with ties, then the others.
        for (int pass = 0; pass < 2; pass++) {
            for (int a = 0; fits && a < found; a++) {
                int entry = s.order[a];
                if (pass == 0 && s.distance[entry] > reach) break;
                bool is_new = taken[entry] < 0;
                sync();
                if (is_new) {
                    if (n_room == room_limit) { fits = false; why = 3; }
                    else if (lane() == 0) { room[n_room] = s.vertex[entry]; taken[entry] = 0; }
                    n_room++;
                }
                if (pass == 0 && n_room >= frame_size && reach == INF) reach = s.distance[entry] * TIE;
                sync();
            }
            if (pass == 0) n_frame = n_room;
        }
        if (lane() == 0) {
            status[i] = fits ? 4 : why;
            n_frames[slots[item]] = n_frame;
            n_rooms[slots[item]] = n_room;
        }
        sync();
    }
}

// 8-byte words of a team's memory: table of the room and the room, distances (then eigenvectors), one column of
// them, vectors of the block iteration; with `full` the square Gram matrix
// and work of its decomposition.
DEVICE int matrix_words(int room, int frame, int full) {
    int triangle = room * (room + 1) / 2;
    return full && frame * frame > triangle ? frame * frame : triangle;
}

DEVICE int frame_words(int size, int room, int frame, int full) {
    return size + (room + 1) / 2 + matrix_words(room, frame, full) + room + (2 * BLOCK + N) * frame +
           2 * BLOCK * BLOCK + N + full * (frame * frame + 7 * frame);
}

KERNEL frame_memory(int size, int room, int frame, int full, int *out) {
    FOR_EACH(i, 1) *out = frame_words(size, room, frame, full);
}

DEVICE int place_of(const int *table, int mask, const int *room, int v) {
    for (unsigned h = slot_of(v, mask);; h = (h + 1) & mask) {
        int place = table[h];
        if (place < 0 || room[place] == v) return place;
    }
}

// The frames of the vertices of a list from their rooms, which have room_limit places each, a power of two no
// smaller being `size`. status[i]: 0 done, 2 all eigenpairs are needed, 3 more than frame_limit in the frame.
KERNEL local_frames(int n_items, const int *items, const int *slots, int row_limit, int room_limit, int size,
                    int frame_limit, int full, int words, double *scratch, const int *indptr,
                    const int *indices, const double *lengths, const int *rooms, const int *n_frames,
                    const int *n_rooms, double *frame, unsigned char *included, double *spectrum,
                    int *status) {
    FOR_ITEMS(item, n_items) {
        int i = items[item], lo = indptr[i], hi = indptr[i + 1];
        int n_frame = n_frames[slots[item]], n_room = n_rooms[slots[item]], m = n_frame - 1, mask = 2 * size - 1;
        if (m > frame_limit) {
            if (lane() == 0) status[i] = 3;
            continue;
        }
        double *memory = scratch ? scratch + (long long)TEAM_NUMBER * words : TEAM_SHARED(words);
        int *table = (int *)memory, *room = table + 2 * size, n_hubs = 0;
        double *dense = memory + size + (room_limit + 1) / 2;
        double *column = dense + matrix_words(room_limit, frame_limit, full);
        for (int a = lane(); a <= mask; a += LANES) table[a] = -1;
        for (int a = lane(); a < n_room; a += LANES) room[a] = rooms[slots[item] * (long long)room_limit + a];
        sync();
        for (int a = lane(); a < n_room; a += LANES) {
            unsigned h = slot_of(room[a], mask);
            while (!claim(&table[h], a)) h = (h + 1) & mask;
        }
        // 1. Geodesics among the frame's vertices: edges, then Floyd-Warshall, outsiders first.
        for (int a = lane(); a < n_room * (n_room + 1) / 2; a += LANES) dense[a] = INF;
        sync();
        // Several rows at once: most of the time goes into waiting for them.
        for (int a = lane() / GROUP; a < n_room; a += LANES / GROUP) {
            int u = room[a], begin = indptr[u], end = indptr[u + 1];
            dense[packed(a, a)] = 0.0;
            if (end - begin > row_limit) { n_hubs++; continue; }
            for (int e = begin + lane() % GROUP; e < end; e += GROUP) {
                int b = place_of(table, mask, room, indices[e]);
                if (b >= 0) dense[packed(a, b)] = lengths[e];
            }
        }
        n_hubs = (int)team_sum(n_hubs) / GROUP;
        for (int a = 0; n_hubs > 1 && a < n_room; a++) {
            int u = room[a];
            if (indptr[u + 1] - indptr[u] <= row_limit) continue;
            for (int b = lane(); b < a; b += LANES) {
                int v = room[b];
                if (indptr[v + 1] - indptr[v] <= row_limit) continue;
                int e = find_edge(indices, indptr[u], indptr[u + 1], v);
                if (e >= 0) dense[packed(a, b)] = lengths[e];
            }
        }
        sync();
        for (int k = n_room - 1; k >= 0; k--) {
            int width = k > n_frame ? k : n_frame;
            for (int v = lane(); v < width; v += LANES) column[v] = dense[packed(k, v)];
            sync();
            for (int begin = 0; begin < width; begin += LANES) {
                int v = begin + lane();
                double from_k = v < width ? column[v] : INF;
                // Four rows at a time: all are read before any is written, so that none waits for another.
                for (int u = begin; u < width; u += 4) {
                    double t[4], now[4];
                    for (int b = 0; b < 4; b++) {
                        bool mine = u + b < width && v <= u + b;
                        t[b] = mine ? column[u + b] + from_k : INF;
                        now[b] = mine ? dense[packed(u + b, v)] : 0.0;
                    }
                    for (int b = 0; b < 4; b++)
                        if (t[b] < now[b]) dense[packed(u + b, v)] = t[b];
                }
            }
            sync();
        }
        // 2. Gram matrix with the origin at i, in place of the squares.
        double power = 0.0;
        for (int u = 0; u < m; u++)
            for (int v = lane(); v <= u; v += LANES) {
                double a = dense[packed(u + 1, 0)], b = dense[packed(v + 1, 0)], d = gram_at(dense, u, v);
                double value = 0.5 * (a * a + b * b - d * d);
                dense[packed(u + 1, v + 1)] = value;
                power += value * value * (u == v ? 1.0 : 2.0);
            }
        power = team_sum(power);
        sync();
        // 3. Leading eigenpairs; directions that the neighbourhood does not have stay zero.
        double *rows = column + room_limit, *image = rows + BLOCK * frame_limit, *vectors = image + BLOCK * frame_limit;
        double *small = vectors + N * frame_limit, *rotation = small + BLOCK * BLOCK;
        double *values = rotation + BLOCK * BLOCK, *square = values + N;
        bool settled = block_iteration(dense, m, values, vectors, rows, image, small, rotation);
        sync();
        if (!settled && !full) {
            if (lane() == 0) status[i] = 2;
            sync();
            continue;
        }
        if (!settled) {
            for (int a = lane(); a < m * m; a += LANES) square[a] = gram_at(dense, a / m, a % m);
            sync();
            full_spectrum(square, m, values, vectors, dense, square + frame_limit * frame_limit);
        }
        sync();
        if (lane() == 0) {
            for (int c = 0; c < N; c++)
                spectrum[i * (long long)(N + 1) + c] = c < m ? largest(values[c], 0.0) : 0.0;
            spectrum[i * (long long)(N + 1) + N] = power;
            status[i] = 0;
        }
        double threshold = RANK_TOLERANCE * (m > 0 ? largest(values[0], 0.0) : 0.0);
        for (int e = lo + lane(); e < hi; e += LANES) {
            int b = place_of(table, mask, room, indices[e]) - 1;
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
