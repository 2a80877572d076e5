"""Command lines that make long examples short in the gallery."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any


def arguments(gallery_conf: dict[str, Any], script_vars: dict[str, Any]) -> list[str]:
    if Path(script_vars["src_file"]).name == "sensor_network.py":
        return ["--sensors", "150", "--figure", str(Path(tempfile.gettempdir()) / "sensor_network.png")]
    return []
