"""Features and metrics: checked, brought into the form the searches want, equal rows found."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave._validation import check_option, check_real
from isoweave.engines.plain import repeat_and_count
from isoweave.graph._assembly import counting_argsort

MINKOWSKI_P = {"manhattan": 1.0, "euclidean": 2.0, "chebyshev": math.inf}
# So many neighbours, and such a part of all points, are a dense graph.
_MANY_NEIGHBORS, _LARGE_PART = 100, 0.1
_ALIASES = {"l1": "manhattan", "cityblock": "manhattan", "l2": "euclidean", "infinity": "chebyshev"}
# Sparse features are made dense, and searched much faster, as long as they stay under 256 MiB.
_DENSE_ENTRIES = 2**25
_SEED, _ROWS_AT_ONCE, _PARTS = 20_231_107, 1024, 16  # of the hashes

Metric = str | Callable[..., float]
Params = dict[str, Any] | None


@dataclass(frozen=True, eq=False)
class PointGroups:
    """Points sorted into groups of identical ones."""

    members: IntArray  # the points of group 0, of group 1 and so on, each group in rising order
    starts: IntArray  # where each group begins, and where the last ends

    @property
    def n_groups(self) -> int:
        return len(self.starts) - 1

    @property
    def first(self) -> IntArray:
        """Smallest member of each group, shape (n_groups,)."""
        return self.members[self.starts[:-1]]


def group_equal_rows(features: Any, team: ThreadTeam) -> PointGroups:
    """Groups of identical rows, numbered by a hash of the row's contents, whatever order the rows came in.

    Trees, ties between equal distances and samples then do not depend on that order either. Features are a
    float64 array or a canonical CSR array without negative zeros, which have other bits than zero.
    """
    n, hashes = features.shape[0], _hashes(features, team)
    order = _in_order(hashes, team)
    starts, ranked = np.ones(n, dtype=np.bool_), team.take(hashes, order)
    same = np.flatnonzero(ranked[1:] == ranked[:-1])
    # Two different rows have one hash about as likely as n^2 / 2^65; they stay different.
    a, b = features[order[same]], features[order[same + 1]]
    differ = (a != b).sum(axis=1) > 0 if sp.issparse(a) else np.any(a.view("u8") != b.view("u8"), axis=1)
    starts[same + 1] = differ
    return PointGroups(order.astype(np.int32), np.append(np.flatnonzero(starts), n).astype(np.int32))


def _in_order(hashes: AnyArray, team: ThreadTeam) -> AnyArray:
    """Their stable argsort; those with the same first bits are sorted by themselves."""
    which = (hashes >> np.uint64(65 - _PARTS.bit_length())).astype(np.int32)
    order, ends = counting_argsort(which, _PARTS), np.cumsum(np.bincount(which, minlength=_PARTS))

    def sort(start: int, stop: int) -> None:
        for part in range(start, stop):
            at = slice(ends[part - 1] if part else 0, ends[part])
            order[at] = order[at][np.argsort(hashes[order[at]], kind="stable")]

    team.run(sort, _PARTS, grain=1)
    return order


def _hashes(features: Any, team: ThreadTeam) -> AnyArray:
    """One number per row that depends on its contents alone."""
    if sp.issparse(features):
        indices, data = features.indices, features.data
        rows = (indices[a:b].tobytes() + data[a:b].tobytes() for a, b in pairwise(features.indptr))
        return np.frombuffer(b"".join(blake2b(row, digest_size=8).digest() for row in rows), np.uint64)
    hashes, bits = np.empty(len(features), dtype=np.uint64), features.view(np.uint64)
    # Odd ones can be divided by: two rows that differ in one column never have the same hash.
    factors = np.random.default_rng(_SEED).integers(2**64, size=bits.shape[1], dtype=np.uint64) | np.uint64(1)
    team.run(_hash_rows, len(features), bits, factors, hashes)
    return hashes


def _hash_rows(start: int, stop: int, bits: AnyArray, factors: AnyArray, hashes: AnyArray) -> None:
    for lo in range(start, stop, _ROWS_AT_ONCE):
        rows = slice(lo, min(lo + _ROWS_AT_ONCE, stop))
        # Numbers of few digits differ in their first bits only, which a product would lose.
        mixed = bits[rows] ^ (bits[rows] >> np.uint64(22)) ^ (bits[rows] >> np.uint64(44))
        found = (mixed * factors).sum(axis=1, dtype=np.uint64)
        hashes[rows] = found ^ (found >> np.uint64(32))


def spread_neighbors(
    groups: PointGroups, neighbors: IntArray, distances: FloatArray, n_neighbors: int, team: ThreadTeam
) -> tuple[IntArray, IntArray, FloatArray]:
    """Edges (rows, columns, lengths) of points from the nearest neighbours (n_groups, k) of their groups.

    Each point is joined to its own duplicates, up to ``n_neighbors`` of them in cyclic order, so that a
    group hangs together, and to one member at least of every neighbouring group, so that merging duplicates
    leaves the kNN graph of the distinct points; to more, nearest group first, as long as it has fewer than
    ``n_neighbors`` neighbours. In groups of more points than that only the first is joined to other groups:
    thousands of duplicates would make hubs of their neighbours and change nothing else.
    """
    members, starts, k = groups.members, groups.starts, neighbors.shape[1]
    if groups.n_groups == len(members):
        return np.repeat(members, k), team.take(members, neighbors.reshape(-1)), distances.reshape(-1)
    sizes = np.diff(starts)
    twins = np.minimum(sizes - 1, n_neighbors)
    found = np.cumsum(sizes[neighbors], axis=1, dtype=np.int64) - sizes[neighbors]
    take = np.clip(n_neighbors - twins[:, None] - found, 1, sizes[neighbors])

    own = np.repeat(np.arange(groups.n_groups, dtype=np.int32), sizes)
    rank = np.arange(len(own), dtype=np.int32) - starts[own]
    outgoing = np.flatnonzero((twins[own] < n_neighbors) | (rank == 0))
    # One line per (point, neighbouring group), then one per member taken from that group.
    line, step = repeat_and_count(take[own[outgoing]].reshape(-1))
    point = np.repeat(outgoing, k)[line]
    other = neighbors[own[outgoing]].reshape(-1)[line]
    outer_cols = members[starts[other] + (rank[point] + step) % sizes[other]]
    outer_lengths = distances[own[outgoing]].reshape(-1)[line]

    twin, step = repeat_and_count(twins[own])
    inner_cols = members[starts[own[twin]] + (rank[twin] + 1 + step) % sizes[own[twin]]]
    rows = members[np.concatenate([point, twin])]
    lengths = np.concatenate([outer_lengths, np.zeros(len(twin))])
    return rows, np.concatenate([outer_cols, inner_cols]), lengths


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """Distinct points in the form the searches want them, and the way back to the user's distances."""

    points: Any  # float64 (bool for boolean metrics) array or CSR array of shape (n_groups, n_features)
    groups: PointGroups  # which samples each distinct point stands for
    metric: Metric  # between points; plain "euclidean" where the user's is a function of it
    params: dict[str, Any]
    squared: bool = False  # the user asked for squared distances
    cosine: bool = False  # the points were normalised, and the user asked for half of squared distances
    scale: float = 1.0  # power of two the points were divided by, so that squares are finite and positive

    @property
    def is_sparse(self) -> bool:
        return sp.issparse(self.points)

    def to_user(self, distances: FloatArray) -> FloatArray:
        """Distances in the user's metric from those between ``points``."""
        if self.squared:
            return (distances * self.scale) ** 2
        if self.cosine:
            # Parallel rows differ in their last bits once normalised; they are duplicates all the same.
            return np.where(distances < 1e-15, 0.0, 0.5 * distances**2)
        return distances if self.scale == 1.0 else distances * self.scale

    def new_rows(self, X: Any) -> Any:
        """Checked rows in the form of ``points``: dense or sparse, normalised, scaled, boolean."""
        if self.is_sparse:
            return sp.csr_array(X, dtype=np.float64)
        rows = X.toarray() if sp.issparse(X) else np.asarray(X)
        if self.points.dtype == np.bool_:
            return rows != 0
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        if not self.cosine:
            return rows / self.scale
        norms = row_norms(rows)
        bad = ~((norms > 0) & (norms < np.inf))
        if bad.any():
            raise ValueError(
                f"Row {int(np.argmax(bad))} of X has length {norms[bad][0]:g} and no direction, which "
                "metric='cosine' needs. Leave it out."
            )
        return rows / norms[:, None]


