"""How much memory the process has, and how much it may have."""

from __future__ import annotations

import math
import os
import re
import sys
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

from isoweave._validation import check_real

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# Part of what the machine or its container allows that a fit may fill.
SHARE = 0.9
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
# cgroup v1 says "no limit" by the largest multiple of a page.
_UNLIMITED = 2**60


@dataclass(frozen=True)
class MemoryLimit:
    """Most bytes the process may have resident (infinite: no limit), and where that comes from."""

    bytes: float
    source: str


def parse_memory_limit(value: Any) -> float | None:
    """Bytes from what a user gave: a number, text such as "1.5GB", "none" or infinity; None stays None."""
    number = value
    if isinstance(value, str):
        text = value.strip().lower()
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]i?)?b?", text)
        number = float(found[1]) * _UNITS[found[2] or ""] if found else math.nan
        number = math.inf if text in ("none", "inf") else number
    if number is None or (isinstance(number, Real) and number == math.inf):
        return None if number is None else math.inf
    try:
        return check_real("memory_limit", number, minimum=0, include_minimum=False)
    except (TypeError, ValueError) as error:
        said = "memory_limit must be None, a number of bytes, text such as '4GB' or '512MiB', or 'none'"
        raise type(error)(f"{said}, got {value!r}.") from None


def resolve_limit(value: float | None) -> MemoryLimit:
    """The limit given, or by default 90 % of what the machine or its container allows."""
    if value is not None:
        return MemoryLimit(value, "memory_limit")
    allowed = allowed_memory()
    return MemoryLimit(SHARE * allowed.bytes, f"{SHARE:.0%} of {show_bytes(allowed.bytes)}, {allowed.source}")


def allowed_memory(root: Path = Path("/")) -> MemoryLimit:
    """The smallest of physical memory, container and process limits; ``root`` holds ``proc`` and ``sys``."""
    try:
        physical = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # Windows
        physical = math.inf
    found = [
        MemoryLimit(physical, "the memory of the machine"),
        MemoryLimit(_cgroup(root), "the memory of the container (cgroup)"),
        *_process_limits(),
    ]
    return min(found, key=lambda limit: limit.bytes)


def _cgroup(root: Path) -> float:
    """Smallest memory limit of the control groups (v1 and v2) of this process and those above it."""
    mounts = {
        "": ("sys/fs/cgroup", "memory.max"),
        "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    }
    found = [math.inf]
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for mount, name in (mounts[c] for c in controllers.split(",") if c in mounts):
            # A container may not see its group under the path the host has given it: the mount is it then.
            for depth in range(len(parts) + 1):
                texts = _lines((root / mount).joinpath(*parts[:depth], name))
                found += [float(text) for text in texts if text.isdecimal() and int(text) < _UNLIMITED]
    return min(found)


def _process_limits() -> list[MemoryLimit]:
    """What ``ulimit`` leaves, as resident memory: the mapped memory that is not resident is no use to us."""
    status, limits = process_status(), []
    for name, size in (("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")) if resource else ():
        soft = resource.getrlimit(getattr(resource, name))[0]
        if soft != resource.RLIM_INFINITY and size in status:
            left = status["VmRSS"] + max(soft - status[size], 0)
            limits.append(MemoryLimit(left, f"{name} of the process"))
    return limits


def too_large(what: str, growth: float, resident: int, limit: MemoryLimit, cures: str) -> MemoryError:
    """The error for what makes the process grow so much; its peak goes where ``what`` has braces."""
    peak, now, most = map(show_bytes, (resident + growth, resident, limit.bytes))
    return MemoryError(
        f"{what.format(peak)}, {now} of which the process has already; the limit is {most} ({limit.source}). "
        f"{cures}Or raise memory_limit ('none' switches this check off)."
    )


def process_status() -> dict[str, int]:
    """Sizes of this process in bytes by the kernel's names; empty where there is no ``/proc``."""
    sizes = (line.split() for line in _lines(Path("/proc/self/status")) if line.startswith("Vm"))
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in sizes}


def resident_bytes() -> int:
    """Memory this process has now; the most it ever had where the system tells no more."""
    status = process_status()
    if "VmRSS" in status or resource is None:
        return status.get("VmRSS", 0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def show_bytes(value: float) -> str:
    """As a user writes it: ``show_bytes(2_345_000_000) == "2.35 GB"``."""
    if math.isinf(value):
        return "no limit"
    power = next((power for power in (4, 3, 2, 1) if abs(value) >= 1000**power), 0)
    return f"{value / 1000**power:.{3 if power else 9}g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
