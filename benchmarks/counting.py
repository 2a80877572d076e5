"""Counts of the work inside a fit that do not depend on the machine."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import numpy as np

from wrapping import import_core, replace

Arguments: TypeAlias = tuple[Any, ...]
Note: TypeAlias = Callable[[Arguments, Any], None]


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Count the work of every fit inside the block.

    ``steps``, ``evaluations`` and ``solves`` are those of all levels; ``cg_iterations`` of the slowest column
    of every solve; ``fill`` sums the entries of all Cholesky factors; ``settled`` is the number of vertices
    that the searches of all frames settle, ``frame_work`` the multiplications of their shortest paths (frame
    squared times room), ``frame_rows`` the rows they return; ``searches`` are shortest-path trees of the
    whole graph.
    """
    counts: Counter[str] = Counter()
    import_core()
    with ExitStack() as stack:

        def watch(name: str, note: Note) -> None:
            """Call ``note`` with arguments and result of every call of a function."""

            def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
                def noted(*args: Any, **kwargs: Any) -> Any:
                    result = function(*args, **kwargs)
                    note(args, result)
                    return result

                return noted

            replace(stack, name, wrap)

        def add(**found: Callable[[Arguments, Any], int]) -> Note:
            return lambda args, result: counts.update({key: int(f(args, result)) for key, f in found.items()})

        def note_kernel(args: Arguments, result: Any) -> None:
            _, kernel, n, *rest = args
            if getattr(kernel, "__name__", "").startswith("local_mds"):
                given = inspect.signature(kernel.py_func).bind(0, n, *rest).arguments
                counts["settled"] += n * given["room_size"]
                counts["frame_work"] += n * given["frame_size"] ** 2 * given["room_size"]

        # Whether small problems take kernels depends on what the process did before; here they always do.
        replace(stack, "isoweave.engines.plain.is_spared", lambda _: lambda *size: False)
        watch("isoweave.optimise.minimise", add(steps=lambda a, r: r.n_iter))
        watch("isoweave.geometry.local_frames", add(frame_rows=lambda a, r: np.count_nonzero(r.included)))
        watch("isoweave._parallel.ThreadTeam.run", note_kernel)
        watch("isoweave.optimise.Problem.evaluate", add(evaluations=lambda a, r: 1))
        watch(
            "isoweave.linalg.PoissonState.solve",
            add(solves=lambda a, r: 1, cg_iterations=lambda a, r: r.iterations),
        )
        watch("isoweave.linalg._cholesky.factorise", add(fill=lambda a, r: len(r.values)))
        watch("isoweave.linalg._banded.banded_factor", add(fill=lambda a, r: 0 if r is None else r.n_entries))
        watch("scipy.sparse.csgraph.dijkstra", add(searches=lambda a, r: len(np.atleast_2d(r))))
        yield counts


def compiled_specialisations() -> int:
    """Functions that numba compiled or loaded in this process for isoweave, one per set of argument types."""
    from numba.core.registry import CPUDispatcher

    found = {
        id(value): len(value.overloads)
        for name, module in list(sys.modules.items())
        if name.startswith("isoweave.") and module is not None
        for value in vars(module).values()
        if isinstance(value, CPUDispatcher)
    }
    return sum(found.values())
