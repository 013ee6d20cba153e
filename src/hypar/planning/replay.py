"""Run a stored plan on a machine: its score, the time at which every task of the step runs, and what other choices would cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np

from hypar.activity import tell
from hypar.costs.graphs.tables import Tables
from hypar.errors import InputError, OptionError
from hypar.machine.load import load_machine
from hypar.machine.machine import Machine
from hypar.machine.profiles import Profile
from hypar.network.graph import LayerGraph
from hypar.network.nodes import PlanNode
from hypar.plan.plan import Plan, read_plan
from hypar.plan.records import Origin, Score, StagesRecord, origin_of, remember
from hypar.plan.request import checked
from hypar.planning.chunks import chunks_of
from hypar.planning.question import Question
from hypar.planning.records import Leaf, Node
from hypar.planning.resolved import Resolved, score_convention
from hypar.planning.sources import as_planned, machine_of, network_of, require_groups, wrong_in
from hypar.planning.stages.planner import StagePlanner, stages_of, stored_stages
from hypar.planning.stages.running import Staging
from hypar.planning.uneven.planner import Planner
from hypar.planning.uneven.split import fixed
from hypar.planning.uneven.tree import Branch, Branching, branch_of
from hypar.schedule.lanes import Lane
from hypar.schedule.stages import Step, StepWork, summarise
from hypar.schedule.timeline import Timeline
from hypar.sharding.amounts.factors import Offered
from hypar.sharding.placement import Choice, Options
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Costs


@dataclass(frozen=True, kw_only=True)
class ScoredStep:
    """A training step that was run: the plan whose choices it follows, its network, the machine, and the tasks, with when each ran.

    ``work`` has the groups of identical devices with their work, of stages for a microbatch; ``stages`` are the plan's, as
    run here.
    """

    plan: Plan
    graph: LayerGraph
    machine: Machine
    step: Step
    work: StepWork = field(compare=False)
    stages: StagesRecord | None = None

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The groups of identical devices that run it."""
        return self.work.lanes

    @property
    def timeline(self) -> Timeline:
        """When each task ran."""
        return self.step.timeline

    @cached_property
    def score(self) -> Score:
        """The totals over these tasks, computed when they are first asked for."""
        score = summarise(self.lanes, self.step, self.machine)
        remember(score, Origin(plan=self.plan, network=self.graph, machine=self.machine))
        return score


def score_plan(
    plan: Plan | str | Path,
    *,
    hardware: Machine | str | Path | None = None,
    model: LayerGraph | str | Path | None = None,
    optimizer: str | None = None,
    changes: Mapping[str, Any] | None = None,
    convention: str | None = None,
) -> Score:
    """Score a plan on a machine.

    To score many plans of one network, load the network and the machine once and pass them.

    Args:
        plan: the plan, or its file.
        hardware: a machine, the path of a hardware file, or a bare name; the plan's own if none is given.
        model: the network or its file, if the plan's model name does not find it.
        optimizer: ``sgd``, ``momentum`` or ``adam``; the plan's own, or ``sgd``, if none is given.
        changes: changes to the machine, if it is given by a file or by the plan.
        convention: how bytes are counted: ``paper``, ``moved`` or ``fused``. If it is not given, as in the plan's own
            score; for a plan without one by ``fused`` if its cost counts so, otherwise by ``moved``.

    Raises:
        InputError: a file cannot be read, or the plan is for another network or does not fit the machine.

    Examples:
        >>> import hypar
        >>> score = score_plan(hypar.plan_model("lenet-c", levels=4), hardware="hmc")
        >>> round(score.time_s * 1e3, 2), score.communication_bytes
        (6.05, 18627040)
    """
    return run_plan(
        plan, hardware=hardware, model=model, optimizer=optimizer, changes=changes, convention=convention
    ).score


