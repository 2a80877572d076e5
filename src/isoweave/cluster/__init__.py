"""The engine for graphs beyond one machine: PETSc and MPI, one share of the graph on every rank."""

from isoweave.cluster._fit import check_cluster_options as check_cluster_options, embed_share as embed_share
from isoweave.cluster._job import all_ranks as all_ranks, embed_file as embed_file
from isoweave.cluster._share import ElsewhereError as ElsewhereError, Ranks as Ranks, Share as Share
