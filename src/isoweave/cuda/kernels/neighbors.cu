// Nearest neighbours of points in N dimensions: points in Morton order, LEAF of them in a leaf of a complete
// binary tree of boxes (node 1 is the root, node i has children 2 i and 2 i + 1).
#include "common.cuh"

#define LEAF 8
#define MOST_NEAREST 64
#define MOST_LEVELS 32

// The cell of every point in a grid of 2^bits cells along each axis, as its number on the Morton curve.
KERNEL morton_keys(int n, int bits, double per_unit, const double *points, const double *least,
                   unsigned long long *keys) {
    FOR_EACH(i, n) {
        unsigned long long cell[N], most = (1ULL << bits) - 1, key = 0;
        for (int c = 0; c < N; c++) {
            double at = (points[i * N + c] - least[c]) * per_unit;
            cell[c] = at > 0.0 ? (unsigned long long)at : 0ULL;
            if (cell[c] > most) cell[c] = most;
        }
        for (int bit = bits - 1; bit >= 0; bit--)
            for (int c = 0; c < N; c++) key = key << 1 | (cell[c] >> bit & 1ULL);
        keys[i] = key;
    }
}

// Boxes of the nodes first .. last - 1: of their points for leaves, otherwise of their children. Empty ones are
// as far away as can be.
KERNEL make_boxes(int n, int first, int last, int is_leaf, const double *points, double *boxes) {
    FOR_EACH(at, last - first) {
        long long node = first + at;
        double *box = boxes + node * 2 * N;
        for (int c = 0; c < N; c++) {
            double low = INF, high = -INF;
            long long begin = is_leaf ? at * LEAF : 2 * node, end = begin + (is_leaf ? LEAF : 2);
            if (is_leaf && end > n) end = n;
            for (long long j = begin; j < end; j++) {
                double below = is_leaf ? points[j * N + c] : boxes[j * 2 * N + c];
                double above = is_leaf ? below : boxes[j * 2 * N + N + c];
                if (below < low) low = below;
                if (above > high) high = above;
            }
            box[c] = low;
            box[N + c] = high;
        }
    }
}

// In the order of scipy's cKDTree: four sums over whole fours, then the rest.
DEVICE double sum_of_squares(const double *steps) {
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
    for (int c = 0; c < N / 4 * 4; c++) sums[c % 4] += steps[c] * steps[c];
    double total = sums[0] + sums[1] + sums[2] + sums[3];
    for (int c = N / 4 * 4; c < N; c++) total += steps[c] * steps[c];
    return total;
}

// Never more than the rounded square of the distance to a point inside.
DEVICE double square_to_box(const double *x, const double *box) {
    double gaps[N];
    for (int c = 0; c < N; c++) gaps[c] = largest(largest(box[c] - x[c], x[c] - box[N + c]), 0.0);
    return sum_of_squares(gaps);
}

// The k nearest other points of all points, numbered as the caller has them (order). is_unclear: a point lies
// on another one, or the last place is shared.
KERNEL nearest(int n, int k, int n_leaves, const double *points, const double *boxes, const int *order,
               int *neighbors, double *distances, int *is_unclear) {
    FOR_EACH(i, n) {
        double x[N], best[MOST_NEAREST], far[MOST_LEVELS];
        int who[MOST_NEAREST], node[MOST_LEVELS], depth = 1;
        for (int c = 0; c < N; c++) x[c] = points[i * N + c];
        for (int a = 0; a <= k; a++) { best[a] = INF; who[a] = -1; }
        node[0] = 1;
        far[0] = 0.0;
        while (depth > 0) {
            depth--;
            if (far[depth] > best[k] || best[0] == 0.0) continue;
            int here = node[depth];
            if (here < n_leaves) {
                double left = square_to_box(x, boxes + 4LL * here * N);
                double right = square_to_box(x, boxes + (4LL * here + 2) * N);
                bool is_left = left <= right;
                // The nearer one is on top.
                node[depth] = 2 * here + is_left;
                far[depth] = is_left ? right : left;
                node[depth + 1] = 2 * here + !is_left;
                far[depth + 1] = is_left ? left : right;
                depth += 2;
                continue;
            }
            long long begin = (here - n_leaves) * (long long)LEAF, end = begin + LEAF;
            if (end > n) end = n;
            for (long long j = begin; j < end; j++) {
                double steps[N];
                for (int c = 0; c < N; c++) steps[c] = x[c] - points[j * N + c];
                double square = sum_of_squares(steps);
                if (j == i || !(square < best[k])) continue;
                int a = k;
                for (; a > 0 && best[a - 1] > square; a--) {
                    best[a] = best[a - 1];
                    who[a] = who[a - 1];
                }
                best[a] = square;
                who[a] = (int)j;
            }
        }
        if (best[0] == 0.0 || best[k] == best[k - 1]) *is_unclear = 1;
        long long row = order[i] * (long long)k;
        for (int a = 0; a < k; a++) {
            neighbors[row + a] = who[a] < 0 ? -1 : order[who[a]];
            distances[row + a] = sqrt(best[a]);
        }
    }
}
