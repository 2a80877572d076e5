"""Parameters of the estimator, before anything is computed."""

from __future__ import annotations

from typing import Any

from isoweave._validation import check_integer, check_real
from isoweave.persist import Checkpoint


def check_parameters(model: Any) -> None:
    """Raise ValueError or TypeError that says what to do instead."""
    for name in ("n_components", "n_neighbors", "map_samples", "batch_size", "n_iter_no_change"):
        check_integer(name, getattr(model, name), minimum=1)
    check_integer("max_epochs", model.max_epochs, minimum=0)
    if model.fine_tune_epochs is not None:
        check_integer("fine_tune_epochs", model.fine_tune_epochs, minimum=0)
    check_real("learning_rate", model.learning_rate, minimum=0, include_minimum=False)
    check_real("validation_fraction", model.validation_fraction, minimum=0, maximum=0.5)
    if model.checkpoint is not None and not isinstance(model.checkpoint, Checkpoint):
        raise TypeError(f"checkpoint must be an isoweave.Checkpoint or None, got {model.checkpoint!r:.100}.")
    options = model.map_options or {}
    if options.get("metric") == "precomputed":
        raise ValueError(
            "A network needs features, and metric='precomputed' has distances only. New points are then "
            "placed by their distances: IsometricEmbedding(metric='precomputed').fit(D).transform(D_new)."
        )
    if options.get("components") == "largest":
        raise ValueError("components='largest' leaves rows without coordinates; use 'separate'.")
