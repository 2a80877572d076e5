"""``python -m isoweave`` is the command ``isoweave``."""

from isoweave.cli import main

if __name__ == "__main__":
    main()
