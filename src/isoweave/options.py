"""Every option of a fit, declared once.

Signatures, documentation, command line, checks and the fingerprint of a checkpoint come from the fields below
(docs/architecture.md). Nothing heavy is imported before a value is checked: the command line reads the help.
"""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any

DEFAULT_TOL = 0.03
# What "auto" and None stand for, by default and with preset="paper".
_BY_PRESET: dict[str, tuple[Any, Any]] = {
    "start": ("auto", "identity"),
    "solver": ("auto", "ic"),
    "inner_product": ("edge", "paper"),
    "shortcuts": ("drop", "keep"),
    "global_weight": ("auto", 0.0),
    "tol": (DEFAULT_TOL, 1e-7),
    "max_iter": (500, 1000),
}


def option(
    default: Any,
    help: str,
    *,
    kind: str = "",
    choices: tuple[str, ...] = (),
    command: str = "",
    flag: str = "",
    on_command: bool = True,
    matters: bool = True,
) -> Any:
    """A field that is an option.

    ``help`` is for the documentation, of which the command line shows the first sentence unless ``command``
    is given; ``kind`` says what it may be, by default one of its choices; ``flag`` is its short name. Options
    that do not ``matter`` change no result.
    """
    words = " ".join(help.split())
    kind = kind or "{" + ", ".join(f'"{choice}"' for choice in choices) + "}"
    command = command or words.split(". ")[0].rstrip(".") + "."
    metadata: dict[str, Any] = {"help": words, "kind": kind, "choices": choices, "command": command}
    return field(
        default=default, metadata=metadata | {"flag": flag, "on_command": on_command, "matters": matters}
    )


@dataclass(kw_only=True, eq=False, repr=False)
class SearchOptions:
    """From features to a graph."""

    n_neighbors: int = option(
        10,
        "Neighbours of each point, for features and for a dense distance matrix. Clipped to "
        "``n_samples - 1`` with a warning.",
        kind="int",
        flag="k",
    )
    metric: Any = option(
        "euclidean",
        """Any metric of scikit-learn. "precomputed": X is a sparse graph of distances, used as it is (stored
        zeros are duplicates), or a dense matrix of all distances, of which ``n_neighbors`` per point are
        used.""",
        kind="str or callable",
        command="Distance between features, as in scikit-learn.",
    )
    metric_params: dict[str, Any] | None = option(
        None, "Keyword arguments of the metric.", kind="dict or None", on_command=False
    )
    denoise: int | None = option(
        None,
        """Move every point to the mean of this many nearest, twice, before neighbours are searched. For
        features so noisy that parts which should be apart touch each other; 30 to 60 are good values, and on
        clean data it does harm.""",
        kind="int or None",
        command="Move every point to the mean of this many nearest first (noisy features).",
    )


