"""Annotated data of single cells: .h5ad files, read with h5py (extra ``anndata``) in a process of its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io._errors import InputFileError, quoted
from isoweave.io._isolated import Frames, frames_of
from isoweave.io._sparse import sparse_from_arrays


def read_h5ad(path: Path, as_graph: bool) -> tuple[AnyArray | sp.csr_array, tuple[str, ...] | None]:
    """Features or distances of an annotated data set.

    Only the arrays asked for are read, from the on-disk format of anndata 0.7 and later; objects, links and
    datasets in other files are never followed.

    Parameters
    ----------
    path : pathlib.Path
    as_graph : bool
        True: ``obsp["distances"]``. False: ``obsm["X_pca"]``, or ``X`` if there is none.

    Returns
    -------
    found : array of shape (n, d) or csr array
    names : tuple of n str, or None
    """
    if importlib.util.find_spec("h5py") is None:
        raise ImportError(".h5ad files need h5py: pip install 'isoweave[anndata]', or use .npz or .npy.")
    with frames_of(path, "graph" if as_graph else "features") as frames:
        return h5ad_from_frames(frames, as_graph)


def h5ad_from_frames(
    frames: Frames, as_graph: bool
) -> tuple[AnyArray | sp.csr_array, tuple[str, ...] | None]:
    """The same from what a worker sends."""
    path, first = frames.path, frames.next()
    found: AnyArray | sp.csr_array
    if first == "dense" and not as_graph:
        found = frames.array("the array")
        if found.ndim != 2:
            raise InputFileError(path, f"expected a 2-D array (samples x features), got shape {found.shape}")
    elif first in ("csr", "csc"):
        arrays = {"format": np.array(first.encode("ascii")), "shape": frames.array("the shape")}
        for key in ("data", "indices", "indptr"):
            frames.expect(key)
            arrays[key] = frames.array(key)
        found = sparse_from_arrays(path, arrays, frames.file_size)
    else:
        raise frames.fault(f"unexpected {quoted(first)}")
    names = None
    last = frames.next()
    if last == "words":
        names = frames.words()
        if len(names) != found.shape[0]:
            raise InputFileError(path, f"{len(names)} names of observations for {found.shape[0]} rows")
        last = frames.next()
    if last != "end":
        raise frames.fault(f"unexpected {quoted(last)}")
    return found, names
