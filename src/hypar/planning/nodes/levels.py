"""Plan a group of identical devices: one search decides all its levels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from hypar.costs.base import load_cost
from hypar.planning.claims import claim_of
from hypar.planning.question import context_of, question_of, setting_for
from hypar.planning.records import decided
from hypar.planning.refinement import Slot
from hypar.planning.searches.base import Answer, costs_by_level, load_search
from hypar.schedule.lanes import Lane
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanGraph, Tensor
    from hypar.planning.records import Decided
    from hypar.planning.resolved import Resolved
    from hypar.planning.searches.base import Question
    from hypar.schedule.lanes import Ends, Lanes
    from hypar.sharding.amounts.above import State
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Options
    from hypar.sharding.space import Pin


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

    def sharing(self, above: Ends = ()) -> Iterator[Lane]:
        """Yield the lanes of the groups that work, with their shares of each layer at the uneven splits above and below."""

    def lanes(self) -> Lanes:
        """Return the groups that work, and the transfers between them, outer splits first."""

    def in_whole_elements(self) -> Node:
        """Return the same choices with shares of whole elements, as devices hold them, with the costs unchanged."""

    def reading(self, tensors: tuple[Tensor, ...]) -> Iterator[tuple[Tensor, ...]]:
        """Yield the tensors that each group of identical devices shares with other stages, as far as it reads them."""

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

    def sharing(self, above: Ends = ()) -> Iterator[Lane]:
        """Yield its own lane, with its shares at the uneven splits above."""
        yield self.lane._replace(ends=above)

    def lanes(self) -> Lanes:
        """Return the group alone, to which nothing comes from others."""
        return [self.lane], []

    def in_whole_elements(self) -> Leaf:
        """Return the group itself: what the splits above leave it is as it is."""
        return self

    def reading(self, tensors: tuple[Tensor, ...]) -> Iterator[tuple[Tensor, ...]]:
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


class LevelPlanner:
    """The planner of a machine of identical devices, and of a group of them below uneven splits."""

    def __init__(
        self, request: Resolved, pins: Sequence[Pin], element_bytes: int, whole: Question | None = None
    ) -> None:
        """Store the arguments.

        Args:
            request: the request.
            pins: choices to hold.
            element_bytes: bytes of an element.
            whole: the search problem of the whole machine if its devices are identical and it is known.
        """
        self.request, self.pins, self.element_bytes, self.whole = request, pins, element_bytes, whole
        self.cost = (
            load_cost(request.cost, request.parameters, context_of(request)) if whole is None else whole.cost
        )

    @property
    def leaves_no_choice(self) -> bool:
        """Whether it is known that there is nothing to search."""
        return self.whole is not None and self.whole.leaves_no_choice

    def planned(self, graph: PlanGraph) -> Node:
        """Plan all layers of a network, or of a stage."""
        assert self.request.identical is not None  # noqa: S101 (a planner is of a machine)
        return self.leaf("", self.request.identical, graph, 0, None)

    def leaf(self, name: str, machine: Machine, graph: PlanGraph, depth: int, entered: State | None) -> Leaf:
        """Plan identical devices by the requested search.

        Args:
            name: the name of their group; empty if there is no other.
            machine: the devices.
            graph: the layers, with the sizes that the splits above leave.
            depth: the number of uneven splits above.
            entered: the state below these splits; None by ``paper``.
        """
        request = self.request.on(machine, name or WHOLE_ARRAY)
        if not request.array:
            answer = Answer(choices=((),) * len(graph.layers), costs=(), solver="", exact=True)
            return self.answered(request, name, graph, depth, answer)
        question = self._question(request, graph, depth, entered)
        answer = self._answer(question)
        return self.answered(request, name, graph, depth, answer, question)

    def answered(
        self,
        request: Resolved,
        name: str,
        graph: PlanGraph,
        depth: int,
        answer: Answer,
        question: Question | None = None,
    ) -> Leaf:
        """Return a group with the answer of a search."""
        setting = setting_for(request, self.element_bytes, self.cost)
        levels = () if question is None else question.levels
        return Leaf(lane=Lane(graph, answer.choices, setting, name, depth), levels=levels, answer=answer)

    def _answer(self, question: Question) -> Answer:
        return load_search(self.request.search).run(question)

    def question_in(self, leaf: Leaf, entered: State | None) -> Question:
        """Return the search problem of the levels of a group."""
        if self.whole is not None:
            return self.whole
        setting = leaf.lane.setting
        request = replace(self.request, machine=setting.machine).over(setting.array)
        return self._question(request, leaf.graph, leaf.lane.depth, entered)

    def _question(self, request: Resolved, graph: PlanGraph, depth: int, entered: State | None) -> Question:
        """Return the search problem of a request for a group."""
        last = depth + len(request.array)
        pins = [
            replace(pin, level=None if pin.level is None else pin.level - depth)
            for pin in self.pins
            if pin.level is None or depth <= pin.level < last
        ]
        if entered is None:
            # If one of two layers is empty here, nothing moves between them inside the group.
            empty = [layer.empty for layer in graph.layers]
            tensors = tuple(one for one in graph.tensors if not (empty[one.producer] or empty[one.consumer]))
            return question_of(request, graph._replace(tensors=tensors), pins, self.element_bytes)
        return replace(question_of(request, graph, pins, self.element_bytes), entered=entered)

    def solver(self, node: Node) -> str:
        """Return the name of the solver of a node."""
        assert isinstance(node, Leaf)  # noqa: S101 (the devices are identical)
        return node.answer.solver

    def state_above(self, graph: PlanGraph) -> State | None:  # noqa: ARG002 (uneven splits have one)
        """Return the state above all splits by which the cost counts; None on identical devices."""
        return None

    def costed(self, node: Node, entered: State | None) -> Node:
        """Return a node with the costs that this planner counts for its choices and shares.

        A bound over all levels holds for every plan of the space, a level's bound only below the search's own choices.
        """
        assert isinstance(node, Leaf)  # noqa: S101 (the devices are identical)
        if not node.lane.setting.array:
            return node
        question, choices = self.question_in(node, entered), tuple(node.lane.choices)
        bounds = node.answer.bounds
        kept = len(bounds) == 1 and _within(question, choices)
        answer = replace(
            node.answer,
            choices=choices,
            costs=costs_by_level(question, choices),
            bounds=bounds if kept else (),
        )
        return replace(node, levels=question.levels, answer=answer)

    def within(self, node: Node) -> bool:
        """Return whether all choices of a node are among the options of the request, pins included."""
        assert isinstance(node, Leaf)  # noqa: S101 (the devices are identical)
        return not node.levels or _within(self.question_in(node, None), node.lane.choices)

    def slots(self, node: Node) -> Iterator[Slot]:
        """Yield every layer at every node with its options, outer nodes first."""
        assert isinstance(node, Leaf)  # noqa: S101 (the devices are identical)
        if node.levels:
            question = self.question_in(node, None)
            rows = zip(node.graph.layers, node.lane.choices, question.options, strict=True)
            for layer, chosen, options in rows:
                yield Slot(layer.name, chosen, options)

    def claim(self, node: Node) -> str:
        """Return the claim of a node that a search has found: the plans that it is optimal among."""
        assert isinstance(node, Leaf)  # noqa: S101 (the devices are identical)
        question = self.question_in(node, None)
        return claim_of(self.request, question, node.answer, load_search(self.request.search).claim)

    def decided(self, node: Node, claim: str) -> Decided:
        """Return the decisions of a node, without a score."""
        assert isinstance(node, Leaf)  # noqa: S101 (the devices are identical)
        return decided(self.request, self.question_in(node, None), self.pins, node.answer, claim)


def _within(question: Question, choices: Sequence[Options]) -> bool:
    """Return whether all choices are among a search problem's options, pins included."""
    return all(
        choice in options
        for at_layer, chosen in zip(question.options, choices, strict=True)
        for options, choice in zip(at_layer, chosen, strict=True)
    )
