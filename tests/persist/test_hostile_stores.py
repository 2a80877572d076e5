"""Stores that are damaged, or made to do harm: StoreError, always, and nothing else."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import os
import pickle
import random

import numpy as np
import pytest

import fuzz_target
from isoweave.persist import StoreError, load, read_store, save, write_store
from isoweave.persist._npy import npy_header
from packed_store import manifest_of, read_files, replace, with_array, with_manifest, write_files

SAMPLES = fuzz_target.SAMPLES / "v1"
KINDS = ("embedding", "estimator")
# Of every type, and on both sides of every limit.
STRANGE = (None, True, -1, 0, 1.5, 10**30, "", "x", "../x.npy", "é\ud800", [], [1], {}, {"$type": "array"})
STRUCTURE = ("format", "format_version", "isoweave_version", "kind", "arrays")


@pytest.fixture
def place(tmp_path):
    """Write files to a new folder and return it."""
    numbers = itertools.count()

    def write(files):
        path = tmp_path / f"store{next(numbers)}"
        write_files(path, files)
        return path

    return write


def refused(path, match=None):
    with pytest.raises(StoreError, match=match) as caught:
        load(path)
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    return caught.value


def nodes(value, at=()):
    """Every place in a JSON value."""
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from nodes(value[key], (*at, key))


def changed(value, at, new):
    """A copy with another value at a place; ``new`` may be "remove"."""
    if not at:
        return new
    made = copy.deepcopy(value)
    inner = made
    for key in at[:-1]:
        inner = inner[key]
    if new == "remove":
        del inner[at[-1]]
    else:
        inner[at[-1]] = new
    return made


def outcome(path):
    try:
        return load(path)
    except StoreError as error:
        return error


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_the_manifest(tmp_path, kind):
    """With all checksums made right, as an attacker can: what describes the store is never just believed."""
    files = read_files(SAMPLES / kind)
    manifest = manifest_of(files)
    path = tmp_path / "store"
    write_files(path, files)
    n_refused = n_loaded = 0
    for at in nodes(manifest):
        before = manifest
        for key in at:
            before = before[key]
        for new in ("remove", *STRANGE) if at else STRANGE:
            damaged = with_manifest(files, changed(manifest, at, new))
            for name in ("manifest.json", "manifest.sha256"):
                replace(path / name, damaged[name])
            found = outcome(path)
            is_same = type(before) is type(new) and before == new
            if isinstance(found, StoreError):
                n_refused += 1
                assert found.path == path
                assert not is_same
                if at and at[0] in STRUCTURE and new != {}:
                    assert str(at[-1] if len(at) < 4 else at[-2]) in str(found)
            else:
                # Other parameters, numbers and texts are as good as the first; the structure is not.
                n_loaded += 1
                harmless = at[:1] in (("parameters",), ("scalars",)) or at == ("isoweave_version",)
                assert is_same or harmless, f"{at}: {new!r} was accepted"
    assert n_refused > 1000
    assert n_loaded > 0


def test_a_changed_manifest_is_noticed(place):
    """Without the checksum made right no change at all goes through, not even of a digit."""
    files = read_files(SAMPLES / "embedding")
    data = files["manifest.json"]
    for at in random.Random(8).sample(range(len(data)), 100):
        flipped = bytes([data[at] ^ 1])
        path = place({**files, "manifest.json": data[:at] + flipped + data[at + 1 :]})
        refused(path, r"manifest\.json: has changed since it was written")


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_arrays(tmp_path, kind):
    files = read_files(SAMPLES / kind)
    path = tmp_path / "store"
    write_files(path, files)
    rng = random.Random(9)
    for name, entry in manifest_of(files)["arrays"].items():
        file, data = path / entry["file"], files[entry["file"]]
        for cut in {0, 1, 9, 10, 64, 127, 128, len(data) - 1} - {len(data)}:
            replace(file, data[:cut])
            refused(path, rf"arrays\.{name}\.bytes: .* has {cut:,} bytes, the manifest says")
        replace(file, data + b"\0")
        refused(path, rf"arrays\.{name}\.bytes: ")
        for at in {0, 7, 8, 20, *rng.sample(range(len(data)), 10)}:
            bit = 1 << rng.randrange(8)
            replace(file, data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
            refused(path, rf"arrays\.{name}")
        file.unlink()
        refused(path, rf"arrays\.{name}: file {entry['file']} is missing")
        file.write_bytes(data)
    load(path)


def test_damaged_arrays_with_checksums_made_right(place):
    files = read_files(SAMPLES / "embedding")
    data = files["coordinates.npy"]
    for bad in (b"", data[:-1], data + b"\0", data[:5], data[:64], b"PK" + data[2:]):
        refused(place(with_array(files, "coordinates", bad)), r"arrays\.coordinates")
    pickled = data[:8] + data[8:].replace(b"'<f8'", b"'|O' ") + pickle.dumps(print)
    refused(place(with_array(files, "coordinates", pickled)), "does not open as a .npy file with <f8")
    other_shape = npy_header("<f8", (2, 11), False) + data[128:]
    refused(place(with_array(files, "coordinates", other_shape)), r"with <f8 of shape \(11, 2\)")
    version_2 = data[:6] + b"\2\0" + data[8:10] + b"\0\0" + data[10:]
    refused(place(with_array(files, "coordinates", version_2)), "does not open as a .npy file")


def test_booleans_must_be_booleans(tmp_path, place):
    write_store(tmp_path / "s", "example", arrays={"x": np.array([True, False])})
    files = read_files(tmp_path / "s")
    bad = with_array(files, "x", files["x.npy"][:-1] + b"\2")
    with pytest.raises(StoreError, match=r"arrays\.x: x\.npy holds booleans that are neither 0 nor 1"):
        read_store(place(bad))


TEXTS = {
    "empty": (b"", "not JSON"),
    "not an object": (b"[1]", "must be an object"),
    "a number": (b"3", "must be an object"),
    "twice": (b'{"format": "isoweave-store", "format": "x"}', "key 'format' is given twice"),
    "deep": (b"[" * 100_000, "nested 100000 levels deep"),
    "deep in objects": (b'{"a":' * 70, "nested 70 levels deep"),
    "not finite": (b'{"format": NaN}', "NaN is not JSON"),
    "too large": (b'{"format": 1e999}', "number 1e999 is too large"),
    "long number": (b'{"format": ' + b"9" * 100_000 + b"}", "number of 100000 digits"),
    "long fraction": (b'{"format": 0.' + b"9" * 100_000 + b"}", "is too large or too long"),
    "not utf-8": (b'{"format": "\xff"}', "not UTF-8 at byte 12"),
    "byte order mark": (b'\xef\xbb\xbf{"format": 1}', "not JSON"),
    "trailing": (b'{"format": 1} x', "not JSON"),
    "never closed": (b'{"format": "' + b'\\"' * 1_000_000, "not JSON"),
    "brackets in text": (b'{"' + b"[" * 1000 + b'": 1}', "format: is missing"),
    "too long": (b" " * ((4 << 20) + 1), "has 4,194,305 bytes, more than 4,194,304"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_manifests_that_are_no_manifest(place, name):
    data, reason = TEXTS[name]
    refused(place(with_manifest(read_files(SAMPLES / "embedding"), data)), reason)


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b"0" * 64, b"0" * 64 + b"  manifest.json", b"0" * 64 + b"  other.json\n", b"\0" * 2000],
    ids=repr,
)
def test_checksum_files_that_are_none(place, line):
    files = {**read_files(SAMPLES / "embedding"), "manifest.sha256": line}
    refused(place(files), r"manifest\.sha256: (must be the line|has 2,000 bytes)")


def test_unlisted_files_are_not_looked_at(place):
    files = {**read_files(SAMPLES / "embedding"), "extra.npy": b"x", "notes.txt": b"x", ".DS_Store": b""}
    load(place(files))


@pytest.mark.parametrize(
    "name",
    [
        "../coordinates.npy",
        "/etc/passwd",
        "a/coordinates.npy",
        "..",
        ".npy",
        "coordinates.npy\0",
        "coordinates.npy/",
        "\\\\host\\x.npy",
        "C:x.npy",
        "~x.npy",
        "manifest.json",
        "coordinates.npy ",
        "graph.lengths.npy",
        "GRAPH.LENGTHS.npy",
    ],
)
def test_names_of_files(place, name):
    files = read_files(SAMPLES / "embedding")
    manifest = manifest_of(files)
    manifest["arrays"]["coordinates"]["file"] = name
    refused(
        place(with_manifest(files, manifest)), r"arrays\.\S+\.file: (must be the plain|is the file of arr)"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and pipes")
@pytest.mark.parametrize("name", ["manifest.json", "manifest.sha256", "coordinates.npy"])
@pytest.mark.parametrize("kind", ["link", "link outside", "dangling", "loop", "folder", "pipe", "device"])
def test_links_folders_and_pipes(place, tmp_path, name, kind):
    files = read_files(SAMPLES / "embedding")
    path = place(files)
    (tmp_path / "secret").write_bytes(files[name])
    (path / "copy").write_bytes(files[name])
    (path / name).unlink()
    if kind == "folder":
        (path / name).mkdir()
    elif kind == "pipe":
        os.mkfifo(path / name)
    else:
        target = {"link": "copy", "link outside": tmp_path / "secret", "device": "/dev/zero"}.get(kind, name)
        (path / name).symlink_to("none" if kind == "dangling" else target)
    refused(path, "is a symbolic link, which a store never holds|is not a regular file|cannot be read")


@pytest.mark.parametrize("mmap", [False, True])
def test_a_file_of_holes(tmp_path, place, mmap):
    """A file may claim any size at no cost; memory is not taken for more than the machine has."""
    write_store(tmp_path / "s", "example", arrays={"x": np.zeros(2)})
    files = read_files(tmp_path / "s")
    manifest = manifest_of(files)
    entry = manifest["arrays"]["x"]
    n = 1 << 40
    entry["shape"], entry["bytes"] = [n], 8 * n + 128
    path = place(with_manifest(files, manifest))
    header = npy_header("<f8", (n,), False)
    with pytest.raises(StoreError, match="x.npy has 144 bytes, the manifest says 8,796,093,022,336"):
        read_store(path, mmap=True)
    try:
        with (path / "x.npy").open("wb") as file:
            file.write(header)
            file.truncate(8 * n + 128)
    except OSError:
        pytest.skip("this file system has no files of 8 TB")
    if not mmap:
        with pytest.raises(StoreError, match="arrays: 8,796,093,022,208 bytes, more than the machine's"):
            read_store(path)


def test_shapes_too_large_for_numpy(place):
    files = read_files(SAMPLES / "embedding")
    manifest = manifest_of(files)
    for shape in ([0, 2**62], [2**62, 2**62], [2**63], [1] * 33, [2**31, 2**31, 0]):
        manifest["arrays"]["coordinates"]["shape"] = shape
        refused(place(with_manifest(files, manifest)), r"arrays\.coordinates\.shape: ")


def array_bytes(array):
    return npy_header(array.dtype.str, array.shape, False) + array.tobytes()


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("graph.indices", lambda a: a + 1, "indices must lie in 0 .. 10"),
        ("graph.indices", lambda a: a * 0 - 1, "indices must lie in 0 .. 10"),
        ("graph.indices", lambda a: a[::-1], "indices must rise"),
        ("graph.indices", lambda a: np.where(a == 10, 9, a), "vertex 9 is joined to itself"),
        ("graph.indices", lambda a: np.where(a == 10, 8, a), "one direction only"),
        ("graph.indptr", lambda a: a + 1, "indptr must rise from 0"),
        ("graph.indptr", lambda a: np.where(np.arange(12) == 5, 1000, a), "indptr must rise from 0"),
        ("graph.indptr", lambda a: a[:0], "indptr must rise from 0"),
        ("graph.lengths", lambda a: a[:-1], "lengths for"),
        ("graph.lengths", lambda a: a * np.nan, "lengths must be finite"),
        ("graph.lengths", lambda a: -a, "lengths must be finite, not negative"),
        ("graph.lengths", lambda a: a + np.arange(len(a)), "the same in both directions"),
        ("graph.lengths", lambda a: a.astype(np.float32), "lengths must be a 1-D array of float64"),
        ("coordinates", lambda a: a[:-1], "coordinates: must have the shape 11xany"),
        ("coordinates", lambda a: a.ravel(), "coordinates: must have the shape"),
        ("coordinates", lambda a: a.astype(np.int64), "coordinates: must be an array of floats"),
        ("alignments", lambda a: a[:, :1], "alignments: must have the shape 11x2x2"),
        ("stretch", lambda a: a.T.copy(), "stretch: must have the shape 11x2"),
        ("component_labels", lambda a: a[:3], "component_labels: must have the shape 11"),
        ("component_labels", lambda a: a - 1, "component_labels: must lie in 0 .. 10, found -1 to 0"),
        ("dropped_edges", lambda a: np.array([[0, 99]], np.int32), "dropped_edges: must lie in 0 .. 10"),
        ("history", lambda a: a[:, :3], "the table has 3 columns"),
        ("history", lambda a: a + 0.5, "no whole number"),
        ("history", lambda a: a * np.nan, "no whole number"),
    ],
)
def test_arrays_that_do_not_fit(place, name, change, reason):
    """Numbers a compiled kernel would take for indices are checked, whatever their checksums say."""
    files = read_files(SAMPLES / "embedding")
    manifest = manifest_of(files)
    array = np.ascontiguousarray(change(read_store(SAMPLES / "embedding").arrays[name]))
    manifest["arrays"][name] |= {"shape": list(array.shape), "dtype": array.dtype.str}
    refused(place(with_array(with_manifest(files, manifest), name, array_bytes(array))), reason)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("graph_.indices", lambda a: a + 1, "indices must lie in 0 .. 19"),
        ("graph_.indices", lambda a: a.astype(np.float64), "indices must be a 1-D array of int32 or int64"),
        ("graph_.indptr", lambda a: a + 1, "indptr must rise from 0"),
        ("graph_.data", lambda a: a[:-1], "data and indices must be 1-D and of one length"),
        ("embedding_", lambda a: a[:-1], "_: must have the shape 19x"),
        ("component_labels_", lambda a: a + 1000, "component_labels_: must lie in 0 .. 19, found 1000"),
        ("random_state.key", lambda a: a[:-1], "the state has 623 words"),
        ("random_state.key", lambda a: a.astype(np.int64), "key must be a 1-D array of uint32"),
        ("feature_names_in_.ends", lambda a: a[::-1], "the ends of the strings must rise"),
        ("feature_names_in_.ends", lambda a: a - 3, "the ends of the strings must rise"),
        ("feature_names_in_.bytes", lambda a: a * 0 + 255, "utf-8"),
        ("feature_names_in_.bytes", lambda a: a[:-1], "the ends of the strings must rise"),
    ],
)
def test_arrays_of_estimators_that_do_not_fit(place, name, change, reason):
    files = read_files(SAMPLES / "estimator")
    manifest = manifest_of(files)
    array = np.ascontiguousarray(change(read_store(SAMPLES / "estimator").arrays[name]))
    manifest["arrays"][name] |= {"shape": list(array.shape), "dtype": array.dtype.str}
    refused(place(with_array(with_manifest(files, manifest), name, array_bytes(array))), reason)


@pytest.mark.parametrize(
    ("at", "new", "reason"),
    [
        (("parameters", "n_clusters"), 3, "parameters.n_clusters: IsometricEmbedding has no such parameter"),
        (("parameters", "self"), 3, "has no such parameter"),
        (("parameters", "random_state", "pos"), 100_000, "the state has 624 words and stands at 100000"),
        (("parameters", "random_state", "has_gauss"), 2, "a number that is none"),
        (("parameters", "n_components", "value"), 2**70, "is no valid numpy"),
        (("parameters", "n_components", "value"), 2.0, "2.0 is no int64"),
        (("parameters", "n_components", "dtype"), "|O", "unknown dtype"),
        (("scalars", "class"), "Pipeline", "must be 'IsometricEmbedding', found 'Pipeline'"),
        (("scalars", "attributes", "fit"), None, "'fit' is no fitted attribute"),
        (("scalars", "attributes", "__class__"), "x", "'__class__' is no fitted attribute"),
        (("scalars", "attributes", "_n_features_out"), 1, "is no fitted attribute"),
        (("scalars", "attributes", "a b_"), 1, "is no fitted attribute"),
        (("scalars", "attributes", "energy_"), "low", "energy_: cannot be of type str"),
        (("scalars", "attributes", "n_components_"), 3, "n_components_: must be 2, found 3"),
        (("scalars", "attributes", "n_neighbors_"), 0, "n_neighbors_: must be positive, found 0"),
        (("scalars", "attributes", "n_iter_"), True, "n_iter_: cannot be of type bool"),
        (("scalars", "attributes", "graph_"), None, "graph_"),
        (("scalars", "attributes", "graph_", "class"), "lil_array", "unknown class 'lil_array'"),
        (("scalars", "attributes", "graph_", "shape"), [20, 21], "graph_: must be a sparse matrix of shape"),
        (("scalars", "attributes", "graph_", "shape"), [2**62, 20], "indptr must rise|no shape"),
        (("scalars", "attributes", "x_"), {"$type": "pickle", "data": ""}, "unknown type 'pickle'"),
        (("scalars", "attributes", "x_"), {"$type": "record", "class": "os", "fields": {}}, "unknown class"),
        (("scalars", "attributes", "x_"), {"$type": "array", "name": "none"}, "there is no array 'none'"),
        (("scalars", "attributes", "x_"), {"$type": "array", "name": ["a"]}, "there is no array"),
        (("scalars", "attributes", "x_"), {"$type": ["array"]}, "unknown type"),
        (("scalars", "attributes", "x_"), [{"$type": "array", "name": "stretch_"}] * 8, "more than 8 times"),
        (("scalars", "attributes", "x_"), {"$type": "tuple", "items": 3}, "items must be a list"),
        (("scalars", "attributes", "x_"), {"$type": "float", "value": "1"}, "must be nan, inf or -inf"),
    ],
)
def test_values_that_do_harm(place, at, new, reason):
    files = read_files(SAMPLES / "estimator")
    refused(place(with_manifest(files, changed(manifest_of(files), at, new))), reason)


def test_many_equal_keys_do_not_take_long(place):
    data = b"{" + b",".join(b'"%d":1' % (i % 100_000) for i in range(100_001)) + b"}"
    refused(place(with_manifest(read_files(SAMPLES / "embedding"), data)), "key '0' is given twice")


def test_too_many_arrays(place):
    files = read_files(SAMPLES / "embedding")
    manifest = manifest_of(files)
    entry = manifest["arrays"]["coordinates"]
    manifest["arrays"] = {f"a{i}": entry for i in range(10_001)}
    refused(place(with_manifest(files, manifest)), "10001 arrays, more than 10000")


def test_the_error_survives_a_process_pool():
    error = StoreError(SAMPLES, "kind", "is wrong")
    again = pickle.loads(pickle.dumps(error))
    assert (again.path, again.field, again.reason, str(again)) == (SAMPLES, "kind", "is wrong", str(error))


def test_unreadable_files(place, monkeypatch):
    path = place(read_files(SAMPLES / "embedding"))

    def refuse(name, flags, mode=0o777, *, dir_fd=None):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    refused(path, "cannot be read: Permission denied")


class TestFuzzTarget:
    def test_seeds_load(self):
        found = [fuzz_target.target(seed) for seed in fuzz_target.seeds()]
        assert len(found) == 9
        assert not any(isinstance(result, StoreError) for result in found)

    def test_random_damage(self):
        """A short run without guidance; the real one has coverage to go by."""
        rng = random.Random(77)
        seeds = fuzz_target.seeds()
        outcomes = {True: 0, False: 0}
        for _ in range(300):
            data = bytearray(rng.choice(seeds))
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(data))
                way = rng.randrange(4)
                if way == 0:
                    data[at] ^= 1 << rng.randrange(8)
                elif way == 1:
                    del data[at : at + rng.randint(1, 30)]
                elif way == 2:
                    data[at:at] = bytes(rng.choices(b'{}[]":,019e-x\xff\0', k=rng.randint(1, 8)))
                else:
                    start = rng.randrange(len(data))
                    data[at : at + 20] = data[start : start + 20]
            outcomes[isinstance(fuzz_target.target(bytes(data)), StoreError)] += 1
        assert outcomes[True] > 100
        assert outcomes[False] > 0

    @pytest.mark.parametrize("data", [b"", b"\0", b"\2", b"\1\x05name", b"\0" * 500, b"\2" + b"\xff" * 500])
    def test_short_and_empty(self, data):
        result = fuzz_target.target(data)
        assert result is None or isinstance(result, StoreError)


def test_samples_are_sealed_as_the_writer_seals_them():
    """The helper that plays the attacker seals as the writer does: otherwise it would test nothing."""
    files = read_files(SAMPLES / "estimator")
    digest = hashlib.sha256(files["manifest.json"]).hexdigest()
    assert files["manifest.sha256"] == f"{digest}  manifest.json\n".encode()
    assert with_manifest(files, files["manifest.json"]) == files
    for entry in json.loads(files["manifest.json"])["arrays"].values():
        assert hashlib.sha256(files[entry["file"]]).hexdigest() == entry["sha256"]


def test_what_is_refused_can_be_saved_again(tmp_path, embedding, place):
    path = place({**read_files(SAMPLES / "embedding"), "coordinates.npy": b""})
    refused(path)
    save(embedding, path)
    load(path)
