// The shortcut filter: shared neighbourhoods, and detours of trusted edges.
#include "common.cuh"
#include "search.cuh"

DEVICE bool has_neighbor(const int *indices, int lo, int end, int v, int &at) {
    int hi = end;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (indices[mid] < v) lo = mid + 1;
        else hi = mid;
    }
    at = lo;
    return lo < end && indices[lo] == v;
}

// Of the two ends the one with fewer neighbours first, as engines.paths has it.
DEVICE void by_degree(const int *indptr, int i, int j, int &fewer, int &more) {
    bool swap = indptr[i + 1] - indptr[i] > indptr[j + 1] - indptr[j];
    fewer = swap ? j : i;
    more = swap ? i : j;
}

KERNEL common_neighbors(int m, const int *sources, const int *indptr, const int *indices, int *counts,
                        double *share) {
    FOR_EACH(e, m) {
        int fewer, more, at, count = 0;
        by_degree(indptr, sources[e], indices[e], fewer, more);
        for (int a = indptr[fewer]; a < indptr[fewer + 1]; a++)
            count += has_neighbor(indices, indptr[more], indptr[more + 1], indices[a], at);
        counts[e] = count;
        share[e] = count / (double)(indptr[fewer + 1] - indptr[fewer]);
    }
}

// Whether a common neighbour makes a detour within the limit, for the suspects: 1 yes, 0 no.
KERNEL short_detours(int n, const int *suspects, const double *limits, const int *sources, const int *indptr,
                     const int *indices, const double *lengths, const unsigned char *trusted, int *found) {
    FOR_EACH(s, n) {
        int fewer, more, b;
        double limit = limits[s];
        by_degree(indptr, sources[suspects[s]], indices[suspects[s]], fewer, more);
        found[s] = 0;
        for (int a = indptr[fewer]; a < indptr[fewer + 1] && !found[s]; a++)
            if (trusted[a] && lengths[a] <= limit &&
                has_neighbor(indices, indptr[more], indptr[more + 1], indices[a], b) && trusted[b] &&
                lengths[a] + lengths[b] <= limit)
                found[s] = 1;
    }
}

// The same by paths of any number of edges, for the suspects of a list: 2 undecided, the ball is too large; -1
// there was too little memory.
KERNEL find_detours(int n_items, const int *items, const int *suspects, const double *limits, int max_settled,
                    int max_scanned, int capacity, int words, double *scratch, const int *sources,
                    const int *indptr, const int *indices, const double *lengths,
                    const unsigned char *trusted, int *found) {
    FOR_ITEMS(item, n_items) {
        int k = items[item], goal = indices[suspects[k]], settled = 0, scanned = 0, answer = 0, none;
        double limit = limits[k];
        Search s = make_search(scratch ? scratch + (long long)TEAM_NUMBER * words : TEAM_SHARED(words), capacity);
        insert(s, lane() == 0, sources[suspects[k]], 0.0, none);
        while (true) {
            double key = INF;
            int entry = 0x7fffffff;
            for (int a = lane(); a < s.count; a += LANES)
                if (s.rank[a] < 0 && s.distance[a] < key) { key = s.distance[a]; entry = a; }
            team_argmin(key, entry);
            if (entry == 0x7fffffff) break;
            int u = s.vertex[entry], begin = indptr[u], end = indptr[u + 1];
            sync();
            if (lane() == 0) s.rank[entry] = settled;
            if (u == goal) { answer = 1; break; }
            settled++;
            scanned += end - begin;
            if (settled > max_settled || scanned > max_scanned) { answer = 2; break; }
            bool fits = true;
            for (int first = begin; first < end && fits; first += LANES) {
                int e = first + lane(), at = -1, v = -1;
                bool is_new = false;
                double t = 0.0;
                if (e < end && trusted[e] && key + lengths[e] <= limit) {
                    v = indices[e];
                    t = key + lengths[e];
                    at = look_up(s, v);
                    is_new = at < 0;
                    if (!is_new && s.rank[at] < 0 && t < s.distance[at]) s.distance[at] = t;
                }
                sync();
                fits = insert(s, is_new, v, t, at);
            }
            if (!fits) { answer = -1; break; }
            sync();
        }
        if (lane() == 0) found[k] = answer;
        sync();
    }
}

// Length of the shortest way over a common neighbour, for some edges.
KERNEL shortest_detours(int n, const int *edges, const int *sources, const int *indptr, const int *indices,
                        const double *lengths, double *detours) {
    FOR_EACH(s, n) {
        int fewer, more, b;
        double best = INF;
        by_degree(indptr, sources[edges[s]], indices[edges[s]], fewer, more);
        for (int a = indptr[fewer]; a < indptr[fewer + 1]; a++)
            if (has_neighbor(indices, indptr[more], indptr[more + 1], indices[a], b) &&
                lengths[a] + lengths[b] < best)
                best = lengths[a] + lengths[b];
        detours[s] = best;
    }
}

// Labels of connected components: the smallest vertex number spreads to the neighbours, and to the vertex that
// gave a label its name, so that whole trees of labels move at once; `changed` says whether one did.
KERNEL spread_labels(int n, const int *indptr, const int *indices, const unsigned char *used, int *labels,
                     int *changed) {
    FOR_EACH(i, n) {
        int before = ((volatile int *)labels)[i], best = ((volatile int *)labels)[before];
        for (int e = indptr[i]; e < indptr[i + 1]; e++) {
            if (used && !used[e]) continue;
            int other = ((volatile int *)labels)[((volatile int *)labels)[indices[e]]];
            if (other < best) best = other;
        }
        if (best < before) {
            lower(&labels[before], best);
            lower(&labels[i], best);
            *changed = 1;
        }
    }
}
