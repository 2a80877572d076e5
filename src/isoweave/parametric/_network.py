"""The default network, and what surrounds every network: centred inputs, outputs in their own units."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from isoweave._typing import AnyArray

# Rows from which means and scales are estimated: enough for three digits.
_LOOK = 50_000
# A centre of at most so many scales is subtracted after the first layer, without loss of digits.
_NEAR = 8.0


class ResidualBlock(torch.nn.Module):
    """``x + B silu(A x)``: smooth, and without any normalisation over a batch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.into, self.out = torch.nn.Linear(width, width), torch.nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        return x + self.out(torch.nn.functional.silu(self.into(x)))


def residual_network(n_in: int, n_out: int, sizes: Sequence[int]) -> Any:
    """Layers of the given widths; one that is as wide as the layer before it is a residual block."""
    layers: list[Any] = []
    before = n_in
    for width in sizes:
        if width == before and layers:
            layers.append(ResidualBlock(width))
        else:
            layers += [torch.nn.Linear(before, width), torch.nn.SiLU()]
        before = width
    return torch.nn.Sequential(*layers, torch.nn.Linear(before, n_out))


class Standardized(torch.nn.Module):
    """A network between centred inputs and outputs in their own units.

    One scale for all columns, not one each: the distances in the input are what the map is about, and a pixel
    that is hardly ever on must not become the largest input.
    """

    def __init__(self, network: Any, n_in: int, n_out: int) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("centre", torch.zeros(n_in))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("offset", torch.zeros(n_out))
        self.register_buffer("spread", torch.ones(()))

    def forward(self, x: Any) -> Any:
        return self.network((x - self.centre) / self.scale) * self.spread + self.offset

    def adapt(self, inputs: AnyArray, outputs: AnyArray) -> None:
        """Take centres and scales from data."""
        self.centre.data, self.scale.data = _moments(inputs)
        self.offset.data, self.spread.data = _moments(outputs)


def folded(network: Any) -> Any:
    """The same function with the scales, and the centre if it is near, inside its first and last layers.

    Networks that do not begin and end with such layers are returned as they are.
    """
    inner = network.network
    is_plain = isinstance(inner, torch.nn.Sequential) and len(inner) > 1
    if not is_plain or not all(isinstance(inner[at], torch.nn.Linear) for at in (0, -1)):
        return network
    layers = list(copy.deepcopy(inner))
    if any(layers[at].bias is None for at in (0, -1)):
        return network
    with torch.no_grad():
        first, last, centre = layers[0], layers[-1], network.centre.double()
        first.weight /= network.scale
        last.weight *= network.spread
        last.bias *= network.spread
        last.bias += network.offset
        if float(centre.abs().max()) <= _NEAR * float(network.scale):
            first.bias -= (first.weight.double() @ centre).float()
        else:
            layers.insert(0, Shift(network.centre))
    return torch.nn.Sequential(*layers).eval()


class Shift(torch.nn.Module):
    """Subtracts a row."""

    def __init__(self, row: Any) -> None:
        super().__init__()
        self.register_buffer("row", row.clone())

    def forward(self, x: Any) -> Any:
        return x - self.row


def _moments(values: AnyArray) -> tuple[Any, Any]:
    """Mean of the columns, and the root mean square of what is left; 1 if nothing is."""
    rows = np.asarray(values[:: max(1, len(values) // _LOOK)], dtype=np.float64)
    mean = rows.mean(axis=0)
    size = float(np.sqrt(np.mean((rows - mean) ** 2)))
    size = size if size > 1e-12 * np.abs(mean).max() else 1.0
    if not 1e-12 < size < 1e12:
        raise ValueError(f"numbers of about {size:.0e} have no squares in float32: divide X by as much.")
    return torch.tensor(mean, dtype=torch.float32), torch.tensor(size, dtype=torch.float32)


def arrays_of_network(network: Any) -> dict[str, AnyArray]:
    """Its parameters and buffers by name, as numpy arrays."""
    return {name: value.detach().cpu().numpy().copy() for name, value in network.state_dict().items()}


def fill_network(network: Any, arrays: dict[str, AnyArray]) -> None:
    """Put such arrays in; ValueError if they are not of this network."""
    given = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
    if not all(bool(torch.isfinite(value).all()) for value in given.values() if value.is_floating_point()):
        raise ValueError("weights of a network must be finite")
    try:
        network.load_state_dict(given)
    except RuntimeError as error:
        raise ValueError(f"the weights are not of this network: {error!s:.200}") from error


def own_module(name: str, module: Any, n_in: int, n_out: int) -> Any:
    """A copy of the user's module, which is trained; the parameter stays as it was given."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{name} must be a torch.nn.Module, got {module!r:.100}.")
    module = copy.deepcopy(module)
    try:
        with torch.no_grad():
            shape = tuple(module.cpu().eval()(torch.zeros((2, n_in))).shape)
    except Exception as error:
        raise ValueError(f"{name} cannot read rows of {n_in} float32 numbers: {error!s:.200}") from error
    if shape != (2, n_out):
        raise ValueError(f"{name} must make rows of {n_out} numbers; of two rows it made the shape {shape}.")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ValueError(f"{name} has no parameters that could be trained.")
    return module
