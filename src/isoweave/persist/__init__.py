"""What is kept in files: models (:func:`save`, :func:`load`) and long runs (:class:`Checkpoint`).

One file each, in the safetensors format; docs/saving.md describes it.
"""

from isoweave._files import WriteError
from isoweave.persist._checkpoint import (
    Checkpoint,
    CheckpointError,
    FileJournal as FileJournal,
    Journal as Journal,
    fingerprint as fingerprint,
)
from isoweave.persist._models import check_map as check_map, load, load_model as load_model, save
from isoweave.persist._store import (
    Store as Store,
    StoreError,
    history_from as history_from,
    is_store as is_store,
    write_store as write_store,
)

__all__ = ["Checkpoint", "CheckpointError", "StoreError", "WriteError", "load", "save"]
