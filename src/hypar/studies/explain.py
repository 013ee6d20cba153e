"""Explanations of plans: the eliminations, and what each choice of a layer would cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hypar.costs.graphs.paper import structure
from hypar.document import Result
from hypar.errors import OptionError
from hypar.planning.choices import LevelChoices, choices_by_level, named_layers
from hypar.planning.refusals import refusal
from hypar.sharding.space import parse_space
from hypar.solve.cliques import min_marginals
from hypar.solve.elimination.order import Trace, trace
from hypar.solve.elimination.rules import Reduction, reduced
from hypar.solve.solvers.base import cheapest, load_solver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.sharding.placement import Choice
    from hypar.solve.cost_graph import Structure
    from hypar.solve.edge import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The cost of a layer with one choice, all other layers as planned.

    Attributes:
        choice, chosen: the choice, and whether it is the plan's.
        items: the layer's own costs, item by item, as ``compute`` and ``update``.
        received, sent, total: cost of the tensors that it reads, of its tensors that other layers read, and of all.
        replanned: increase of the level's least cost with this choice, all other layers planned anew; None if not known: the
            tables would be too large, or the slowest of several device groups counts.
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
        layer, level: its name, and the level, 0 for the outermost.
        alternatives: every choice, the cheapest first; equal ones in the order of declaration.
        left_out: reasons why it lacks some degrees of the space.
        ways, jointly, group: those of the level, as of ``LevelChoices``.
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
        """The plan's choice."""
        return next(one for one in self.alternatives if one.chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Result):
    """The explanation of a plan.

    Attributes:
        plan, layers: the plan, and the names of the nodes in topological order.
        rules: the graph that DeePa's two rules leave, stages not regarded.
        order: the further eliminations, down to an empty graph, at the outermost level.
        explained: the layers asked for, level by level.
    """

    _document: ClassVar[str] = "explanation"
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
    layer: str = "",
    machine: Machine | HeterogeneousMachine | None = None,
    profile: Profile | None = None,
) -> Explanation:
    """Explain a plan for a network, with the machine of its score and the measured times that its cost used.

    Args:
        plan: the plan.
        model: the network.
        layer: a layer's name or a pattern whose choices are all costed, as ``fc1``, at one level alone as ``fc1@H2``; empty
            for no layer.
        machine: the machine.
        profile: the times.

    Raises:
        OptionError: there is no such layer or level, no layer is cut, or a heterogeneous machine is not named.
        PlanError: the machine has other device groups.
    """
    if not plan.splits:
        raise refusal("an explanation", "stages without levels")
    if plan.heterogeneous and machine is None:
        raise OptionError("explain", "no machine is named", "the heterogeneous machine that the plan is for")
    named, level = named_layers(plan, layer, "explain") if layer else ([], None)
    graph = model.with_batch(plan.model.batch)
    levels = [*choices_by_level(plan, graph, machine, profile)]
    shape = _outermost(plan, graph, levels)
    return Explanation(
        plan=plan,
        layers=plan.layers,
        rules=reduced(shape),
        order=trace(shape),
        explained=tuple(
            one for own in levels if level in {None, own.level} for one in _explained(plan, own, named)
        ),
    )


def _outermost(plan: Plan, graph: LayerGraph, levels: Sequence[LevelChoices]) -> Structure:
    """Return the shape of the outermost level over all layers, those of other stages and groups included."""
    first = min(own.level for own in levels)
    options = {
        layer.name: offered
        for own in reversed(levels)
        if own.level == first
        for layer, offered in zip(own.layers, own.free, strict=True)
    }
    nodes = graph.nodes(plan.graph)
    return structure(nodes, [(options[layer.name],) for layer in nodes.layers])


def _explained(plan: Plan, own: LevelChoices, named: Sequence[str]) -> Iterator[LayerExplanation]:
    """Yield the explanations of some layers at a level."""
    space = parse_space(plan.space, None)
    nodes = [node for node, layer in enumerate(own.layers) if layer.name in named]
    known = nodes and own.adds_up and load_solver(cheapest((own.problem.structure,))).exact
    least = min_marginals(own.problem) if known else []
    for node in nodes:
        yield LayerExplanation(
            layer=own.layers[node].name,
            level=own.level,
            alternatives=_alternatives(own, node, least[node] if least else None),
            left_out=space.left_out(own.layers[node], own.ways),
            ways=own.ways,
            jointly=own.jointly,
            group=own.group,
        )


def _alternatives(own: LevelChoices, node: int, least: Costs | None) -> tuple[Alternative, ...]:
    """Return every choice of a layer at a level; ``least`` has the least cost of the level with each."""
    options, picked = own.options[node], own.picked
    received, sent = np.zeros(len(options)), np.zeros(len(options))
    for edge in own.problem.edges:
        if edge.target == node:
            received += edge.of_source(picked[edge.source])
        elif edge.source == node:
            sent += edge.of_target(picked[edge.target])
    total = own.problem.nodes[node] + received + sent
    parts = {name: part.reshape(-1) for name, part in own.items(node).items()}
    return tuple(
        Alternative(
            choice=options[at],
            chosen=at == picked[node],
            items={name: float(part[at]) for name, part in parts.items()},
            received=float(received[at]),
            sent=float(sent[at]),
            total=float(total[at]),
            replanned=None if least is None else _increase(float(least[at]), float(least.min())),
        )
        for at in np.argsort(total, kind="stable").tolist()
    )


def _increase(cost: float, best: float) -> float:
    """Return a difference of costs; one within rounding is zero."""
    return 0.0 if math.isclose(cost, best, rel_tol=1e-12) else cost - best
