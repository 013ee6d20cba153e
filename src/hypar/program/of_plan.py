"""The program of a stored plan: its devices, and the cuts of every layer at all levels, uneven splits and stages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.plan.splits import WHOLE_ARRAY
from hypar.program.cuts import Cuts, LevelCut, array_cuts
from hypar.program.lowering import lower
from hypar.program.places import Places, array_places
from hypar.sharding.numbering import digits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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
    places, cuts = cuts_of(plan)
    return lower(graph, places, cuts, convention)


def cuts_of(plan: Plan) -> tuple[Places, dict[str, Cuts]]:
    """Return the devices of a plan and the cuts of each of its layers."""
    if plan.staged:
        return _stage_cuts(plan)
    if plan.heterogeneous:
        return _tree_cuts(plan)
    array, chosen = tuple(plan.array), tuple(plan.choices(name) for name in plan.layers)
    digits = digits_of(array, chosen)
    # Pieces are laid digit by digit, transfers are counted level by level.
    inner, own = (array, chosen) if digits is None else (digits.array, digits.chosen)
    cuts = (array_cuts(inner, choices) for choices in own)
    return array_places(array), dict(zip(plan.layers, cuts, strict=True))


def _stage_cuts(plan: Plan) -> tuple[Places, dict[str, Cuts]]:
    """Return the cuts over stages: a stage is a coordinate outside all levels, and works for its own layers alone."""
    stages = plan.stages.stages if plan.stages is not None else []
    by_name = {group.name: group for group in plan.groups}
    groups = [by_name[stage.group or WHOLE_ARRAY] for stage in stages]
    depth = 1 + max(len(group.array) for group in groups)
    places = _places([_coordinates((number,), group, depth) for number, group in enumerate(groups)])
    found = {}
    for number, (stage, group) in enumerate(zip(stages, groups, strict=True)):
        here = places.parts[0] == number
        for name in stage.layers:
            own = array_cuts(group.array, [split.choice(name) for split in group.splits])
            levels = [_only(cut, here) for cut in own.levels]
            levels += [LevelCut({}, np.ones(len(here), bool))] * (depth - 1 - len(levels))
            found[name] = Cuts(places, (LevelCut({}, here), *levels))
    return places, found


def _only(cut: LevelCut, here: NDArray[np.bool_]) -> LevelCut:
    """Return a level's cut on some of all devices; the bounds of the others, which are idle at the level above, repeat."""
    bounds = {}
    for dim, own in cut.bounds.items():
        low, high = (np.resize(ends, len(here)) for ends in own)
        low[here], high[here] = own
        bounds[dim] = (low, high)
    working = np.ones(len(here), bool)
    working[here] = cut.working
    return LevelCut(bounds, working)


def _tree_cuts(plan: Plan) -> tuple[Places, dict[str, Cuts]]:
    """Return the cuts over the groups of a heterogeneous machine that work, each with levels of its own."""
    groups = [group for group in plan.groups if not group.idle]
    devices = [math.prod(group.array) for group in groups]
    depth = max(len(group.above) + len(group.splits) for group in groups)
    places = _places([_coordinates([index for _, index in group.above], group, depth) for group in groups])
    return places, {name: _layer_cuts(name, groups, devices, places) for name in plan.layers}


def _places(rows: Sequence[Numbers]) -> Places:
    """Return the devices of all groups, from the coordinates of each group's devices at every level."""
    parts, seen = [], np.concatenate(rows, axis=1)
    for level in range(len(seen)):
        _, part = np.unique(seen[: level + 1], axis=1, return_inverse=True)
        parts.append(part.reshape(-1).astype(np.int64))
    return Places(tuple(parts))


def _coordinates(above: Sequence[int], group: Group, depth: int) -> Numbers:
    """Return the coordinate of each device of a group at every level, 0 below its own, ``[levels, devices]``."""
    count = math.prod(group.array)
    own = [*np.unravel_index(np.arange(count), group.array)] if group.array else []
    found = [*(np.full(count, index) for index in above), *own]
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
