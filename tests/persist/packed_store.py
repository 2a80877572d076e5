"""Stores as a mapping of file names to bytes, to damage them and to write them back as an attacker would."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def read_files(path):
    return {file.name: file.read_bytes() for file in Path(path).iterdir()}


def write_files(path, files):
    """Write the files of a store that does not exist yet."""
    path.mkdir()
    for name, data in files.items():
        (path / name).write_bytes(data)


def replace(file, data):
    """Give a file other contents, by a new file: some systems wait for the disk when one is overwritten."""
    file.unlink(missing_ok=True)
    file.write_bytes(data)


def manifest_of(files):
    return json.loads(files["manifest.json"])


def with_manifest(files, manifest):
    """The files with another manifest (an object, or bytes) and the checksum that goes with it."""
    data = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    line = f"{hashlib.sha256(data).hexdigest()}  manifest.json\n".encode()
    return {**files, "manifest.json": data, "manifest.sha256": line}


def with_array(files, name, data):
    """The files with other bytes for an array, and all checksums to go with them."""
    manifest = manifest_of(files)
    entry = manifest["arrays"][name]
    entry["sha256"], entry["bytes"] = hashlib.sha256(data).hexdigest(), len(data)
    return with_manifest({**files, entry["file"]: data}, manifest)


def seal(files):
    """Make all checksums right, as far as the manifest can be read at all."""
    try:
        manifest = manifest_of(files)
        for entry in manifest["arrays"].values():
            if entry["file"] in files:
                data = files[entry["file"]]
                entry["sha256"], entry["bytes"] = hashlib.sha256(data).hexdigest(), len(data)
    except Exception:  # whatever is wrong with it, the reader shall find out
        return with_manifest(files, files.get("manifest.json", b""))
    return with_manifest(files, manifest)


def pack(files):
    """All files in one string of bytes."""
    parts = []
    for name, data in sorted(files.items()):
        label = name.encode()
        parts += [len(label).to_bytes(1, "little"), label, len(data).to_bytes(4, "little"), data]
    return b"".join(parts)


def unpack(data):
    """Files from any bytes whatever; names that could leave the folder are dropped."""
    files, at = {}, 0
    while at < len(data):
        length = data[at]
        name = data[at + 1 : at + 1 + length].decode("latin-1")
        at += 1 + length
        size = int.from_bytes(data[at : at + 4], "little")
        at += 4
        if name and "/" not in name and "\0" not in name and name not in (".", ".."):
            files[name] = data[at : at + size]
        at += size
    return files
