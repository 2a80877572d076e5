"""Minimising an energy: starts, L-BFGS, the paper's recursion, and the driver that runs them."""

from isoweave.optimise._alternating import Alternating
from isoweave.optimise._coarse import THINNING, CoarseLevel, coarsen, prolong, sample_vertices
from isoweave.optimise._driver import minimise
from isoweave.optimise._errors import (
    NumericalError,
    UnsolvedError,
    badly_solved,
    check_finite,
    numerical_stage,
    unsolved,
)
from isoweave.optimise._global import balanced_weight, global_energy, openness
from isoweave.optimise._landmark import (
    N_LANDMARKS,
    Landmarks,
    classical_scaling,
    farthest_landmarks,
    find_landmarks,
    landmark_start,
)
from isoweave.optimise._lbfgs import LBFGS
from isoweave.optimise._problem import Problem, build_problem
from isoweave.optimise._run import (
    ALONE,
    Interrupt,
    Journal,
    Progress,
    Record,
    Report,
    Run,
)
from isoweave.optimise._starts import (
    ENDED_EARLY,
    LOW_DIMENSION,
    SYNCHRONIZED_LIMIT,
    Plan,
    minimise_from,
    sample_energy,
)
from isoweave.optimise._state import Callback, IterationResult, IterationState, StepRecord
from isoweave.optimise._synchronize import connection_laplacian, frame_transitions, synchronized_alignments

__all__ = [
    "ALONE",
    "ENDED_EARLY",
    "LBFGS",
    "LOW_DIMENSION",
    "N_LANDMARKS",
    "SYNCHRONIZED_LIMIT",
    "THINNING",
    "Alternating",
    "Callback",
    "CoarseLevel",
    "Interrupt",
    "IterationResult",
    "IterationState",
    "Journal",
    "Landmarks",
    "NumericalError",
    "Plan",
    "Problem",
    "Progress",
    "Record",
    "Report",
    "Run",
    "StepRecord",
    "UnsolvedError",
    "badly_solved",
    "balanced_weight",
    "build_problem",
    "check_finite",
    "classical_scaling",
    "coarsen",
    "connection_laplacian",
    "farthest_landmarks",
    "find_landmarks",
    "frame_transitions",
    "global_energy",
    "landmark_start",
    "minimise",
    "minimise_from",
    "numerical_stage",
    "openness",
    "prolong",
    "sample_energy",
    "sample_vertices",
    "synchronized_alignments",
    "unsolved",
]
