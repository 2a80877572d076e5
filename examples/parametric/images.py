"""A convolutional network of your own learns a map of images.

    python examples/parametric/images.py                       # MNIST, read from ISOWEAVE_DATA
    python examples/parametric/images.py --data digits         # scikit-learn's digits, nothing to read

Prints how well distances between images that were not in the fit are kept, and writes ``images.safetensors``
and ``images.onnx``. A loaded model needs an untrained copy of the module.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from isoweave import datasets
from isoweave.parametric import ParametricIsometry


def convolutional(side: int, n_components: int) -> torch.nn.Module:
    """Two convolutions that halve the side; the first layer makes images of rows."""
    inner = -(-side // 4)
    return torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, side, side)),
        torch.nn.Conv2d(1, 16, 3, stride=2, padding=1),
        torch.nn.SiLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
        torch.nn.SiLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * inner**2, 64),
        torch.nn.SiLU(),
        torch.nn.Linear(64, n_components),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", choices=["mnist", "digits"], default="mnist")
    parser.add_argument("--rows", type=int, default=4000, help="images of the fit, and half as many new ones")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path())
    args = parser.parse_args()
    data = datasets.load_digits() if args.data == "digits" else datasets.load_mnist("test")
    rows = np.random.default_rng(1).permutation(data.data.astype(np.float32))
    n, side = min(args.rows, 2 * len(rows) // 3), round(rows.shape[1] ** 0.5)
    fitted, others = rows[:n], rows[n : n + n // 2]
    encoder = convolutional(side, 8)
    model = ParametricIsometry(8, encoder=encoder, max_epochs=args.epochs, random_state=1).fit(fitted)
    print(f"{len(others)} new images: mean error of distances {-model.score(others):.3f}")
    model.save(args.out / "images.safetensors")
    model.to_onnx(args.out / "images.onnx")
    loaded = ParametricIsometry.load(args.out / "images.safetensors", encoder=convolutional(side, 8))
    assert np.array_equal(loaded.transform(others), model.transform(others))


if __name__ == "__main__":
    main()
