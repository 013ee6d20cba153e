"""Explanations of plans: the eliminations, and the costs of a layer's alternatives."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from hypar.costs.graphs.paper import structure
from hypar.errors import OptionError, suggestion
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.planning.nodes.leaf import Leaf
from hypar.planning.question import ask
from hypar.planning.refusals import refusal
from hypar.planning.replay import costed_tree
from hypar.planning.resolved import Resolved
from hypar.planning.sources import require_groups
from hypar.planning.stages.sites import spans_of
from hypar.planning.uneven.planner import as_branching, as_planner, split_options
from hypar.results import Result
from hypar.sharding.pins import level_of
from hypar.sharding.space import parse_space
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge
from hypar.solve.elimination.order import Trace, trace
from hypar.solve.elimination.rules import Reduction, reduced
from hypar.solve.solvers.base import cheapest, load_solver

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hypar.costs.base import Items
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.stages import StagesRecord
    from hypar.planning.searches.base import Question
    from hypar.planning.stages.spans import CutSpans
    from hypar.planning.uneven.planner import Planner
    from hypar.planning.uneven.split import UnevenSplit
    from hypar.planning.uneven.tree import Branch, Branching
    from hypar.sharding.placement import Choice, Options
    from hypar.sharding.uneven.entered import Entered, Taken
    from hypar.solve.cost_graph import Structure
    from hypar.solve.edge import Costs
    from hypar.solve.solvers.base import Solver

MOST_REPLANNED = 8
"""The largest number of a layer's alternatives for which all other layers are planned anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The cost of a layer with one choice, all other layers as planned.

    Attributes:
        choice: the choice.
        chosen: whether it is the plan's.
        items: the layer's own costs, item by item, as ``compute`` and ``update``.
        received: cost of the tensors that it reads.
        sent: cost of its tensors that other layers read.
        total: the sum.
        replanned: increase of the level's cost with this choice if all other layers are planned anew; None if not
            computed.
    """

    choice: Choice
    chosen: bool
    items: dict[str, float]
    received: float
    sent: float
    total: float
    replanned: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerExplanation:
    """The choices of one layer at one level.

    Attributes:
        layer: its name.
        level: 0 for the outermost.
        alternatives: every choice, the cheapest first; equal ones in the order of declaration.
        left_out: reasons why it lacks some degrees of the space.
        ways: ways of the level, or the number of device groups.
        jointly: whether the plan weighs the levels below too, not the costs of this one alone.
        group: on a heterogeneous machine the group that is divided; empty otherwise.
    """

    layer: str
    level: int
    alternatives: tuple[Alternative, ...]
    left_out: tuple[str, ...]
    ways: int
    jointly: bool = False
    group: str = ""

    @property
    def place(self) -> str:
        """The level, and on a heterogeneous machine the group: ``H2 tpu-v3``."""
        return f"H{self.level + 1} {self.group}".rstrip()

    @property
    def chosen(self) -> Alternative:
        """Return the plan's choice."""
        return next(one for one in self.alternatives if one.chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Result):
    """The explanation of a plan.

    Attributes:
        plan: the plan.
        layers: names of the nodes, in topological order.
        rules: the graph that DeePa's two rules leave, stages not regarded.
        order: the further eliminations, down to an empty graph, at the outermost level.
        explained: the layers asked for, level by level.
    """

    _view: ClassVar[str] = "explanation"
    plan: Plan
    layers: tuple[str, ...]
    rules: Reduction
    order: Trace
    explained: tuple[LayerExplanation, ...]

    def __repr__(self) -> str:
        """Name the network and the layers; ``to_frame`` and a notebook show the rest."""
        layers = ", ".join(dict.fromkeys(one.layer for one in self.explained)) or "its eliminations"
        return f"<Explanation of {self.plan.model.name}: {layers}>"