def run_plan(
    plan: Plan | str | Path,
    *,
    hardware: Machine | str | Path | None = None,
    model: LayerGraph | str | Path | None = None,
    optimizer: str | None = None,
    changes: Mapping[str, Any] | None = None,
    convention: str | None = None,
) -> ScoredStep:
    """Run a plan as ``score_plan`` does, and return its step and timeline, from which the score follows."""
    plan = plan if isinstance(plan, Plan) else read_plan(plan)
    graph = as_planned(plan, network_of(plan, model))
    tell(f"scoring {graph.name} by {plan.strategy}")
    machine = machine_of(plan, changes=changes) if hardware is None else load_machine(hardware, changes)
    if machine is None:
        raise OptionError("--set" if changes else "score", "no machine is named", "one, as --hardware hmc")
    require_groups(plan, machine)
    try:
        counted = score_convention(plan)
    except InputError as error:
        raise wrong_in(plan, "cost", error.found, error.allowed, error.hint) from None
    if convention is not None:
        counted = checked("convention", convention)
    request = replace(Resolved.of(plan, machine), counted=counted)
    if optimizer is not None:
        request = replace(request, optimizer=checked("optimizer", optimizer))
    return run_step(plan, request, request.network(graph))


def run_step(plan: Plan, request: Resolved, graph: LayerGraph) -> ScoredStep:
    """Return the step of a plan of a network on the machine of a request; raises ``PlanError`` for a network of other layers."""
    require_layers(plan, graph)
    assert request.machine is not None  # noqa: S101 (a plan is run on a machine)
    node = node_of(plan, request, graph)
    stages = stages_of(node, request) if isinstance(node, Staging) else None
    work = node.work
    step = work.run(chunks_of(plan.chunks, work, f"{origin_of(plan).file}: chunks.layers"))
    return ScoredStep(plan=plan, graph=graph, machine=request.machine, step=step, work=work, stages=stages)


def recosted(plan: Plan, graph: LayerGraph, request: Resolved) -> Plan:
    """Return a stored plan with the costs of its choices, counted as its own request or one of another convention says."""
    request, graph = replace(request, pins=()), as_planned(plan, graph.without_rests)
    planner, node = costed_node(request, plan, graph)
    found = planner.decided(graph, node, plan.claim)
    cost = plan.cost.model_copy(update={"value": found.cost.value})
    return plan.model_copy(update={"splits": found.splits, "cost": cost, "path": found.path})


def costed_node(request: Resolved, plan: Plan, graph: LayerGraph) -> tuple[Planner, Node]:
    """Return the planner of a stored plan, and its node with its costs."""
    if request.profile is not None:
        request.profile.require(graph.name, graph.digest, graph.batch, request.array)
    if plan.staged:
        planner: Planner = StagePlanner(request, graph)
    else:
        planner = Planner(request, graph.nodes(plan.graph), (), request.element_bytes(graph))
    return planner, planner.costed(node_of(plan, request, graph))


def node_of(plan: Plan, request: Resolved, graph: LayerGraph) -> Node:
    """Return the node of a plan on the machine of a request, if any, without costs; raises ``HardwareError``."""
    return stored_stages(plan, request, graph) if plan.staged else branch_of(plan, request, graph)


def require_layers(plan: Plan, graph: LayerGraph) -> None:
    """Raise ``PlanError`` if a network has other layers than a plan, or a layer that is cut in a dim which it does not have."""
    layers = graph.nodes(plan.graph).layers
    rests = {layer.name for layer in graph.at_rest.layers if layer.op_name == "rest"}
    names = [layer.name for layer in layers]
    if names != [name for name in plan.layers if name in names or name not in rests]:
        found = f"the layers are not those of {graph.name!r}"
        raise wrong_in(plan, "splits" if plan.splits else "stages", found, "a plan of this model")
    for layer, split in product(layers, plan.splits):
        dims = layer.nest.sizes
        for dim, degree in split.choices.get(layer.name, {}).items():
            if degree > 1 and dim not in dims:
                found = f"{layer.name!r} is cut in {dim}"
                raise wrong_in(plan, "splits", found, f"its dims, {', '.join(dims)}")


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelChoices:
    """The choices at one level of one group of devices, given the plan's choices above it.

    ``free`` are the options of each layer in the space, ``options`` with the one ``chosen`` behind them, which may be none of them,
    as by a pin. ``level`` is 0 for the outermost, ``ways`` the number of its groups, and ``group`` the one that is divided on a
    heterogeneous machine, else empty. Planned ``jointly``, the plan weighs the levels below too. ``problem`` makes the costs of all
    ``options``, ``items`` returns those of single layers, item by item. Unless the level's cost ``adds_up``, the slowest group
    counts, which may be another one anew.
    """

    layers: Sequence[PlanNode]
    free: Sequence[Options]
    options: Sequence[Options]
    chosen: Sequence[Choice]
    level: int
    ways: int
    group: str
    jointly: bool
    problem: Callable[[], CostGraph]
    items: Callable[[Sequence[int]], dict[str, Costs]]
    adds_up: bool = True

    @cached_property
    def picked(self) -> list[int]:
        """The option that each layer takes."""
        return [own.index(choice) for own, choice in zip(self.options, self.chosen, strict=True)]


