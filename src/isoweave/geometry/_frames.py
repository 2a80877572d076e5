"""The container of local Euclidean frames."""

from __future__ import annotations

from dataclasses import dataclass

from isoweave._typing import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class LocalFrames:
    """Local Euclidean coordinates of every vertex's neighbours, in the order of the graph's edges.

    Attributes
    ----------
    rows : float64 array of shape (m, N)
        ``rows[e]`` is E_i[j] for the stored edge e = (i, j): where j lies as seen from i, in axes that belong
        to i alone (eq. 3). Directions a neighbourhood does not have are zero.
    included : bool array of shape (m,)
        Edges that have a row. Only hubs leave some out: the frame of a vertex holds its nearest
        neighbours up to a limit, and the other end of the edge has a row for it.
    spectrum : float64 array of shape (n, N)
        Leading eigenvalues of the local Gram matrices, largest first.
    fidelity : float64 array of shape (n,)
        Part of the local Gram matrix that N directions explain, in 0 .. 1 (squares of eigenvalues).
    inverse : float64 array of shape (m, N) or None
        V S^(-1/2) restricted to the neighbours, unweighted (eq. 4); None unless asked for.
    """

    rows: FloatArray
    included: BoolArray
    spectrum: FloatArray
    fidelity: FloatArray
    inverse: FloatArray | None = None

    @property
    def n_components(self) -> int:
        return self.rows.shape[1]