def prepare_features(X: Any, metric: Metric, metric_params: Params, team: ThreadTeam) -> FeatureSpace:
    """Check features and metric, and find the distinct points."""
    name, params = _check_metric(metric, metric_params)
    features = _check_features(X, name)
    if name == "haversine" and features.shape[1] != 2:
        raise ValueError(
            f"metric='haversine' is for latitude and longitude in radians, got {features.shape[1]} features."
        )
    squared = cosine = boolean = False
    scale = 1.0
    if name != "euclidean":
        # scikit-learn's neighbours and metrics take longer to load than most of a small fit.
        from sklearn.metrics.pairwise import PAIRWISE_BOOLEAN_FUNCTIONS

        boolean = name in PAIRWISE_BOOLEAN_FUNCTIONS
    if boolean:
        features = (features != 0).astype(np.float64)
    elif name in ("seuclidean", "mahalanobis") and not params and not sp.issparse(features):
        params = _spread(name, features)
    elif name == "cosine" and not params and not sp.issparse(features):
        norms = row_norms(features)
        # A row of zeros has no direction; what then happens is left to scikit-learn.
        if norms.min() > 0 and norms.max() < math.inf:
            features, name, cosine = features / norms[:, None], "euclidean", True
    elif name in ("euclidean", "sqeuclidean") and not params:
        squared, name = name == "sqeuclidean", "euclidean"
        largest = max(float(features.max()), -float(features.min()))
        if largest > 2.0**400 or 0 < largest < 2.0**-400:
            scale = math.ldexp(1.0, min(math.frexp(largest)[1], 1023))
            features = features / scale
    groups = group_equal_rows(features, team)
    points = features[groups.first] if sp.issparse(features) else team.take(features, groups.first)
    if boolean:
        points = points.astype(np.bool_)
    if metric_params and not callable(name):
        _check_params(name, params, points[:1])
    return FeatureSpace(points, groups, name, params, squared, cosine, scale)


