"""The engine for graphs beyond one machine: PETSc and MPI, one share of the graph on every rank."""

from isoweave.cluster._build import distribute as distribute, read_share as read_share, share_of as share_of
from isoweave.cluster._components import components_of as components_of
from isoweave.cluster._fit import check_cluster_options as check_cluster_options, embed_share as embed_share
from isoweave.cluster._job import all_ranks as all_ranks, embed_file as embed_file
from isoweave.cluster._journal import ClusterInterrupt as ClusterInterrupt, ClusterJournal as ClusterJournal
from isoweave.cluster._share import (
    CallerRows as CallerRows,
    ElsewhereError as ElsewhereError,
    Halo as Halo,
    Ranks as Ranks,
    Share as Share,
)
