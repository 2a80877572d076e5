"""The experiments by name."""

from __future__ import annotations

from isoweave import datasets
from isoweave.experiments import _problems
from isoweave.experiments._spec import Experiment, Row

# None of them was used while the defaults were chosen.
SEEDS = tuple(range(501, 516))
GROUPS = tuple(range(10))

OURS = ("default", "paper-energy", "paper")
SPECTRAL = ("isomap", "lle", "hlle", "ltsa", "laplacian", "diffusion")
OTHERS = ("tsne", "umap", "mde")
# Hessian LLE needs N (N + 3) / 2 neighbours: 104 for N = 13. The paper leaves it out there too.
HIGH_DIMENSIONAL = (*OURS, "isomap", "lle", "ltsa", "laplacian", "diffusion", *OTHERS)

_NO_RECURSION = tuple(name for name in HIGH_DIMENSIONAL if name != "paper")

_LOCAL = ("f1", "local_distance", "local_angle", "local_metric")
_GLOBAL = ("pearson", "kendall", "global_stress")
_LABELS = ("accuracy", "nmi", "ari")

_SUBSTITUTE = (
    "The paper's own set (lung cancer, 1,625 cases, 51 diagnoses) cannot be had. TCGA samples of eleven "
    "cohorts (22 classes: cohort, and tumour or normal), TCGA lung squamous carcinoma and two sets of "
    "lung-cancer cell lines stand in, so the printed numbers beside ours are of other data. k and N are the "
    "two-nearest-neighbour estimate, as in the paper; single-cell counts are reduced to 50 principal "
    "components first. The paper's recursion takes many minutes in more than 20 dimensions and is run on the "
    "first set only."
)


def _swiss_rows() -> tuple[Row, ...]:
    return tuple(
        Row(
            f"k{k}",
            f"k = {k}",
            _problems.swiss(k, short_circuited=k >= 16),
            SEEDS,
            curve="k",
            value=k,
            needed=k in (6, 10),
        )
        for k in (6, 8, 10, 12, 16, 20)
    )


