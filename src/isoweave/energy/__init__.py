"""What is minimised: frames with an inner product, plain distances, anchors, and sums of these."""

from isoweave.energy._energies import (
    AnchorEnergy as AnchorEnergy,
    DistanceEnergy as DistanceEnergy,
    EdgeEnergy as EdgeEnergy,
    Energy as Energy,
    Evaluation as Evaluation,
    FrameEnergy as FrameEnergy,
    PaperEnergy as PaperEnergy,
    Sum as Sum,
    edge_energy as edge_energy,
    paper_energy as paper_energy,
)
from isoweave.energy._global import GlobalEnergy as GlobalEnergy
from isoweave.energy._operators import (
    differences as differences,
    divergence as divergence,
    edge_laplacian as edge_laplacian,
    paper_differential as paper_differential,
)
