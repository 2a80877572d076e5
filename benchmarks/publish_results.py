"""Copy what ``isoweave reproduce all`` made into the documentation: tables, runs and small figures.

    isoweave reproduce all --out results -j 2
    python benchmarks/publish_results.py results docs/results

Runs that only the target has are kept, so that a part can be run again (``--methods default``): figures of
scores are drawn of all of them, maps copied only if all methods were run. The tables are made again from the
runs that are there already (after a change of layout):

    python benchmarks/publish_results.py docs/results docs/results
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from isoweave.experiments import (
    EXPERIMENTS,
    FULL,
    compare,
    draw_experiment,
    read_runs,
    summary_markdown,
    write_tables,
)
from isoweave.experiments._run import KEYS


def publish(source: Path, target: Path) -> None:
    """Tables and figures of every experiment there are runs of."""
    new, old = (
        [path for name in EXPERIMENTS if (path := f / f"{name}.csv").exists()] for f in (source, target)
    )
    runs = read_runs([*old, *new]).drop_duplicates(list(KEYS), keep="last", ignore_index=True)
    is_whole = set(read_runs(new)["method"]) == set(runs["method"])
    figures = target / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for name in runs.loc[runs["scale"] == FULL.name, "experiment"].unique():
        markdown, _ = write_tables(EXPERIMENTS[name], runs, FULL, target)
        if source != target:
            draw_experiment(EXPERIMENTS[name], runs, FULL, figures)
            for figure in (source / "figures").glob(f"{name}_*_maps.png") if is_whole else ():
                shutil.copyfile(figure, figures / figure.name)
        with markdown.open("a", encoding="utf-8") as file:
            for figure in sorted(figures.glob(f"{name}_*.png")):
                file.write(f"\n![{figure.stem.replace('_', ' ')}](figures/{figure.name})\n")
    (target / "summary.md").write_text(summary_markdown(compare(runs, FULL)), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    publish(options.source, options.target)


if __name__ == "__main__":
    main()
