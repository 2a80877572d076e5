"""Minimising an energy: starts, L-BFGS, the paper's recursion, and the driver that runs them."""

from isoweave.optimise._blocks import Blocks as Blocks, mean_degrees as mean_degrees
from isoweave.optimise._global import (
    agreement as agreement,
    balanced_weight as balanced_weight,
    energy_over_stress as energy_over_stress,
    far_landmarks as far_landmarks,
    flatness as flatness,
    global_energy as global_energy,
    long_distances as long_distances,
    mean_degree as mean_degree,
    mixed_part as mixed_part,
    n_far_landmarks as n_far_landmarks,
    opened as opened,
    openness as openness,
)
from isoweave.optimise._lifted import (
    EXTRA as EXTRA,
    MENDED as MENDED,
    LiftedFit as LiftedFit,
    is_met as is_met,
    is_trusted as is_trusted,
    mended as mended,
    misfit as misfit,
    rebuilt as rebuilt,
    seems_exact as seems_exact,
)
from isoweave.optimise._many import (
    AT_ONCE as AT_ONCE,
    MANY as MANY,
    Fits as Fits,
    globalise_many as globalise_many,
    minimise_many as minimise_many,
    refine_many as refine_many,
)
from isoweave.optimise._optimisers import LBFGS as LBFGS, Alternating as Alternating, minimise as minimise
from isoweave.optimise._problem import (
    MANY_NUMBERS as MANY_NUMBERS,
    NumericalError as NumericalError,
    Problem as Problem,
    UnsolvedError as UnsolvedError,
    badly_solved as badly_solved,
    build_problem as build_problem,
    check_finite as check_finite,
    numerical_stage as numerical_stage,
)
from isoweave.optimise._rotations import frame_transitions as frame_transitions
from isoweave.optimise._run import (
    ALONE as ALONE,
    Callback as Callback,
    Interrupt as Interrupt,
    IterationResult as IterationResult,
    IterationState as IterationState,
    Progress as Progress,
    Record as Record,
    Run as Run,
    StepRecord as StepRecord,
    steps_of as steps_of,
    table_of as table_of,
)
from isoweave.optimise._starts import (
    DENSE_DEGREE as DENSE_DEGREE,
    ENDED_EARLY as ENDED_EARLY,
    LOW_DIMENSION as LOW_DIMENSION,
    N_LANDMARKS as N_LANDMARKS,
    SAMPLE_FRAME as SAMPLE_FRAME,
    SYNCHRONIZED_LIMIT as SYNCHRONIZED_LIMIT,
    THINNING as THINNING,
    coarsen as coarsen,
    companion_width as companion_width,
    connection_laplacian as connection_laplacian,
    crowding as crowding,
    find_landmarks as find_landmarks,
    landmark_projector as landmark_projector,
    minimise_from as minimise_from,
    sample_energy as sample_energy,
    sample_vertices as sample_vertices,
)
