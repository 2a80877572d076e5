"""From local to global: how much the long distances count, and the landmarks they are measured from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.energy import AnchorEnergy, FrameEnergy, GlobalEnergy
from isoweave.graph import NeighborGraph, geodesics_from
from isoweave.optimise._blocks import farthest_first
from isoweave.optimise._problem import check_finite
from isoweave.optimise._run import IterationResult, Run
from isoweave.optimise._starts import ENDED_EARLY, landmark_start

_FEWEST_LANDMARKS = 50
_LANDMARKS_PER_DIMENSION = 20
# Geodesics to hold, at most: beyond, fewer landmarks do, because there are more vertices to each.
_MOST_GEODESICS = 20_000_000
# So many with more landmarks than these, which a weight above 1 asks for.
_MANY_GEODESICS = 4_000_000
# Relative energies of finished local embeddings: below the second the data are flat in N dimensions, and then
# geodesics that walk around a hole or a bay are wrong where the frames are right (docs/dial.md has their
# energies). Above the last, the long distances count in full; below the first, the edges do.
_EXACT = 0.02
_FLAT = 0.027
_CURVED = 0.035
# Part of that energy that edges leave when they are fitted: on flat data 1e-4, on a cap of 60 degrees of a
# sphere .16, on a swiss roll with noise .6 .38. Between the two, they count less.
_AGREE, _DISAGREE = 0.1, 0.3
# A vertex with few more than N neighbours fits any frame, so that the energy says nothing about flatness.
_WELL_CONNECTED = 4.0
# The stress that classical scaling leaves, weighted, is this part of the energy that the frames leave.
_SHARE = 0.1
_MOST_WEIGHT = 1.2
# Of the distances beside the frames on data that are not flat. In full they would crumple the map.
_MIXED = 0.7
# Energy over stress from which they count, and count so: torus 2.4, Klein bottle 9, images more.
_CRAMPED, _ROOMY = 3.0, 8.0
# Nobody could see what less does.
NO_WEIGHT = 1e-6
# Extent of a map, in units of the median length, that is none.
ONE_PLACE = 1e-6


def farthest_in(x: FloatArray, n_landmarks: int) -> IntArray:
    """Vertices far apart in an embedding, int32; each is farthest from those before."""
    # Arrays may be on a device.
    nearest = np.einsum("ic,ic->i", x - x.mean(axis=0), x - x.mean(axis=0))
    chosen: list[int] = []
    for _ in range(n_landmarks):
        chosen.append(int(np.argmax(nearest)))
        away = x - x[chosen[-1]]
        squares = np.einsum("ic,ic->i", away, away)
        nearest = squares if len(chosen) == 1 else np.minimum(nearest, squares)
        if nearest.max() == 0.0:
            break
    return np.array(chosen, dtype=np.int32)


def farthest_in_each(stack: FloatArray, count: int) -> AnyArray:
    """The same of embeddings (k, n, N), shape (k, count); some are named twice where others coincide."""
    each = np.arange(len(stack))

    def squares(steps: FloatArray) -> FloatArray:
        rows = steps.reshape(-1, stack.shape[2])
        return np.einsum("ic,ic->i", rows, rows).reshape(stack.shape[:2])

    nearest = squares(stack - stack.mean(axis=1, keepdims=True))
    return farthest_first(nearest, lambda a, at: squares(stack - stack[each, at][:, None]), count)


def far_landmarks(x: FloatArray, weight: float | str) -> IntArray:
    """As many of these as the long distances are measured from."""
    return farthest_in(x, n_far_landmarks(len(x), x.shape[1], weight))


def n_far_landmarks(n: int, n_components: int, weight: float | str) -> int:
    """How many that are: the more the long distances count, the more of them, as far as memory goes.

    A few show a map the way, which is all that "auto" wants. Where long distances have the last word, those
    that no landmark sees are missed: on the torus 50 landmarks stay behind Isomap at any weight.
    """
    few = _few_landmarks(n_components)
    wanted = few if weight == "auto" else int(min(few * max(1.0, float(weight)), n))
    wanted = min(wanted, max(_MANY_GEODESICS // n, few))
    return min(wanted, max(_MOST_GEODESICS // n, 2 * n_components + 2), n)


def _few_landmarks(n_components: int) -> int:
    return max(_FEWEST_LANDMARKS, _LANDMARKS_PER_DIMENSION * n_components)


def global_energy(frames: FrameEnergy, x: FloatArray, weight: float | str) -> GlobalEnergy:
    """The stress to landmarks that are far apart in an embedding, with the weight of the frames' mass."""
    landmarks = far_landmarks(x, weight)
    distances = geodesics_from(frames.graph, landmarks, team=frames.team)
    return GlobalEnergy(landmarks, np.ascontiguousarray(distances.T), frames.mass, frames.team)


def mean_degree(graph: NeighborGraph) -> float:
    return len(graph.indices) / graph.n_vertices


