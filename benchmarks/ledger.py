"""Finished cases of the performance suite: files of JSON lines under build/benchmarks/runs/MACHINE/.

CODE.jsonl holds the cases of isoweave, one file per version of its code (a hash that comments and docstrings
do not change), so that two versions can be compared; peers.jsonl those of the other methods.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

from cases import ENGINE, RECORDS, ROOT, hash_folders
from isoweave.experiments import versions
from methods import METHODS
from process import physical_bytes

Record: TypeAlias = dict[str, Any]
Case: TypeAlias = tuple[str, str, int]

RUNS = RECORDS / "runs"
# Raise when a case comes to mean something else: its data, the parameters of a peer, what is measured.
SUITE = 1


def case_of(record: Record) -> Case:
    """Method, workload and size."""
    return record["method"], record["workload"], record["n"]


class Ledger:
    """Cases of one machine and one version of isoweave, and those of the peers."""

    def __init__(self, folder: Path, code: str) -> None:
        self._files = {"isoweave": folder / f"{code}.jsonl", "peers": folder / "peers.jsonl"}
        self._records: dict[Case, Record] = {}
        for path in self._files.values():
            for record in read_records([path]):
                if record["code"] == code_of(record["method"]):
                    self._records[case_of(record)] = record

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def get(self, case: Case) -> Record | None:
        """The newest record of a case that is still valid."""
        return self._records.get(case)

    def is_done(self, case: Case, n_jobs: int, limit: float) -> bool:
        """Whether a case need not be run: it ended, it would be stopped again, or a peer cannot do it."""
        record = self._records.get(case)
        if record is None or record["n_jobs"] != n_jobs:
            return False
        if record["status"].startswith("stopped after"):
            return bool(record["limit"] >= limit)
        return not record["status"].startswith("failed") or case[0] != "isoweave"

    def add(self, record: Record) -> None:
        """Keep a record, in memory and on disk."""
        stamp = {"machine": machine(), "commit": commit(), "code": code_of(record["method"])}
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        record = {**record, **stamp, "date": now, "versions": all_versions()}
        self._records[case_of(record)] = record
        path = self._files["isoweave" if record["method"] == "isoweave" else "peers"]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def open_ledger() -> Ledger:
    """The ledger of this machine and of the code as it is."""
    return Ledger(RUNS / machine(), code_of("isoweave"))


def read_records(paths: Iterable[Path]) -> list[Record]:
    """The newest record of every case in some files; a line cut short by a crash is left out."""
    found: dict[tuple[Case, str], Record] = {}
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                record = json.loads(line)
                found[case_of(record), record["code"]] = record
            except (ValueError, KeyError, TypeError):
                continue
    return list(found.values())


@cache
def code_of(method: str) -> str:
    """Hash of what the numbers of a method depend on."""
    scoring = hash_folders("metrics", "datasets")
    if method == "isoweave":
        parts = [hash_folders(*ENGINE)]
    else:
        package = METHODS[method].package
        parts = [package, metadata.version(package)] if _is_installed(package) else [package]
    return hashlib.sha256(json.dumps([SUITE, scoring, *parts]).encode()).hexdigest()[:12]


def _is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


@cache
def all_versions() -> dict[str, str]:
    """Of Python and every package that was measured."""
    packages = {method.package for method in METHODS.values()}
    found = {name: metadata.version(name) for name in sorted(packages) if _is_installed(name)}
    return {**versions(), **found}


@cache
def machine() -> str:
    """Processor, cores and memory, fit for a file name."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        model = found[1] if found else model
    name = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
    return f"{name}-{os.cpu_count()}-cores-{physical_bytes() / 2**30:.0f}-gb"


@cache
def commit() -> str:
    """Commit of the checkout, with a plus if files differ from it; empty outside a checkout."""
    try:
        call = {"cwd": ROOT, "capture_output": True, "text": True, "check": True}
        name = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], **call).stdout.strip()
        changed = subprocess.run(["git", "status", "--porcelain", "src"], **call).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{name}+" if changed else name
