"""A job of all ranks: read a graph in parts, embed it, write the map."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._parallel import thread_team
from isoweave._reporter import Reporter
from isoweave._typing import FloatArray
from isoweave.cluster._build import digest, read_share
from isoweave.cluster._fit import check_cluster_options, embed_share
from isoweave.cluster._journal import ClusterInterrupt, ClusterJournal
from isoweave.cluster._output import checked_output, write_map
from isoweave.cluster._share import CallerRows, Ranks, Share
from isoweave.embed import kept_in
from isoweave.io import read_anchors
from isoweave.known import Anchors, check_anchors, merge_anchors
from isoweave.optimise import IterationState, Progress
from isoweave.options import EmbeddingOptions, resolve_options
from isoweave.persist import fingerprint

_MISSING = (
    "engine='petsc' needs PETSc and MPI with their Python packages petsc4py and mpi4py ({error}). From "
    "conda-forge: conda install -c conda-forge petsc4py mpi4py; on Debian and Ubuntu: apt-get install "
    "python3-petsc4py python3-mpi4py. docs/cluster.md has recipes."
)


def all_ranks() -> Ranks:
    """The ranks of this job; an ImportError that says what to install if there is no PETSc."""
    if sys.platform == "win32":
        raise ImportError("engine='petsc' is not available on Windows: use Linux or macOS, or WSL.")
    try:
        import petsc4py

        petsc4py.init()
        from mpi4py import MPI
    except ImportError as error:
        raise ImportError(_MISSING.format(error=error)) from error
    return Ranks(MPI.COMM_WORLD)


def embed_file(
    path: str | Path,
    output: str | Path,
    n_components: int = 2,
    *,
    anchors: str | Path | None = None,
    anchor_weight: float | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Embed a graph in parts and write its map; called by all ranks of an MPI job, with the same arguments.

    Parameters
    ----------
    path : path-like
        Edges, as :func:`isoweave.io.open_edges` reads them: Parquet, .npz, or a folder of such parts.
    output : path-like
        .npz, .npy, .csv or .parquet, in the order of the caller's rows; a name without suffix is a folder
        that gets a part (.npz) of every rank.
    n_components : int
    anchors : path-like or None
        Known positions, as :func:`isoweave.io.read_anchors` reads them.
    anchor_weight : float or None
        Pull of the anchors; None holds them exactly.
    **options
        Of :func:`isoweave.embed_graph`. A checkpoint is a folder; ``n_jobs`` are threads per rank, 1 by
        default. A callback is called on every rank with the coordinates of the vertices it holds; all ranks
        end where it asks for it on one.

    Returns
    -------
    dict
        What is known of the whole map: energy, status, steps, messages and bytes; the same on all ranks.
    """
    ranks, path, output = all_ranks(), Path(path), Path(output)
    with ranks.together():
        chosen = resolve_options(n_components, **options | {"engine": "petsc"})
        check_cluster_options(chosen)
    if options.get("n_jobs") is None:
        chosen.n_jobs = 1
    with checked_output(ranks, output):
        return _embed(ranks, path, output, chosen, anchors, anchor_weight)


def _embed(
    ranks: Ranks, path: Path, output: Path, chosen: EmbeddingOptions, anchors: Any, weight: float | None
) -> dict[str, Any]:
    say = _CountingReporter(ranks, chosen.verbose if ranks.rank == 0 else 0)
    say.stage("reading")
    share, rows = read_share(ranks, path, asymmetry=chosen.asymmetry)
    say.unit = share.unit
    n_rows = rows.n_vertices
    cut = f"{share.facts['cut edges']:,} of {share.facts['edges']:,} edges cut"
    say(f"{share.n_vertices:,} vertices on {ranks.size} ranks, at most {ranks.max(share.n_owned):,}; {cut}")
    before = ranks.sent
    given = held = None
    if anchors is not None:
        given, held = _own_anchors(share, rows, chosen.n_components, anchors, weight)
    interrupt = ClusterInterrupt(ranks, chosen.on_interrupt)
    with thread_team(chosen.n_jobs) as team, interrupt:
        journal = _journal(share, rows, chosen, given)
        with kept_in(journal, interrupt, say, agreed_callback(ranks, chosen)) as run:
            coordinates, facts = embed_share(share, chosen, anchors=given, run=run, team=team)
            run.finish()
    if held is not None:
        coordinates[held[0]] = held[1]
    after = ranks.sent
    say.stage("writing")
    columns = {"embedding": coordinates, "component_labels": share.component, "stretch": facts.pop("stretch")}
    columns = {name: share.fetch(rows.vertex, array) for name, array in columns.items()}
    whole = {name: value for name, value in facts.items() if isinstance(value, int | float | str)}
    parameters = {k: v for k, v in chosen.fingerprint().items() if isinstance(v, int | float | str | None)}
    write_map(output, rows, columns, whole | {"parameters": parameters})
    traffic = ranks.sum(np.array([before, after - before])).tolist()
    sizes = {"points": n_rows, "ranks": ranks.size, "components": len(share.component_sizes)}
    error = _edge_error(share, coordinates)
    measured = {"traffic": traffic, "per step": say.per_step(), "peak bytes": _peak(ranks)}
    return sizes | share.facts | whole | {"edge error": error} | measured


