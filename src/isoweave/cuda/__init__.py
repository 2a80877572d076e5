"""The GPU engine: one component of a graph embedded on an NVIDIA device, through CuPy.

The kernels are in ``kernels/``: CUDA C++, compiled when first needed and kept by CuPy. The same source
compiles as C++ for the host, which is how the tests check it where there is no device. Optimisers and driver
are those of :mod:`isoweave.optimise`: they work on the device's arrays as on any others.
"""

from isoweave.cuda._component import (
    device_bytes as device_bytes,
    device_for as device_for,
    embed_on_device as embed_on_device,
    missing_feature as missing_feature,
)
from isoweave.cuda._device import (
    CudaDevice as CudaDevice,
    DeviceError as DeviceError,
    find_device as find_device,
    kernel_defines as kernel_defines,
    kernel_source as kernel_source,
)
from isoweave.cuda._frames import (
    DeviceDistances as DeviceDistances,
    DeviceEdgeEnergy as DeviceEdgeEnergy,
    DeviceGlobal as DeviceGlobal,
    calibrated as calibrated,
    device_energy as device_energy,
    device_frames as device_frames,
    long_edges as long_edges,
)
from isoweave.cuda._graph import DeviceGraph as DeviceGraph
from isoweave.cuda._neighbors import knn_on_device as knn_on_device, neighbor_graph as neighbor_graph
from isoweave.cuda._prepare import (
    is_connected as is_connected,
    prepare_on_device as prepare_on_device,
    without_shortcuts as without_shortcuts,
)
from isoweave.cuda._solver import DeviceSolver as DeviceSolver
from isoweave.cuda._starts import (
    coarsen as coarsen,
    device_geodesics as device_geodesics,
    device_landmarks as device_landmarks,
    device_problem as device_problem,
    prolong as prolong,
    sampled as sampled,
)
