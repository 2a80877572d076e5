"""Arguments and options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Input = Annotated[
    Path,
    typer.Argument(
        metavar="INPUT",
        help="Features (.npy .npz .csv .tsv .parquet) or distance graph (sparse square .npz, .mtx, .edges).",
    ),
]
AsGraph = Annotated[
    bool | None,
    typer.Option(
        "--graph/--features",
        help="Read INPUT as a distance graph (tables: lines of i, j, distance) or as features.",
        show_default="by suffix",
    ),
]
Asymmetry = Annotated[
    str | None,
    typer.Option(help="Where the two directions of an edge differ: error, max, min or mean (graphs only)."),
]
ColumnsFile = Annotated[
    Path | None,
    typer.Option(
        "--columns", help="Table (.csv, .tsv) with a header and a row per vertex, to colour the page by."
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of everything random.", show_default=False)]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Report every step; show tracebacks.")]

NComponents = Annotated[
    str | None, typer.Option("--n-components", "-n", help="Dimension of the map, or auto.")
]
NNeighbors = Annotated[
    int | None, typer.Option("--n-neighbors", "-k", help="Neighbours of each point (features only).")
]
MetricName = Annotated[str | None, typer.Option(help="Distance between features, as in scikit-learn.")]
Preset = Annotated[str | None, typer.Option(help="default, or paper.")]
Start = Annotated[str | None, typer.Option(help="auto, landmark, synchronised, coarse or identity.")]
Solver = Annotated[str | None, typer.Option(help="auto, direct, cholmod, amg, jacobi or ic.")]
InnerProduct = Annotated[str | None, typer.Option(help="auto, edge or paper.")]
FrameSize = Annotated[
    str | None,
    typer.Option(
        help="Points per local frame: auto, all, their number, or with a point a multiple of the "
        "neighbours, as 2.5."
    ),
]
Calibrate = Annotated[
    str | None,
    typer.Option(help="Rescale frames to the measured distances: auto, rows, vertices or none."),
]
Scale = Annotated[str | None, typer.Option(help="What the overall size follows: edges or geodesics.")]
Shortcuts = Annotated[str | None, typer.Option(help="Edges that look like shortcuts: auto, drop or keep.")]
Components = Annotated[
    str | None,
    typer.Option(help="Parts of a disconnected graph: separate, largest, bridge (features) or error."),
]
CheckpointFile = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint", metavar="FILE", help="Keep the state of the run in this file.", show_default=False
    ),
]
Every = Annotated[
    float | None,
    typer.Option(
        help="Seconds between two checkpoints; 0: every step.",
        show_default="60, or more where writing would take over 2 %",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on from the checkpoint; begin if there is none yet.")
]
MaxIter = Annotated[int | None, typer.Option(help="Most steps of the optimiser.")]
NJobs = Annotated[int | None, typer.Option("--n-jobs", "-j", help="Threads; all cores by default.")]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        help="Refuse a fit that would need more memory: bytes, 4GB, 512MiB, or none.",
        show_default="90 % of what the machine or its container allows",
    ),
]
Refine = Annotated[
    str | None,
    typer.Option(help="none, or distances: end with least squares of the distances (measured with errors)."),
]
Anchors = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Known positions (.csv .tsv .txt), one a row: vertex number or name, then coordinates.",
    ),
]
AnchorWeight = Annotated[
    float | None,
    typer.Option(help="Pull of the anchors, in edges; without it they stay exactly where they are."),
]
