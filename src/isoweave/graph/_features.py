"""Features and metrics: checked, brought into the form the searches want, equal rows found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import PAIRWISE_BOOLEAN_FUNCTIONS
from sklearn.neighbors import VALID_METRICS
from sklearn.utils import check_array

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray
from isoweave._validation import check_option, check_real
from isoweave.graph._duplicates import PointGroups, group_equal_rows

MINKOWSKI_P = {"manhattan": 1.0, "euclidean": 2.0, "chebyshev": math.inf}
METRIC_ALIASES = {"l1": "manhattan", "cityblock": "manhattan", "l2": "euclidean", "infinity": "chebyshev"}
# Sparse features are made dense, and searched much faster, as long as they stay under 256 MiB.
_DENSE_ENTRIES = 2**25

Metric = str | Callable[..., float]


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """Distinct points in the form the searches want them, and the way back to the user's distances.

    Attributes
    ----------
    points : float64 (bool for boolean metrics) array or CSR array of shape (n_groups, n_features)
    groups : PointGroups
        Which samples each distinct point stands for.
    metric : str or callable
        Metric between ``points``; plain "euclidean" where the user's is a function of it.
    params : dict
        Its keyword arguments.
    squared : bool
        The user asked for squared distances.
    cosine : bool
        The points were normalised, and the user asked for half of squared distances.
    scale : float
        Power of two the points were divided by, so that squares neither overflow nor vanish.
    """

    points: Any
    groups: PointGroups
    metric: Metric
    params: dict[str, Any]
    squared: bool = False
    cosine: bool = False
    scale: float = 1.0

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
        return distances * self.scale

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
        norms = _norms(rows)
        bad = ~((norms > 0) & (norms < np.inf))
        if bad.any():
            raise ValueError(
                f"Row {int(np.argmax(bad))} of X has length {norms[bad][0]:g} and no direction, which "
                "metric='cosine' needs. Leave it out."
            )
        return rows / norms[:, None]


def prepare_features(
    X: Any, metric: Metric, metric_params: dict[str, Any] | None, team: ThreadTeam
) -> FeatureSpace:
    """Check features and metric, and find the distinct points."""
    name, params = _check_metric(metric, metric_params)
    features = _check_features(X, name)
    params = _complete_params(name, params, features)
    squared = cosine = False
    scale = 1.0
    boolean = name in PAIRWISE_BOOLEAN_FUNCTIONS
    if boolean:
        features = (features != 0).astype(np.float64)
    elif name == "cosine" and not params and not sp.issparse(features):
        norms = _norms(features)
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
    points = features[groups.first]
    if boolean:
        points = points.astype(np.bool_)
    return FeatureSpace(points, groups, name, params, squared, cosine, scale)


def _norms(rows: FloatArray) -> FloatArray:
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


def _check_metric(metric: Metric, metric_params: dict[str, Any] | None) -> tuple[Metric, dict[str, Any]]:
    if metric_params is not None and not isinstance(metric_params, dict):
        raise TypeError(f"metric_params must be a dict or None, got {type(metric_params).__name__}.")
    params = dict(metric_params or {})
    if callable(metric):
        return metric, params
    if metric == "precomputed":
        raise ValueError(
            "metric='precomputed' is for distances, not features: use graph_from_matrix for a sparse "
            "distance graph or knn_from_distances for a full distance matrix."
        )
    known = (set(VALID_METRICS["brute"]) | set(METRIC_ALIASES)) - {"precomputed"}
    name = check_option("metric", metric, sorted(known))
    name = METRIC_ALIASES.get(name, name)
    if name == "minkowski":
        p = params.setdefault("p", 2)
        if p != math.inf:
            check_real("metric_params['p']", p, minimum=1)
        for simpler, exponent in MINKOWSKI_P.items():
            if p == exponent and params.get("w") is None:
                return simpler, {}
    return name, params


def _complete_params(metric: Metric, params: dict[str, Any], features: Any) -> dict[str, Any]:
    """Fill in what a metric takes from the data, before duplicates are left out and blocks are cut."""
    if sp.issparse(features):
        return params
    if metric == "seuclidean" and "V" not in params:
        return params | {"V": np.var(features, axis=0, ddof=1)}
    if metric == "mahalanobis" and "V" not in params and "VI" not in params:
        covariance = np.atleast_2d(np.cov(features.T))
        if np.linalg.matrix_rank(covariance) < len(covariance):
            raise ValueError(
                f"metric='mahalanobis' needs the inverse of the covariance of the {len(covariance)} "
                "features, which is singular. Pass metric_params={'VI': ...} or leave out dependent features."
            )
        return params | {"VI": np.linalg.inv(covariance)}
    return params


def _check_features(X: Any, metric: Metric) -> Any:
    """Finite float64 features, dense or canonical CSR, without negative zeros."""
    features = check_array(
        X,
        accept_sparse="csr",
        dtype=np.float64,
        ensure_all_finite=False,
        ensure_min_samples=2,
        input_name="X",
    )
    if sp.issparse(features):
        features = sp.csr_array(features, copy=True)
        features.sum_duplicates()
        features.eliminate_zeros()
        if features.shape[0] * features.shape[1] <= _DENSE_ENTRIES:
            features = features.toarray()
    values = features.data if sp.issparse(features) else features
    with np.errstate(over="ignore", invalid="ignore"):
        # A sum is a number only if all its terms are: one pass without a table of answers.
        is_sound = bool(np.isfinite(np.sum(values)))
    bad = np.isinf(values) if metric == "nan_euclidean" else ~np.isfinite(values) if not is_sound else None
    if bad is not None and bad.any():
        at = int(np.argmax(bad))
        if sp.issparse(features):
            row, col = int(np.searchsorted(features.indptr, at, side="right")) - 1, int(features.indices[at])
        else:
            row, col = divmod(at, features.shape[1])
        value = values.reshape(-1)[at]
        remedy = " or use metric='nan_euclidean'" if np.isnan(value) else ""
        raise ValueError(
            f"Input X contains {'NaN' if np.isnan(value) else 'infinity'}: X[{row}, {col}] is {value}. "
            f"Remove or impute such values{remedy}."
        )
    return features if sp.issparse(features) else np.ascontiguousarray(features) + 0.0
