"""Graphs of other libraries in, coordinates back: networkx, igraph and AnnData.

None of them is imported here: objects are read through their own methods, so nothing needs to be installed
that made no object.
"""

from isoweave.interop._graphs import (
    NamedDistances,
    distances_of,
    from_anndata,
    from_igraph,
    from_networkx,
    to_anndata,
)

__all__ = ["NamedDistances", "distances_of", "from_anndata", "from_igraph", "from_networkx", "to_anndata"]
