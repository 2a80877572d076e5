"""Memory and processor time of this process, and a watch over those we start."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_STATUS = Path("/proc/self/status")
_POLL = 0.25


def resident_bytes() -> int:
    """Memory of this process now; where the system does not tell, its peak so far."""
    return _status("VmRSS") or _largest_resident()


def peak_bytes() -> int:
    """Most memory of this process since :func:`forget_peak`."""
    return _status("VmHWM") or _largest_resident()


def forget_peak() -> int:
    """Give back what is free, start a new peak, and return the memory it starts from.

    On Linux the kernel can be asked to forget the old peak; elsewhere the peak is that since the start of
    the process.
    """
    gc.collect()
    if sys.platform == "linux":
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")
        except (OSError, AttributeError):
            pass
    return resident_bytes()


def _status(name: str) -> int:
    if not _STATUS.exists():
        return 0
    found = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def _largest_resident() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def processor_seconds() -> float:
    """Of this process and of the workers it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def physical_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def environment(n_threads: int, **changes: str) -> dict[str, str]:
    """This process's environment with every library held to the same number of threads."""
    names = ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM", "BLIS")
    return {**os.environ, **{f"{name}_NUM_THREADS": str(n_threads) for name in names}, **changes}


def run_watched(
    command: Sequence[str], env: dict[str, str], *, prepare_limit: float, limit: float, memory_limit: float
) -> dict[str, Any]:
    """Run a command that appends JSON objects to the file named last, and merge what it says.

    Parameters
    ----------
    command : sequence of str
        The name of a file is added to it.
    prepare_limit : float
        Seconds until the object with ``event`` "ready" must have come.
    limit : float
        Seconds from then to "fitted". Scoring after that may take ``prepare_limit`` seconds again.
    memory_limit : float
        Bytes of resident memory.

    Returns
    -------
    dict
        All keys of all objects; ``status`` is "ok", "failed: ..." or "stopped ...".
    """
    with tempfile.TemporaryDirectory() as folder:
        events, errors = Path(folder) / "events", Path(folder) / "errors"
        events.touch()
        with errors.open("wb") as log:
            process = subprocess.Popen(
                [*command, str(events)], env=env, stdout=log, stderr=log, start_new_session=True
            )
        stopped = _watch(process, events, prepare_limit, limit, memory_limit)
        merged: dict[str, Any] = {}
        for line in events.read_text(encoding="utf-8").splitlines():
            merged |= json.loads(line)
        event = merged.pop("event", "started")
        if stopped is not None and event != "fitted":
            merged["status"] = stopped
        elif event not in ("fitted", "scored", "failed"):
            tail = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            merged["status"] = f"failed: exit status {process.returncode} {''.join(tail)}".strip()
        else:
            merged.setdefault("status", "ok")
    return merged


def _watch(
    process: subprocess.Popen[bytes], events: Path, prepare_limit: float, limit: float, memory_limit: float
) -> str | None:
    """Wait for the process; end it, and say why, when it goes beyond its limits."""
    phase, since = b"", time.monotonic()
    limits = {b"": prepare_limit, b"ready": limit, b"fitted": prepare_limit}
    try:
        while process.poll() is None:
            time.sleep(_POLL)
            text = events.read_bytes()
            now = next((name for name in (b"fitted", b"ready") if b'"event": "%s"' % name in text), b"")
            if now != phase:
                phase, since = now, time.monotonic()
            if time.monotonic() - since > limits[phase]:
                _end(process)
                what = {b"": "preparing ", b"ready": "", b"fitted": "scoring "}[phase].strip()
                return f"stopped {what} after {limits[phase]:.0f} s".replace("  ", " ")
            used = _resident_of(process.pid)
            if used > memory_limit:
                _end(process)
                return f"stopped at {used / 1e9:.1f} GB"
    finally:
        _end(process)
    return None


def _resident_of(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started; it leads a group of its own."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
