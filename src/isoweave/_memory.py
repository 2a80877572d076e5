"""How much memory there is, and how much of it this process has."""

from __future__ import annotations

import math
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoweave._validation import check_real

# Part of what the machine or its container allows that a fit may fill.
SHARE = 0.9
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
# cgroup v1 says "no limit" by the largest multiple of a page.
_UNLIMITED = 2**60


@dataclass(frozen=True)
class MemoryLimit:
    """Most bytes the process may have resident (infinite: no limit), and where that comes from."""

    bytes: float
    source: str


def parse_memory_limit(value: Any) -> float | None:
    """Bytes from what a user gave: a number, text such as "4GB", "none" or infinity; None stays None.

    Examples
    --------
    >>> parse_memory_limit("1.5GB"), parse_memory_limit("2 MiB"), parse_memory_limit("none")
    (1500000000.0, 2097152.0, inf)
    """
    if value is None:
        return None
    wrong = (
        f"memory_limit must be None, a number of bytes, text such as '4GB' or '512MiB', or 'none' for no "
        f"limit, got {value!r}"
    )
    if isinstance(value, str):
        text = value.strip().lower()
        if text in ("none", "inf"):
            return math.inf
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]i?)?b?", text)
        if found is None:
            raise ValueError(f"{wrong}.")
        unit = found[2] or ""
        value = float(found[1]) * (_UNITS | _BINARY_UNITS)[unit]
    elif isinstance(value, float) and value == math.inf:
        return math.inf
    try:
        return check_real("memory_limit", value, minimum=0, include_minimum=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{wrong}.") from None


def resolve_limit(value: float | None) -> MemoryLimit:
    """The limit given, or by default 90 % of what the machine or its container allows."""
    if value is not None:
        return MemoryLimit(value, "memory_limit")
    allowed = allowed_memory()
    return MemoryLimit(SHARE * allowed.bytes, f"{SHARE:.0%} of {show_bytes(allowed.bytes)}, {allowed.source}")


def allowed_memory(root: Path = Path("/")) -> MemoryLimit:
    """The smallest of physical memory, the limits of the container, and those of the process.

    Parameters
    ----------
    root : pathlib.Path
        Where ``proc`` and ``sys`` are; tests put theirs elsewhere.
    """
    found = [
        MemoryLimit(_physical(), "the memory of the machine"),
        MemoryLimit(_cgroup(root), "the memory of the container (cgroup)"),
        *_process_limits(),
    ]
    return min(found, key=lambda limit: limit.bytes)


def _physical() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def _cgroup(root: Path) -> float:
    """Smallest memory limit of the control groups (v1 and v2) of this process and those above it."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return math.inf
    smallest = math.inf
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        # A container may not see its own group under the path the host has given it: the mount is it then.
        for depth in range(len(parts) + 1):
            smallest = min(smallest, _read_limit(mount.joinpath(*parts[:depth], name)))
    return smallest


def _read_limit(path: Path) -> float:
    try:
        value = float(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no such group, or "max"
        return math.inf
    return value if value < _UNLIMITED else math.inf


def _process_limits() -> list[MemoryLimit]:
    """What ``ulimit`` leaves, as resident memory: the mapped memory that is not resident is no use to us."""
    try:
        import resource
    except ImportError:  # Windows
        return []
    status = process_status()
    limits = []
    for name, size in (("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")):
        soft = resource.getrlimit(getattr(resource, name))[0]
        if soft != resource.RLIM_INFINITY and size in status:
            left = max(soft - status[size], 0)
            limits.append(MemoryLimit(status["VmRSS"] + left, f"{name} of the process"))
    return limits


def process_status() -> dict[str, int]:
    """Sizes of this process in bytes by the kernel's names; empty where there is no ``/proc``."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    sizes = (line.split() for line in lines if line.startswith("Vm"))
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in sizes}


def resident_bytes() -> int:
    """Memory this process has now; the most it ever had where the system tells no more."""
    status = process_status()
    if "VmRSS" in status:
        return status["VmRSS"]
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def show_bytes(value: float) -> str:
    """As a user writes it: ``show_bytes(2_345_000_000) == "2.35 GB"``."""
    if math.isinf(value):
        return "no limit"
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if abs(value) >= unit:
            return f"{value / unit:.3g} {name}"
    return f"{value:.0f} B"
