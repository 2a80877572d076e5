"""``python -m isoweave`` is the command ``isoweave``."""

from __future__ import annotations

from isoweave.cli import main

if __name__ == "__main__":
    main()