def check_sizes(X: Any, n_components: int, n_neighbors: int, metric: Metric) -> None:
    """Warn of a map of more dimensions than the features have, and of a graph that joins nearly all."""
    n, d = X.shape
    said = []
    # One column in a picture is no mistake.
    if max(d, 2) < n_components and metric == "euclidean":
        said += [
            f"n_components={n_components}, but the features have {d} columns: no map of them needs more."
        ]
    if max(_MANY_NEIGHBORS, _LARGE_PART * n) <= n_neighbors < n:
        said += [
            f"n_neighbors={n_neighbors} joins each of {n} points to a large part of all: the time it takes "
            "grows with its square, and it makes chords of curved data. 10 to 30 are usual."
        ]
    for text in said:
        warnings.warn(text, UserWarning, stacklevel=5)


def row_norms(rows: FloatArray) -> FloatArray:
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


def _check_metric(metric: Metric, metric_params: Params) -> tuple[Metric, dict[str, Any]]:
    if metric_params is not None and not isinstance(metric_params, dict):
        raise TypeError(f"metric_params must be a dict or None, got {type(metric_params).__name__}.")
    params = dict(metric_params or {})
    if callable(metric):
        return metric, params
    if isinstance(metric, str) and metric == "precomputed":
        raise ValueError(
            "metric='precomputed' is for distances, not features: use graph_from_matrix for a sparse "
            "distance graph or knn_from_distances for a full distance matrix."
        )
    if isinstance(metric, str) and metric == "euclidean":
        return metric, params
    from sklearn.neighbors import VALID_METRICS

    known = (set(VALID_METRICS["brute"]) | set(_ALIASES)) - {"precomputed"}
    name = check_option("metric", metric, sorted(known))
    name = _ALIASES.get(name, name)
    if name == "minkowski":
        p = params.setdefault("p", 2)
        if not (isinstance(p, float) and p == math.inf):
            check_real("metric_params['p']", p, minimum=1)
        for simpler, exponent in MINKOWSKI_P.items():
            if p == exponent and params.get("w") is None:
                return simpler, {}
    return name, params


def _check_params(metric: str, params: dict[str, Any], point: Any) -> None:
    """Refuse what the metric does not take, by the distance of one point from itself."""
    from sklearn.metrics import pairwise_distances

    try:
        pairwise_distances(point, point, metric=metric, **params)
    except (TypeError, ValueError) as error:
        names = ", ".join(map(str, params))
        raise type(error)(f"metric_params ({names}) do not fit metric={metric!r}: {error}") from error


def _spread(metric: Metric, features: FloatArray) -> dict[str, Any]:
    """What a metric takes from the data, before duplicates are left out and blocks are cut."""
    if metric == "seuclidean":
        return {"V": np.var(features, axis=0, ddof=1)}
    covariance = np.atleast_2d(np.cov(features.T))
    if np.linalg.matrix_rank(covariance) < len(covariance):
        raise ValueError(
            f"metric='mahalanobis' needs the inverse of the covariance of the {len(covariance)} features, "
            "which is singular. Pass metric_params={'VI': ...} or leave out dependent features."
        )
    return {"VI": np.linalg.inv(covariance)}


def _check_features(X: Any, metric: Metric) -> Any:
    """Finite float64 features, dense or canonical CSR, without negative zeros."""
    from sklearn.utils import check_array

    wanted: Any = {"ensure_all_finite": False, "ensure_min_samples": 2, "input_name": "X"}
    features = check_array(X, accept_sparse="csr", dtype=np.float64, **wanted)
    if sp.issparse(features):
        features = sp.csr_array(features, copy=True)
        features.sum_duplicates()
        features.eliminate_zeros()
        if features.shape[0] * features.shape[1] <= _DENSE_ENTRIES:
            features = features.toarray()
    is_bad = np.isinf if metric == "nan_euclidean" else lambda values: ~np.isfinite(values)
    if is_bad(features.data if sp.issparse(features) else features).any():
        entries = sp.coo_array(features)
        at = int(np.argmax(is_bad(entries.data)))
        row, col, value = entries.row[at], entries.col[at], entries.data[at]
        remedy = " or use metric='nan_euclidean'" if np.isnan(value) else ""
        raise ValueError(
            f"Input X contains {'NaN' if np.isnan(value) else 'infinity'}: X[{row}, {col}] is {value}. "
            f"Remove or impute such values{remedy}."
        )
    return features if sp.issparse(features) else np.ascontiguousarray(features) + 0.0
