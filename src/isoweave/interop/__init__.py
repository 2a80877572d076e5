"""Graphs of other libraries in, coordinates back: networkx, igraph and AnnData.

None of them is imported here: objects are read through their own methods, so none needs to be installed.
"""

from isoweave.interop._graphs import (
    NamedDistances as NamedDistances,
    distances_of as distances_of,
    from_anndata as from_anndata,
    from_geopandas as from_geopandas,
    from_igraph as from_igraph,
    from_networkx as from_networkx,
    is_anndata as is_anndata,
    map_of_anndata as map_of_anndata,
    to_anndata as to_anndata,
)
