"""The engine for graphs beyond one machine: PETSc and MPI, one share of the graph on every rank."""

from isoweave.cluster._share import Halo as Halo, Ranks as Ranks, Share as Share
