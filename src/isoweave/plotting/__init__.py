"""Figures of embeddings; matplotlib (extra ``plot``) is imported on first use."""

from isoweave.plotting._embedding import plot_embedding
from isoweave.plotting._history import plot_history

__all__ = ["plot_embedding", "plot_history"]