def known_part(degree: float, n_components: int) -> float:
    """Between 0 and 1, how far the mean degree lets the energy speak about flatness. 0 for trees."""
    return min(1.0, max(0.0, (degree - n_components) / _WELL_CONNECTED))


def unflat_share(degree: float, n_components: int, share: float) -> float:
    """The relative energy, or more where the mean degree says that the data need not be flat."""
    return max(share, (1.0 - known_part(degree, n_components)) * _CURVED)


def openness(degree: float, n_components: int, share: float) -> float:
    """Between 0, flat data, and 1, data that N dimensions cannot hold, by the relative energy ``share``."""
    return _smooth((share - known_part(degree, n_components) * _FLAT) / (_CURVED - _FLAT))


def flatness(degree: float, n_components: int, share: float) -> float:
    """Between 0 and 1, how far the lengths of the edges can be had: 0 where the energy does not tell."""
    known = known_part(degree, n_components) == 1.0
    return _smooth((_FLAT - share) / (_FLAT - _EXACT)) if known else 0.0


def agreement(left: float) -> float:
    """Between 0 and 1, how far edges are to be met that leave this part of the frames' relative energy."""
    return _smooth((_DISAGREE - left) / (_DISAGREE - _AGREE))


def _smooth(t: float) -> float:
    t = min(1.0, max(0.0, t))
    return t * t * (3.0 - 2.0 * t)


def _scaled(far: GlobalEnergy, n_components: int) -> FloatArray:
    return landmark_start(far.landmarks, np.ascontiguousarray(far.geodesics.T), n_components)


def energy_over_stress(
    share: float, far: Any, n_components: int, scaled_by: Callable[[Any, int], Any] = _scaled
) -> float:
    """What frames leave over what long distances leave at best, about: after classical scaling (Isomap)."""
    few = _few_landmarks(n_components)
    if len(far.landmarks) > few:
        # The first are far apart as well, and the answer is that of any weight.
        far = replace(far, landmarks=far.landmarks[:few], geodesics=far.geodesics[:, :few].copy())
    scaled = scaled_by(far, n_components)
    stress = far.evaluate(scaled).energy / far.weight
    return share / stress if stress > 0.0 else 0.0


def balanced_weight(ratio: float) -> float:
    """The weight at which long distances take little from the short ones and give most of what they can."""
    return min(_MOST_WEIGHT, _SHARE * ratio)


def mixed_part(ratio: float, known: float) -> float:
    """The part of the distances beside the frames; ``known`` is :func:`known_part`.

    Where long distances fit badly beside what the frames leave, lengths are only to be had by crumpling,
    unless there are so few edges that they fit anyway.
    """
    return _MIXED * max(_smooth((ratio - _CRAMPED) / (_ROOMY - _CRAMPED)), 1.0 - known)


def opened(frames: Any, result: IterationResult) -> tuple[float, float]:
    """:func:`unflat_share` and :func:`openness` of a local fit."""
    degree, n_components = mean_degree(frames.graph), frames.frames.n_components
    share = result.energy / frames.mass if frames.mass > 0 else 0.0
    share = unflat_share(degree, n_components, share)
    return share, openness(degree, n_components, share)


def long_distances(
    frames: Any,
    anchors: AnchorEnergy | None,
    result: IterationResult,
    weight: float | str,
    run: Run,
    made_by: Callable[[Any, Any, float | str], Any] = global_energy,
    scaled_by: Callable[[Any, int], Any] = _scaled,
    extent_of: Callable[[Any], float] = lambda x: float(np.ptp(x, axis=0).max()),
) -> tuple[float, float, Any]:
    """After a local fit: the weight of the long distances (eq. 24), the part of the edges, and their energy.

    The energy is None where the weight is 0. Another engine has its own functions for that energy, for
    classical scaling and for the extent of an embedding.
    """
    x, n_components = result.coordinates, frames.frames.n_components
    share, opening = opened(frames, result)
    # Anchors tell where things are, better than paths can.
    unwanted = weight == 0.0 or (weight == "auto" and (opening == 0.0 or anchors is not None))
    # Where all points lie in one place the stress has no direction to pull them apart.
    collapsed = extent_of(x) <= ONE_PLACE
    if unwanted or collapsed or result.status in ENDED_EARLY:
        return 0.0, 0.0, None
    run.stage("landmarks")
    far = made_by(frames, x, weight)
    check_finite("landmarks", "geodesics", far.geodesics)
    ratio = energy_over_stress(share, far, n_components, scaled_by) if opening > 0.0 else 0.0
    chosen = opening * balanced_weight(ratio) if weight == "auto" else float(weight)
    if chosen < NO_WEIGHT:
        return 0.0, 0.0, None
    part = opening * mixed_part(ratio, known_part(mean_degree(frames.graph), n_components))
    return chosen, part, replace(far, weight=chosen * far.weight)
