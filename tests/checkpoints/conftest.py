"""Settings of the tests in this folder."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_syncs(monkeypatch):
    """Nobody pulls the plug here, and a sync takes longer than all the rest."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
