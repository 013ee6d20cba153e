"""Plan a group of identical devices: one search decides all its levels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hypar.costs.base import load_cost
from hypar.planning.question import Answer, context_of, costs_by_level, load_search, question_of, setting_for
from hypar.planning.records import claim_of, decided
from hypar.schedule.lanes import Lane
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.machine import Machine
    from hypar.network.nodes import PlanGraph, Tensor
    from hypar.planning.pins import Pin
    from hypar.planning.question import Question
    from hypar.planning.records import Decided
    from hypar.planning.resolved import Resolved
    from hypar.schedule.lanes import Ends, Lanes
    from hypar.sharding.amounts.above import State
    from hypar.sharding.levels import Level
    from hypar.sharding.placement import Options


class Slot(NamedTuple):
    """One layer at one node, with its name, its choice at each level of the node, and its options at each."""

    layer: str
    chosen: Options
    options: tuple[Options, ...]


class Node(Protocol):
    """A planned node: identical devices, or an uneven split with the nodes of its groups."""

    @property
    def graph(self) -> PlanGraph:
        """The layers, with the sizes that the splits above leave."""

    def leaves(self) -> Iterator[Leaf]:
        """Yield the groups of identical devices that work."""

    def lanes(self, above: Ends = ()) -> Lanes:
        """Return the groups that work, and the transfers between them, outer splits first; below shares at the splits above."""

    def in_whole_elements(self) -> Node:
        """Return the same choices with shares of whole elements, as devices hold them, with the costs unchanged."""

    def reached(
        self, above: Ends = (), tensors: tuple[Tensor, ...] = ()
    ) -> Iterator[tuple[Lane, tuple[Tensor, ...]]]:
        """Yield the lanes of the groups that work, with their shares at all uneven splits, and what each reads of some tensors."""

    def of(self, graph: PlanGraph) -> Node:
        """Return the same choices for layers of other sizes, with the costs unchanged."""

    def taking(self, chosen: Iterator[Options]) -> Node:
        """Return the node with other choices, in the order of its slots, with the costs unchanged."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Leaf:
    """A group of identical devices; its methods are those of ``Node``.

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
        """The layers."""
        return self.lane.graph

    @property
    def cost(self) -> float:
        """The cost of all its levels."""
        return math.fsum(map(math.fsum, self.answer.costs))

    def leaves(self) -> Iterator[Leaf]:
        """Yield the group itself."""
        yield self

    def lanes(self, above: Ends = ()) -> Lanes:
        """Return the group alone, with its shares at the splits above; nothing comes to it from others."""
        return [self.lane._replace(ends=above) if above else self.lane], []

    def in_whole_elements(self) -> Leaf:
        """Return the group itself: what the splits above leave it is as it is."""
        return self

    def reached(
        self, above: Ends = (), tensors: tuple[Tensor, ...] = ()
    ) -> Iterator[tuple[Lane, tuple[Tensor, ...]]]:
        """Yield its own lane, with its shares at the uneven splits above, and the tensors."""
        yield self.lane._replace(ends=above), tensors

    def of(self, graph: PlanGraph) -> Leaf:
        """Return the same choices for other layers."""
        return replace(self, lane=self.lane._replace(graph=graph))

    def taking(self, chosen: Iterator[Options]) -> Leaf:
        """Return the group with other choices, one for each layer in turn."""
        each = [next(chosen) for _ in self.graph.layers] if self.levels else self.lane.choices
        lane, answer = self.lane._replace(choices=(*each,)), replace(self.answer, choices=(*each,))
        return replace(self, lane=lane, answer=answer)


class LevelPlanner:
    """The planner of a machine of identical devices, and of a group of them below uneven splits."""

    def __init__(
        self, request: Resolved, pins: Sequence[Pin], element_bytes: int, whole: Question | None = None
    ) -> None:
        """Store the arguments; ``whole`` is the search problem of a whole machine of identical devices, where it is known."""
        self.request, self.pins, self.element_bytes, self.whole = request, pins, element_bytes, whole
        cost = None if whole is None else whole.cost
        self.cost = cost or load_cost(request.cost, request.parameters, context_of(request))

    def planned(self, graph: PlanGraph) -> Node:
        """Plan all layers of a network, or of a stage."""
        assert self.request.identical is not None  # noqa: S101 (a planner is of a machine)
        return self.leaf("", self.request.identical, graph, 0, None)

    def leaf(self, name: str, machine: Machine, graph: PlanGraph, depth: int, entered: State | None) -> Leaf:
        """Plan a group of identical devices by the requested search; its name is empty if there is no other.

        The layers have the sizes that ``depth`` uneven splits above leave; below these is the state ``entered``, None by ``paper``.
        """
        request = self.request.on(machine, name or WHOLE_ARRAY)
        if not request.array:
            answer = Answer(choices=((),) * len(graph.layers), costs=(), solver="", exact=True)
            return self.answered(request, name, graph, depth, answer)
        question = self._question(request, graph, depth, entered)
        return self.answered(request, name, graph, depth, self._answer(question), question)

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
            graph = graph._replace(tensors=tensors)
        return replace(question_of(request, graph, pins, self.element_bytes), entered=entered)

    def solver(self, node: Node) -> str:
        """Return the name of the solver of a node."""
        return _leaf(node).answer.solver

    def state_above(self, graph: PlanGraph) -> State | None:  # noqa: ARG002 (uneven splits have one)
        """Return the state above all splits by which the cost counts; None on identical devices."""
        return None

    def costed(self, node: Node, entered: State | None) -> Node:
        """Return a node with the costs that this planner counts for its choices and shares.

        A bound over all levels holds for every plan of the space, a level's bound only below the search's own choices.
        """
        leaf = _leaf(node)
        if not leaf.lane.setting.array:
            return leaf
        question, choices, bounds = self.question_in(leaf, entered), (*leaf.lane.choices,), leaf.answer.bounds
        kept = len(bounds) == 1 and question.allows(choices)
        costs = costs_by_level(question, choices)
        answer = replace(leaf.answer, choices=choices, costs=costs, bounds=bounds if kept else ())
        return replace(leaf, levels=question.levels, answer=answer)

    def within(self, node: Node) -> bool:
        """Return whether all choices of a node are among the options of the request, pins included."""
        every = (zip(slot.chosen, slot.options, strict=True) for slot in self.slots(node))
        return all(own in options for pairs in every for own, options in pairs)

    def slots(self, node: Node) -> Iterator[Slot]:
        """Yield every layer at every node with its options, outer nodes first."""
        leaf = _leaf(node)
        if leaf.levels:
            names = (layer.name for layer in leaf.graph.layers)
            options = self.question_in(leaf, None).options
            yield from map(Slot, names, leaf.lane.choices, options)

    def claim(self, node: Node) -> str:
        """Return the claim of a node that a search has found: the plans that it is optimal among."""
        leaf = _leaf(node)
        return claim_of(self.request, self.question_in(leaf, None), leaf.answer)

    def decided(self, node: Node, claim: str) -> Decided:
        """Return the decisions of a node, without a score."""
        leaf = _leaf(node)
        return decided(self.request, self.question_in(leaf, None), leaf.answer, claim)


def _leaf(node: Node) -> Leaf:
    assert isinstance(node, Leaf)  # noqa: S101 (its devices are identical)
    return node
