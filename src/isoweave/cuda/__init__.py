"""The GPU engine: one component of a graph embedded on an NVIDIA device, through CuPy.

The kernels are in ``kernels/``: CUDA C++, compiled when first needed and kept by CuPy. The same source
compiles as C++ for the host, which is how the tests check it where there is no device. Optimisers and driver
are those of :mod:`isoweave.optimise`: they work on the device's arrays as on any others.
"""

from isoweave.cuda._component import (
    device_bytes as device_bytes,
    device_for as device_for,
    embed_on_device as embed_on_device,
)
from isoweave.cuda._neighbors import knn_on_device as knn_on_device
from isoweave.cuda._prepare import prepare_on_device as prepare_on_device
