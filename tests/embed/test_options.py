"""Options: declared once and found everywhere, presets resolved, every value checked."""

import inspect
from dataclasses import fields

import numpy as np
import pytest

from isoweave import IsometricEmbedding, embed_graph
from isoweave.options import FitOptions, SearchOptions, resolve_options

DECLARED = [*fields(SearchOptions), *fields(FitOptions)]


@pytest.mark.parametrize("target", [embed_graph, IsometricEmbedding])
def test_every_option_is_on_the_signature_and_in_the_documentation(target):
    declared = DECLARED if target is IsometricEmbedding else fields(FitOptions)
    signature, page = inspect.signature(target).parameters, " ".join(target.__doc__.split())
    assert "{options}" not in page
    for f in declared:
        assert signature[f.name].default is f.default
        assert signature[f.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert f"{f.name} : {f.metadata['kind']}, default={f.default!r}" in page
        assert " ".join(f.metadata["help"].split()) in page
        assert f.metadata["help"].endswith(".")
        assert f.metadata["command"].endswith(".")
        assert "\n" not in f.metadata["command"]
        assert f.metadata["kind"] != "{}"
        assert all(choice in f.metadata["kind"] for choice in f.metadata["choices"])
    own = {"matrix", "anchors", "weights", "n_components", "self"}
    assert set(signature) <= own | {f.name for f in declared}


def test_unknown_options_are_named():
    with pytest.raises(TypeError, match=r"There is no option 'colour'; the options are .*calibrate.*verbose"):
        resolve_options(2, colour=3)
    with pytest.raises(TypeError, match="'start_at'"):
        embed_graph(np.eye(3), start_at="landmark")


def test_defaults_and_presets():
    options = resolve_options(3)
    assert (options.n_components, options.optimizer, options.shortcuts) == (3, "lbfgs", "drop")
    assert (options.inner_product, options.calibrate) == ("edge", "rows")
    assert (options.start, options.solver, options.frame_size) == ("auto", "auto", "auto")
    assert (options.tol, options.max_iter, options.energy_tol) == (0.03, 500, 0.03)
    paper = resolve_options(2, preset="paper")
    assert (paper.inner_product, paper.calibrate) == ("paper", "none")
    assert (paper.start, paper.solver, paper.frame_size) == ("identity", "ic", "all")
    assert (paper.optimizer, paper.shortcuts) == ("alternating", "keep")
    assert (paper.tol, paper.max_iter, paper.energy_tol) == (1e-7, 1000, 0.03)
    # The paper's product alone brings its frames.
    alone = resolve_options(2, inner_product="paper")
    assert (alone.frame_size, alone.calibrate, alone.optimizer) == ("all", "none", "lbfgs")

    given = {"start": "landmark", "solver": "direct", "inner_product": "edge", "frame_size": 12}
    given |= {"calibrate": True, "shortcuts": True, "tol": 1e-3, "max_iter": 7}
    options = resolve_options(2, preset="paper", **given)
    assert {name: getattr(options, name) for name in given} == given | {
        "calibrate": "rows",
        "shortcuts": "drop",
    }


def test_booleans_and_numpy_scalars_become_words_and_plain_numbers():
    for name, words in (("calibrate", ("none", "rows")), ("shortcuts", ("keep", "drop"))):
        for given in (False, True, np.True_):
            assert getattr(resolve_options(2, **{name: given}), name) == words[int(given)]
    given = {"frame_size": np.float32(2.5), "tol": np.float64(0.1), "max_iter": np.int8(4)}
    options = resolve_options(np.int64(2), **given)
    assert [type(getattr(options, name)) for name in ("n_components", *given)] == [int, float, float, int]
    assert type(resolve_options(2, frame_size=np.int32(9)).frame_size) is int


def test_fingerprint_sees_what_results_depend_on():
    here = resolve_options(2).fingerprint()
    for f in fields(FitOptions):
        assert (f.name in here) == (f.metadata["matters"] and f.name != "random_state")
    assert resolve_options(2, random_state=3).fingerprint() != here
    assert resolve_options(2, n_jobs=3, verbose=2, memory_limit="4GB").fingerprint() == here


WRONG = """
n_components | 0            | ValueError | n_components must be an integer >= 1, got 0
start        | "landmarks"  | ValueError | start must be one of .*got 'landmarks'. Did you mean 'landmark'
frame_size   | "some"       | ValueError | frame_size must be one of 'auto', 'all', got 'some'
frame_size   | 1            | ValueError | frame_size must be an integer >= 2, got 1
frame_size   | 0.5          | ValueError | frame_size must be a finite number >= 1.0, got 0.5
frame_size   | float("nan") | ValueError | frame_size must be a finite number
frame_size   | True         | TypeError  | frame_size must be .* got True
checkpoint   | "file"       | TypeError  | checkpoint must be an isoweave.Checkpoint or None, got 'file'
callback     | 3            | TypeError  | callback must be callable or None, got 3
random_state | "seed"       | TypeError  | random_state must be an integer, got 'seed'
random_state | -1           | ValueError | random_state must be an integer >= 0, got -1
tol          | 0            | ValueError | tol must be a finite number > 0.0, got 0
tol          | "small"      | TypeError  | tol must be a real number, got 'small'
max_iter     | 0            | ValueError | max_iter must be an integer >= 1, got 0
max_iter     | 2.5          | TypeError  | max_iter must be an integer, got 2.5
"""


@pytest.mark.parametrize("line", WRONG.strip().splitlines())
def test_wrong_values_are_named(line):
    name, value, error, text = (part.strip() for part in line.split("|"))
    with pytest.raises({"ValueError": ValueError, "TypeError": TypeError}[error], match=text):
        resolve_options(**{"n_components": 2} | {name: eval(value)})


@pytest.mark.parametrize("name", [f.name for f in fields(FitOptions) if f.metadata["choices"]])
def test_wrong_words_are_named(name):
    with pytest.raises(ValueError, match=rf"^{name} must be one of .*, got 'xyz'\.$"):
        resolve_options(2, **{name: "xyz"})
    if name != "start":
        with pytest.raises(TypeError, match=rf"^{name} must be one of .* got 3 of type int"):
            resolve_options(2, **{name: 3})
