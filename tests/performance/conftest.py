"""The suite's modules lie beside the package; tests import them by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
