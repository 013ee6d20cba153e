"""The program of a stored plan: its devices, and the cuts of every layer at all levels, uneven splits and stages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.program.cuts import Cuts, LevelCut, array_cuts
from hypar.program.lowering import lower
from hypar.program.places import Places, array_places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.splits import Group
    from hypar.program.cuts import Shares
    from hypar.program.places import Numbers
    from hypar.program.steps import Program


def program_of(plan: Plan, graph: LayerGraph, convention: str = "moved") -> Program:
    """Lower a plan.

    Args:
        plan: the plan.
        graph: its network, with the samples of one microbatch.
        convention: what becomes of partial sums; see ``lower``.
    """
    places, cuts = _cuts(plan)
    return lower(graph, places, cuts, convention)


def _cuts(plan: Plan) -> tuple[Places, dict[str, Cuts]]:
    """Return the devices of a plan and the cuts of each of its layers."""
    if plan.heterogeneous:
        return _tree_cuts(plan)
    array = tuple(plan.array)
    if plan.stages is not None and plan.staged:
        return _stage_cuts(plan, array)
    return array_places(array), {name: array_cuts(array, plan.choices(name)) for name in plan.layers}


def _stage_cuts(plan: Plan, array: tuple[int, ...]) -> tuple[Places, dict[str, Cuts]]:
    """Return the cuts over stages: a stage is a coordinate outside all levels, and works for its own layers alone."""
    stages = plan.stages.stages if plan.stages is not None else []
    places = array_places((len(stages), *array))
    found = {}
    for number, stage in enumerate(stages):
        here = LevelCut({}, places.parts[0] == number)
        for name in stage.layers:
            inner = array_cuts(array, plan.choices(name) if array else ())
            levels = tuple(_repeated(cut, len(stages)) for cut in inner.levels)
            found[name] = Cuts(places, (here, *levels))
    return places, found


def _repeated(cut: LevelCut, times: int) -> LevelCut:
    """Return a level's cut for several stages of devices."""
    bounds = {dim: (np.tile(low, times), np.tile(high, times)) for dim, (low, high) in cut.bounds.items()}
    return LevelCut(bounds, np.tile(cut.working, times))


def _tree_cuts(plan: Plan) -> tuple[Places, dict[str, Cuts]]:
    """Return the cuts over the groups of a heterogeneous machine that work, each with levels of its own."""
    groups = [group for group in plan.groups if not group.idle]
    devices = [math.prod(group.array) for group in groups]
    depth = max(len(group.above) + len(group.splits) for group in groups)
    rows = [_coordinates(group, depth) for group in groups]
    parts, seen = [], np.concatenate(rows, axis=1)
    for level in range(depth):
        _, part = np.unique(seen[: level + 1], axis=1, return_inverse=True)
        parts.append(part.reshape(-1).astype(np.int64))
    places = Places(tuple(parts))
    return places, {name: _layer_cuts(name, groups, devices, places) for name in plan.layers}


def _coordinates(group: Group, depth: int) -> Numbers:
    """Return the coordinate of each device of a group at every level, 0 below its own, ``[levels, devices]``."""
    count = math.prod(group.array)
    above = [np.full(count, index) for _, index in group.above]
    own = [*np.unravel_index(np.arange(count), group.array)] if group.array else []
    found = [*above, *own]
    return np.stack([*found, *[np.zeros(count, np.int64)] * (depth - len(found))])


def _layer_cuts(name: str, groups: Sequence[Group], devices: Sequence[int], places: Places) -> Cuts:
    """Return the cuts of one layer over a tree of groups."""
    levels: list[LevelCut] = []
    for level in range(len(places.parts)):
        low: dict[str, Shares] = {}
        high: dict[str, Shares] = {}
        working = np.ones(places.devices, bool)
        first = 0
        for group, count in zip(groups, devices, strict=True):
            here = slice(first, first + count)
            cut = _group_cut(name, group, level, count)
            working[here] = cut.working
            for dim, (start, end) in cut.bounds.items():
                low.setdefault(dim, np.zeros(places.devices))[here] = start
                high.setdefault(dim, np.ones(places.devices))[here] = end
            first += count
        levels.append(LevelCut({dim: (low[dim], high[dim]) for dim in low}, working))
    return Cuts(places, tuple(levels))


def _group_cut(name: str, group: Group, level: int, count: int) -> LevelCut:
    """Return the cut of a layer at one level, for the devices of one group."""
    if level < len(group.above):
        split, index = group.above[level]
        shares = split.shares_of(name)
        start = math.fsum(shares[:index])
        ends = (np.full(count, start), np.full(count, start + shares[index]))
        divided = split.choice(name).divided
        return LevelCut(dict.fromkeys(divided, ends), np.full(count, not divided or shares[index] > 0))
    own = array_cuts(group.array, [split.choice(name) for split in group.splits])
    level -= len(group.above)
    return own.levels[level] if level < len(own.levels) else LevelCut({}, np.ones(count, bool))
