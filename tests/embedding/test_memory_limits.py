"""How much memory a fit may take: what users give, and what the machine or its container allows."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from isoweave.embedding import _limits, resolve_options


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, None),
        (5000, 5000.0),
        (2.5e9, 2.5e9),
        ("4GB", 4e9),
        ("4 gb", 4e9),
        ("1.5G", 1.5e9),
        ("512MiB", 512 * 2**20),
        ("7", 7.0),
        ("none", math.inf),
        (float("inf"), math.inf),
        (np.int64(12), 12.0),
    ],
)
def test_limits_are_read(given, wanted):
    assert resolve_options(2, memory_limit=given).memory_limit == wanted


@pytest.mark.parametrize("wrong", ["much", "4XB", "-1GB", "", "GB", 0, -5, float("nan")])
def test_bad_limits(wrong):
    with pytest.raises(ValueError, match=r"memory_limit must be None, a number of bytes, text such as '4GB'"):
        resolve_options(2, memory_limit=wrong)


@pytest.mark.parametrize("wrong", [True, [1], {"bytes": 3}])
def test_limits_of_the_wrong_type(wrong):
    with pytest.raises(TypeError, match=r"memory_limit must be .*got (True|\[1\]|\{'bytes': 3\})"):
        resolve_options(2, memory_limit=wrong)


def control_groups(root, version, path, limits):
    """A machine whose control groups have these limits, by folder."""
    line, mount, name = {
        1: (f"4:memory:{path}", "sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        2: (f"0::{path}", "sys/fs/cgroup", "memory.max"),
    }[version]
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(f"3:cpuset:/\n{line}\n")
    for folder, text in limits.items():
        place = root / mount / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)


@pytest.mark.parametrize(
    ("version", "path", "limits", "wanted"),
    [
        (2, "/jobs/mine", {"": "max\n", "jobs": "5000000\n", "jobs/mine": "max\n"}, 5e6),
        (2, "/jobs/mine", {"jobs": "5000000\n", "jobs/mine": "4000000\n"}, 4e6),
        # Inside a container the path is the host's, and the mount is the group itself.
        (2, "/../elsewhere", {"": "3000000\n"}, 3e6),
        (1, "/docker/abc", {"": "9223372036854771712\n", "docker/abc": "2000000\n"}, 2e6),
        (1, "/", {"": "9223372036854771712\n"}, math.inf),
    ],
)
def test_control_groups(tmp_path, version, path, limits, wanted):
    control_groups(tmp_path, version, path, limits)
    assert _limits._cgroup(tmp_path) == wanted
    if wanted < math.inf:
        found = _limits.allowed_memory(tmp_path)
        assert (found.bytes, found.source) == (wanted, "the memory of the container (cgroup)")


def test_the_default_is_most_of_the_machine():
    limit = _limits.resolve_limit(None)
    assert limit.bytes <= 0.9 * _limits._physical()
    assert limit.source.startswith("90% of ")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_address_space_is_a_limit(monkeypatch):
    resource = pytest.importorskip("resource")
    status = _limits.process_status()
    monkeypatch.setattr(
        resource,
        "getrlimit",
        lambda kind: (
            (status["VmSize"] + 10**6 if kind == resource.RLIMIT_AS else resource.RLIM_INFINITY,) * 2
        ),
    )
    found = _limits.allowed_memory()
    assert found.source == "RLIMIT_AS of the process"
    # Resident memory moves a little between the two readings.
    assert found.bytes == pytest.approx(status["VmRSS"] + 10**6, abs=5e6)