def explain_plan(
    plan: Plan,
    model: LayerGraph,
    *,
    layer: str | Collection[str] = "",
    machine: Machine | HeterogeneousMachine | None = None,
    profile: Profile | None = None,
    others: int | None = None,
) -> Explanation:
    """Explain a plan.

    Args:
        plan: the plan.
        model: the network that it is for.
        layer: a layer's name or a pattern whose choices are all costed, as ``fc1``, at one level alone as ``fc1@H2``, or
            several names; empty for no layer.
        machine: the machine of its score.
        profile: the measured times that its cost used.
        others: the number of a layer's cheapest alternatives, besides the plan's own, for which all other layers are
            planned anew; by default the ``MOST_REPLANNED`` cheapest, the plan's own included.

    Raises:
        OptionError: there is no such layer or level, no layer is cut, or a heterogeneous machine is not named.
        PlanError: the machine has other device groups.
    """
    if not plan.splits:
        raise refusal("an explanation", "stages without levels")
    if plan.heterogeneous and machine is None:
        raise OptionError("explain", "no machine is named", "the heterogeneous machine that the plan is for")
    if machine is not None:
        require_groups(plan, machine, Path("plan"))
    graph = model.with_batch(plan.model.batch)
    request = replace(Resolved.of(plan, machine, profile).as_planned(plan), pins=(), refine=False)
    one, level = isinstance(layer, str), None
    if isinstance(layer, str) and "@" in layer:
        layer, _, text = layer.partition("@")
        level = level_of(text, 1 + max(split.level for split in plan.splits), "explain")
    named = [name for name in plan.layers if (fnmatchcase(name, str(layer)) if one else name in layer)]
    if layer and not named:
        found = f"no layer that is planned is named {layer!r}"
        raise OptionError("explain", found, hint=suggestion(str(layer), plan.layers))
    asked = Asked(plan, tuple(named), others, level)
    if plan.stages is not None and plan.staged:
        shape, explained = _in_stages(asked, plan.stages, request, graph)
    elif isinstance(machine, HeterogeneousMachine):
        planner, branch, entered = costed_tree(request, plan, graph, machine)
        shape = SplitQuestion.of(planner, branch, entered).problem.structure
        explained = _in_tree(asked, planner, branch, entered)
    else:
        whole, _ = ask(request, graph)
        shape, explained = whole.structure(0, 1), _in_question(asked, whole)
    return Explanation(
        plan=plan,
        layers=plan.layers,
        rules=reduced(shape),
        order=trace(shape),
        explained=tuple(explained),
    )


def _in_stages(
    asked: Asked, stages: StagesRecord, request: Resolved, graph: LayerGraph
) -> tuple[Structure, Iterator[LayerExplanation]]:
    """Return the structure of the whole network's choices, and what is explained of each stage in turn."""
    spans = spans_of(request, graph, [stage.group for stage in stages.stages], stages.microbatches)
    bounds = accumulate((len(layers) for _, layers in stages.spans), initial=0)
    places = [*zip(spans, pairwise(bounds), strict=True)]
    first, nodes = spans[0], graph.nodes(request.graph)
    if first.request.heterogeneous is None:
        problem = first.question(0, len(nodes.layers)).structure(0, 1)
    else:
        options = split_options(first.request, nodes, len(first.request.heterogeneous.groups))
        problem = structure(nodes, [(own,) for own in options])
    return problem, (one for own, ends in places for one in _in_stage(asked, own, ends))


def _in_stage(asked: Asked, spans: CutSpans, ends: tuple[int, int]) -> Iterator[LayerExplanation]:
    """Yield the explained layers of a stage."""
    if spans.request.heterogeneous is None:
        yield from _in_question(asked, spans.question(*ends), spans.site.group or "")
        return
    node = spans.of_batch(spans.stored(asked.plan, *ends, ()).cuts.node, *ends)
    planner, entered = as_planner(spans.planner), spans.planner.state_above(node.graph)
    yield from _in_tree(asked, planner, as_branching(planner.costed(node, entered)), entered)


class Asked(NamedTuple):
    """What is to be explained.

    Attributes:
        plan: the plan.
        layers: names of the layers.
        others: the number of alternatives for which all other layers are planned anew.
        level: the level; None for all.
    """

    plan: Plan
    layers: tuple[str, ...]
    others: int | None
    level: int | None


def _in_question(asked: Asked, question: Question, group: str = "") -> Iterator[LayerExplanation]:
    """Yield the explained layers of a search problem for identical devices."""
    choices = [asked.plan.choices(layer.name) for layer in question.graph.layers]
    yield from _explained(asked, _with_choices(question, choices), choices, group=group)