class _CountingReporter(Reporter):
    """Also counts what is sent between one step and the next."""

    def __init__(self, ranks: Ranks, verbose: int) -> None:
        super().__init__(verbose)
        self._ranks, self._last, self._steps = ranks, ("", ranks.sent), [0 * ranks.sent]

    def step(self, progress: Progress) -> None:
        stage, before = self._last
        self._last = (progress.stage, self._ranks.sent)
        if stage == progress.stage:
            self._steps.append(self._ranks.sent - before)
        super().step(progress)

    def per_step(self) -> tuple[float, float]:
        """Messages and bytes that the busiest rank sends in a typical step."""
        found = np.median(self._steps[1:] or self._steps, axis=0)
        return tuple(self._ranks.max(found).tolist())


def agreed_callback(ranks: Ranks, options: EmbeddingOptions) -> Any:
    """The callback, called on every rank with its own rows; all end if one of them asks for it."""
    callback = options.callback
    if callback is None:
        return None

    def call(state: IterationState) -> bool:
        with ranks.together():
            end = bool(callback(state))
        return bool(ranks.max(end))

    return call


def _own_anchors(share: Share, rows: CallerRows, n_components: int, path: Any, weight: float | None) -> Any:
    """Anchors among the vertices of this rank: their rows, positions and weights.

    Also those that hold, rows and positions to the last bit.
    """
    with share.ranks.together():
        known = Anchors(*read_anchors(path, rows.n_vertices), weight)
        checked = check_anchors(rows.n_vertices, n_components, known)
    if checked is None:
        return None, None
    origin, vertices = checked.positions.mean(axis=0), rows.fetch(checked.vertices, rows.vertex)
    with share.ranks.together():
        merged = merge_anchors(checked, vertices, origin, share.unit, share.n_vertices)
    own = ~share.are_away(merged.vertices)
    here = merged.vertices[own] - share.start
    hard = np.flatnonzero(checked.is_hard & ~share.are_away(vertices))
    held = (vertices[hard] - share.start)[::-1], checked.positions[hard][::-1]  # of duplicates the first wins
    return (here, merged.positions[own] * share.unit + origin, merged.weights[own]), held


def _journal(
    share: Share, rows: CallerRows, options: EmbeddingOptions, anchors: Any
) -> ClusterJournal | None:
    """Where the run is kept, if it is; its fingerprint is that of the whole graph, however it is divided."""
    if options.checkpoint is None:
        return None
    parts = () if anchors is None else (share.caller_ids[anchors[0]], *anchors[1:])
    digests = {"edges": share.facts["digest"], "anchors": share.ranks.sum(digest(*parts))}
    known = {name: f"{int(value):x}" for name, value in digests.items()}
    fields = fingerprint({}, options.fingerprint() | known | {"vertices": rows.n_vertices})
    return ClusterJournal(options.checkpoint, share, rows, fields)


def _edge_error(share: Share, coordinates: FloatArray) -> float:
    """Mean over the edges of how far their lengths in the map are off, relative to what they should be."""
    steps = share.fetch(share.indices, coordinates)
    steps -= coordinates[share.sources]
    off = np.abs(np.linalg.norm(steps, axis=1) / (share.lengths * share.unit) - 1.0)
    off = off[np.isfinite(off)]
    total, count = share.ranks.sum(np.array([off.sum(), len(off)]))
    return float(total / count) if count else 0.0


def _peak(ranks: Ranks) -> int:
    """The most memory that a rank has used."""
    import resource

    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(ranks.max(kilobytes)) * (1 if sys.platform == "darwin" else 1024)
