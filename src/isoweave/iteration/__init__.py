"""The energy, its starts and its minimisation."""

from isoweave.iteration._alternating import alternate
from isoweave.iteration._anchoring import Anchoring
from isoweave.iteration._coarse import CoarseLevel, coarsen, prolong, sample_vertices
from isoweave.iteration._distances import DistanceProblem, distance_problem
from isoweave.iteration._landmark import classical_scaling, farthest_landmarks, landmark_start
from isoweave.iteration._lbfgs import minimize_energy
from isoweave.iteration._problem import AlignmentProblem, Evaluation, build_problem
from isoweave.iteration._rigid import rigid_motion
from isoweave.iteration._run import (
    ALONE,
    Checkpoint,
    Interrupt,
    Journal,
    Progress,
    Record,
    Report,
    Run,
)
from isoweave.iteration._starts import (
    Landmarks,
    coarse_start,
    find_landmarks,
    optimise_from,
    synchronized_start,
)
from isoweave.iteration._state import (
    Callback,
    IterationResult,
    IterationState,
    NumericalError,
    StepRecord,
    UnsolvedError,
)
from isoweave.iteration._stretch import local_stretch
from isoweave.iteration._synchronize import connection_laplacian, lowest_eigenvectors, synchronized_alignments

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
    "lowest_eigenvectors",
    "minimize_energy",
    "optimise_from",
    "prolong",
    "rigid_motion",
    "sample_vertices",
    "synchronized_alignments",
    "synchronized_start",
]