@dataclass(kw_only=True, eq=False, repr=False)
class FitOptions:
    """From a graph to its embedding."""

    preset: str = option(
        "default",
        """"paper" is the method as published: second-order frames, its inner product with hull volumes, start
        at the identity, alternating recursion, no filter, no calibration.""",
        choices=("default", "paper"),
        command="The defaults, or the method as published.",
    )
    start: Any = option(
        "auto",
        """Where the optimisation begins. "auto" takes the landmark start or, in up to three dimensions, the
        synchronized one if that ends with clearly less energy; large graphs start from the embedding of a
        sample ("coarse"). "lifted" fits the distances in N + 2 dimensions and squeezes two of them out: for
        few, exact distances. An array has shape (n, N).""",
        kind='{"auto", "landmark", "synchronized", "coarse", "lifted", "identity"} or array',
        choices=("auto", "landmark", "synchronized", "coarse", "lifted", "identity"),
    )
    solver: str = option(
        "auto",
        'Solver of the Poisson problems. :func:`isoweave.linalg.choose_solver` returns what "auto" takes.',
        choices=("auto", "direct", "amg", "jacobi", "ic"),
    )
    inner_product: str = option(
        "auto",
        'How mismatches are weighted: one weight per edge, or the paper\'s. "auto" follows the preset.',
        choices=("auto", "edge", "paper"),
        command="How mismatches are weighted (edge: one weight per edge).",
    )
    frame_size: Any = option(
        "auto",
        'Vertices per local frame; a float is a multiple of the typical degree, "auto" is 2.5.',
        kind='"auto", "all", int or float',
        command="Vertices per local frame: auto, all, their number or, with a decimal point, a multiple "
        "of the neighbours, such as 2.5.",
    )
    calibrate: Any = option(
        "auto",
        "Rescale the frames to the measured lengths.",
        kind='bool or {"auto", "rows", "vertices", "none"}',
        choices=("auto", "rows", "vertices", "none"),
    )
    scale: str = option(
        "edges",
        "Whether the overall size of the embedding follows the edges or the shortest paths.",
        choices=("edges", "geodesics"),
    )
    shortcuts: Any = option(
        "auto",
        "Whether to remove edges that short-circuit the data.",
        kind='bool or {"auto", "drop", "keep"}',
        choices=("auto", "drop", "keep"),
    )
    along_graph: int | None = option(
        None,
        """Join every vertex to this many nearest along the graph, at the lengths of the paths, before
        embedding. For graphs in which hardly any neighbours are neighbours of each other, such as roads and
        grids; 8 to 16 are good values.""",
        kind="int or None",
        command="Join every vertex to this many nearest along the graph (roads, grids).",
    )
    components: str = option(
        "separate",
        """What to do with a disconnected graph: embed every part and lay them side by side, embed the largest
        (the other rows are NaN), join the parts by their nearest points ("bridge", features only), or
        refuse.""",
        choices=("separate", "largest", "bridge", "error"),
        command="What to do with a disconnected graph (bridge needs features).",
    )
    asymmetry: str = option(
        "error",
        "What to do where the two directions of a precomputed edge differ by more than rounding.",
        choices=("error", "max", "min", "mean"),
    )
    refine: str = option(
        "auto",
        """Whether to finish with a least-squares fit of the distances. It minimises the sum of squares of
        ``|y_i - y_j| - d_ij`` over the edges, to the last digit where they are exact: better where the data
        do lie in N dimensions, worse on closed surfaces in too few dimensions. "auto" does so where the data
        are flat in N dimensions, until nothing could be seen to move; elsewhere distances get a part of the
        weight of neighbourhoods, beside the long distances of ``global_weight``.""",
        choices=("auto", "none", "distances"),
    )
    loss: str = option(
        "squares",
        """What distances that do not fit cost: "robust" gives wrong ones less weight. The fit is then
        repeated with less weight on edges that do not fit, until nothing changes (up to 8 times).""",
        choices=("squares", "robust"),
        command="What to minimise (robust: wrong distances get less weight).",
    )
    global_weight: Any = option(
        "auto",
        """How much long distances count beside short ones: "auto", or a number from 0. It is the weight of
        the stress to landmark geodesics: 0 keeps neighbourhoods only, 1 costs them little, 100 is a better
        Isomap. "auto" is 0 where the data are flat in N dimensions, whatever their outline, and up to 1.2
        elsewhere.""",
        kind='"auto" or float',
        command="Weight of long distances: auto, or from 0, neighbourhoods only, to 100, a better Isomap.",
    )
    tol: float | None = option(
        None,
        """Iterations end when one more sweep would change the embedding by less than ``tol`` times the
        remaining misfit; None is 0.03 (with ``preset="paper"`` 1e-7 on the alignments, the paper's rule).""",
        kind="float or None",
        command="Stop when one more sweep would change less than this fraction of the misfit.",
    )
    max_iter: int | None = option(
        None,
        'Maximum number of optimiser steps. None is 500 (1000 with ``preset="paper"``).',
        kind="int or None",
    )
    random_state: Any = option(
        None,
        "Seed of what is random: approximate neighbour search, hull volumes. None is a fixed seed.",
        kind="int, RandomState instance or None",
    )
    engine: str | None = option(
        None,
        """Where large components are embedded: on the CPU, on an NVIDIA GPU ("cuda", needs the extra
        ``gpu``), or on one if it is there and can do what is asked for ("auto"). None is what the environment
        variable ISOWEAVE_ENGINE says, otherwise the CPU. Embeddings agree to about nine digits. "petsc" is
        for the command under mpiexec alone: a graph in parts, one on each rank (docs/cluster.md).""",
        kind='{"cpu", "cuda", "auto", "petsc"} or None',
        choices=("cpu", "cuda", "auto", "petsc"),
        command="Where to compute (auto: an NVIDIA GPU if there is one; petsc: the ranks of mpiexec).",
        matters=False,
    )
    n_jobs: int | None = option(
        None,
        "Number of threads; None and -1 use all cores. Results do not depend on it.",
        kind="int or None",
        flag="j",
        command="Number of threads; all cores by default.",
        matters=False,
    )
    memory_limit: Any = option(
        None,
        """Refuse with a MemoryError, before the work begins, a fit whose process would grow beyond this:
        bytes, or text such as "4GB" or "512MiB". None is 90 % of what the machine or its container allows,
        "none" no limit.""",
        kind="float, str or None",
        command="Refuse a fit that would need more memory: bytes, 4GB, 512MiB, or none.",
        matters=False,
    )
    verbose: int = option(
        0,
        """1 prints findings along the way, 2 also every stage, and about once a second the step, the
        energy and the time left. The logger "isoweave" gets all of it.""",
        kind="int",
        on_command=False,
        matters=False,
    )
    callback: Any = option(
        None,
        """Called with an :class:`isoweave.optimise.IterationState` after every step (``stage``,
        ``iteration``, ``energy``, ``gradient_norm``, ``coordinates``); returning True ends the fit.""",
        kind="callable or None",
        on_command=False,
        matters=False,
    )
    checkpoint: Any = option(
        None,
        "Where to keep the state of a long fit, and whether to continue from it.",
        kind="isoweave.Checkpoint or None",
        on_command=False,
        matters=False,
    )
    on_interrupt: str = option(
        "raise",
        """What Ctrl-C does: raise KeyboardInterrupt (with a checkpoint: after the step, once the state is
        written), or return the best embedding so far with status "interrupted". A second Ctrl-C raises at
        once.""",
        choices=("raise", "return"),
        on_command=False,
        matters=False,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class EmbeddingOptions(FitOptions):
    """Checked options: no "auto" is left except where the graph decides (start, solver, frame size)."""

    n_components: int = 2
    seed: int = 0
    if TYPE_CHECKING:  # no longer None
        tol: float
        max_iter: int

    @property
    def optimizer(self) -> str:
        return "alternating" if self.preset == "paper" else "lbfgs"

    @property
    def energy_tol(self) -> float:
        """Tolerance on the energy; the recursion's own is on alignments."""
        return self.tol if self.optimizer == "lbfgs" else DEFAULT_TOL

    @property
    def keeps_lengths(self) -> bool:
        """Whether the embedding has the size of its edges."""
        return self.scale == "edges" and self.calibrate == "rows"

    @property
    def is_ordinary(self) -> bool:
        """Whether small components take all steps together; what is rarely asked for, each does alone."""
        start = self.start if isinstance(self.start, str) else "given"
        settings = (self.preset, self.inner_product, start, self.solver, self.scale, self.loss)
        usual = ("default", "edge", "auto", "auto", "edges", "squares")
        return self.refine != "distances" and settings == usual

    def fingerprint(self) -> dict[str, Any]:
        """The values that a result depends on, by name."""
        names = [f.name for f in fields(FitOptions) if f.metadata["matters"] and f.name != "random_state"]
        return {name: getattr(self, name) for name in ("n_components", "seed", *names)}


def resolve_options(n_components: int, *, seed: int | None = None, **given: Any) -> EmbeddingOptions:
    """Check every option and fill in what the preset says where "auto" or None is given."""
    import numpy as np

    from isoweave._memory import parse_memory_limit
    from isoweave._parallel import resolve_n_jobs
    from isoweave._validation import as_array, check_integer, check_option, check_real

    declared = {f.name: f for f in fields(FitOptions)}
    unknown = sorted(set(given) - set(declared))
    if unknown:
        raise TypeError(f"There is no option {unknown[0]!r}; the options are {', '.join(sorted(declared))}.")
    values = {name: given.get(name, f.default) for name, f in declared.items()}
    check_integer("n_components", n_components, minimum=1)
    check_integer("n_components", n_components, maximum=2**31 - 2)
    for name, words in (("calibrate", ("none", "rows")), ("shortcuts", ("keep", "drop"))):
        if isinstance(values[name], bool | np.bool_):
            values[name] = words[int(values[name])]
    if values["engine"] is None:
        values["engine"] = os.environ.get("ISOWEAVE_ENGINE") or "cpu"
    for name, f in declared.items():
        if f.metadata["choices"] and (name != "start" or isinstance(values[name], str)):
            check_option(name, values[name], f.metadata["choices"])
    for name, choices in _BY_PRESET.items():
        if isinstance(values[name], str | None) and values[name] == declared[name].default:
            values[name] = choices[values["preset"] == "paper"]
    paper_product = values["inner_product"] == "paper"
    if values["calibrate"] == "auto":
        # The paper's product goes with its own inverse frames, which rescaled rows would no longer match.
        values["calibrate"] = "none" if paper_product else "rows"
    size = values["frame_size"]
    if isinstance(size, str):
        check_option("frame_size", size, ("auto", "all"))
        values["frame_size"] = "all" if paper_product else size
    elif isinstance(size, float | np.floating):
        values["frame_size"] = check_real("frame_size", size, minimum=1.0)
    else:
        values["frame_size"] = check_integer("frame_size", size, minimum=2)
    if not isinstance(values["start"], str):
        values["start"] = as_array("start", values["start"])
    if values["refine"] == "auto" and paper_product:
        values["refine"] = "none"
    for name, value in (("refine", "distances"), ("loss", "robust")):
        if values[name] == value and paper_product:
            said = (
                "needs one weight per edge, but the inner product is the paper's; use inner_product='edge'."
            )
            raise ValueError(f"{name}={value!r} {said}")
    if not isinstance(values["global_weight"], str) or values["global_weight"] != "auto":
        values["global_weight"] = check_real("global_weight", values["global_weight"], minimum=0.0)
    if values["along_graph"] is not None:
        values["along_graph"] = check_integer("along_graph", values["along_graph"], minimum=1)
    values["tol"] = check_real("tol", values["tol"], minimum=0.0, include_minimum=False)
    values["max_iter"] = check_integer("max_iter", values["max_iter"], minimum=1)
    values["memory_limit"] = parse_memory_limit(values["memory_limit"])
    resolve_n_jobs(values["n_jobs"])
    verbose = int(values["verbose"]) if isinstance(values["verbose"], bool | np.bool_) else values["verbose"]
    values["verbose"] = check_integer("verbose", verbose, minimum=0)
    if values["callback"] is not None and not callable(values["callback"]):
        raise TypeError(f"callback must be callable or None, got {values['callback']!r}.")
    checkpoint = values["checkpoint"]
    if checkpoint is not None and not callable(getattr(checkpoint, "open", None)):
        raise TypeError(
            f"checkpoint must be an isoweave.Checkpoint or None, got {checkpoint!r}; write "
            "checkpoint=isoweave.Checkpoint(path)."
        )
    state = values["random_state"]
    if seed is None and (state is np.random or isinstance(state, np.random.RandomState)):
        seed = int(state.randint(np.iinfo(np.int32).max, size=1)[0])
    elif seed is None:
        state = check_integer("random_state", 0 if state is None else state, minimum=0)
        seed = check_integer("random_state", state, maximum=2**32 - 1)
    return EmbeddingOptions(n_components=int(n_components), seed=seed, **values)


def documented(*sources: type) -> Callable[[Any], Any]:
    """Put the options of these classes where the docstring says ``{options}``, and into the signature."""
    declared: list[Field[Any]] = [f for source in sources for f in fields(source)]

    def decorate(target: Any) -> Any:
        lines = []
        for f in declared:
            words = textwrap.wrap(f.metadata["help"], 100)
            lines += [f"{f.name} : {f.metadata['kind']}, default={f.default!r}", *(f"    {w}" for w in words)]
        target.__doc__ = inspect.cleandoc(target.__doc__ or "").replace("{options}", "\n".join(lines))
        if inspect.isfunction(target):
            signature = inspect.signature(target)
            made = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
            made += [
                inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default) for f in declared
            ]
            target.__signature__ = signature.replace(parameters=made)  # type: ignore[attr-defined]
        return target

    return decorate
