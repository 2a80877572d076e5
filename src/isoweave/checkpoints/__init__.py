"""Checkpoints: the state of a long run in a folder, to go on from after a crash, bit by bit.

The engine knows only the protocol of a journal (:mod:`isoweave.optimise`); this is the journal that writes
files, made of the stores of :mod:`isoweave.persist`.
"""

from isoweave.checkpoints._checkpoint import Checkpoint
from isoweave.checkpoints._errors import CheckpointError

__all__ = ["Checkpoint", "CheckpointError"]
