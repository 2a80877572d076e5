"""``save`` and ``load``: embeddings and estimators, one file each."""

from __future__ import annotations

import warnings
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from isoweave._files import AnyPath, atomic_write
from isoweave._stages import check_array, check_indices
from isoweave.graph import NeighborGraph
from isoweave.persist._store import Store, StoreError, decode, encode, require, shown, write_store
from isoweave.result import Embedding

Estimator = TypeVar("Estimator")

# Private attributes that belong to a fit, and what scikit-learn's set_output sets.
_PRIVATE = ("_fit_X", "_sklearn_output_config")
# Fields that maps of earlier versions do not have.
_ADDED = {"global_weight"}
_INTEGER, _FLOAT = (int, np.integer), (float, np.floating)
_TYPES: dict[Any, tuple[str, ...]] = {
    _FLOAT: ("energy", "relative_energy", "global_weight"),
    _INTEGER: ("n_iter", "n_components", "n_features_in"),
    (*_INTEGER, type(None)): ("n_neighbors",),
    str: ("status", "start", "solver"),
    tuple: ("history", "names"),
    dict: ("parameters",),
    (NeighborGraph, sp.csr_array, sp.csr_matrix): ("graph",),
}


def save(obj: Any, path: AnyPath) -> None:
    """Save an Embedding or an IsometricEmbedding, fitted or not, as one file.

    A file of that name is replaced once the new one is complete and on disk, and left as it was if anything
    fails (:class:`WriteError`, an OSError). Nothing else in the folder is touched. A ``callback`` and a
    ``RandomState`` are left out, with a warning; TypeError names a parameter that cannot be stored, such as
    a function given as ``metric``.
    """
    arrays: dict[str, Any] = {}
    content: dict[str, Any] = {}
    if hasattr(obj, "get_params") and not isinstance(obj, type):
        kind, names = "estimator", [name for name in vars(obj) if _is_stored(type(obj), name)]
        content |= {"class": type(obj).__name__, "parameters": _encoded_parameters(obj, arrays)}
        content["attributes"] = {name: encode(getattr(obj, name), name, arrays) for name in names}
    elif isinstance(obj, Embedding):
        kind, values = "embedding", {field.name: getattr(obj, field.name) for field in fields(obj)}
        values["parameters"] = {k: v for k, v in obj.parameters.items() if k != "checkpoint"}
        content |= {name: encode(value, name, arrays) for name, value in values.items()}
    else:
        raise TypeError(f"save takes an Embedding or an IsometricEmbedding, got {type(obj).__name__}.")
    with atomic_write(path) as file:
        write_store(file, kind, content, arrays)


