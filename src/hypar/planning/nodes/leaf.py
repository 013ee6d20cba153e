"""The planned nodes of a machine: what all of them answer, and a group of identical devices, the end of each branch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanGraph, Tensor
    from hypar.planning.searches.base import Answer
    from hypar.schedule.lanes import Lane, Lanes, WholeShares
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Options


class Node(Protocol):
    """A planned node: identical devices, or an uneven split with the nodes of its groups."""

    @property
    def cost(self) -> float:
        """The cost of all choices at it and below it."""

    @property
    def graph(self) -> PlanGraph:
        """The layers, with the sizes that the splits above leave."""

    def leaves(self) -> Iterator[Leaf]:
        """Yield the groups of identical devices that work."""

    def sharing(self, above: WholeShares | None = None) -> Iterator[Lane]:
        """Yield the lanes of the groups that work, with what the uneven splits above leave in whole elements."""

    def lanes(self) -> Lanes:
        """Return the groups that work, and the transfers between them, outer splits first."""

    def reading(
        self, tensors: tuple[Tensor, ...], above: WholeShares | None = None
    ) -> Iterator[tuple[Tensor, ...]]:
        """Yield the tensors that each group of identical devices shares with other stages, as far as it reads them.

        Args:
            tensors: the tensors, as far as the node reads them.
            above: what the uneven splits above leave in whole elements; None if there are none.
        """

    def of(self, graph: PlanGraph) -> Node:
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
    def graph(self) -> PlanGraph:
        """The layers, with the sizes that the splits above leave."""
        return self.lane.graph

    @property
    def cost(self) -> float:
        """The cost of all its levels."""
        return math.fsum(map(math.fsum, self.answer.costs))

    def leaves(self) -> Iterator[Leaf]:
        """Yield the group itself."""
        yield self

    def sharing(self, above: WholeShares | None = None) -> Iterator[Lane]:
        """Yield its own lane, with what the uneven splits above leave in whole elements."""
        yield self.lane._replace(shares=above)

    def lanes(self) -> Lanes:
        """Return the group alone, to which nothing comes from others."""
        return [self.lane], []

    def reading(
        self,
        tensors: tuple[Tensor, ...],
        above: WholeShares | None = None,  # noqa: ARG002 (the splits above have divided the tensors)
    ) -> Iterator[tuple[Tensor, ...]]:
        """Yield the tensors themselves."""
        yield tensors

    def of(self, graph: PlanGraph) -> Leaf:
        """Return the same choices for layers of other sizes, with the costs unchanged."""
        return replace(self, lane=self.lane._replace(graph=graph))

    def at(self, setting: Setting) -> Leaf:
        """Return the same choices in another setting."""
        return replace(self, lane=self.lane._replace(setting=setting))

    def taking(self, chosen: Iterator[Options]) -> Leaf:
        """Return the group with other choices, one for each layer in turn, with the costs unchanged."""
        each = [next(chosen) for _ in self.graph.layers] if self.levels else self.lane.choices
        choices = tuple(each)
        answer = replace(self.answer, choices=choices)
        return replace(self, lane=self.lane._replace(choices=choices), answer=answer)
