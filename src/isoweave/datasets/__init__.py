"""Data sets: generators that return the truth beside the data, and loaders that read a data folder."""

from isoweave.datasets._generators import (
    Dataset as Dataset,
    GraphDataset as GraphDataset,
    add_shortcuts as add_shortcuts,
    difficult as difficult,
    flat_torus as flat_torus,
    klein_bottle as klein_bottle,
    s_curve as s_curve,
    sensor_network as sensor_network,
    sphere as sphere,
    swiss_roll as swiss_roll,
)
from isoweave.datasets._loaders import (
    DATA_VARIABLE as DATA_VARIABLE,
    DatasetMissingError as DatasetMissingError,
    load_city_miles as load_city_miles,
    load_digits as load_digits,
    load_faces as load_faces,
    load_fashion_mnist as load_fashion_mnist,
    load_lungline_cells as load_lungline_cells,
    load_lungline_mixtures as load_lungline_mixtures,
    load_mesh as load_mesh,
    load_mnist as load_mnist,
    load_protein as load_protein,
    load_road as load_road,
    load_tcga as load_tcga,
    load_tcga_lusc as load_tcga_lusc,
)
