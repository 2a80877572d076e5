"""Which engine a fit runs on, and what is said where there is no device."""

import sys

import numpy as np
import pytest

import isoweave.cuda._component as component
from host_device import HostDevice
from isoweave import Anchors, Checkpoint, embed_graph
from isoweave.cuda import device_for
from isoweave.cuda._component import device_bytes
from isoweave.cuda._device import CudaDevice, DeviceError
from isoweave.graph import knn_graph
from isoweave.known import Known
from isoweave.options import resolve_options

GRAPH = knn_graph(np.random.default_rng(0).random((3500, 2)), 6)


def no_device():
    raise DeviceError("engine='cuda' found no GPU")


def test_the_engine_is_the_cpu_unless_asked(monkeypatch):
    monkeypatch.delenv("ISOWEAVE_ENGINE", raising=False)
    assert resolve_options(2).engine == "cpu"
    monkeypatch.setenv("ISOWEAVE_ENGINE", "auto")
    assert resolve_options(2).engine == "auto"
    assert resolve_options(2, engine="cpu").engine == "cpu"
    monkeypatch.setenv("ISOWEAVE_ENGINE", "tpu")
    with pytest.raises(ValueError, match="engine must be one of 'cpu', 'cuda', 'auto', 'petsc', got 'tpu'"):
        resolve_options(2)


def test_without_a_device_only_auto_falls_back(monkeypatch):
    monkeypatch.setattr(component, "find_device", no_device)
    assert device_for(GRAPH, resolve_options(2, engine="auto"), Known()) is None
    with pytest.raises(DeviceError, match="found no GPU"):
        embed_graph(GRAPH, engine="cuda")


def test_without_cupy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match=r"needs CuPy .*pip install isoweave\[gpu\]"):
        CudaDevice()


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("the paper's method", {"preset": "paper"}),
        ("frame_size='all'", {"frame_size": "all"}),
        ("start='synchronized'", {"start": "synchronized"}),
        ("start='identity'", {"start": "identity"}),
        ("solver='direct'", {"solver": "direct"}),
        ("checkpoints", {"checkpoint": Checkpoint("unused")}),
    ],
)
def test_what_is_not_there_is_refused(monkeypatch, what, options):
    monkeypatch.setattr(component, "find_device", HostDevice)
    with pytest.raises(ValueError, match=f"{what}.* not supported on the GPU yet: use engine='cpu'"):
        device_for(GRAPH, resolve_options(2, engine="cuda", **options), Known())
    assert device_for(GRAPH, resolve_options(2, engine="auto", **options), Known()) is None
    with pytest.raises(ValueError, match="known positions"):
        embed_graph(GRAPH, engine="cuda", anchors=Anchors([0, 1, 2], [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))


def test_a_device_that_is_too_small_is_refused_before_the_start(monkeypatch):
    needed = device_bytes(GRAPH.n_vertices, len(GRAPH.indices), resolve_options(2))
    monkeypatch.setattr(component, "find_device", lambda: HostDevice(free=needed - 1))
    with pytest.raises(MemoryError, match="of memory on the device host, where"):
        embed_graph(GRAPH, engine="cuda")
    assert device_for(GRAPH, resolve_options(2, engine="auto"), Known()) is None
    monkeypatch.setattr(component, "find_device", lambda: HostDevice(free=needed))
    assert device_for(GRAPH, resolve_options(2, engine="cuda"), Known()) is not None


def test_small_graphs_stay_on_the_cpu(monkeypatch):
    monkeypatch.setattr(component, "find_device", HostDevice)
    small = knn_graph(np.random.default_rng(0).random((300, 2)), 8)
    ours = embed_graph(small, engine="cuda")
    assert np.array_equal(ours.coordinates, embed_graph(small).coordinates)
    assert ours.solver.startswith("direct")
