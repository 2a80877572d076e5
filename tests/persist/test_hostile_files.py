"""Files that are damaged, or made to do harm: StoreError, always, and nothing else."""

import copy
import os
import pickle
import random
import warnings
from collections import Counter

import numpy as np
import pytest

from attacker import SAMPLES, arrays_of, put_together, take_apart, with_arrays
from isoweave import load
from isoweave.persist import StoreError

DATA = {path.stem: path.read_bytes() for path in SAMPLES.glob("*.isoweave")}
# Of every type, and on both sides of every limit.
STRANGE = (None, True, -1, 0, 1.5, 10**30, "", "x", "é\ud800", [], [1], {}, {"$type": "array"}, "remove")


@pytest.fixture
def refused(tmp_path):
    """Load bytes, which must be refused in one line."""
    path = tmp_path / "file"

    def check(data, match=None, **options):
        path.write_bytes(data)
        with pytest.raises(StoreError, match=match) as caught:
            load(path, **options)
        assert caught.value.path == path
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)

    return check


def nodes(value, at=()):
    """Every place in a JSON value, and what is there."""
    yield at, value
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from nodes(value[key], (*at, key))


def changed(value, at, new):
    """A copy with another value at a place; ``new`` may be "remove"."""
    if not at:
        return new
    made = inner = copy.deepcopy(value)
    for key in at[:-1]:
        inner = inner[key]
    if new == "remove":
        del inner[at[-1]]
    else:
        inner[at[-1]] = new
    return made


@pytest.mark.parametrize("kind", ["embedding", "estimator"])
def test_every_field_of_the_header(tmp_path, kind):
    """With the checksum made right, as an attacker can: what describes the file is never just believed."""
    header, body = take_apart(DATA[kind])
    path = tmp_path / "file"
    n_refused = n_loaded = 0
    rng = random.Random(4)
    for at, before in nodes(header):
        for new in rng.sample(STRANGE, 2) if at else STRANGE[:-1]:
            path.write_bytes(put_together(changed(header, at, new), body))
            is_same = type(before) is type(new) and before == new
            try:
                load(path)
            except StoreError:
                n_refused += 1
                assert not is_same or at[-1:] == ("sha256",)
            else:
                # Other parameters, numbers and texts are as good as the first; the structure is not.
                n_loaded += 1
                is_value = at[:2] == ("__metadata__", "content") and len(at) > 2
                is_free = at[-1:] in (("isoweave_version",), ("sha256",)) or at == ("__metadata__", "fortran")
                assert is_same or is_value or is_free, f"{at}: {new!r} was accepted"
    assert n_refused > 120
    assert n_loaded > 0


@pytest.mark.parametrize("mmap", [False, True])
def test_every_flipped_bit_and_every_cut_is_noticed(refused, mmap):
    """Without the checksum made right no change at all goes through, not even of a digit."""
    rng = random.Random(8)
    for data in DATA.values():
        # The last spaces before the arrays pad the header, and are covered too.
        for at in {0, 5, 8, int.from_bytes(data[:8], "little") + 7, *rng.sample(range(len(data)), 15)}:
            refused(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :], mmap=mmap)
        for cut in {0, 1, 7, 8, 9, len(data) - 1, *rng.sample(range(len(data)), 5)}:
            refused(data[:cut], mmap=mmap)
        refused(data + b"\0", r"has [\d,]+ bytes, the header says [\d,]+", mmap=mmap)
    refused(data[:-1] + bytes([data[-1] ^ 1]), "sha256: the file has changed since it was written", mmap=mmap)


