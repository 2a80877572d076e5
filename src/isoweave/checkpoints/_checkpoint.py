"""Where a run is kept, as the user says it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoweave._typing import AnyArray
from isoweave._validation import check_real
from isoweave.checkpoints._fingerprint import fingerprint
from isoweave.checkpoints._folder import FolderJournal


class Checkpoint:
    """A folder that keeps the state of a fit, so that a crash loses a minute and not a night.

    A fit that goes on from its checkpoint ends with the same bits as one that was never stopped.

    Parameters
    ----------
    path : path-like
        The folder; made if it does not exist. It must be empty or hold a checkpoint.
    every : float, default=None
        Seconds between two writes; 0 writes at every step. None is a minute, or as much longer as it takes
        for all writes together to stay under 2 % of the run.
    resume : bool, default=False
        Go on from what the folder holds; where it holds nothing, begin. False refuses a folder with an
        unfinished run, so that it is not lost by mistake, and replaces a finished one.

    Raises
    ------
    CheckpointError
        From the fit: the checkpoint is of another input, other parameters or other versions (the field is
        named), or is in use by another process.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import make_swiss_roll
    >>> from isoweave import Checkpoint, IsometricEmbedding
    >>> X, _ = make_swiss_roll(300, random_state=0)
    >>> folder = Checkpoint(tempfile.mkdtemp(), resume=True)
    >>> IsometricEmbedding(checkpoint=folder).fit(X).status_
    'converged'
    """

    def __init__(
        self, path: str | os.PathLike[str], *, every: float | None = None, resume: bool = False
    ) -> None:
        self.path = Path(path)
        self.every = None if every is None else check_real("every", every, minimum=0.0)
        self.resume = bool(resume)

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, every={self.every!r}, resume={self.resume!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.path, self.every, self.resume))

    def open(self, inputs: Mapping[str, AnyArray], parameters: Mapping[str, Any]) -> FolderJournal:
        """The journal of the run that these inputs and parameters define; called by the fit."""
        return FolderJournal(self.path, fingerprint(inputs, parameters), every=self.every, resume=self.resume)
