from __future__ import annotations

import os

import numpy as np
import pytest

from isoweave import IsometricEmbedding, embed_graph


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    """Thousands of writes: whether they survive a power failure is not what is tested."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture(scope="session")
def features():
    return np.random.default_rng(77).normal(size=(60, 3)) * [4, 3, 0.1]


@pytest.fixture
def fitted(features):
    return IsometricEmbedding(n_neighbors=8, random_state=5).fit(features)


@pytest.fixture(scope="session")
def embedding(features):
    model = IsometricEmbedding(n_neighbors=8).fit(features)
    return embed_graph(model.graph_, n_components=2)
