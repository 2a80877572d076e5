"""The network as a file for other programs."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

import torch

from isoweave._files import atomic_write

OPSET = 18


def _example(n_features: int) -> tuple[tuple[Any], tuple[dict[int, Any]]]:
    """Two rows, and that there may be any number of them."""
    return (torch.zeros((2, n_features)),), ({0: torch.export.Dim("rows", min=1)},)


def write_onnx(network: Any, n_features: int, path: str | os.PathLike[str]) -> None:
    # Four warnings that torchvision is not installed, of which no network here has an operation.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    rows, shapes = _example(n_features)
    with atomic_write(path) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            network,
            rows,
            dynamo=True,
            opset_version=OPSET,
            input_names=["features"],
            output_names=["coordinates"],
            dynamic_shapes=shapes,
            verbose=False,
        )
        file.write(program.model_proto.SerializeToString())


def write_torch(network: Any, n_features: int, path: str | os.PathLike[str]) -> None:
    rows, shapes = _example(n_features)
    program = torch.export.export(network, rows, dynamic_shapes=shapes)
    with atomic_write(path) as file:
        torch.export.save(program, file)
