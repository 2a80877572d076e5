"""A map as a function: a network that places any point, its inverse, its export (extra ``parametric``)."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    words = "ParametricIsometry needs torch; install it with: pip install 'isoweave[parametric]'"
    raise ImportError(words) from error

from isoweave.parametric._estimator import ParametricIsometry

__all__ = ["ParametricIsometry"]
