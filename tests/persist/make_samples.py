"""Write the sample files of the present format; run once per format, and commit what it writes.

``python make_samples.py`` writes into the folder samples beside this file. A sample is never changed
afterwards: it must load and give the numbers in test_models.py for as long as its format is read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from isoweave import IsometricEmbedding, embed_graph
from isoweave.persist import save


def main():
    folder = Path(__file__).parent / "samples"
    rng = np.random.default_rng(1801)

    rows, cols = np.triu_indices(9, 1)
    points = rng.normal(size=(9, 2))
    lengths = np.linalg.norm(points[rows] - points[cols], axis=1)
    # An isolated pair of duplicates beside a complete graph.
    rows, cols, lengths = (np.append(a, b) for a, b in ((rows, 9), (cols, 10), (lengths, 0.0)))
    result = embed_graph(sp.coo_array((lengths, (rows, cols)), shape=(11, 11)).tocsr(), n_components=2)
    save(result, folder / "embedding.isoweave")

    frame = pd.DataFrame(rng.normal(size=(20, 3)).astype(np.float32), columns=["x", "y", "größe"])
    model = IsometricEmbedding(
        n_components=np.int64(2),
        n_neighbors=6,
        metric="seuclidean",
        metric_params={"V": np.array([1.0, 2.0, 0.5])},
        tol=0.01,
        random_state=np.random.RandomState(1802),
    )
    model.set_output(transform="pandas").fit(frame)
    model.notes_ = {"list": [1, 2.5, (None, True)], "limit": float("inf")}
    save(model, folder / "estimator.isoweave")

    # With the features that new points are placed by.
    points = np.random.default_rng(1803).normal(size=(24, 3))
    save(IsometricEmbedding(n_neighbors=8, tol=0.01).fit(points), folder / "placing.isoweave")


if __name__ == "__main__":
    main()