NOT_CLOSED = DATA["embedding"][8:].split(b"  ")[0].replace(b'tent": "{', b'tent": "[{')
TEXTS = {
    b"{}": "is not a file of isoweave",
    b"[1]": "header: must be a dict",
    b'{"a": 1, "a": 2}': "key 'a' is given twice",
    b"[" * 100_000: "header: not JSON",
    b"[" * 65 + b"]" * 65: "nested more than 64 levels deep",
    b'{"a": NaN}': "NaN is not a JSON number",
    b'{"a": 1e999}': "1e999 is not a JSON number, or is too large",
    b'{"a": ' + b"9" * 100_000 + b"}": "100000 digits",
    b'{"a": 0.' + b"9" * 100_000 + b"}": "too large",
    b'{"a": "\xff"}': "not JSON: 'utf-8' codec .* position 7",
    b'{"a": "' + b'\\"' * 1_000_000: "not JSON",
    b"[" * 64 + b"]" * 64: "header: must be a dict",
    b'{"' + b"[" * 1000 + b'": 1}': "is not a file of isoweave",
    b"{" + b",".join(b'"%d":1' % (i % 99_999) for i in range(100_000)) + b"}": "key '0' is given twice",
    NOT_CLOSED: "content: not JSON",
}


def test_headers_that_are_none(refused):
    for text, reason in TEXTS.items():
        refused(len(text).to_bytes(8, "little") + text, reason)


CONTENT = ("__metadata__", "content")
PARAMETERS, ATTRIBUTES = (*CONTENT, "parameters"), (*CONTENT, "attributes")
# By kind: where, what is put there (as a text: in the attributes of an estimator), and what is said of it.
HARM = {
    "embedding": [
        *(
            (("coordinates", "shape"), shape, r"arrays\.coordinates\.shape: .* cannot be a shape")
            for shape in ([0, 2**62], [2**62, 2**62], [2**63], [1] * 33, [2**31, 2**31, 0])
        ),
        *(((name,), {}, "must have dtype, shape and data_offsets") for name in ("", "../x", "é", "x" * 300)),
        (("coordinates", "data_offsets"), [8, 184], r"arrays\..*begins at byte|do not hold"),
        (("coordinates", "data_offsets"), [0, 100], "do not hold 176 bytes"),
        (("coordinates", "dtype"), "O", "unknown type 'O'"),
        (("coordinates", "dtype"), "F32", "do not hold 88 bytes"),
        (("coordinates",), {"dtype": "F64"}, "must have dtype, shape and data_offsets"),
    ],
    "estimator": [
        ((*PARAMETERS, "n_clusters"), 3, "parameters.n_clusters: .* has no such parameter"),
        ((*CONTENT, "class"), "Pipeline", "be 'IsometricEmbedding', found 'Pipeline'"),
        (("__metadata__", "kind"), "checkpoint", "kind: load cannot return a 'checkpoint'"),
        (("__metadata__", "format_version"), "2", r"format '2' by isoweave .* reads format '1' only"),
        ("fit", None, "'fit' is not a fitted attribute"),
        ("_n_features_out", 1, "is not a fitted attribute"),
        ("energy_", "low", "energy cannot be of type str"),
        ("n_components_", 3, "n_components must be 2, found 3"),
        ("n_neighbors_", 0, "n_neighbors must be positive, found 0"),
        ("n_iter_", True, "n_iter cannot be of type bool"),
        ("graph_", None, "graph cannot be of type NoneType"),
        ("graph_ class", "lil_array", "unknown type 'sparse'"),
        ("graph_ shape", [20, 21], r"of graph must be \(20, 20\), found \(20, 21"),
        ("graph_ shape", [2**62, 20], "no matrix has|indptr must rise"),
        ("feature_names_in_ items", ["x", 3], "are not texts of shape"),
        ("feature_names_in_ shape", [2], "3 items are not texts of shape"),
        ("x_", {"$type": "pickle", "data": ""}, "unknown type 'pickle'"),
        ("x_", {"$type": "array", "name": "none"}, "there is no array 'none'"),
        ("x_", {"$type": "array", "name": ["a"]}, "'array', or incomplete"),
        ("x_", {"$type": "array", "name": "stretch_"}, "or it is used elsewhere"),
        ("x_", {"$type": "float", "value": "1"}, "'float', or incomplete"),
    ],
    "placing": [
        *(
            (f"{k}_", "remove", f"{k}_ is missing")
            for k in ("embedding", "graph", "n_components", "n_neighbors")
        ),
        ("component_labels_", "remove", "component_labels_ is missing"),
        ("n_features_in_", 4, r"_fit_X: must have the shape \(24, 4\)"),
        ((*PARAMETERS, "metric"), "precomputed", "'precomputed', but the fit was of features"),
        ((*PARAMETERS, "tol"), -1.0, "tol must be a finite number > 0"),
        ((*PARAMETERS, "n_neighbors"), "x", "n_neighbors must be an integer"),
    ],
}


