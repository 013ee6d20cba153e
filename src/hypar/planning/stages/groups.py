"""The cost of any span of a network's layers as a stage whose devices are several groups, with uneven splits inside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from hypar.costs.base import load_cost
from hypar.plan.splits import WHOLE_ARRAY
from hypar.planning.question import setting_for
from hypar.planning.searches.base import Answer
from hypar.planning.stages.arriving import entering_groups
from hypar.planning.stages.span import Cuts, Site, phases_of
from hypar.planning.stages.spans import CutSpans, shared_with_others
from hypar.planning.uneven.replay import subtree_of
from hypar.planning.uneven.search import Planner
from hypar.planning.uneven.tree import Leaf, lanes_of, leaves_of, shares_above
from hypar.schedule.entering import Links
from hypar.schedule.lanes import StagePlace
from hypar.schedule.memory import memory_of
from hypar.schedule.step import lower_lanes
from hypar.sharding.pins import parse_pin
from hypar.sharding.uneven.remainder import tensors_of_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.network.contraction import ContractedGraph, Tensor
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.planning.request import Request
    from hypar.planning.stages.span import CutSpan
    from hypar.planning.stages.spans import Outer
    from hypar.planning.uneven.tree import Branch, Branching
    from hypar.schedule.entering import Entering
    from hypar.schedule.lanes import WholeShares
    from hypar.sharding.placement import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeAnswer(Answer):
    """The uneven splits of a span.

    Attributes:
        tree: the uneven splits, with the layers of a mini-batch and their costs.
    """

    tree: Branching


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupSpans(CutSpans):
    """All spans of a network, each on the device groups of a stage.

    Attributes:
        machine: the device groups of a stage.
        root: the name of the group that they divide.
    """

    machine: HeterogeneousMachine
    root: str = WHOLE_ARRAY

    @classmethod
    def on(
        cls,
        request: Request,
        graph: LayerGraph,
        counts: tuple[int, int],
        answers: dict[object, Answer],
        group: str | None,
    ) -> Self:
        """Build the spans of a network; the arguments as in ``CutSpans.of``, for the request's device groups."""
        stages, microbatches = counts
        whole, machine = graph.nodes(request.graph), request.heterogeneous
        assert machine is not None  # noqa: S101 (the request has device groups)
        name, first, _ = next(machine.identical())
        direct = load_cost(request.cost, request.parameters).direct
        alone = replace(request, machine=first, heterogeneous=None, array=request.arrays[name])
        levels = max(depth + len(request.arrays[own]) for own, _, depth in machine.identical())
        return cls(
            request=request,
            whole=whole,
            microbatch=graph.with_batch(graph.batch // microbatches).nodes(request.graph),
            pins=tuple(parse_pin(text, whole, levels) for text in request.pins),
            setting=setting_for(alone, graph.element_bytes, direct=direct),
            site=Site(group, stages, Links()),
            answers=answers,
            machine=machine,
            root=WHOLE_ARRAY if group is None else group,
        )

    @cached_property
    def _planner(self) -> Planner:
        return Planner(self.request, self.pins, self.setting.element_bytes, in_stage=True)

    def _answer(self, inside: ContractedGraph) -> Answer:
        found = self._planner.split(self.root, self.machine, inside, 0, self._planner.state_above(inside))
        # A stage sums the costs of all its groups, as another stage may have another slowest group.
        tree = _summed(found)
        leaves = [*leaves_of(tree)]
        return TreeAnswer(
            choices=(),
            costs=(),
            solver=self._planner.request.solver or "",
            exact=all(leaf.exact for leaf in leaves),
            tree=tree,
        )

    def stored(self, plan: Plan, start: int, end: int, choices: tuple[Options, ...]) -> CutSpan:  # noqa: ARG002, D102 (the plan has them, with shares)
        setting, graph = self.setting, self._of(self.microbatch, start, end)
        counted = (setting.element_bytes, setting.optimizer, self.request.counted)
        tree = subtree_of(plan, self.root, self.machine, graph, *counted)
        answer = TreeAnswer(choices=(), costs=(), solver="", exact=False, tree=tree)
        outside = shared_with_others(self.microbatch, start, end)
        return self._as_stage(start, end, self._lowered(graph, outside, answer))

    def _lowered(self, graph: ContractedGraph, outside: tuple[Tensor, ...], answer: Answer) -> Cuts:
        assert isinstance(answer, TreeAnswer)  # noqa: S101 (spans on groups have trees)
        tree = answer.tree.of(graph)
        lanes, crossings = lanes_of(tree)
        read = _shared_with_others(tree, outside, shares_above(tree))
        placed = tuple(
            lane.at(lane.name, StagePlace(outside=own)) for lane, own in zip(lanes, read, strict=True)
        )
        step = lower_lanes(placed, crossings)
        memory = tuple(memory_of(lane, step, number) for number, lane in enumerate(placed))
        # Groups work beside each other, so that only the engine knows how long a phase takes.
        return Cuts(answer, placed, tuple(crossings), phases_of(step, overlap=True), memory, tree)

    def _named(self, cuts: Cuts, graph: ContractedGraph) -> Cuts:
        assert cuts.tree is not None  # noqa: S101 (spans on groups have trees)
        tree = cuts.tree.of(graph)
        leaves = leaves_of(tree)
        lanes = tuple(lane.of(leaf.graph) for lane, leaf in zip(cuts.lanes, leaves, strict=True))
        return cuts._replace(lanes=lanes, tree=tree)

    def _entering(
        self, start: int, end: int, cuts: Cuts, outer: Callable[[int], Outer | None]
    ) -> tuple[Entering, Entering]:
        return entering_groups(self, (start, end), cuts, outer)


def _summed(branch: Branching) -> Branching:
    """Return a tree that sums the costs of all groups."""
    below = tuple(one if one is None or isinstance(one, Leaf) else _summed(one) for one in branch.below)
    return replace(branch, slowest=False, below=below)


def _shared_with_others(
    branch: Branch, tensors: tuple[Tensor, ...], whole: WholeShares | None
) -> Iterator[tuple[Tensor, ...]]:
    """Yield for each group of identical devices the tensors that it shares with other stages, as far as it reads them.

    Args:
        branch: a node of the tree.
        tensors: the tensors, as far as the node reads them.
        whole: what the uneven splits above leave in whole elements; None without any.
    """
    if isinstance(branch, Leaf):
        yield tensors
        return
    below = [None] * len(branch.at_work) if whole is None else branch.whole_shares(whole)
    choices = [choice for choice, _ in branch.taken]
    for at, (group, shares) in enumerate(zip(branch.at_work, below, strict=True)):
        graph = branch.graph if whole is None else whole.graph
        parts = [own[at] for _, own in branch.taken] if shares is None else shares.parts
        own = tensors_of_group(tensors, graph, choices, parts, integral=shares is not None)
        node = branch.below[group]
        assert node is not None  # noqa: S101 (the group works)
        yield from _shared_with_others(node, own, shares)
