"""The planned nodes of a machine: what all of them answer, and a group of identical devices, the end of each branch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hypar.plan.splits import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.network.contraction import ContractedGraph
    from hypar.planning.searches.base import Answer
    from hypar.schedule.lanes import Lane
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Options


class Slot(NamedTuple):
    """One layer at one node.

    Attributes:
        layer: its name.
        chosen: its choice at each level of the node.
        options: its options at each level.
    """

    layer: str
    chosen: Options
    options: tuple[Options, ...]


class Node(Protocol):
    """A planned node: identical devices, or an uneven split with the nodes of its groups."""

    @property
    def cost(self) -> float:
        """The cost of all choices at it and below it."""

    def of(self, graph: ContractedGraph) -> Node:
        """Return the same choices for layers of other sizes, with the costs unchanged."""

    def taking(self, chosen: Iterator[Options]) -> Node:
        """Return the node with other choices, in the order of its slots, with the costs unchanged."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Leaf:
    """A group of identical devices.

    Attributes:
        lane: its layers with the sizes that the splits above leave, their choices, and their setting.
        levels: the levels inside the group.
        answer: the result of the search over them.
    """

    lane: Lane
    levels: tuple[Level, ...]
    answer: Answer

    @property
    def name(self) -> str:
        """The name of the group."""
        return self.lane.name or WHOLE_ARRAY

    @property
    def graph(self) -> ContractedGraph:
        """The layers, with the sizes that the splits above leave."""
        return self.lane.graph

    @property
    def cost(self) -> float:
        """The cost of all its levels."""
        return math.fsum(map(math.fsum, self.answer.costs))

    def of(self, graph: ContractedGraph) -> Leaf:
        """Return the same choices for layers of other sizes, with the costs unchanged."""
        return replace(self, lane=self.lane._replace(graph=graph))

    def taking(self, chosen: Iterator[Options]) -> Leaf:
        """Return the group with other choices, one for each layer in turn, with the costs unchanged."""
        each = [next(chosen) for _ in self.graph.layers] if self.levels else self.lane.choices
        choices = tuple(each)
        answer = replace(self.answer, choices=choices)
        return replace(self, lane=self.lane._replace(choices=choices), answer=answer)
