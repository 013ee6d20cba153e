"""Explanations of plans: the eliminations, and the costs of a layer's alternatives."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hypar.errors import OptionError, suggestion
from hypar.planning.question import ask
from hypar.planning.refusals import refusal
from hypar.planning.request import Request
from hypar.planning.stages.spans import CutSpans
from hypar.results import Result
from hypar.sharding.pins import level_of
from hypar.sharding.space import parse_space
from hypar.solve.cost_graph import CostGraph
from hypar.solve.elimination.order import Trace, trace
from hypar.solve.elimination.rules import Reduction, reduced
from hypar.solve.solvers.base import cheapest, load_solver

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.planning.searches.base import Question
    from hypar.sharding.levels import LocalSizes
    from hypar.sharding.placement import Choice
    from hypar.solve.edge import Edge
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
    """

    layer: str
    level: int
    alternatives: tuple[Alternative, ...]
    left_out: tuple[str, ...]

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
    machine: Machine | None = None,
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
        OptionError: there is no such layer or level, no layer is cut, or the plan is for a heterogeneous machine.
    """
    if plan.heterogeneous:
        hardware = "" if plan.score is None else repr(plan.score.hardware)
        raise refusal("an explanation", "a heterogeneous machine", hardware=hardware)
    graph = model.with_batch(plan.model.batch)
    request = replace(Request.of(plan, machine, profile), array=tuple(plan.array), pins=(), refine=False)
    if not request.array:
        raise refusal("an explanation", "stages without levels")
    whole, _ = ask(request, graph)
    questions = [_with_choices(question, plan) for question in _questions(plan, request, graph, whole)]
    one, level = isinstance(layer, str), None
    if isinstance(layer, str) and "@" in layer:
        layer, _, text = layer.partition("@")
        level = level_of(text, len(request.array), "explain")
    named = [name for name in plan.layers if (fnmatchcase(name, str(layer)) if one else name in layer)]
    if layer and not named:
        found = f"no layer that is planned is named {layer!r}"
        raise OptionError("explain", found, hint=suggestion(str(layer), plan.layers))
    structure = whole.structure(0, 1)
    return Explanation(
        plan=plan,
        layers=plan.layers,
        rules=reduced(structure),
        order=trace(structure),
        explained=tuple(
            one for question in questions for one in _explained(question, plan, named, others, level)
        ),
    )


def _questions(plan: Plan, request: Request, graph: LayerGraph, whole: Question) -> list[Question]:
    """Return the search problem of the cuts, or one for each stage."""
    if plan.stages is None or not plan.staged:
        return [whole]
    spans = CutSpans.of(request, graph, (len(plan.stages.stages), plan.stages.microbatches))
    bounds = accumulate((len(stage.layers) for stage in plan.stages.stages), initial=0)
    return [spans.question(*ends) for ends in pairwise(bounds)]


def _with_choices(question: Question, plan: Plan) -> Question:
    """Add the plan's own choices to the options, because a pin may take one from outside the space."""
    options = tuple(
        tuple(
            own if choice in own else (*own, choice)
            for own, choice in zip(at_layer, plan.choices(layer), strict=True)
        )
        for layer, at_layer in zip(_names(question), question.options, strict=True)
    )
    return replace(question, options=options)


def _names(question: Question) -> list[str]:
    return [layer.name for layer in question.graph.layers]


def _explained(
    question: Question, plan: Plan, named: Sequence[str], others: int | None, asked: int | None
) -> Iterator[LayerExplanation]:
    """Yield the explained layers at one level or level by level, each level given the plan's choices above it."""
    sizes = question.outermost()
    space = parse_space(plan.space)
    layers = _names(question)
    named = [name for name in named if name in layers]
    for level in question.levels if named else ():
        chosen = [plan.choices(layer)[level.index] for layer in layers]
        if asked in {None, level.index}:
            anew = Anew.of(question.cost_graph(level.index, level.index + 1, sizes), others)
            for name in named:
                node = layers.index(name)
                yield LayerExplanation(
                    layer=name,
                    level=level.index,
                    alternatives=_alternatives(question, anew, sizes, chosen, (level.index, node)),
                    left_out=space.left_out(question.graph.layers[node], level.ways),
                )
        sizes = question.below(sizes, chosen, level.ways)


def _alternatives(
    question: Question,
    anew: Anew,
    sizes: list[LocalSizes],
    chosen: Sequence[Choice],
    place: tuple[int, int],
) -> tuple[Alternative, ...]:
    """Return every choice of one node at one level, the other nodes as planned."""
    (level, node), problem = place, anew.problem
    options = [at_layer[level] for at_layer in question.options]
    picked = [own.index(choice) for own, choice in zip(options, chosen, strict=True)]
    parts = question.layer_items(level, node, sizes)
    received, sent = np.zeros(len(options[node])), np.zeros(len(options[node]))
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
            choice=options[node][at],
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
        return replace(edge, terms=(edge.terms[0][choice : choice + 1],))
    if edge.target == node:
        return replace(edge, terms=(edge.terms[0][:, :, choice : choice + 1],))
    return edge
