"""What generators and loaders return."""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Feature vectors and whatever is known about them.

    Attributes
    ----------
    name : str
    data : array of shape (n, D)
        One row per point, ready for a nearest-neighbour search.
    parameters : float64 array of shape (n, d) or None
        The intrinsic coordinates each point was made from (or its measured pose); what
        :func:`isoweave.metrics.parameter_error` compares with.
    labels : integer array of shape (n,) or None
    label_names : tuple of str or None
        Name of each label value, where the source has names.
    isometric : bool
        True when distances between ``parameters`` are the manifold's geodesic distances, so that
        ``parameters`` is the embedding to be recovered up to a rigid motion.
    """

    name: str
    data: FloatArray
    parameters: FloatArray | None = None
    labels: AnyArray | None = None
    label_names: tuple[str, ...] | None = None
    isometric: bool = False

    @property
    def truth(self) -> FloatArray | None:
        """``parameters`` where they are isometric, for ``procrustes_error``; otherwise None."""
        return self.parameters if self.isometric else None

    @property
    def n_samples(self) -> int:
        return len(self.data)


@dataclass(frozen=True, eq=False)
class GraphDataset:
    """A distance graph, with the positions of its vertices where they are known.

    Attributes
    ----------
    name : str
    graph : csr_array of shape (n, n)
        Symmetric; every stored entry is an edge, explicit zeros included.
    truth : float64 array of shape (n, d) or None
        True positions, in the unit of the edge lengths.
    anchors : intp array of shape (a,)
        Vertices whose positions are given to the method (sensor networks); empty elsewhere.
    labels : integer array of shape (n,) or None
    vertex_names : tuple of str or None
    faces : integer array of shape (m, 3) or None
        Triangles, for meshes.
    """

    name: str
    graph: sp.csr_array
    truth: FloatArray | None
    anchors: AnyArray
    labels: AnyArray | None = None
    vertex_names: tuple[str, ...] | None = None
    faces: AnyArray | None = None

    @property
    def n_vertices(self) -> int:
        return int(self.graph.shape[0])
