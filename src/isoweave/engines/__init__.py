"""Compiled kernels: everything that would be written anew for another device.

A kernel is a function of a range of items, ``kernel(start, stop, *arrays)``, that writes only to the rows of
its range; :class:`isoweave._parallel.ThreadTeam` hands out the ranges. The rooms above own the arrays and run
kernels through their team. A fit spends its time in a handful of operations, and those are what an engine for
another device provides:

================  ============================================  ==============================================
operation         computes                                      kernels
================  ============================================  ==============================================
local geodesics   shortest paths among a vertex's neighbours    ``neighborhoods``, ``local_mds``
frames            Gram matrices, leading eigenvectors           ``local_mds.local_mds`` (``eigen``)
evaluate          best rotations, energies, residual fluxes     ``alignment.align_edges``, ``align_rank``
                  and their divergence, the half gradient       ``alignment.divergence`` (``polar``)
Laplacian         product of a sparse matrix with a block       ``sparse.multiply_rows``
its solve         Cholesky factor and substitution; conjugate   ``elimination``, ``cholesky``;
                  gradients, multigrid sweeps                   ``sparse.advance_chunks``, ``gauss_seidel``
dot               column sums in an order that never changes    ``sparse.dot_chunks``
================  ============================================  ==============================================

Starts, neighbour searches and diagnoses have kernels of their own beside these (``transitions``, ``coarse``,
``neighbors``, ``shortcuts``, ``hashing``, ``cells``). The numba versions are the reference; tests compare
them with plain loops. Modules here import numba, so whatever ``import isoweave`` loads imports them inside
functions only.
"""
