"""The command that leads to a plan again."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.routing import primes
from hypar.plan.conventions import of_score
from hypar.planning.checks.words import GRAPHS, space_text
from hypar.planning.counting import follows
from hypar.planning.strategies.base import load_strategy
from hypar.registry import data_names, plugin_names
from hypar.schedule.pipeline_orders import checked_microbatches
from hypar.sharding.conventions import MOVED, PAPER
from hypar.solve.solvers.base import load_solver

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.plan.splits import StagesRecord

DEFAULT = "hypar"
"""The strategy of ``hypar plan`` where none is named."""

EXACT = "exact"
"""The usual mode of the cost ``deepa``."""


def plan_command(
    plan: Plan, file: str, graph: LayerGraph, machine: Machine | HeterogeneousMachine | None
) -> str:
    """Return the ``hypar plan`` that leads to a plan again.

    Args:
        plan: the plan.
        file: the file that it writes.
        graph: the network, with its own batch.
        machine: the machine of the plan's score.
    """
    name = plan.model.name
    words = ["hypar", "plan", name if name in data_names("models") else f"{name}.yaml"]
    for option, value in _options(plan, graph, machine):
        words += [option] if value is None else [option, str(value)]
    return shlex.join([*words, "-o", file])


def report_options(*, changes: Mapping[str, Any], **files: str | Path | None) -> tuple[str, ...]:
    """Return the options of ``hypar report`` that lead to a report again, as words."""
    named = (word for name, file in files.items() if file is not None for word in (f"--{name}", str(file)))
    return (*named, *(word for name, value in changes.items() for word in ("--set", f"{name}={value}")))


def uneven_array(plan: Plan, machine: HeterogeneousMachine) -> tuple[int, ...] | None:
    """Return the levels of a plan for a heterogeneous machine; None if it uses all devices in the usual levels.

    Of stages on its device groups they are the levels inside each stage.
    """
    whole = {name: own.num_devices for name, own, _ in machine.identical()}
    groups = [group for group in plan.groups if not group.idle]
    each = 1 if plan.stages is None else plan.stages.of_each_group
    if all(group.array == tuple(primes(whole[group.name] // each)) for group in groups):
        return None
    return (*(split.ways for split, _ in groups[0].above), *groups[0].array)


def _options(
    plan: Plan, graph: LayerGraph, machine: Machine | HeterogeneousMachine | None
) -> Iterator[tuple[str, object]]:
    """Yield the options of the command, those that have their default left out."""
    yield from _of_array(plan, machine)
    if plan.model.batch != graph.batch:
        yield "--batch", plan.model.batch
    yield from _of_search(plan)
    for pin in plan.pins:
        yield "--pin", pin
    if plan.score is not None:
        yield from _of_hardware(plan.score)
    if plan.uneven and plan.shares != load_strategy(plan.strategy).shares:
        yield "--shares", plan.shares
    if plan.stages is not None:
        yield from _of_stages(plan.stages, plan.model.batch)
    if plan.refined is not None:
        yield "--refine", None
    if plan.chunks is not None:
        yield "--chunks", plan.chunks.asked


def _of_array(plan: Plan, machine: Machine | HeterogeneousMachine | None) -> Iterator[tuple[str, object]]:
    """Yield the levels."""
    if isinstance(machine, HeterogeneousMachine):
        array = uneven_array(plan, machine)
    else:
        array = tuple((plan.stages.array if plan.stages is not None else None) or plan.array)
    if array is None:
        return
    if plan.stages is not None and plan.stages.outside:
        nodes = [str(ways) for ways in array]
        nodes.insert(plan.stages.outside, f"s{plan.stages.asked}")
        yield "--array", "x".join(nodes)
    elif {*array} <= {2}:
        yield "--levels", len(array)
    else:
        yield "--array", "x".join(map(str, array))


def _of_search(plan: Plan) -> Iterator[tuple[str, object]]:
    """Yield the strategy, and whatever differs from it."""
    own, cost = load_strategy(plan.strategy), plan.cost
    usual = own.heterogeneous_cost if plan.uneven and own.heterogeneous_cost else own.cost
    # The command without a strategy counts a cost that is asked for by moved.
    papers = cost.name != usual and _papers(plan, own.convention)
    default = MOVED if plan.strategy == DEFAULT and cost.name != usual and not papers else own.convention
    counted = _convention(plan, default)
    inexact = plan.solver in plugin_names("solvers") and not load_solver(plan.solver).exact
    found = (
        ("--strategy", plan.strategy, plan.strategy != DEFAULT or papers),
        ("--space", plan.space, plan.space != space_text(own.space)),
        ("--cost", cost.name, cost.name != usual),
        ("--convention", counted, counted is not None),
        ("--inter-weight", cost.parameters.get("inter_weight"), cost.parameters.get("inter_weight", 1) != 1),
        ("--mode", cost.parameters.get("mode"), cost.parameters.get("mode", EXACT) != EXACT),
        ("--profile", plan.profile and f"{plan.profile.name}.json", plan.profile is not None),
        ("--graph", plan.graph or GRAPHS[0], (plan.graph or GRAPHS[0]) != own.graph),
        ("--search", plan.search, plan.search != own.search),
        ("--solver", plan.solver, inexact and plan.stages is None),
    )
    yield from ((option, value) for option, value, differs in found if differs)


def _papers(plan: Plan, own: str) -> bool:
    """Return whether a plan's cost counts as the strategy's paper does, and its score what moves."""
    scored = plan.score is not None and plan.score.convention == of_score(own)
    return own == PAPER and plan.convention is None and scored and not plan.uneven


def _convention(plan: Plan, own: str) -> str | None:
    """Return the convention to ask for; None if the strategy's own, or no single one, leads to the plan."""
    if plan.uneven or not follows(plan.cost.name):
        return None
    cost = plan.convention or PAPER
    score = of_score(own) if plan.score is None else plan.score.convention or PAPER
    return None if (cost, score) == (own, of_score(own)) else cost


def _of_hardware(score: Score) -> Iterator[tuple[str, object]]:
    """Yield the machine, its changes and the optimizer."""
    name = score.hardware
    yield "--hardware", name if name in data_names("hardware") else f"{name}.yaml"
    for field, value in score.hardware_changes.items():
        yield "--set", f"{field}={value}"
    if score.optimizer != "sgd":
        yield "--optimizer", score.optimizer


def _of_stages(stages: StagesRecord, batch: int) -> Iterator[tuple[str, object]]:
    """Yield the stages, with their schedule and microbatches where they are not the usual ones."""
    if not stages.outside:
        yield "--stages", stages.asked
    if stages.schedule != "1f1b":
        yield "--schedule", stages.schedule
    usual = checked_microbatches(None, stages.schedule, batch, len(stages.stages))
    if stages.requested_microbatches not in {None, usual} or stages.asked_microbatches is not None:
        yield "--microbatches", stages.requested_microbatches
    if stages.parts not in {None, 2}:
        yield "--parts", stages.parts
    if stages.starts:
        yield "--starts", ",".join(stages.given_starts)
    if stages.balance is not None:
        yield "--balance", stages.balance
    if stages.solver is not None:
        yield "--solver", stages.solver
