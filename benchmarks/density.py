"""Sheets whose density varies 100-fold from end to end, or from the middle out, against even ones.

    python benchmarks/density.py --seeds 3

Prints procrustes errors of the defaults, one per seed: 1,500 points, k = 10. The sparse end of the half
cylinder has neighbourhoods of a fifth of its radius; on rolls the sparse end would join the sheets.
"""

from __future__ import annotations

import argparse

import numpy as np

from isoweave import IsometricEmbedding
from isoweave.metrics import procrustes_error

N, FIRST_SEED = 1500, 1001
RADIUS = 3.0 / np.pi


def uneven(rng: np.random.RandomState, ratio: float) -> np.ndarray:
    """Numbers in [0, 1] whose density falls by this ratio."""
    u = rng.uniform(size=N)
    return u if ratio == 1.0 else np.log1p(u * (ratio - 1.0)) / np.log(ratio)


def strip(seed: int, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(seed)
    flat = np.column_stack([3.0 * uneven(rng, ratio), rng.uniform(size=N)])
    return flat, flat


def disc(seed: int, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(seed)
    s, angle = uneven(rng, ratio), 2.0 * np.pi * rng.uniform(size=N)
    r = np.sqrt(s) if ratio == 1.0 else s
    flat = np.column_stack([r * np.cos(angle), r * np.sin(angle)])
    return flat, flat


def half_cylinder(seed: int, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    flat, _ = strip(seed, ratio)
    angle = flat[:, 0] / RADIUS
    return np.column_stack([RADIUS * np.cos(angle), RADIUS * np.sin(angle), flat[:, 1]]), flat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    n_seeds = parser.parse_args().seeds
    for shape in (strip, disc, half_cylinder):
        for ratio in (1.0, 100.0):
            errors = []
            for seed in range(FIRST_SEED, FIRST_SEED + n_seeds):
                data, flat = shape(seed, ratio)
                errors.append(procrustes_error(flat, IsometricEmbedding(n_jobs=1).fit_transform(data)))
            print(shape.__name__, f"{ratio:g}", " ".join(f"{e:.1e}" for e in errors), flush=True)


if __name__ == "__main__":
    main()
