"""The energy, its starts and its minimisation."""

from isoweave.optimise._alternating import alternate
from isoweave.optimise._anchoring import Anchoring
from isoweave.optimise._coarse import CoarseLevel, coarsen, prolong, sample_vertices
from isoweave.optimise._distances import DistanceProblem, distance_problem
from isoweave.optimise._landmark import classical_scaling, farthest_landmarks, landmark_start
from isoweave.optimise._lbfgs import minimize_energy
from isoweave.optimise._problem import AlignmentProblem, Evaluation, build_problem
from isoweave.optimise._rigid import rigid_motion
from isoweave.optimise._run import (
    ALONE,
    Checkpoint,
    Interrupt,
    Journal,
    Progress,
    Record,
    Report,
    Run,
)
from isoweave.optimise._starts import (
    Landmarks,
    coarse_start,
    find_landmarks,
    optimise_from,
    synchronized_start,
)
from isoweave.optimise._state import (
    Callback,
    IterationResult,
    IterationState,
    NumericalError,
    StepRecord,
    UnsolvedError,
)
from isoweave.optimise._stretch import local_stretch
from isoweave.optimise._synchronize import connection_laplacian, synchronized_alignments

__all__ = [
    "ALONE",
    "AlignmentProblem",
    "Anchoring",
    "Callback",
    "Checkpoint",
    "CoarseLevel",
    "DistanceProblem",
    "Evaluation",
    "Interrupt",
    "IterationResult",
    "IterationState",
    "Journal",
    "Landmarks",
    "NumericalError",
    "Progress",
    "Record",
    "Report",
    "Run",
    "StepRecord",
    "UnsolvedError",
    "alternate",
    "build_problem",
    "classical_scaling",
    "coarse_start",
    "coarsen",
    "connection_laplacian",
    "distance_problem",
    "farthest_landmarks",
    "find_landmarks",
    "landmark_start",
    "local_stretch",
    "minimize_energy",
    "optimise_from",
    "prolong",
    "rigid_motion",
    "sample_vertices",
    "synchronized_alignments",
    "synchronized_start",
]
