"""scikit-learn's own checks: all pass, none expected to fail."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from isoweave import IsometricEmbedding


# The checks fit tiny data sets with the default parameters: clipped neighbours and parts are announced there.
@pytest.mark.filterwarnings("ignore:n_neighbors=10 is not smaller:UserWarning")
@pytest.mark.filterwarnings("ignore:The graph has .* connected components:UserWarning")
@parametrize_with_checks([IsometricEmbedding(), IsometricEmbedding(metric="precomputed")])
def test_scikit_learn_check(estimator, check):
    check(estimator)
