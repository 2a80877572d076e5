// Shortest paths from one vertex to its surroundings, by a team. Vertices that were reached are entries of a
// list, found again through a table of hashes.
struct Search {
    int capacity, mask, count;
    double *distance;   // of the entries; as the keys of Dijkstra's algorithm until they are settled
    int *vertex;        // of the entries
    int *rank;          // -1: reached, otherwise the order in which it was settled
    int *table;         // entry by hash, -1 empty
    int *order;         // entries as they were settled
};

// It takes 3 capacity + (most + 1) / 2 words of 8 bytes, `most` being how many are settled, if in order.
DEVICE Search make_search(double *memory, int capacity) {
    Search s;
    s.capacity = capacity;
    s.mask = 2 * capacity - 1;
    s.count = 0;
    s.distance = memory;
    s.vertex = (int *)(memory + capacity);
    s.rank = s.vertex + capacity;
    s.table = s.rank + capacity;
    s.order = s.table + 2 * capacity;
    for (int a = lane(); a <= s.mask; a += LANES) s.table[a] = -1;
    sync();
    return s;
}

DEVICE unsigned slot_of(int v, int mask) { return ((unsigned)v * 2654435761u >> 7) & mask; }

DEVICE int look_up(const Search &s, int v) {
    for (unsigned h = slot_of(v, s.mask);; h = (h + 1) & s.mask) {
        int entry = s.table[h];
        if (entry < 0 || s.vertex[entry] == v) return entry;
    }
}

// New entries for the vertices of those lanes that have one; false if the list is full.
DEVICE bool insert(Search &s, bool is_new, int v, double distance, int &entry) {
    int total, at = s.count + team_rank(is_new, total);
    if (s.count + total > s.capacity) return false;
    if (is_new) {
        entry = at;
        s.vertex[at] = v;
        s.distance[at] = distance;
        s.rank[at] = -1;
        unsigned h = slot_of(v, s.mask);
        while (!claim(&s.table[h], at)) h = (h + 1) & s.mask;
    }
    s.count += total;
    sync();
    return true;
}

// Settle the vertices nearest to i, i first, until `most` are settled or `n_wanted` of those with wanted[v] (0:
// all); those up to `tie` times as far as the last follow. Of every row the first `width` edges are followed.
// Returns how many were settled, -1 if there are too many entries.
DEVICE int settle(Search &s, int i, int n_wanted, const int *wanted, double tie, int width, int most,
                  const int *indptr, const int *indices, const double *lengths) {
    int none;
    insert(s, lane() == 0, i, 0.0, none);
    double reach = INF;
    int count = 0;
    while (count < most) {
        double key = INF;
        int entry = 0x7fffffff;
        for (int a = lane(); a < s.count; a += LANES)
            if (s.rank[a] < 0 && s.distance[a] < key) { key = s.distance[a]; entry = a; }
        team_argmin(key, entry);
        if (entry == 0x7fffffff || key > reach) break;
        int u = s.vertex[entry];
        sync();
        if (lane() == 0) { s.rank[entry] = count; s.order[count] = entry; }
        count++;
        if (!wanted || wanted[u]) {
            n_wanted--;
            if (n_wanted == 0) reach = key * tie;
        }
        int begin = indptr[u], end = indptr[u + 1];
        if (end > begin + width) end = begin + width;
        for (int first = begin; first < end; first += LANES) {
            int e = first + lane(), at = -1, v = -1;
            bool is_new = false;
            double t = 0.0;
            if (e < end) {
                v = indices[e];
                t = key + lengths[e];
                at = look_up(s, v);
                is_new = at < 0;
                if (!is_new && s.rank[at] < 0 && t < s.distance[at]) s.distance[at] = t;
            }
            sync();
            if (!insert(s, is_new, v, t, at)) return -1;
        }
        sync();
    }
    return count;
}