def _with_choices(question: Question, choices: Sequence[Options]) -> Question:
    """Add the plan's own choices to the options, because a pin may take one from outside the space."""
    options = tuple(
        tuple(own if choice in own else (*own, choice) for own, choice in zip(at_layer, chosen, strict=True))
        for chosen, at_layer in zip(choices, question.options, strict=True)
    )
    return replace(question, options=options)


def _in_tree(
    asked: Asked, planner: Planner, branch: Branch, entered: Entered | None
) -> Iterator[LayerExplanation]:
    """Yield the explained layers of a tree of device groups, an uneven split before what is below it."""
    if isinstance(branch, Leaf):
        if branch.levels:
            question = _with_choices(planner.question_in(branch, entered), branch.lane.choices)
            lane = branch.lane
            yield from _explained(asked, question, lane.choices, lane.depth, lane.name)
        return
    if asked.level in {None, branch.depth}:
        split = SplitQuestion.of(planner, branch, entered)
        space = parse_space(asked.plan.space, None)
        names = [layer.name for layer in branch.graph.layers]
        for name in (own for own in asked.layers if own in names):
            node = names.index(name)
            yield LayerExplanation(
                layer=name,
                level=branch.depth,
                alternatives=split.alternatives(node, asked.others),
                left_out=space.left_out(branch.graph.layers[node], len(branch.below)),
                ways=len(branch.below),
                jointly=True,
                group=branch.name,
            )
    states = () if entered is None else entered.below(branch.graph, branch.taken)
    found = dict(zip(branch.at_work, states, strict=False))
    for group in branch.at_work:
        below = branch.below[group]
        if below is not None:
            yield from _in_tree(asked, planner, below, found.get(group))


@dataclass(frozen=True, eq=False)
class SplitQuestion:
    """The options of an uneven split at a plan's shares.

    Attributes:
        split: the split.
        weights: 1 for the group whose cost counts, or for all groups if their costs are summed, ``[groups]``.
        offers: for each layer its options with the plan's shares.
        picked: the option that each layer takes.
        problem: the cost graph of these costs.
    """

    split: UnevenSplit
    weights: Costs
    offers: tuple[tuple[Taken, ...], ...]
    picked: tuple[int, ...]
    problem: CostGraph

    @classmethod
    def of(cls, planner: Planner, branch: Branching, entered: Entered | None) -> SplitQuestion:
        """Build the question of a split with costs."""
        split, options = planner.split_of(branch, entered), planner.options_of(branch)
        weights = np.ones(len(split.groups))
        if branch.slowest:
            weights = np.eye(len(split.groups))[branch.at_work.index(branch.late)]
        offers, picked = [], []
        for (choice, shares), free in zip(branch.taken, options, strict=True):
            own = free if choice in free else (*free, choice)
            offers.append(tuple((one, shares) for one in own))
            picked.append(own.index(choice))
        nodes = tuple(np.tensordot(weights, split.layer_costs(at, own), 1) for at, own in enumerate(offers))
        edges = []
        for at, tensor in enumerate(split.graph.tensors):
            costs = split.tensor_costs(at, offers[tensor.producer], offers[tensor.consumer])
            terms = (np.tensordot(weights, costs, 1)[:, None, :],)
            edges.append(Edge(source=tensor.producer, target=tensor.consumer, terms=terms))
        problem = CostGraph(nodes=nodes, edges=tuple(edges))
        return cls(split, weights, tuple(offers), tuple(picked), problem)

    def alternatives(self, node: int, others: int | None) -> tuple[Alternative, ...]:
        """Return every choice of one layer; all other layers are planned anew where costs are summed over groups."""
        offers = self.offers[node]
        computed = self.weights @ self.split.work(self.split.graph.layers[node], offers)
        items = {"sums": self.problem.nodes[node] - computed}
        if computed.any():
            items = {"compute": computed, **items}
        anew = Anew.of(self.problem, 0 if self.split.slowest else others)
        return _alternatives(anew, [choice for choice, _ in offers], items, self.picked, node)


