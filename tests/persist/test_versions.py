"""Stores of earlier and later versions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fuzz_target import SAMPLES
from isoweave import IsometricEmbedding
from isoweave.embedding import Embedding
from isoweave.persist import StoreError, load, read_store, write_store
from isoweave.persist import _manifest as manifest_module
from isoweave.persist._versions import FORMAT, MIGRATIONS, VERSION, migrate, parse_version
from packed_store import manifest_of, read_files, with_manifest, write_files


class TestSamples:
    """These files were written once and are never changed: what they hold must come out for ever."""

    def test_there_is_one_of_every_major_version(self):
        found = {path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name.startswith("v")}
        assert found == {f"v{major}" for major in range(1, VERSION[0] + 1)}

    @pytest.mark.parametrize("mmap", [False, True])
    def test_embedding_of_version_1(self, mmap):
        result = load(SAMPLES / "v1" / "embedding", mmap=mmap)
        assert type(result) is Embedding
        assert result.coordinates.shape == (11, 2)
        assert result.coordinates.dtype == np.float64
        assert result.coordinates[3].tolist() == [-1.1081014573046821, 0.7653142946967808]
        assert result.energy.hex() == "0x1.ef5d207a80000p-95"
        assert result.component_labels.tolist() == [0] * 9 + [1, 1]
        assert result.graph.n_vertices == 11
        assert result.graph.n_edges == 37
        assert (result.graph.lengths == 0).sum() == 2
        assert result.dropped_edges.shape == (0, 2)
        assert [step.iteration for step in result.history] == list(range(result.n_iter + 1))
        assert result.status == "converged"
        assert result.solver == "direct: 9 vertices, at most 3000"

    def test_estimator_of_version_1(self):
        model = load(SAMPLES / "v1" / "estimator")
        assert type(model) is IsometricEmbedding
        parameters = model.get_params()
        assert parameters["metric"] == "seuclidean"
        assert parameters["metric_params"]["V"].tolist() == [1.0, 2.0, 0.5]
        assert type(parameters["n_components"]) is np.int64
        assert parameters["tol"] == 0.01
        assert parameters["random_state"].randint(10**6) == 608720
        assert model.embedding_.dtype == np.float32
        assert model.embedding_[7].tolist() == [-0.9001391530036926, 0.5873034596443176]
        assert model.feature_names_in_.tolist() == ["x", "y", "größe"]
        assert model.notes_ == {"list": [1, 2.5, (None, True)], "limit": math.inf}
        assert model.n_iter_ == len(model.history_) - 1 == 6
        assert model.graph_.shape == (20, 20)
        assert model.graph_.nnz == 156

    def test_new_points_in_a_map_of_version_1(self):
        model = load(SAMPLES / "v1" / "placing")
        found = model.transform(np.array([[0.1, -0.2, 0.3], [0.5, 0.5, -0.5]]))
        # The way of placing may be refined; the places stay.
        np.testing.assert_allclose(found, [[-0.131, -0.106], [-0.909, 0.238]], atol=0.05)
        np.testing.assert_array_equal(model.transform(model._fit_X), model.embedding_)

    def test_a_sample_can_be_fitted_again(self):
        model = load(SAMPLES / "v1" / "estimator")
        data = np.random.default_rng(6).normal(size=(30, 3))
        assert model.fit_transform(data).shape == (30, 2)


@pytest.fixture
def rewritten(tmp_path):
    """The sample embedding with a changed manifest."""
    files = read_files(SAMPLES / "v1" / "embedding")

    def write(change):
        manifest = manifest_of(files)
        change(manifest)
        write_files(tmp_path / "store", with_manifest(files, manifest))
        return tmp_path / "store"

    return write


def test_unknown_fields_are_refused_in_our_own_version(rewritten):
    with pytest.raises(
        StoreError, match="unknown field 'compression'; the fields are format, format_version"
    ):
        load(rewritten(lambda manifest: manifest.update(compression="none")))


def test_unknown_fields_of_arrays_are_refused(rewritten):
    with pytest.raises(StoreError, match=r"arrays\.coordinates: unknown field 'unit'"):
        load(rewritten(lambda manifest: manifest["arrays"]["coordinates"].update(unit="m")))


def test_a_newer_minor_version_may_have_more_fields(rewritten):
    def change(manifest):
        manifest["format_version"] = f"{VERSION[0]}.{VERSION[1] + 3}"
        manifest["compression"] = "none"
        manifest["arrays"]["coordinates"]["unit"] = "m"
        manifest["scalars"]["verdict"] = "flat"
        manifest["scalars"]["graph"]["fields"]["weights"] = None

    path = rewritten(change)
    assert read_store(path).is_newer
    assert load(path).status == "converged"


def test_a_newer_minor_version_is_read_as_strictly_otherwise(rewritten):
    def change(manifest):
        manifest["format_version"] = f"{VERSION[0]}.{VERSION[1] + 1}"
        del manifest["scalars"]["energy"]

    with pytest.raises(StoreError, match=r"scalars\.energy: is missing"):
        load(rewritten(change))


def test_a_newer_major_version_is_refused(rewritten):
    def change(manifest):
        manifest["format_version"] = f"{VERSION[0] + 1}.2"
        manifest["isoweave_version"] = "7.1.0"
        del manifest["arrays"]

    reason = (
        rf"format_version: written in format {VERSION[0] + 1}\.2 by isoweave '7\.1\.0'; isoweave .* reads "
        rf"formats up to {VERSION[0]}\.x; a newer one is needed"
    )
    with pytest.raises(StoreError, match=reason):
        load(rewritten(change))


@pytest.mark.parametrize("text", ["1", "1.0.0", "01.0", "0.9", "1.-1", "a.b", "", "1.0 ", "99999.0", "¹.0"])
def test_what_is_no_version(rewritten, text):
    with pytest.raises(StoreError, match="format_version: must be 'major.minor', found"):
        load(rewritten(lambda manifest: manifest.update(format_version=text)))


def test_parameters_an_estimator_has_gained_take_their_default(tmp_path):
    files = read_files(SAMPLES / "v1" / "estimator")
    manifest = manifest_of(files)
    del manifest["parameters"]["scale"]
    write_files(tmp_path / "store", with_manifest(files, manifest))
    assert load(tmp_path / "store").scale == "edges"


class TestMigrations:
    """As they will be once there is a version 2, in which the energy counts twice, say."""

    @pytest.fixture
    def version_2(self, monkeypatch):
        def upgrade(manifest):
            energy = manifest["scalars"].pop("energy")
            manifest["scalars"]["energy"] = energy * 2
            return manifest

        monkeypatch.setattr(manifest_module, "VERSION", (2, 1))
        monkeypatch.setitem(MIGRATIONS, 1, upgrade)

    def test_an_older_store_is_brought_up_to_date(self, version_2):
        energy = manifest_of(read_files(SAMPLES / "v1" / "embedding"))["scalars"]["energy"]
        assert load(SAMPLES / "v1" / "embedding").energy == 2 * energy

    def test_a_store_that_breaks_a_migration_is_refused(self, version_2, rewritten):
        path = rewritten(lambda manifest: manifest["scalars"].pop("energy"))
        with pytest.raises(
            StoreError, match=r"format_version: cannot be brought from 1\.0 to 2\.1: KeyError"
        ):
            load(path)

    def test_a_missing_migration_is_named(self, monkeypatch):
        monkeypatch.setattr(manifest_module, "VERSION", (3, 0))
        monkeypatch.setitem(MIGRATIONS, 1, lambda manifest: manifest)
        with pytest.raises(StoreError, match="no migration from format 2 to 3"):
            load(SAMPLES / "v1" / "embedding")

    def test_they_are_applied_in_order(self):
        migrations = {major: lambda m, major=major: {**m, "seen": [*m["seen"], major]} for major in (1, 2, 3)}
        found = migrate({"seen": []}, (1, 4), (3, 0), migrations)
        assert found == {"seen": [1, 2], "format_version": "3.0"}
        same = {"seen": []}
        assert migrate(same, (3, 0), (3, 2), migrations) is same

    def test_every_older_version_has_one(self):
        assert set(MIGRATIONS) == set(range(1, VERSION[0]))


def test_a_new_store_says_what_it_is(tmp_path):
    write_store(tmp_path / "s", "example", parameters={"a": 1})
    manifest = manifest_of(read_files(tmp_path / "s"))
    assert list(manifest) == [
        "format",
        "format_version",
        "isoweave_version",
        "kind",
        "parameters",
        "scalars",
        "arrays",
    ]
    assert manifest["format"] == FORMAT
    assert parse_version(manifest["format_version"]) == VERSION
