"""Which solver a Laplacian gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isoweave.linalg._base import MAX_FILL, Laplacian, prepare_laplacian
from isoweave.linalg._ordering import MAX_FILL_RATIO

# Up to here even a full factor takes a fraction of a second.
_SMALL = 3000
# From this dimension on neighbourhood graphs are so well connected that diagonal preconditioning needs few
# iterations and beats a multigrid cycle; in five dimensions they take about as long.
_WELL_CONDITIONED = 8


@dataclass(frozen=True)
class SolverChoice:
    """What ``solver="auto"`` resolves to and why.

    Attributes
    ----------
    solver : str
    reason : str
    predicted_fill : float or None
        Entries of the Cholesky factor; infinite if counting them was given up, None if not counted.
    """

    solver: str
    reason: str
    predicted_fill: float | None


def choose_solver(laplacian: Any, n_components: int) -> SolverChoice:
    """Pick a solver for a Laplacian by its size, the fill of its factor and the dimension.

    The first rule that applies:

    1. up to 3,000 vertices: ``direct``;
    2. the Cholesky factor, counted exactly from its elimination tree without being computed, has at
       most 50 times the entries of the Laplacian (and 2.5e8): ``direct``. Graphs of surfaces have 3 to 5
       times, 50,000 points of a cube 28 times, 10,000 MNIST digits 37 times, 20,000 points in five
       dimensions 97 times; a factor was worth making from 16, 24 and 80 solves on in the last three;
    3. ``n_components`` of 8 and more: ``jacobi``;
    4. otherwise ``amg``.

    Parameters
    ----------
    laplacian : sparse matrix of shape (n, n)
    n_components : int
        Dimension of the embedding.

    Returns
    -------
    SolverChoice

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> choose_solver(sp.csr_array(np.array([[1.0, -1.0], [-1.0, 1.0]])), 2).solver
    'direct'
    """
    return choose_for(prepare_laplacian(laplacian), n_components)


def choose_for(laplacian: Laplacian, n_components: int) -> SolverChoice:
    """:func:`choose_solver` for a prepared Laplacian."""
    if laplacian.n <= _SMALL:
        return SolverChoice("direct", f"{laplacian.n} vertices, at most {_SMALL}", None)
    fill = float(laplacian.elimination.fill)
    ratio = fill / len(laplacian.data)
    told = f"its Cholesky factor has {ratio:.0f} times the entries of the Laplacian"
    if fill <= MAX_FILL and ratio <= MAX_FILL_RATIO:
        return SolverChoice("direct", f"{told}, at most {MAX_FILL_RATIO:.0f}", fill)
    if fill > MAX_FILL:
        fill, told = float("inf"), f"its Cholesky factor has more than {MAX_FILL:,} entries"
    if n_components >= _WELL_CONDITIONED:
        return SolverChoice(
            "jacobi", f"{told}, and {n_components} dimensions are well conditioned", float(fill)
        )
    return SolverChoice(
        "amg", f"{told}, and {n_components} dimensions need more than a diagonal", float(fill)
    )
