"""What an experiment is: settings of problems, the methods that solve them, the numbers that are shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from isoweave._typing import AnyArray, FloatArray
from isoweave.graph import NeighborGraph

DataHome: TypeAlias = str | os.PathLike[str] | None


@dataclass(frozen=True)
class Scale:
    """How much of an experiment is run: most points, seeds and steps of the paper's slow recursion.

    The name is kept in every record, so that quick results are never taken for full ones.
    """

    name: str
    n_samples: int | None = None
    n_seeds: int | None = None
    all_rows: bool = True
    paper_steps: int | None = None

    @property
    def note(self) -> str:
        """What a reader must know about a run that is not the full one; empty for that."""
        if self.name == "full":
            return ""
        steps = f", the paper's recursion cut at {self.paper_steps} steps" if self.paper_steps else ""
        return (
            f"{self.name.capitalize()} run: seeds per row at most {self.n_seeds}, points at most "
            f"{self.n_samples}, not all rows{steps}. A first look, not the paper's setting; do not quote."
        )


FULL = Scale("full")
"""Everything, as the paper did it."""
QUICK = Scale("quick", n_samples=600, n_seeds=2, all_rows=False, paper_steps=100)
"""Few seeds and points: minutes on two cores, and no more than a first look."""


@dataclass(frozen=True)
class Request:
    """What a row's loader is asked for: a seed, the most points, the data folder, leave to fetch images."""

    seed: int
    n_samples: int | None = None
    data_home: DataHome = None
    fetch: bool = False

    def size(self, usual: int) -> int:
        """Number of points: the usual one, unless fewer are asked for."""
        return usual if self.n_samples is None else min(usual, self.n_samples)


@dataclass(frozen=True, eq=False)
class DataProblem:
    """A distance graph to embed, and all that maps of it are compared with.

    Attributes
    ----------
    graph : NeighborGraph
        Connected; what every method is given.
    n_neighbors, n_components : int
    truth : array of shape (n, d) or None
        Isometric coordinates.
    parameters : array of shape (n, d) or None
        Coordinates to be recovered up to an affine map; the truth, where there is one, by default.
    labels : integer array of shape (n,) or None
    clean_graph : NeighborGraph or None
        Scores are against this graph rather than the one that is embedded (added shortcuts, noise).
    distances : array of shape (n, n) or None
        Global scores are against these rather than the graph's geodesics (short-circuited graphs).
    color : array of shape (n,) or None
        What the points of a figure are coloured by.
    note : str
        Anything a reader of the table should know.
    """

    graph: NeighborGraph
    n_neighbors: int
    n_components: int
    truth: FloatArray | None = None
    parameters: FloatArray | None = None
    labels: AnyArray | None = None
    clean_graph: NeighborGraph | None = None
    distances: FloatArray | None = None
    color: AnyArray | None = None
    note: str = ""


@dataclass(frozen=True)
class Setting:
    """A row of the tables: problems that are averaged, of several seeds."""

    name: str
    title: str
    # Raises DatasetMissingError where its file is not there.
    load: Callable[[Request], DataProblem]
    seeds: tuple[int, ...] = (0,)
    # The row is a point of this curve, at this abscissa.
    curve: str | None = None
    value: float = float("nan")
    # Part of a quick run.
    needed: bool = True
    # Where not all methods of the experiment can run, or not on all seeds.
    methods: tuple[str, ...] | None = None
    fewer_seeds: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """Rows, the methods run by default, and what is shown of them."""

    name: str
    title: str
    about: str
    rows: tuple[Setting, ...]
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    # Keep the maps of each row's first seed and draw them.
    draw_maps: bool = False
    # Method whose own map the parameter error is against: its zero is not drawn and wins nothing.
    reference: str | None = None

    def rows_for(self, scale: Scale) -> tuple[Setting, ...]:
        return tuple(row for row in self.rows if row.needed or scale.all_rows)