def _with(options: Options, choice: Choice) -> Options:
    return options if choice in options else (*options, choice)


def choices_by_level(
    plan: Plan, graph: LayerGraph, machine: Machine | None, profile: Profile | None = None
) -> Iterator[LevelChoices]:
    """Yield the choices of a plan for a network of its batch, stage by stage, each group's outer levels first.

    Raises ``PlanError`` if the machine of its score has other device groups.
    """
    if machine is not None:
        require_groups(plan, machine)
    request = replace(Resolved.of(plan, machine, profile).as_planned(plan), pins=(), refine=False)
    planner, node = costed_node(request, plan, graph)
    if isinstance(node, Staging):
        for own in node.stages:
            yield from _in_tree(plan, own.spans.planner, own.searched, root=own.spans.group or "")
    else:
        yield from _in_tree(plan, planner, cast("Branch", node))


def _in_leaf(plan: Plan, question: Question, lane: Lane, group: str) -> Iterator[LevelChoices]:
    above = question.outermost()
    for level in question.levels:
        at, ways, chosen = level.index, level.ways, [own[level.index] for own in lane.choices]
        # Those that can run beside the choices at the other levels.
        free = [question.left(node, at, (*own[:at], *own[at + 1 :])) for node, own in enumerate(lane.choices)]
        options = [*map(_with, free, chosen)]
        tables = Tables(question.cost, question.graph, [level], [(own,) for own in options], above)
        yield LevelChoices(
            layers=question.graph.layers,
            free=free,
            options=options,
            chosen=chosen,
            level=lane.depth + at,
            ways=ways,
            group=lane.name or group,
            jointly=plan.search == "joint" and not level.innermost,
            problem=cache(tables.built),
            items=partial(tables.items, 0),
        )
        above = above.below(question.graph, [(choice,) for choice in chosen], ways)


def _in_tree(plan: Plan, planner: Planner, node: Branch, root: str = "") -> Iterator[LevelChoices]:
    """Yield the levels of a node, of a stage on the ``root`` of its groups, an uneven split before what is below it."""
    if isinstance(node, Leaf):
        if node.question is not None:
            yield from _in_leaf(plan, node.question, node.lane, root)
        return
    yield _uneven(planner, node)
    for below in node.below:
        yield from _in_tree(plan, planner, below)


def _uneven(planner: Planner, branch: Branching) -> LevelChoices:
    """Return the choices of an uneven split at a plan's shares: the costs of its late group, or of all if they add up."""
    split = planner.split_of(branch)
    summed = planner.in_stage or not branch.slowest
    weights = [float(summed or at == branch.late) for at in range(len(split.rates))]
    free, chosen = planner.options_of(branch), [choice for choice, _ in branch.taken]
    options = [*map(_with, free, chosen)]
    pairs = zip(options, branch.taken, strict=True)
    offers = [tuple([(choice, shares) for choice in own]) for own, (_, shares) in pairs]

    def items(nodes: Sequence[int]) -> dict[str, Costs]:
        costs = split.layer_costs(nodes[0], Offered.of(offers[nodes[0]]))
        computed, sums = (np.tensordot(weights, own, axes=1) for own in reversed(costs))
        return {"compute": computed, "sums": sums} if computed.any() else {"sums": sums}

    return LevelChoices(
        layers=branch.graph.layers,
        free=free,
        options=options,
        chosen=chosen,
        level=branch.depth,
        ways=len(branch.machine.groups),
        group=branch.name,
        jointly=True,
        problem=cache(lambda: fixed(split, offers).problem(weights, weights)),
        items=items,
        adds_up=not split.slowest,
    )
