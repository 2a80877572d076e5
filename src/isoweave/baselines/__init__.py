"""Other methods behind one call, all on the same distance graph."""

from isoweave.baselines._run import BASELINES, Baseline, available_baselines, run_baseline

__all__ = ["BASELINES", "Baseline", "available_baselines", "run_baseline"]
