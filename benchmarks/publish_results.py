"""Copy what ``isoweave reproduce all`` made into the documentation: tables, runs and small figures.

    isoweave reproduce all --out results -j 2
    python benchmarks/publish_results.py results docs/results

Without figures the tables are made again from the runs that are there already (after a change of layout):

    python benchmarks/publish_results.py docs/results docs/results
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from isoweave.experiments import EXPERIMENTS, FULL, compare, read_runs, summary_markdown, write_tables


def publish(source: Path, target: Path) -> None:
    """Tables and figures of every experiment ``source`` has runs of."""
    runs = read_runs(path for name in EXPERIMENTS if (path := source / f"{name}.csv").exists())
    (target / "figures").mkdir(parents=True, exist_ok=True)
    for name in runs.loc[runs["scale"] == FULL.name, "experiment"].unique():
        markdown, _ = write_tables(EXPERIMENTS[name], runs, FULL, target)
        figures = sorted((source / "figures").glob(f"{name}_*.png"))
        for figure in figures:
            if source != target:
                shutil.copyfile(figure, target / "figures" / figure.name)
        with markdown.open("a", encoding="utf-8") as file:
            for figure in figures:
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
