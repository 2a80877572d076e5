"""Data sets: generators that return the truth beside the data, and loaders that read a data folder."""

from isoweave.datasets._dataset import Dataset, GraphDataset
from isoweave.datasets._folder import DATA_VARIABLE, DatasetMissingError, data_path
from isoweave.datasets._graph_loaders import (
    MESHES,
    ROADS,
    load_city_miles,
    load_mesh,
    load_protein,
    load_road,
)
from isoweave.datasets._loaders import (
    load_coil20,
    load_digits,
    load_faces,
    load_fashion_mnist,
    load_lungline_cells,
    load_lungline_mixtures,
    load_mammoth,
    load_mnist,
    load_pbmc3k,
    load_pbmc68k,
    load_tcga,
    load_tcga_lusc,
    load_world_cities,
)
from isoweave.datasets._sensors import add_shortcuts, sensor_network
from isoweave.datasets._synthetic import difficult, flat_torus, klein_bottle, s_curve, sphere, swiss_roll

__all__ = [
    "DATA_VARIABLE",
    "MESHES",
    "ROADS",
    "Dataset",
    "DatasetMissingError",
    "GraphDataset",
    "add_shortcuts",
    "data_path",
    "difficult",
    "flat_torus",
    "klein_bottle",
    "load_city_miles",
    "load_coil20",
    "load_digits",
    "load_faces",
    "load_fashion_mnist",
    "load_lungline_cells",
    "load_lungline_mixtures",
    "load_mammoth",
    "load_mesh",
    "load_mnist",
    "load_pbmc3k",
    "load_pbmc68k",
    "load_protein",
    "load_road",
    "load_tcga",
    "load_tcga_lusc",
    "load_world_cities",
    "s_curve",
    "sensor_network",
    "sphere",
    "swiss_roll",
]
