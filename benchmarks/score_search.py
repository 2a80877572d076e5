"""Whether the cross-validated score finds a good number of neighbours: the table in docs/ecosystem.md.

    python benchmarks/score_search.py

The score never sees the truth; the error against the truth of every candidate shows what a search loses.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.model_selection import KFold, cross_val_score

from isoweave import IsometricEmbedding
from isoweave.datasets import difficult, s_curve, swiss_roll
from isoweave.metrics import parameter_error, procrustes_error

GRID = (4, 6, 8, 10, 14, 20, 30)
SEEDS = (1, 2, 3)
CASES = {
    "swiss roll": (lambda seed: swiss_roll(800, random_state=seed), 2),
    "swiss roll, noise 0.3": (lambda seed: swiss_roll(800, noise=0.3, random_state=seed), 2),
    "S curve": (lambda seed: s_curve(800, random_state=seed), 2),
    "5-D set": (lambda seed: difficult(800, random_state=seed), 5),
}


def main() -> None:
    warnings.filterwarnings("ignore", message="The graph has .* connected components")
    print("| data | chosen k | error there | smallest error, at k | largest error, at k |")
    print("|---|---|---|---|---|")
    for name, (make, n_components) in CASES.items():
        for seed in SEEDS:
            data = make(seed)
            folds = KFold(4, shuffle=True, random_state=seed)
            scores, errors = [], []
            for k in GRID:
                model = IsometricEmbedding(n_components, n_neighbors=k)
                scores.append(cross_val_score(model, data.data, cv=folds).mean())
                Y = model.fit_transform(data.data)
                errors.append(
                    parameter_error(data.parameters, Y)
                    if data.truth is None
                    else procrustes_error(data.truth, Y)
                )
            chosen, best, worst = int(np.argmax(scores)), int(np.argmin(errors)), int(np.argmax(errors))
            print(
                f"| {name}, seed {seed} | {GRID[chosen]} | {errors[chosen]:.1e} | {errors[best]:.1e}, "
                f"{GRID[best]} | {errors[worst]:.1e}, {GRID[worst]} |"
            )


if __name__ == "__main__":
    main()
