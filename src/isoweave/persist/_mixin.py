"""``save`` and ``load`` as methods of an estimator."""

from __future__ import annotations

import os
from typing import Self


class StoredMixin:
    """Gives an estimator :meth:`save` and :meth:`load`.

    Stored are the parameters, all public attributes that end in ``_``, and those the class names in
    ``_stored_attributes_``. A class with the latter should define ``_check_stored_``, called after loading,
    which raises ValueError unless they fit the rest: the store may come from a stranger.
    """

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save parameters and what was fitted as a folder of JSON and plain arrays.

        A ``callback`` is left out, with a warning; a function given as ``metric`` cannot be stored. See
        :func:`isoweave.save`.
        """
        from isoweave.persist._objects import save

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Load an estimator that was saved, by this version or an earlier one; nothing in it is executed.

        Parameters
        ----------
        path : path-like
        mmap : bool
            Map the arrays, read-only, instead of reading them into memory.

        Raises
        ------
        isoweave.persist.StoreError
            A ValueError: the folder is damaged, or holds something else.
        """
        from isoweave.persist._objects import load_estimator

        loaded: Self = load_estimator(cls, path, mmap=mmap)
        return loaded
