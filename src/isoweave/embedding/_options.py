"""The options of an embedding: checked once, presets resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from isoweave._memory import parse_memory_limit
from isoweave._typing import FloatArray
from isoweave._validation import check_integer, check_option, check_real

PRESETS = ("default", "paper")
STARTS = ("auto", "landmark", "synchronised", "coarse", "identity")
INNER_PRODUCTS = ("auto", "edge", "paper")
CALIBRATE = ("auto", "rows", "vertices", "none")
SCALES = ("edges", "geodesics")
SHORTCUTS = ("auto", "drop", "keep")
COMPONENTS = ("separate", "largest", "bridge", "error")
REFINE = ("none", "distances")
SOLVER_NAMES = ("auto", "direct", "cholmod", "amg", "jacobi", "ic")

DEFAULT_TOL = 0.03
PAPER_TOL = 1e-7


@dataclass(frozen=True)
class EmbeddingOptions:
    """Resolved options: no "auto" is left except where it is decided per graph (start, solver, frame size).

    ``tol`` and ``max_iter`` have the meaning of the optimiser in use: see
    :func:`isoweave.optimise.minimize_energy` and :func:`isoweave.optimise.alternate`. ``memory_limit`` is
    bytes, infinite for none; None takes what the machine allows (:mod:`isoweave._memory`).
    """

    n_components: int
    start: str | FloatArray
    solver: str
    inner_product: str
    edge_weights: str
    volumes: str
    frame_size: int | float | str
    calibrate: str
    scale: str
    drop_shortcuts: bool
    components: str
    optimizer: str
    tol: float
    max_iter: int
    seed: int
    memory_limit: float | None = None
    refine: str = "none"


def resolve_options(
    n_components: int,
    *,
    preset: str = "default",
    start: str | Any = "auto",
    solver: str = "auto",
    inner_product: str = "auto",
    frame_size: int | float | str = "auto",
    calibrate: bool | str = "auto",
    scale: str = "edges",
    shortcuts: str | bool = "auto",
    components: str = "separate",
    tol: float | None = None,
    max_iter: int | None = None,
    seed: int = 0,
    memory_limit: float | str | None = None,
    refine: str = "none",
) -> EmbeddingOptions:
    """Check every option and fill in what the preset says.

    Anything given explicitly wins over the preset; "auto" and None ask the preset.
    """
    check_integer("n_components", n_components, minimum=1)
    paper = check_option("preset", preset, PRESETS) == "paper"
    inner = check_option("inner_product", inner_product, INNER_PRODUCTS)
    if inner == "auto":
        inner = "paper" if paper else "edge"
    if isinstance(calibrate, bool | np.bool_):
        calibrate = "rows" if calibrate else "none"
    check_option("calibrate", calibrate, CALIBRATE)
    if calibrate == "auto":
        # The paper's inner product goes with its own inverse frames;
        # rescaled rows would no longer match them.
        calibrate = "none" if inner == "paper" else "rows"
    if isinstance(shortcuts, bool | np.bool_):
        shortcuts = "drop" if shortcuts else "keep"
    check_option("shortcuts", shortcuts, SHORTCUTS)
    if shortcuts == "auto":
        shortcuts = "keep" if paper else "drop"
    if isinstance(frame_size, str):
        check_option("frame_size", frame_size, ("auto", "all"))
        if frame_size == "auto" and inner == "paper":
            frame_size = "all"
    elif isinstance(frame_size, float | np.floating):
        frame_size = check_real("frame_size", frame_size, minimum=1.0)
    else:
        frame_size = check_integer("frame_size", frame_size, minimum=2)
    if isinstance(start, str):
        check_option("start", start, STARTS)
        if start == "auto" and paper:
            start = "identity"
    else:
        start = np.asarray(start)
    check_option("solver", solver, SOLVER_NAMES)
    if solver == "auto" and paper:
        solver = "ic"
    if check_option("refine", refine, REFINE) == "distances" and inner == "paper":
        raise ValueError(
            "refine='distances' needs one weight per edge, but the inner product is the paper's; "
            "use inner_product='edge'."
        )
    optimizer = "alternating" if paper else "lbfgs"
    if tol is None:
        tol = PAPER_TOL if paper else DEFAULT_TOL
    if max_iter is None:
        max_iter = 1000 if paper else 500
    return EmbeddingOptions(
        n_components=int(n_components),
        start=start,
        solver=solver,
        inner_product=inner,
        edge_weights="uniform",
        volumes="hull" if paper else "equal",
        frame_size=frame_size,
        calibrate=calibrate,
        scale=check_option("scale", scale, SCALES),
        drop_shortcuts=shortcuts == "drop",
        components=check_option("components", components, COMPONENTS),
        optimizer=optimizer,
        tol=check_real("tol", tol, minimum=0.0, include_minimum=False),
        max_iter=check_integer("max_iter", max_iter, minimum=1),
        seed=seed,
        memory_limit=parse_memory_limit(memory_limit),
        refine=refine,
    )
