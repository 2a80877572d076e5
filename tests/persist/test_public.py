"""The names users call."""

from __future__ import annotations

import numpy as np
import pytest

import isoweave
from isoweave import IsometricEmbedding
from isoweave.persist import StoreError


def test_functions(tmp_path, fitted, embedding):
    isoweave.save(fitted, tmp_path / "model")
    np.testing.assert_array_equal(isoweave.load(tmp_path / "model").embedding_, fitted.embedding_)
    isoweave.save(embedding, tmp_path / "map")
    np.testing.assert_array_equal(isoweave.load(tmp_path / "map").coordinates, embedding.coordinates)


def test_methods(tmp_path, fitted):
    fitted.save(tmp_path / "model")
    found = IsometricEmbedding.load(tmp_path / "model", mmap=True)
    assert type(found) is IsometricEmbedding
    np.testing.assert_array_equal(found.embedding_, fitted.embedding_)
    assert not found.embedding_.flags.writeable


def test_a_map_is_not_a_model(tmp_path, embedding):
    isoweave.save(embedding, tmp_path / "map")
    with pytest.raises(StoreError, match="kind: must be 'estimator', found 'embedding'"):
        IsometricEmbedding.load(tmp_path / "map")


def test_everything_fitted_is_stored(tmp_path, fitted):
    """An attribute added to the estimator is stored without a word, or this test says that it is not."""
    fitted.save(tmp_path / "model")
    found = IsometricEmbedding.load(tmp_path / "model")
    left_out = set(vars(fitted)) - set(vars(found))
    declared = {name for name in vars(fitted) if name.endswith("_")} | set(
        getattr(IsometricEmbedding, "_stored_attributes_", ())
    )
    assert not left_out & declared


def test_transform_works_after_loading(tmp_path, fitted, features):
    if not hasattr(fitted, "transform"):
        pytest.skip("no transform yet")
    fitted.save(tmp_path / "model")
    for mmap in (False, True):
        found = IsometricEmbedding.load(tmp_path / "model", mmap=mmap)
        new = features[:5] + 0.01
        np.testing.assert_array_equal(found.transform(new), fitted.transform(new))
