"""The tree of nodes that a plan divides its devices by: even levels, uneven splits and stages, in any order.

A node divides devices into parts, each with a node of its own below it. An even level and an uneven split give every part
a shard of each layer; stages give every part whole layers. Each node on the way to a device is one of its coordinates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.plan.splits import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.plan.plan import Plan
    from hypar.plan.splits import Group, Split


class Device(NamedTuple):
    """A single device, the end of each branch."""


class Level(NamedTuple):
    """An even level: equal parts of identical devices.

    Attributes:
        split: the choice of every layer.
        below: the node of each part.
    """

    split: Split
    below: Node


class Uneven(NamedTuple):
    """An uneven split over device groups.

    Attributes:
        split: the choice and the shares of every layer.
        below: for each group that works its index in the split, and its node.
    """

    split: Split
    below: tuple[tuple[int, Node], ...]


class Stages(NamedTuple):
    """Stages: each part works for its own layers alone.

    Attributes:
        layers: the layers of each stage.
        below: the node of each stage.
    """

    layers: tuple[frozenset[str], ...]
    below: tuple[Node, ...]


Node = Device | Level | Uneven | Stages


def tree_of(plan: Plan) -> Node:
    """Return the tree of a plan."""
    return _Reader(plan).node([group for group in plan.groups if not group.idle], 0)


class _Reader:
    """The reading of a plan's groups as a tree.

    Attributes:
        stages: the stages; none without a pipeline.
        outside: the number of nodes outside the stages.
    """

    def __init__(self, plan: Plan) -> None:
        self.stages = plan.stages.stages if plan.stages is not None and plan.staged else []
        self.outside = 0 if plan.stages is None else plan.stages.outside or 0

    def node(self, groups: Sequence[Group], depth: int) -> Node:
        """Return the node of some groups below others.

        Args:
            groups: the groups of identical devices of the node, which all work.
            depth: the number of nodes above it, the stages not counted.
        """
        if not self.stages or depth != self.outside:
            return self.inside(groups, depth)
        layers = tuple(frozenset(stage.layers) for stage in self.stages)
        names = (stage.group or WHOLE_ARRAY for stage in self.stages)
        if any(stage.group is not None for stage in self.stages):
            own = [[group for group in groups if group.root == name] for name in names]
            return Stages(layers, tuple(self.inside(each, depth) for each in own))
        return Stages(layers, (self.inside(groups, depth),) * len(layers))

    def inside(self, groups: Sequence[Group], depth: int) -> Node:
        """Return the node of some groups without the stages at its place."""
        first = groups[0]
        if depth < len(first.above):
            split = first.above[depth][0]
            parts: dict[int, list[Group]] = {}
            for group in groups:
                parts.setdefault(group.above[depth][1], []).append(group)
            return Uneven(split, tuple((index, self.node(own, depth + 1)) for index, own in parts.items()))
        level = depth - len(first.above)
        if level == len(first.splits):
            return Device()
        return Level(first.splits[level], self.node(groups, depth + 1))
