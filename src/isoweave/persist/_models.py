"""``save`` and ``load``: embeddings and estimators, one file each."""

from __future__ import annotations

import warnings
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from isoweave._files import AnyPath
from isoweave._stages import check_indices
from isoweave.graph import NeighborGraph
from isoweave.persist._store import Decoder, Encoder, Store, StoreError, check_array, require, shown
from isoweave.result import Embedding

Estimator = TypeVar("Estimator")

# Set by scikit-learn's set_output.
_OUTPUT_CONFIG = "_sklearn_output_config"
# What watched the fit, and the generator that it drew from, do not belong to the model.
_LEFT_OUT = "{name} is not saved; give it again after loading, with set_params({name}=...)."


def save(obj: Any, path: AnyPath) -> None:
    """Save an embedding or an estimator as one file.

    A file of that name is replaced once the new one is complete and on disk, and left as it was if anything
    fails. Nothing else in the folder is touched.

    Parameters
    ----------
    obj : Embedding or IsometricEmbedding
        Of an estimator: all parameters, and if it is fitted all public attributes that end in ``_`` and those
        its class names in ``_stored_attributes_``. A ``callback`` and a ``RandomState`` are left out, with a
        warning.
    path : path-like

    Raises
    ------
    TypeError
        A parameter or attribute, which is named, cannot be stored: a function given as ``metric``, say.
    WriteError
        An OSError of one line: disk full, no permission, ...
    """
    if hasattr(obj, "get_params") and not isinstance(obj, type):
        save_model(obj, path)
        return
    if not isinstance(obj, Embedding):
        raise TypeError(f"save takes an Embedding or an IsometricEmbedding, got {type(obj).__name__}.")
    encoder = Encoder()
    values = {field.name: getattr(obj, field.name) for field in fields(obj)}
    values["parameters"] = {k: v for k, v in obj.parameters.items() if k != "checkpoint"}
    content = {name: encoder.encode(value, name) for name, value in values.items()}
    encoder.write(path, "embedding", content)


def load(path: AnyPath, *, mmap: bool = False) -> Any:
    """Load what :func:`save` has written; nothing in the file is executed, whoever wrote it.

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
        A ValueError that names the file, the field and the reason.
    """
    from isoweave.estimator import IsometricEmbedding

    with Store.open(path) as store:
        if store.kind == "embedding":
            return _made_embedding(store, mmap)
        require(store.kind == "estimator", store.path, "kind", f"load cannot return a {shown(store.kind)}")
        return _made_estimator(store, IsometricEmbedding, mmap)


def save_model(estimator: Any, path: AnyPath) -> None:
    """:func:`save` for an estimator, fitted or not."""
    encoder, encoded = Encoder(), {}
    for name, value in estimator.get_params(deep=False).items():
        if name == "checkpoint":
            continue
        if (name == "callback" and value is not None) or isinstance(value, np.random.RandomState):
            warnings.warn(_LEFT_OUT.format(name=name), UserWarning, stacklevel=3)
            continue
        try:
            encoded[name] = encoder.encode(value, name)
        except TypeError as error:
            raise TypeError(f"parameter {error} Change it before saving: set_params({name}=...).") from error
    names = [name for name in vars(estimator) if _is_stored(type(estimator), name)]
    attributes = {name: encoder.encode(getattr(estimator, name), name) for name in names}
    content = {"class": type(estimator).__name__, "parameters": encoded, "attributes": attributes}
    encoder.write(path, "estimator", content)


def load_model(cls: type[Estimator], path: AnyPath, *, mmap: bool = False) -> Estimator:
    """:func:`load` for an estimator of a given class, which must be the one that was saved."""
    with Store.open(path, "estimator") as store:
        return _made_estimator(store, cls, mmap)


def _is_stored(cls: type, name: str) -> bool:
    """Whether an attribute belongs to what was fitted, and nothing of the class is hidden by setting it."""
    declared = (*getattr(cls, "_stored_attributes_", ()), _OUTPUT_CONFIG)
    is_public = name.isidentifier() and name.endswith("_") and not name.startswith("_")
    return (is_public or name in declared) and not hasattr(cls, name)


# Fields that maps of earlier versions do not have.
_ADDED = {"global_weight"}


def _made_embedding(store: Store, mmap: bool) -> Embedding:
    wanted, given = {field.name: field for field in fields(Embedding)}, set(store.content)
    odd = (set(wanted) ^ given) - _ADDED
    require(not odd, store.path, "content", f"differs in {shown(sorted(odd))}")
    values = Decoder(store.path, store.arrays(mmap=mmap)).decode(store.content, "content")
    try:
        # Whatever is not known of a map is None.
        _check_map({k: v for k, v in values.items() if v is not None or wanted[k].default is not None})
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
    made = Decoder(path, store.arrays(mmap=mmap)).decode(content, "content")
    estimator: Any = cls(**made["parameters"])
    vars(estimator).update(made["attributes"])
    try:
        if "embedding_" in made["attributes"]:
            values = {name.removesuffix("_"): value for name, value in made["attributes"].items()}
            _check_map({**values, "coordinates": values["embedding"]})
        # A class that stores more than the public attributes checks those itself; any may be missing.
        getattr(estimator, "_check_stored_", lambda: None)()
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(path, "content.attributes", f"{error!s:.300}") from error
    return estimator  # type: ignore[no-any-return]


_INTEGER, _FLOAT = (int, np.integer), (float, np.floating)
_TYPES: dict[str, Any] = {
    **{
        "energy": _FLOAT,
        "relative_energy": _FLOAT,
        "global_weight": _FLOAT,
        "history": tuple,
        "n_iter": _INTEGER,
    },
    **{"status": str, "start": str, "solver": str, "n_components": _INTEGER, "n_features_in": _INTEGER},
    **{"n_neighbors": (*_INTEGER, type(None)), "graph": (NeighborGraph, sp.csr_array, sp.csr_matrix)},
    **{"names": tuple, "parameters": dict},
}


def _check_map(values: dict[str, Any]) -> None:
    """Raise ValueError unless those parts of an embedding or a fit that are there go together."""
    reals, integers = (np.float32, np.float64), (np.int32, np.int64)
    n, n_components = check_array("coordinates", values["coordinates"], reals, (None, None)).shape
    for name, shape in (("alignments", (n, n_components, n_components)), ("stretch", (n, n_components))):
        if name in values:
            check_array(name, values[name], reals, shape)
    for name, indices in (("component_labels", (n,)), ("dropped_edges", (None, 2))):
        if name in values:
            check_indices(name, check_array(name, values[name], integers, indices), n)
    for name, types in _TYPES.items():
        if name in values and (not isinstance(values[name], types) or isinstance(values[name], bool)):
            raise ValueError(f"{name} cannot be of type {type(values[name]).__name__}")
    names, graph = values.get("names", [""] * n), values.get("graph")
    graph_shape = (
        (graph.n_vertices,) * 2 if isinstance(graph, NeighborGraph) else getattr(graph, "shape", (n, n))
    )
    expected = {
        "shape of graph": (graph_shape, (n, n)),
        "rows of features": (getattr(values.get("features"), "shape", (n,))[:1], (n,)),
        "number of names": (sum(isinstance(name, str) for name in names), n),
        "n_components": (values.get("n_components", n_components), n_components),
    }
    for what, (found, wanted) in expected.items():
        if found != wanted:
            raise ValueError(f"{what} must be {wanted}, found {found}")
    if values.get("n_neighbors") is not None and values["n_neighbors"] < 1:
        raise ValueError(f"n_neighbors must be positive, found {values['n_neighbors']}")
