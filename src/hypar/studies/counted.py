"""Plans of several strategies, all counted by one convention.

A strategy that is named after a paper keeps the convention by which its cost counts; any other minimises what is
counted. The bytes and seconds of every plan are those of the one convention.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypar.plan.request import checked
from hypar.planning.counting import follows
from hypar.planning.planner import plan_model
from hypar.planning.replay import recosted, score_plan
from hypar.planning.resolved import Resolved
from hypar.planning.sources import times_of
from hypar.planning.strategies.base import load_strategy
from hypar.sharding.conventions import MOVED, PAPER

if TYPE_CHECKING:
    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan


def convention_for(asked: str | None) -> str:
    """Return the convention that counts all plans: the one that is asked for, otherwise ``moved``.

    Raises:
        UnknownNameError: there is no such convention.
    """
    return MOVED if asked is None else checked("convention", asked)


def planned(
    graph: LayerGraph,
    strategy: str,
    convention: str,
    /,
    *,
    hardware: Machine | HeterogeneousMachine | None = None,
    **asked: Any,
) -> Plan:
    """Plan a network by a strategy, with a score that counts by a convention.

    Args:
        graph: the network.
        strategy: the strategy.
        convention: the convention of the score, and of the cost unless the strategy is named after a paper.
        hardware: the machine of the score.
        asked: further arguments of ``plan_model``.

    Raises:
        InputError: the request is not possible.
        TableLimitError: the search would not fit.
    """
    own, cost = load_strategy(strategy).convention, asked.get("cost")
    given = convention if own in {MOVED, convention} and (cost is None or follows(cost)) else None
    plan = plan_model(graph, strategy=strategy, hardware=hardware, convention=given, **asked)
    if plan.score is None or (plan.score.convention or PAPER) == convention:
        return plan
    score = score_plan(plan, hardware=hardware, model=graph, convention=convention)
    return plan.model_copy(update={"score": score})


def costs_of(
    plan: Plan, graph: LayerGraph, convention: str, machine: Machine | HeterogeneousMachine | None
) -> tuple[float, ...]:
    """Return the cost of each level of a plan, counted by a convention; of uneven shares as the plan has it.

    Args:
        plan: the plan.
        graph: the network, with the plan's batch.
        convention: the convention.
        machine: the machine of its score.
    """
    own = plan.convention or PAPER
    if plan.heterogeneous or not follows(plan.cost.name) or convention == own:
        return tuple(split.cost for split in plan.summed)
    request = replace(Resolved.of(plan, machine, times_of(plan)), convention=convention)
    return tuple(split.cost for split in recosted(plan, graph, request).splits)
