"""One self-contained interactive page about a map; plotly (extra ``report``) is imported on first use."""

from isoweave.report._write import write_report

__all__ = ["write_report"]