def _explained(
    asked: Asked, question: Question, choices: Sequence[Options], depth: int = 0, group: str = ""
) -> Iterator[LayerExplanation]:
    """Yield the explained layers at one level or level by level, each level given the plan's choices above it."""
    plan = asked.plan
    sizes = question.outermost()
    space = parse_space(plan.space, None)
    layers = [layer.name for layer in question.graph.layers]
    named = [name for name in asked.layers if name in layers]
    for level in question.levels if named else ():
        chosen = [own[level.index] for own in choices]
        if asked.level in {None, depth + level.index}:
            options = [at_layer[level.index] for at_layer in question.options]
            picked = [own.index(choice) for own, choice in zip(options, chosen, strict=True)]
            anew = Anew.of(question.cost_graph(level.index, level.index + 1, sizes), asked.others)
            for name in named:
                node = layers.index(name)
                yield LayerExplanation(
                    layer=name,
                    level=depth + level.index,
                    alternatives=_alternatives(
                        anew, options[node], question.layer_items(level.index, node, sizes), picked, node
                    ),
                    left_out=space.left_out(question.graph.layers[node], level.ways),
                    ways=level.ways,
                    jointly=plan.search == "joint" and not level.innermost,
                    group=group,
                )
        sizes = question.below(sizes, chosen, level.ways)


def _alternatives(
    anew: Anew, options: Sequence[Choice], parts: Items, picked: Sequence[int], node: int
) -> tuple[Alternative, ...]:
    """Return every choice of one node at one level, the other nodes as planned.

    Args:
        anew: the cost graph of the level.
        options: the options of the node.
        parts: its own costs, item by item.
        picked: the option that each node takes.
        node: the node.
    """
    problem = anew.problem
    received, sent = np.zeros(len(options)), np.zeros(len(options))
    for edge in problem.edges:
        if edge.target == node:
            received += edge.of_source(picked[edge.source])
        elif edge.source == node:
            sent += edge.of_target(picked[edge.target])
    total = problem.nodes[node] + received + sent
    order: list[int] = np.argsort(total, kind="stable").tolist()
    replanned = anew.increases(node, order, picked[node])
    return tuple(
        Alternative(
            choice=options[at],
            chosen=at == picked[node],
            items={name: float(part.reshape(-1)[at]) for name, part in parts.items()},
            received=float(received[at]),
            sent=float(sent[at]),
            total=float(total[at]),
            replanned=replanned.get(at),
        )
        for at in order
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Anew:
    """One level, planned anew with a choice of one layer fixed.

    Attributes:
        problem: the level's cost graph.
        others: the number of alternatives besides the plan's own; None for the cheapest ``MOST_REPLANNED``.
        solver: an exact solver of the graph; None if the cheapest one is not exact.
        best: the optimum.
    """

    problem: CostGraph
    others: int | None
    solver: Solver | None
    best: float

    @classmethod
    def of(cls, problem: CostGraph, others: int | None) -> Anew:
        """Solve the level once."""
        solver = load_solver(cheapest((problem.structure,)))
        if not solver.exact:
            return cls(problem=problem, others=others, solver=None, best=math.nan)
        return cls(problem=problem, others=others, solver=solver, best=solver.solve(problem).cost)

    def increases(self, node: int, order: Sequence[int], chosen: int) -> dict[int, float]:
        """Return the increase of the optimum with each choice of a node fixed; empty if no solver is exact.

        Args:
            node: the node.
            order: its choices, the cheapest first.
            chosen: the plan's own.
        """
        if self.solver is None:
            return {}
        others = [choice for choice in order if choice != chosen][: self.others]
        choices = order[:MOST_REPLANNED] if self.others is None else others
        costs = {choice: self.solver.solve(_held(self.problem, node, choice)).cost for choice in choices}
        # An increase within rounding is zero.
        return {
            choice: 0.0 if math.isclose(cost, self.best, rel_tol=1e-12) else cost - self.best
            for choice, cost in costs.items()
        }


def _held(problem: CostGraph, node: int, choice: int) -> CostGraph:
    nodes = tuple(
        costs[choice : choice + 1] if at == node else costs for at, costs in enumerate(problem.nodes)
    )
    return CostGraph(nodes=nodes, edges=tuple(_cut_edge(edge, node, choice) for edge in problem.edges))


def _cut_edge(edge: Edge, node: int, choice: int) -> Edge:
    """Return an edge of one level with one end restricted."""
    if edge.source == node:
        return edge._replace(terms=(edge.terms[0][choice : choice + 1],))
    if edge.target == node:
        return edge._replace(terms=(edge.terms[0][:, :, choice : choice + 1],))
    return edge
