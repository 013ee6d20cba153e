"""The program of a stored plan: its devices, and the cuts of every layer at all nodes of its tree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.program.cuts import Cuts, LevelCut, array_cuts
from hypar.program.lowering import lower
from hypar.program.places import Places, array_places
from hypar.sharding.numbering import digits_of
from hypar.sharding.tree import Device, Level, Stages, Uneven

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.program.places import Numbers
    from hypar.program.steps import Program
    from hypar.sharding.tree import Node, Split


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
    """Return the devices of a plan and the cuts of each of its layers; layers that are cut alike share one object."""
    tree = plan.root
    splits = _splits_of(tree)
    if splits is not None:
        return _array_cuts(plan, splits)
    places, known = _places(_coordinates(tree)), dict[object, Cuts]()
    stages = () if plan.stages is None else plan.stages.stages
    stage_of = {name: number for number, stage in enumerate(stages) for name in stage.layers}
    found = {}
    for name in plan.layers:
        own = [split for split in plan.splits if name in split.choices]
        key = (stage_of.get(name), *((split.choice(name), split.shares_of(name)) for split in own))
        if key not in known:
            known[key] = Cuts(places, tuple(_levels(tree, name)))
        found[name] = known[key]
    return places, found


def _places(coordinates: Numbers) -> Places:
    """Return the devices by their coordinates, ``[nodes, devices]``."""
    parts = []
    for level in range(len(coordinates)):
        _, part = np.unique(coordinates[: level + 1], axis=1, return_inverse=True)
        parts.append(part.reshape(-1).astype(np.int64))
    return Places(tuple(parts))


def _coordinates(node: Node) -> Numbers:
    """Return the coordinates of each device below a node, 0 below the end of its branch, ``[nodes, devices]``."""
    if isinstance(node, Device):
        return np.zeros((0, 1), np.int64)
    if isinstance(node, Level):
        below = _coordinates(node.below)
        own = np.repeat(np.arange(node.split.ways), below.shape[1])
        return np.concatenate([own[None], np.tile(below, node.split.ways)])
    each = [_coordinates(own) for _, own in _parts(node)]
    depth = max(map(len, each))
    own = np.repeat([index for index, _ in _parts(node)], [below.shape[1] for below in each])
    padded = [np.pad(below, ((0, depth - len(below)), (0, 0))) for below in each]
    return np.concatenate([own[None], np.concatenate(padded, axis=1)])


def _parts(node: Uneven | Stages) -> Sequence[tuple[int, Node]]:
    """Return the parts that a node divides devices into, each with its index."""
    return [(index, below) for index, below in enumerate(node.below) if below is not None]


def _levels(node: Node, name: str) -> list[LevelCut]:
    """Return the cuts of a layer at a node and at all nodes below it, for the devices below the node."""
    splits = _splits_of(node)
    if splits is not None:
        return [*array_cuts(tuple(own.ways for own in splits), [own.choice(name) for own in splits]).levels]
    if isinstance(node, Level):
        below = _levels(node.below, name)
        (own,) = array_cuts((node.split.ways,), (node.split.choice(name),)).levels
        each = [[_at(own, index), *below] for index in range(node.split.ways)]
    elif isinstance(node, Stages):
        # A layer is in one stage; what the bounds of the others are, which do not work for it, makes no difference.
        here = next(index for index, own in enumerate(node.layers) if name in own)
        below = _levels(node.below[here], name)
        each = [
            [LevelCut({}, np.array([index == here])), *(below if index == here else _idle(part, below))]
            for index, part in _parts(node)
        ]
    else:
        assert isinstance(node, Uneven)  # noqa: S101 (a device is an array without levels)
        each = [[_share(node, index, name), *_levels(part, name)] for index, part in _parts(node)]
    depth = max(map(len, each))
    devices = [max(len(cut.working) for cut in cuts) for cuts in each]
    rows = (
        [_over(cuts[level : level + 1], count) for cuts, count in zip(each, devices, strict=True)]
        for level in range(depth)
    )
    return [*map(_side_by_side, rows)]


def _splits_of(node: Node) -> list[Split] | None:
    """Return the splits of a node below which there are even levels alone; None for another node."""
    splits = []
    while isinstance(node, Level):
        splits.append(node.split)
        node = node.below
    return splits if isinstance(node, Device) else None


def _array_cuts(plan: Plan, splits: Sequence[Split]) -> tuple[Places, dict[str, Cuts]]:
    """Return the devices and the cuts of even levels alone, whose pieces are laid digit by digit."""
    array = tuple(split.ways for split in splits)
    chosen = tuple(tuple(split.choice(name) for split in splits) for name in plan.layers)
    digits = digits_of(array, chosen)
    # Pieces are laid digit by digit, transfers are counted level by level.
    cuts = (array_cuts(digits.array, choices) for choices in digits.chosen)
    return array_places(array), dict(zip(plan.layers, cuts, strict=True))


def _share(node: Uneven, index: int, name: str) -> LevelCut:
    """Return the cut of a layer at an uneven split, for one group."""
    shares, divided = node.split.shares_of(name), node.split.choice(name).divided
    start = math.fsum(shares[:index])
    ends = (np.array([start]), np.array([start + shares[index]]))
    return LevelCut(dict.fromkeys(divided, ends), np.array([not divided or shares[index] > 0]))


def _idle(node: Node, cuts: Sequence[LevelCut]) -> list[LevelCut]:
    """Return the cuts of a layer for the devices below a node that do not work for it: those of others, repeated."""
    depth, devices = _coordinates(node).shape
    over = [_over([LevelCut(cut.bounds, np.ones(1, bool))], devices) for cut in cuts[:depth]]
    return [*over, *[_over([], devices)] * (depth - len(over))]


def _at(cut: LevelCut, index: int) -> LevelCut:
    """Return the cut of one of all devices."""
    here = slice(index, index + 1)
    bounds = {dim: (low[here], high[here]) for dim, (low, high) in cut.bounds.items()}
    return LevelCut(bounds, cut.working[here])


def _over(cuts: Sequence[LevelCut], devices: int) -> LevelCut:
    """Return the cut of one device for all devices of its part; without a cut one that divides nothing."""
    if not cuts:
        return LevelCut({}, np.ones(devices, bool))
    (cut,) = cuts
    bounds = {
        dim: (np.resize(low, devices), np.resize(high, devices)) for dim, (low, high) in cut.bounds.items()
    }
    return LevelCut(bounds, np.resize(cut.working, devices))


def _side_by_side(cuts: Sequence[LevelCut]) -> LevelCut:
    """Return the cuts of several parts as one; a dim that a part does not divide is whole there."""
    bounds = {}
    for dim in dict.fromkeys(dim for cut in cuts for dim in cut.bounds):
        ends = [cut.bounds.get(dim, (np.zeros(len(cut.working)), np.ones(len(cut.working)))) for cut in cuts]
        low, high = zip(*ends, strict=True)
        bounds[dim] = (np.concatenate(low), np.concatenate(high))
    return LevelCut(bounds, np.concatenate([cut.working for cut in cuts]))