def _encoded_parameters(estimator: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    encoded = {}
    for name, value in estimator.get_params(deep=False).items():
        if name == "checkpoint":
            continue
        if (name == "callback" and value is not None) or isinstance(value, np.random.RandomState):
            # What watched the fit, and the generator that it drew from, do not belong to the model.
            said = f"{name} is not saved; give it again after loading, with set_params({name}=...)."
            warnings.warn(said, UserWarning, stacklevel=3)
            continue
        try:
            encoded[name] = encode(value, name, arrays)
        except TypeError as error:
            raise TypeError(f"parameter {error} Change it before saving: set_params({name}=...).") from error
    return encoded


def load(path: AnyPath, *, mmap: bool = False) -> Any:
    """Load the Embedding or IsometricEmbedding that :func:`save` has written, with the same bits.

    ``mmap`` maps the arrays, read-only, instead of reading them into memory. Nothing in the file is executed,
    whoever wrote it; :class:`StoreError`, a ValueError, names the file, the field and what is wrong with it.
    """
    from isoweave.estimator import IsometricEmbedding

    with Store.open(path) as store:
        if store.kind == "embedding":
            return _made_embedding(store, mmap)
        require(store.kind == "estimator", store.path, "kind", f"load cannot return a {shown(store.kind)}")
        return _made_estimator(store, IsometricEmbedding, mmap)


def load_model(cls: type[Estimator], path: AnyPath, *, mmap: bool = False) -> Estimator:
    """:func:`load` for an estimator of a given class, which must be the one that was saved."""
    with Store.open(path, "estimator") as store:
        return _made_estimator(store, cls, mmap)


def _is_stored(cls: type, name: str) -> bool:
    """Whether an attribute belongs to what was fitted, and nothing of the class is hidden by setting it."""
    is_public = name.isidentifier() and name.endswith("_") and not name.startswith("_")
    return (is_public or name in _PRIVATE) and not hasattr(cls, name)


def _made_embedding(store: Store, mmap: bool) -> Embedding:
    wanted, given = {field.name: field for field in fields(Embedding)}, set(store.content)
    odd = (set(wanted) ^ given) - _ADDED
    require(not odd, store.path, "content", f"differs in {shown(sorted(odd))}")
    values = decode(store.path, store.arrays(mmap=mmap), store.content)
    try:
        # Whatever is not known of a map is None.
        check_map({k: v for k, v in values.items() if v is not None or wanted[k].default is not None})
    except ValueError as error:
        raise StoreError(store.path, "content", str(error)) from error
    return Embedding(**values)


def _made_estimator(store: Store, cls: type[Estimator], mmap: bool) -> Estimator:
    path, content = store.path, store.content
    groups = ("parameters", "attributes")
    is_whole = set(content) == {"class", *groups} and all(isinstance(content[name], dict) for name in groups)
    require(is_whole, path, "content", "an estimator has a class, parameters and attributes")
    reason = f"must be {cls.__name__!r}, found {shown(content['class'])}; load it with its own class"
    require(content["class"] == cls.__name__, path, "content.class", reason)
    known = cls().get_params(deep=False)  # type: ignore[attr-defined]
    for name in content["parameters"]:
        reason = f"{cls.__name__} has no such parameter; written by isoweave {shown(store.isoweave_version)}"
        require(name in known, path, f"content.parameters.{shown(name)[1:-1]}", reason)
    for name in content["attributes"]:
        require(_is_stored(cls, name), path, "content.attributes", f"{shown(name)} is not a fitted attribute")
    made = decode(path, store.arrays(mmap=mmap), content)
    estimator: Any = cls(**made["parameters"])
    vars(estimator).update(made["attributes"])
    values = {name.removesuffix("_"): value for name, value in made["attributes"].items()}
    try:
        if "embedding" in values:
            check_map({**values, "coordinates": values["embedding"]})
        estimator._check_stored()
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(path, "content.attributes", f"{error!s:.300}") from error
    return estimator  # type: ignore[no-any-return]


def check_map(values: dict[str, Any]) -> None:
    """Raise ValueError unless those parts of an embedding, an archive or a fit that are there go together."""
    reals, integers = (np.float32, np.float64), (np.int32, np.int64)
    n, n_components = check_array("coordinates", values["coordinates"], reals, (None, None)).shape
    if np.isinf(values["coordinates"]).any():
        raise ValueError("coordinates must not be infinite")
    for name, shape in (("alignments", (n, n_components, n_components)), ("stretch", (n, n_components))):
        if name in values:
            check_array(name, values[name], reals, shape)
    for name, indices in (("component_labels", (n,)), ("dropped_edges", (None, 2)), ("edges", (None, 2))):
        if name in values:
            check_indices(name, check_array(name, values[name], integers, indices), n)
    for types, names in _TYPES.items():
        for name in names:
            if name in values and (not isinstance(values[name], types) or isinstance(values[name], bool)):
                raise ValueError(f"{name} cannot be of type {type(values[name]).__name__}")
    graph = values.get("graph")
    size = graph.n_vertices if isinstance(graph, NeighborGraph) else n
    expected = {
        "shape of graph": (getattr(graph, "shape", (size, size)), (n, n)),
        "rows of features": (getattr(values.get("features"), "shape", (n,))[:1], (n,)),
        "number of names": (sum(isinstance(name, str) for name in values.get("names", [""] * n)), n),
        "n_components": (values.get("n_components", n_components), n_components),
    }
    for what, (found, wanted) in expected.items():
        if found != wanted:
            raise ValueError(f"{what} must be {wanted}, found {found}")
    if values.get("n_neighbors") is not None and values["n_neighbors"] < 1:
        raise ValueError(f"n_neighbors must be positive, found {values['n_neighbors']}")
