// Local frames: engines.local_mds for the device. Teams find the room of every vertex, the vertices of its frame
// and those that paths may lead through, and then its frame, in memory of their own.
#include "common.cuh"
#include "search.cuh"
#include "eigen.cuh"
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
