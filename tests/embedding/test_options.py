"""Options: presets resolved, every value checked."""

from __future__ import annotations

import numpy as np
import pytest
from isoweave.embedding import resolve_options


def test_defaults():
    options = resolve_options(3)
    assert options.n_components == 3
    assert (options.inner_product, options.calibrate, options.volumes) == ("edge", "rows", "equal")
    assert options.optimizer == "lbfgs"
    assert options.drop_shortcuts
    assert (options.start, options.solver, options.frame_size) == ("auto", "auto", "auto")


def test_paper():
    options = resolve_options(2, preset="paper")
    assert (options.inner_product, options.calibrate, options.volumes) == ("paper", "none", "hull")
    assert (options.start, options.solver, options.frame_size) == ("identity", "ic", "all")
    assert options.optimizer == "alternating"
    assert not options.drop_shortcuts
    assert (options.tol, options.max_iter) == (1e-7, 1000)


def test_what_is_given_wins_over_the_preset():
    options = resolve_options(
        2,
        preset="paper",
        start="landmark",
        solver="direct",
        inner_product="edge",
        frame_size=12,
        calibrate=True,
        shortcuts=True,
        tol=1e-3,
        max_iter=7,
    )
    assert (options.inner_product, options.calibrate, options.start) == ("edge", "rows", "landmark")
    assert (options.solver, options.frame_size, options.drop_shortcuts) == ("direct", 12, True)
    assert (options.tol, options.max_iter) == (1e-3, 7)


def test_the_papers_product_alone_brings_its_frames():
    options = resolve_options(2, inner_product="paper")
    assert (options.frame_size, options.calibrate, options.optimizer) == ("all", "none", "lbfgs")


@pytest.mark.parametrize(
    ("given", "resolved"), [(True, "rows"), (False, "none"), (np.True_, "rows"), ("vertices", "vertices")]
)
def test_calibrate_takes_booleans(given, resolved):
    assert resolve_options(2, calibrate=given).calibrate == resolved


@pytest.mark.parametrize(
    ("given", "resolved"), [(True, True), (False, False), ("keep", False), ("auto", True)]
)
def test_shortcuts_take_booleans(given, resolved):
    assert resolve_options(2, shortcuts=given).drop_shortcuts is resolved


def test_numpy_scalars_become_plain():
    options = resolve_options(
        np.int64(2), frame_size=np.float32(2.5), tol=np.float64(0.1), max_iter=np.int8(4)
    )
    assert type(options.n_components) is int
    assert type(options.frame_size) is float
    assert type(options.max_iter) is int
    assert type(resolve_options(2, frame_size=np.int32(9)).frame_size) is int


@pytest.mark.parametrize(
    ("name", "value", "error", "text"),
    [
        ("n_components", 0, ValueError, "n_components must be an integer >= 1, got 0"),
        ("n_components", 2.0, TypeError, "n_components must be an integer, got 2.0 of type float"),
        ("n_components", "two", TypeError, "n_components must be an integer, got 'two'"),
        ("preset", "fast", ValueError, "preset must be one of 'default', 'paper', got 'fast'"),
        ("preset", None, TypeError, "preset must be one of"),
        ("start", "landmarks", ValueError, "start must be one of .*got 'landmarks'. Did you mean 'landmark'"),
        ("solver", "lu", ValueError, "solver must be one of .* got 'lu'"),
        ("inner_product", "edges", ValueError, "inner_product must be one of .*Did you mean 'edge'"),
        ("frame_size", "some", ValueError, "frame_size must be one of 'auto', 'all', got 'some'"),
        ("frame_size", 1, ValueError, "frame_size must be an integer >= 2, got 1"),
        ("frame_size", 0.5, ValueError, "frame_size must be a finite number >= 1.0, got 0.5"),
        ("frame_size", float("nan"), ValueError, "frame_size must be a finite number"),
        ("frame_size", None, TypeError, "frame_size must be .* got None"),
        ("frame_size", True, TypeError, "frame_size must be .* got True"),
        ("calibrate", "columns", ValueError, "calibrate must be one of .* got 'columns'"),
        ("calibrate", 1, TypeError, "calibrate must be one of .* got 1 of type int"),
        ("scale", "landmarks", ValueError, "scale must be one of 'edges', 'geodesics', got 'landmarks'"),
        ("shortcuts", "none", ValueError, "shortcuts must be one of .* got 'none'"),
        ("components", "join", ValueError, "components must be one of .* got 'join'"),
        ("tol", 0, ValueError, "tol must be a finite number > 0.0, got 0"),
        ("tol", -1e-3, ValueError, "tol must be a finite number > 0.0, got -0.001"),
        ("tol", "small", TypeError, "tol must be a real number, got 'small'"),
        ("max_iter", 0, ValueError, "max_iter must be an integer >= 1, got 0"),
        ("max_iter", 2.5, TypeError, "max_iter must be an integer, got 2.5"),
    ],
)
def test_wrong_values_are_named(name, value, error, text):
    settings = {"n_components": 2} | {name: value}
    with pytest.raises(error, match=text):
        resolve_options(**settings)
