"""``save`` and ``load``: embeddings and estimators as stores."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from isoweave.persist._checks import check_embedding, check_fitted
from isoweave.persist._decode import Decoder
from isoweave.persist._encode import Encoder
from isoweave.persist._errors import StoreError, shown
from isoweave.persist._read import Store, read_store
from isoweave.persist._write import write_store
from isoweave.result import Embedding

# Left out of a store: a function that only watches does not belong to the model, nor where its fit was kept.
_DROPPED_PARAMETERS = ("callback",)
_RUN_PARAMETERS = ("checkpoint",)
# Set by scikit-learn's set_output.
_OUTPUT_CONFIG = "_sklearn_output_config"


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Save an embedding or an estimator as a folder of JSON and plain arrays.

    The folder appears only when it is complete; a store of that name is replaced then, and left as it was if
    anything fails. Its parent must exist.

    Parameters
    ----------
    obj : Embedding or IsometricEmbedding
        Of an estimator: all parameters, and if it is fitted all public attributes that end in ``_`` and those
        its class names in ``_stored_attributes_``. A ``callback`` is left out, with a warning.
    path : path-like

    Raises
    ------
    TypeError
        A parameter or attribute, which is named, cannot be stored: a function given as ``metric``, say.
    WriteError
        An OSError of one line: disk full, no permission, ...

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from isoweave import IsometricEmbedding
    >>> from isoweave.persist import load, save
    >>> X = np.random.default_rng(3).normal(size=(60, 2))
    >>> model = IsometricEmbedding(n_neighbors=8).fit(X)
    >>> path = tempfile.mkdtemp() + "/model"
    >>> save(model, path)
    >>> np.array_equal(load(path).embedding_, model.embedding_)
    True
    """
    if isinstance(obj, Embedding):
        encoder = Encoder()
        scalars = {field.name: encoder.encode(getattr(obj, field.name), field.name) for field in fields(obj)}
        write_store(path, "embedding", scalars=scalars, arrays=encoder.arrays)
    elif hasattr(obj, "get_params") and not isinstance(obj, type):
        _save_estimator(obj, path)
    else:
        raise TypeError(f"save takes an Embedding or an IsometricEmbedding, got {type(obj).__name__}.")


def load(path: str | os.PathLike[str], *, mmap: bool = False) -> Any:
    """Load what :func:`save` has written, by this version of isoweave or an earlier one.

    No code in the store is run, whoever wrote it: every byte is checked against its checksum, every size and
    index against the others.

    Parameters
    ----------
    path : path-like
    mmap : bool
        Map the arrays, read-only, instead of reading them into memory.

    Returns
    -------
    Embedding or IsometricEmbedding
        With the same bits in every array and the same parameters.

    Raises
    ------
    StoreError
        A ValueError that names the store, the field and the reason.
    """
    store = read_store(path, mmap=mmap)
    if store.kind == "embedding":
        return _make_embedding(store)
    if store.kind == "estimator":
        from isoweave.estimator import IsometricEmbedding

        return _make_estimator(store, IsometricEmbedding)
    raise StoreError(store.path, "kind", f"{store.kind!r} is not a kind that load returns")


def load_estimator(type_: type, path: str | os.PathLike[str], *, mmap: bool = False) -> Any:
    """The same for an estimator of a given class, which must be the one that was saved."""
    return _make_estimator(read_store(path, "estimator", mmap=mmap), type_)


def _make_embedding(store: Store) -> Embedding:
    decoder = Decoder(store.path, store.arrays, is_newer=store.is_newer)
    result = Embedding(**decoder.fields(Embedding, store.scalars, "scalars"))
    try:
        check_embedding(result)
    except ValueError as error:
        raise StoreError(store.path, "scalars", str(error)) from error
    return result


def _save_estimator(estimator: Any, path: str | os.PathLike[str]) -> None:
    encoder = Encoder()
    parameters = estimator.get_params(deep=False)
    for name in _RUN_PARAMETERS:
        parameters.pop(name, None)
    for name in _DROPPED_PARAMETERS:
        if parameters.pop(name, None) is not None:
            warnings.warn(
                f"{name} is not saved; give it again after loading, with set_params({name}=...).",
                UserWarning,
                stacklevel=3,
            )
    encoded = {}
    for name, value in parameters.items():
        try:
            encoded[name] = encoder.encode(value, name)
        except TypeError as error:
            raise TypeError(f"parameter {error} Change it before saving: set_params({name}=...).") from error
    names = [name for name in vars(estimator) if _is_stored(type(estimator), name)]
    attributes = {name: encoder.encode(getattr(estimator, name), name) for name in names}
    scalars = {"class": type(estimator).__name__, "attributes": attributes}
    write_store(path, "estimator", parameters=encoded, scalars=scalars, arrays=encoder.arrays)


def _is_stored(type_: type, name: str) -> bool:
    """Whether an attribute belongs to what was fitted, and nothing of the class is hidden by setting it."""
    declared = (*getattr(type_, "_stored_attributes_", ()), _OUTPUT_CONFIG)
    is_public = name.isidentifier() and name.endswith("_") and not name.startswith("_")
    return (is_public or name in declared) and not hasattr(type_, name)


def _make_estimator(store: Store, type_: type) -> Any:
    scalars = store.scalars
    if set(scalars) != {"class", "attributes"} or not isinstance(scalars["attributes"], dict):
        raise StoreError(store.path, "scalars", "an estimator has the fields class and attributes")
    if scalars["class"] != type_.__name__:
        reason = f"must be {type_.__name__!r}, found {shown(scalars['class'])}; load it with its own class"
        raise StoreError(store.path, "scalars.class", reason)
    decoder = Decoder(store.path, store.arrays, is_newer=store.is_newer)
    known = type_().get_params(deep=False)
    for name in store.parameters:
        if name not in known:
            reason = f"{type_.__name__} has no such parameter; written by isoweave {store.isoweave_version}"
            raise StoreError(store.path, f"parameters.{name}"[:200], reason)
    estimator = type_(**_decoded(decoder, store.parameters, "parameters"))
    for name in scalars["attributes"]:
        if not _is_stored(type_, name):
            raise StoreError(store.path, "scalars.attributes", f"{shown(name)} is no fitted attribute")
    attributes = _decoded(decoder, scalars["attributes"], "scalars.attributes")
    for name, value in attributes.items():
        setattr(estimator, name, value)
    try:
        check_fitted(attributes)
        # A class that stores more than the public attributes checks those itself; any may be missing.
        getattr(estimator, "_check_stored_", lambda: None)()
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(store.path, "scalars.attributes", f"{error!s:.300}") from error
    return estimator


def _decoded(decoder: Decoder, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {name: decoder.decode(value, f"{where}.{name}") for name, value in values.items()}
