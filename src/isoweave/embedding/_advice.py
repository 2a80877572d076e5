"""What to say when a fit would not fit: which settings would lower its peak, and by how much."""

from __future__ import annotations

from dataclasses import replace

from isoweave._memory import MemoryLimit, show_bytes
from isoweave.embedding._memory import growth_by_stage
from isoweave.embedding._sizes import FitSizes, PartSizes

# A setting that saves less than this part of what the fit adds is no cure.
_WORTH_SAYING = 0.02


def refusal(fit: FitSizes, resident: int, limit: MemoryLimit) -> str:
    """The message of the error; ``resident`` is what the process has before the fit."""
    growths = growth_by_stage(fit)
    stage = max(growths, key=lambda name: growths[name])
    peak = resident + growths[stage]
    saved = {
        knob: growths[stage] - max(growth_by_stage(other).values()) for knob, other in settings(fit).items()
    }
    least = _WORTH_SAYING * growths[stage]
    useful = sorted((knob for knob in saved if saved[knob] >= least), key=lambda knob: -saved[knob])
    idle = [knob for knob in saved if knob not in useful]
    lines = [
        f"The fit would need {show_bytes(peak)} of memory in its stage {stage!r}, {show_bytes(resident)} of "
        f"which the process has already; the limit is {show_bytes(limit.bytes)} ({limit.source})."
    ]
    if useful:
        told = (
            f"{knob} saves {show_bytes(saved[knob])}{', enough' * (peak - saved[knob] <= limit.bytes)}"
            for knob in useful
        )
        lines.append(f"To lower it: {'; '.join(told)}.")
    if idle:
        lines.append(f"No help here: {'; '.join(idle)}.")
    lines.append("Or raise memory_limit ('none' switches this check off).")
    return " ".join(lines)


def settings(fit: FitSizes) -> dict[str, FitSizes]:
    """The same fit with one setting changed, by what a user would write."""
    first = fit.parts[0]
    found: dict[str, FitSizes] = {}
    for solver in ("jacobi", "amg"):
        if solver != first.solver:
            found[f"solver={solver!r}"] = _with(fit, solver=solver, factor=None, symbolic=False)
    halved = replace(fit, m=fit.m // 2, m_given=fit.m_given // 2, parts=tuple(map(_sparser, fit.parts)))
    found["a graph with half the edges (n_neighbors)"] = halved
    if first.n_components > 1:
        fewer = first.n_components - 1 if first.n_components <= 4 else first.n_components // 2
        found[f"n_components={fewer}"] = _with(fit, n_components=fewer)
    if first.start in ("auto", "coarse", "synchronised", "identity"):
        found["start='landmark'"] = _with(fit, start="landmark")
    if first.frame_size != 1:
        smaller = max(round(first.m / first.n), first.n_components + 1)
        found[f"frame_size={smaller}"] = _with(fit, frame_size=smaller, typical_frame=float(smaller))
    if first.n_threads > 1:
        found["n_jobs=1"] = _with(fit, n_threads=1)
    return found


def _with(fit: FitSizes, **changes: object) -> FitSizes:
    return replace(fit, parts=tuple(replace(part, **changes) for part in fit.parts))  # type: ignore[arg-type]


def _sparser(part: PartSizes) -> PartSizes:
    factor = None if part.factor is None else part.factor.scaled(0.5)
    return replace(part, m=part.m // 2, laplacian=0.5 * (part.laplacian + part.n), factor=factor)
