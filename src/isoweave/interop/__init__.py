"""Graphs of other libraries in, coordinates back: networkx, igraph and AnnData.

None of them is imported here: objects are read through their own methods, so none needs to be installed.
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