def _robustness_rows() -> tuple[Row, ...]:
    seeds = SEEDS[:5]
    shortcuts = tuple(
        Row(
            f"shortcuts{count}",
            f"{count} shortcuts",
            _problems.shortcut_roll(count),
            seeds,
            curve="shortcuts",
            value=count,
            needed=count in (0, 2),
        )
        for count in (0, 1, 2, 5, 10, 20)
    )
    noise = tuple(
        Row(
            f"noise{level:g}",
            f"noise {level:g}",
            _problems.noisy_roll(level),
            seeds,
            curve="noise",
            value=level,
            needed=level in (0.1, 0.4),
        )
        for level in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
    )
    return shortcuts + noise


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "swiss",
            "Swiss roll, neighbourhoods of several sizes",
            "1,500 points, 15 samplings for each number of neighbours, N = 2. From k = 16 on some graphs are "
            "short-circuited: there correlations and stress are against the true distances.",
            _swiss_rows(),
            (*OURS, *SPECTRAL, *OTHERS),
            ("f1", "local_distance", "local_angle", "procrustes_error", "parameter_error", *_GLOBAL),
            axis="neighbours",
        ),
        Experiment(
            "difficult",
            'The "difficult" 5-D set',
            "1,500 points in R^10 with five parameters, 15 samplings, k = 14, N = 5.",
            (Row("k14", "k = 14", _problems.difficult, SEEDS, fewer_seeds={"paper": 5}),),
            (*OURS, *SPECTRAL, *OTHERS),
            (*_LOCAL, "parameter_error", *_GLOBAL),
        ),
        Experiment(
            "klein",
            "Klein bottle",
            "1,500 points of the bottle figure, 15 samplings, k = 8, N = 3. The parameter error is against "
            "Isomap's map, as in the paper (table 1).",
            (Row("k8", "k = 8", _problems.klein, SEEDS),),
            (*OURS, *SPECTRAL, *OTHERS),
            ("local_metric", "f1", "pearson", "global_stress", "parameter_error", "local_distance"),
            draw_maps=True,
            reference="isomap",
        ),
        Experiment(
            "torus",
            "Flat torus",
            "1,500 points, 15 samplings, k = 10, N = 3. The parameter error is against the angles (u, v), "
            "as in the paper (table 1).",
            (Row("k10", "k = 10", _problems.torus, SEEDS),),
            (*OURS, *SPECTRAL, *OTHERS),
            ("local_metric", "f1", "pearson", "global_stress", "parameter_error", "local_distance"),
            draw_maps=True,
        ),
        Experiment(
            "mnist",
            "MNIST",
            "The 10,000 test images in 10 disjoint groups of 1,000, k = N = 13.",
            (
                Row(
                    "groups",
                    "groups of 1,000",
                    _problems.image_groups(datasets.load_mnist),
                    GROUPS,
                    # More than a minute each.
                    fewer_seeds={"paper": 3},
                ),
            ),
            HIGH_DIMENSIONAL,
            ("f1", "local_distance", "local_metric", *_GLOBAL, *_LABELS),
        ),
        Experiment(
            "fmnist",
            "Fashion-MNIST",
            "The 10,000 test images in 10 disjoint groups of 1,000, k = N = 13.",
            (
                Row(
                    "groups",
                    "groups of 1,000",
                    _problems.image_groups(datasets.load_fashion_mnist),
                    GROUPS,
                    # More than a minute each.
                    fewer_seeds={"paper": 3},
                ),
            ),
            HIGH_DIMENSIONAL,
            ("f1", "local_distance", "local_metric", *_GLOBAL, *_LABELS),
        ),
        Experiment(
            "rnaseq",
            "Gene expression (RNA-seq)",
            _SUBSTITUTE,
            (
                Row("tcga", "TCGA, 11 cohorts", _problems.expression(datasets.load_tcga, principal=False)),
                Row(
                    "lusc",
                    "TCGA lung squamous",
                    _problems.expression(datasets.load_tcga_lusc, principal=False),
                    needed=False,
                    methods=_NO_RECURSION,
                ),
                Row(
                    "cells",
                    "5 lung-cancer lines, single cells",
                    _problems.expression(datasets.load_lungline_cells, principal=True),
                    needed=False,
                    methods=_NO_RECURSION,
                ),
                Row(
                    "mixtures",
                    "3 lung-cancer lines, mixtures",
                    _problems.expression(datasets.load_lungline_mixtures, principal=True),
                    needed=False,
                    methods=_NO_RECURSION,
                ),
            ),
            HIGH_DIMENSIONAL,
            (*_LABELS, "f1", "local_metric", "global_stress", "local_distance", "pearson"),
        ),
        Experiment(
            "robustness",
            "Shortcuts and noise",
            "Swiss roll, 1,500 points, k = 10, five samplings. Shortcuts are edges between sheets, added to "
            "the graph of true neighbours; noise is Gaussian, with sheets about 6 apart. Scores are against "
            "the clean graph and the true distances.",
            _robustness_rows(),
            (*OURS, "isomap", "ltsa", "laplacian", "umap"),
            ("procrustes_error", "parameter_error", "f1", "pearson"),
            axis="shortcuts or noise",
        ),
        Experiment(
            "graphs",
            "Distances without features",
            "Road miles between 128 North American cities (all pairs, and only those up to 500 miles), "
            "compared with the map, with each city's eight nearest by road and with all the miles; the "
            "camel's head flattened; 698 rendered faces against their pose.",
            (
                Row("cities", "cities, all road miles", _problems.cities(None)),
                Row("cities500", "cities, miles up to 500", _problems.cities(500.0)),
                Row(
                    "camelhead",
                    "camel's head, flattened",
                    _problems.mesh("camelhead"),
                    methods=("default", "paper-energy", "isomap", "laplacian", "umap"),
                ),
                Row("faces", "faces, k = 8, N = 3", _problems.faces),
            ),
            (*OURS, "isomap", "lle", "ltsa", "laplacian", "tsne", "umap", "mde"),
            ("f1", "local_distance", "parameter_error", "pearson", "global_stress"),
            draw_maps=True,
        ),
    )
}