def test_values_that_do_harm(refused):
    for kind, rows in HARM.items():
        header, body = take_apart(DATA[kind])
        for at, new, reason in rows:
            place = (*ATTRIBUTES, *at.split()) if isinstance(at, str) else at
            refused(put_together(changed(header, place, new), body), reason)


def changed_at(at, value):
    """One number is another."""
    return lambda a: np.where(np.arange(len(a)) == at, value, a).astype(a.dtype)


# What becomes of an array, and what is said of it.
MISFITS = {
    "embedding": [
        ("graph.indices", lambda a: a + 1, "indices must lie in 0 .. 10"),
        ("graph.indices", lambda a: a[::-1], "indices must rise"),
        ("graph.indices", lambda a: np.where(a == 10, 9, a), "vertex 9 is joined to itself"),
        ("graph.indices", lambda a: np.where(a == 10, 8, a), "one direction only"),
        ("graph.indptr", changed_at(5, 1000), "indptr must rise from 0"),
        ("graph.indptr", lambda a: a[:0], "indptr must rise from 0"),
        ("graph.lengths", lambda a: a[:-1], "lengths must have the shape"),
        ("graph.lengths", lambda a: a * np.nan, "lengths must be finite"),
        ("graph.lengths", lambda a: -a, "lengths must be finite, not negative"),
        ("graph.lengths", lambda a: a + np.arange(len(a)), "the same in both directions"),
        ("graph.lengths", lambda a: a.astype(np.float32), "lengths must be an array of float64"),
        ("coordinates", lambda a: a[:-1], r"must have the shape \(10, 2, 2\)"),
        ("coordinates", lambda a: a.astype(np.int64), "coordinates must be an array of float"),
        ("alignments", lambda a: a[:, :1], r"alignments must have the shape \(11, 2, 2\)"),
        ("stretch", lambda a: a.T, r"stretch must have the shape \(11, 2\)"),
        ("component_labels", lambda a: a - 1, "component_labels must lie in 0 .. 10, found -1"),
        ("dropped_edges", lambda a: np.array([[0, 99]], np.int32), "dropped_edges must lie in"),
        ("history", lambda a: a[:, :3], "history must have the shape"),
        ("history", lambda a: a + 0.5, "steps must have whole numbers"),
    ],
    "estimator": [
        ("graph_.indices", lambda a: a.astype(np.float64), "be an array of int32 or int64"),
        ("graph_.indptr", lambda a: a + 1, "indptr must rise from 0"),
        ("graph_.data", lambda a: a[:-1], "indices must have the shape"),
        ("embedding_", lambda a: a[:-1], r"must have the shape \(19, "),
        ("component_labels_", lambda a: a + 1000, "component_labels must lie in 0 .. 19"),
        ("n_components", lambda a: np.array([2, 2]), "it must have the shape"),
        ("odd", lambda a: np.array([2], np.uint8).view(np.bool_), "neither 0 nor 1"),
    ],
    "placing": [("embedding_", lambda a: np.where(a == a[3], np.inf, a), "coordinates must not be infinite")],
}


