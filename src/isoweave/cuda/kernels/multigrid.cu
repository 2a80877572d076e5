// Setting up multigrid: the Laplacian, aggregates around a maximal set of vertices three steps apart.
#include "common.cuh"
typedef unsigned long long ticket;
#define STATE(t) ((t) >> 62)

// Rows of the Laplacian, the diagonal first: both[e] are the weights of the two directions, `more` may add.
KERNEL laplacian(int n, const int *indptr, const int *indices, const double *both, const double *more,
                 int *starts, int *columns, double *data) {
    FOR_EACH(i, n + 1LL) {
        starts[i] = indptr[i] + (int)i;
        if (i == n) continue;
        double total = 0.0;
        int at = indptr[i] + (int)i;
        for (int e = indptr[i]; e < indptr[i + 1]; e++) {
            total += both[e];
            columns[at + 1 + e - indptr[i]] = indices[e];
            data[at + 1 + e - indptr[i]] = -both[e];
        }
        columns[at] = (int)i;
        data[at] = more ? total + more[i] : total;
    }
}

KERNEL diagonal(int n, const int *indptr, const int *indices, const double *data, double *out) {
    FOR_EACH(i, n) {
        out[i] = 0.0;
        for (int e = indptr[i]; e < indptr[i + 1]; e++) if (indices[e] == i) out[i] += data[e];
    }
}

// The data with entries at rows of over `most` entries added to the diagonal, so that rows keep their sums.
KERNEL leave_hubs(int n, double most, const int *indptr, const int *indices, const double *data, double *out) {
    FOR_EACH(i, n) {
        bool hub = indptr[i + 1] - indptr[i] > most;
        double lost = 0.0;
        int own = -1;
        for (int e = indptr[i]; e < indptr[i + 1]; e++) {
            int j = indices[e];
            bool leaves = j != i && (hub || indptr[j + 1] - indptr[j] > most);
            if (j == i) own = e;
            if (leaves) lost += data[e];
            out[e] = leaves ? 0.0 : data[e];
        }
        if (own >= 0) out[own] += lost;
    }
}

// 2: in the set, 1: undecided, 0: near one that is; then a scrambled number, then the vertex.
KERNEL draw_tickets(int n, ticket *tickets) {
    FOR_EACH(i, n) {
        ticket h = (ticket)i + 0x9e3779b97f4a7c15ULL;
        h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
        h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
        tickets[i] = 1ULL << 62 | (h >> 34) << 32 | (ticket)i;
    }
}

KERNEL largest_ticket(int n, const int *indptr, const int *indices, const double *data, const ticket *from,
                      ticket *to) {
    FOR_EACH(i, n) {
        ticket best = from[i];
        for (int e = indptr[i]; e < indptr[i + 1]; e++) {
            ticket other = from[indices[e]];
            if (other > best && data[e] != 0.0) best = other;
        }
        to[i] = best;
    }
}

KERNEL decide(int n, const ticket *around, ticket *tickets, int *undecided) {
    FOR_EACH(i, n) {
        ticket mine = tickets[i];
        if (STATE(mine) != 1) continue;
        if (around[i] == mine) tickets[i] = mine + (1ULL << 62);
        else if (STATE(around[i]) == 2) tickets[i] = mine - (1ULL << 62);
        else *undecided = 1;
    }
}

KERNEL is_root(int n, const ticket *tickets, int *out) {
    FOR_EACH(i, n) out[i] = STATE(tickets[i]) == 2;
}

// The aggregate of the neighbour with the strongest entry that has one; `number` counts roots up to each.
KERNEL join(int n, int first, const int *indptr, const int *indices, const double *data, const int *root,
            const int *number, const int *from, int *to) {
    FOR_EACH(i, n) {
        int mine = first ? (root[i] ? number[i] - 1 : -1) : from[i];
        if (mine < 0) {
            double best = 0.0;
            for (int e = indptr[i]; e < indptr[i + 1]; e++) {
                int j = indices[e], its = first ? (root[j] ? number[j] - 1 : -1) : from[j];
                double strength = fabs(data[e]);
                if (j == i || its < 0 || strength == 0.0) continue;
                if (strength > best || (strength == best && its < mine)) { best = strength; mine = its; }
            }
        }
        to[i] = mine;
    }
}

// (I - w D^-1 A) for the aggregates, entries not yet merged: keys are row * n_coarse + aggregate.
KERNEL smoothed_entries(int n, int n_coarse, double w, const int *indptr, const int *indices,
                        const double *data, const double *inverse, const int *aggregate, long long *keys,
                        double *values) {
    FOR_EACH(i, n)
        for (int e = indptr[i]; e < indptr[i + 1]; e++) {
            keys[e] = i * n_coarse + aggregate[indices[e]];
            values[e] = (indices[e] == i ? 1.0 : 0.0) - w * inverse[i] * data[e];
        }
}

// Sums of runs of equal keys, which begin at `starts`; `order` sorts the values by key.
KERNEL sum_runs(int n_runs, int n, const int *starts, const long long *order, const double *values,
                double *out) {
    FOR_EACH(k, n_runs) {
        int end = k + 1 < n_runs ? starts[k + 1] : n;
        double total = 0.0;
        for (int a = starts[k]; a < end; a++) total += values[order[a]];
        out[k] = total;
    }
}
