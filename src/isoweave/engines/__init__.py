"""Compiled kernels: everything that would be written anew for another device.

A kernel is a function of a range of items, ``kernel(start, stop, *arrays)``, that writes only to the rows of
its range; :class:`isoweave._parallel.ThreadTeam` hands out the ranges. A fit spends its time in these:

================  ==========================================  ================================================
operation         computes                                    kernels
================  ==========================================  ================================================
local geodesics   shortest paths among a vertex's neighbours  ``paths.settle``, ``local_mds``
frames            Gram matrices, leading eigenvectors         ``local_mds.local_mds_in`` (``small``)
evaluate          best rotations, energies, residual fluxes,  ``alignment.align_edges_in``, ``align_rank``,
                  the half gradient as their divergence       ``divergence`` (``small``)
Laplacian         product of a sparse matrix with a block     ``sparse.multiply_rows``
its solve         Cholesky factor, complete or not, its solve; ``cholesky``;
                  conjugate gradients, multigrid              ``sparse.advance_chunks``, ``multigrid``
dot               column sums in an order that never changes  ``sparse.dot_chunks``
================  ==========================================  ================================================

The engine for CUDA (:mod:`isoweave.cuda`) has the same table with arrays on the device; one for PETSc would
share out vertices among ranks: evaluate exchanges the rows next door, solve and dot are PETSc's own.
The optimisers call evaluate, solve and dot, nothing else. Beside the table there are kernels of starts,
placing, neighbour searches and diagnoses (``coarse``, ``placing``, ``neighbors``, ``paths``, ``cells``).
``plain`` and ``plain_frames`` have some of them in numpy for small problems, and ``ahead`` compiles several
at once when nothing is compiled yet. All other modules here import numba, so they are imported inside
functions only, or as a :class:`isoweave._lazy.LazyModule`.
"""
