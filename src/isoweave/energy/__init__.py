"""What is minimised: frames with an inner product, plain distances, anchors, and sums of these."""

from isoweave.energy._energies import (
    AnchorEnergy,
    DistanceEnergy,
    EdgeEnergy,
    Energy,
    Evaluation,
    FrameEnergy,
    PaperEnergy,
    Sum,
    edge_energy,
    paper_energy,
)
from isoweave.energy._operators import differences, divergence, edge_laplacian, paper_differential

__all__ = [
    "AnchorEnergy",
    "DistanceEnergy",
    "EdgeEnergy",
    "Energy",
    "Evaluation",
    "FrameEnergy",
    "PaperEnergy",
    "Sum",
    "differences",
    "divergence",
    "edge_energy",
    "edge_laplacian",
    "paper_differential",
    "paper_energy",
]