def test_arrays_that_do_not_fit(refused):
    """Numbers a compiled kernel would take for indices are checked, whatever the checksum says."""
    for kind, rows in MISFITS.items():
        header, body = take_apart(DATA[kind])
        arrays = arrays_of(header, body)
        for name, change, reason in rows:
            new = np.ascontiguousarray(change(arrays.get(name)))
            refused(with_arrays(header, {**arrays, name: new}), reason)


def test_sizes_are_checked_before_anything_is_taken(refused, tmp_path):
    header, body = take_apart(DATA["embedding"])
    metadata, entry = {"__metadata__": header["__metadata__"]}, header["coordinates"]
    refused((1 << 62).to_bytes(8, "little") + DATA["embedding"][8:], "is not a file of isoweave")
    many = {f"a{i}": entry for i in range(10_001)}
    refused(put_together({**metadata, **many}, body), "10001 arrays, more than 10000")
    # A file of holes may claim any size at no cost; memory is not taken for more than the machine has.
    n = 1 << 43
    holes = {"dtype": "F64", "shape": [n // 8], "data_offsets": [0, n]}
    data = put_together({**metadata, "coordinates": holes}, b"")
    try:
        with (tmp_path / "holes").open("wb") as file:
            file.write(data)
            file.truncate(len(data) + n)
    except OSError:
        pytest.skip("this file system has no files of 8 TB")
    with pytest.raises(StoreError, match=r"arrays: [\d,]+ bytes, more than the machine's"):
        load(tmp_path / "holes")


def test_sealed_as_the_writer_does_and_older_files(tmp_path):
    """Otherwise nothing behind the checksum would be tested. Parameters gained since take their defaults."""
    for data in DATA.values():
        header, body = take_apart(data)
        (tmp_path / "file").write_bytes(put_together(header, body))
        load(tmp_path / "file")
    header, body = take_apart(DATA["estimator"])
    (tmp_path / "file").write_bytes(put_together(changed(header, (*PARAMETERS, "scale"), "remove"), body))
    assert load(tmp_path / "file").scale == "edges"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_what_is_no_file(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    np.savez(tmp_path / "x.npz", a=np.zeros(2))
    for name, reason in {
        "none": "there is no such file",
        "pipe": "is not a regular file",
        "x.npz": "is not a file of isoweave",
        "": "is not a regular file",
    }.items():
        with pytest.raises(StoreError, match=reason) as caught:
            load(tmp_path / name)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.path, again.field, again.reason) == (tmp_path, None, "is not a regular file")
    assert str(again) == str(caught.value)

    def refuse(name, flags, mode=0o777, *, dir_fd=None):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match="cannot be opened: Permission denied"):
        load(tmp_path / "x.npz")


def test_hostile_models_place_points_or_say_why(tmp_path):
    """Whatever numbers a model holds, and whichever were taken out: finite places, or a ValueError."""
    header, body = take_apart(DATA["placing"])
    arrays, new, outcomes = arrays_of(header, body), np.full((3, 3), 0.3), Counter()
    files = [
        with_arrays(header, {**arrays, name: np.full_like(a, number)})
        for name, a in arrays.items()
        for number in ((np.nan, 1e308, -1e308, 1e-300, 0.0) if a.dtype.kind == "f" else (-1, 0, 23))
    ]
    for number in (1e308, 1e-300):  # of one point alone: kernels once went on for ever
        alone = arrays["embedding_"].copy()
        alone[5, 0] = number
        files.append(with_arrays(header, {**arrays, "embedding_": alone}))
    for group in (PARAMETERS, ATTRIBUTES):
        for name in header["__metadata__"]["content"][group[-1]]:
            files += [
                put_together(changed(header, (*group, name), v), body)
                for v in random.Random(name).sample((10**30, "precomputed", [1], "remove"), 2)
            ]
    for data in files:
        (tmp_path / "file").write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                load(tmp_path / "file").transform(new)
                outcomes["placed"] += 1
            except (ValueError, TypeError) as error:
                outcomes["refused"] += isinstance(error, StoreError)
    assert min(outcomes.values()) > 20
