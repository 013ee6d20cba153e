"""Plan a group of identical devices: one search decides all its levels."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.planning.question import Answer, cost_of, costs_by_level, load_search, question_of, setting_for
from hypar.planning.records import Leaf, claim_of, limits_of, plan_of
from hypar.schedule.lanes import Lane
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.network.nodes import PlanGraph
    from hypar.plan.plan import Plan
    from hypar.planning.pins import Pin
    from hypar.planning.question import Question
    from hypar.planning.resolved import Resolved
    from hypar.planning.uneven.tree import Branch
    from hypar.sharding.amounts.counted import State
    from hypar.sharding.placement import Options

    Node = Branch


class Slot(NamedTuple):
    """One layer at one node, with its name, its choice at each level of the node, its options at each, and whether choices at all levels can run."""

    layer: str
    chosen: Options
    options: tuple[Options, ...]
    runs: Callable[[Options], bool]


class LevelPlanner:
    """The planner of identical devices, and of a group of them below uneven splits."""

    def __init__(self, request: Resolved, pins: Sequence[Pin], element_bytes: int) -> None:
        self.request, self.pins, self.element_bytes = request, pins, element_bytes
        self.cost = cost_of(request)

    def planned(self, graph: PlanGraph) -> Node:
        """Plan all layers of a network, or of a stage."""
        assert self.request.identical is not None  # noqa: S101 (a planner is of a machine)
        return self.leaf("", self.request.identical, graph, 0, None)

    def leaf(self, name: str, machine: Machine, graph: PlanGraph, depth: int, entered: State | None) -> Leaf:
        """Plan a group of identical devices by the requested search; its name is empty if there is no other.

        The layers have the sizes that ``depth`` uneven splits above leave; below these is the state ``entered``, None by ``paper``.
        """
        request = self.request.on(machine, name or WHOLE_ARRAY)
        question = self._question(request, graph, depth, entered) if request.array else None
        empty = Answer(choices=((),) * len(graph.layers), costs=(), solver="", exact=True)
        answer = empty if question is None else self._answer(question)
        setting = setting_for(request, self.element_bytes, self.cost)
        return Leaf(lane=Lane(graph, answer.choices, setting, name, depth), answer=answer, question=question)

    def answered(self, question: Question, answer: Answer) -> Leaf:
        """Return all devices of the request with the answer of a search."""
        setting = setting_for(self.request, self.element_bytes, self.cost)
        return Leaf(lane=Lane(question.graph, answer.choices, setting), answer=answer, question=question)

    def _answer(self, question: Question) -> Answer:
        return load_search(self.request.search).run(question)

    def question_in(self, leaf: Leaf, entered: State | None) -> Question:
        """Return the search problem of the levels of a group: its own, unless splits above were exchanged."""
        own = leaf.question
        if own is not None and own.graph is leaf.graph and own.entered is entered:
            return own
        setting = leaf.lane.setting
        request = replace(self.request, machine=setting.machine).over(setting.array)
        return self._question(request, leaf.graph, leaf.lane.depth, entered)

    def _question(self, request: Resolved, graph: PlanGraph, depth: int, entered: State | None) -> Question:
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

    def costed(self, node: Node, entered: State | None = None) -> Node:
        """Return a node with the costs that this planner counts for its choices and shares, in the state that splits above leave.

        A bound over all levels holds for every plan of the space, a level's bound only below the search's own choices.
        """
        leaf = _leaf(node)
        if not leaf.lane.setting.array:
            return leaf
        question, choices, bounds = self.question_in(leaf, entered), (*leaf.lane.choices,), leaf.answer.bounds
        kept = len(bounds) == 1 and self.within(leaf)
        costs = costs_by_level(question, choices)
        answer = replace(leaf.answer, choices=choices, costs=costs, bounds=bounds if kept else ())
        return replace(leaf, question=question, answer=answer)

    def within(self, node: Node) -> bool:
        """Return whether all choices of a node are among the options of the request, pins included."""
        each = (zip(slot.chosen, slot.options, strict=True) for slot in self.slots(node))
        return all(choice in options for own in each for choice, options in own)

    def slots(self, node: Node) -> Iterator[Slot]:
        """Yield every layer at every node with its options, outer nodes first."""
        leaf = _leaf(node)
        if leaf.levels:
            question = self.question_in(leaf, None)
            for at, layer in enumerate(leaf.graph.layers):
                yield Slot(
                    layer.name, leaf.lane.choices[at], question.options[at], partial(question.runs, at)
                )

    def claim(self, node: Node) -> str:
        """Return the claim of a node that a search has found: the plans that it is optimal among."""
        leaf = _leaf(node)
        return claim_of(self.request, self.question_in(leaf, None), leaf.answer)

    def decided(self, graph: LayerGraph, node: Node, claim: str) -> Plan:
        """Return the plan of a node of a network, without a score."""
        answer, splits = _leaf(node).answer, [*_leaf(node).splits()]
        cost, array = math.fsum(split.cost for split in splits), self.request.array
        found: dict[str, Any] = {"claim": claim, "solver": answer.solver, "limits": limits_of(answer)}
        return plan_of(
            self.request, graph, splits, cost, pins=self.pins, array=array, bounds=answer.bounds, **found
        )


def _leaf(node: Node) -> Leaf:
    assert isinstance(node, Leaf)  # noqa: S101 (its devices are identical)
    return node
