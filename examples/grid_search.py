"""
Choosing the number of neighbours
=================================

``score`` measures how well new points keep the distances to their ten nearest points of the fit, so
scikit-learn's searches work. The ten do not depend on ``n_neighbors``.
"""

# %%
# Cross-validation over the number of neighbours, on a noisy roll: with few neighbours the graph falls
# apart, with many it short-circuits.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, KFold

from isoweave import IsometricEmbedding
from isoweave.datasets import swiss_roll
from isoweave.metrics import procrustes_error

roll = swiss_roll(500, noise=0.1, random_state=23)
grid = [4, 6, 8, 10, 14, 20, 30]
search = GridSearchCV(IsometricEmbedding(), {"n_neighbors": grid}, cv=KFold(3, shuffle=True, random_state=29))
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="The graph has .* connected components")
    search.fit(roll.data)
scores = search.cv_results_["mean_test_score"]
for k, score in zip(grid, scores, strict=True):
    print(f"k = {k:2d}: score {score:.3f}")
print("chosen:", search.best_params_)

# %%
# Here the truth is known, so the choice can be checked: the score never saw it.

errors = []
for k in grid:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The graph has .* connected components")
        errors.append(
            procrustes_error(roll.truth, IsometricEmbedding(n_neighbors=k).fit_transform(roll.data))
        )
best = errors[grid.index(search.best_params_["n_neighbors"])]
print(f"error at the choice {best:.1e}, smallest error {min(errors):.1e}, largest {max(errors):.1e}")

figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.plot(grid, -scores, marker="o", label="minus score: distance error of held-out points")
ax.plot(grid, errors, marker="s", label="error against the true sheet")
ax.set(xscale="log", yscale="log", xlabel="n_neighbors", xticks=grid, xticklabels=grid)
ax.minorticks_off()
ax.legend()
print("the map of the chosen number has", np.shape(search.best_estimator_.embedding_), "coordinates")

plt.show()
