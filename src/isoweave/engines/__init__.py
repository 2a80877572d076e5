"""Compiled kernels: everything that would be written anew for another device.

A kernel is a function of a range of items, ``kernel(start, stop, *arrays)``, that writes only to the rows of
its range; :class:`isoweave._parallel.ThreadTeam` hands out the ranges. The stages (``geometry``, ``energy``,
``linalg``, ``optimise``) own the arrays and call kernels through their team, so a device needs its own team
and its own version of the few kernels that carry the cost:

==========================  ==============================================================
``local_mds.local_mds``     local geodesics, Gram matrices and leading eigenvectors
``alignment.align_edges``   best orthogonal matrices, energies and fluxes (edge inner product)
``alignment.align_rank``    the same for the paper's inner product
``alignment.divergence``    adjoint of the differences
==========================  ==============================================================

beside the product of a sparse matrix with a block in ``isoweave.linalg``. The numba versions are the
reference; tests compare them with plain loops.
"""
