"""Known strategies that the engine compares a plan for a heterogeneous machine with, as it does for identical devices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hypar.costs.base import load_cost
from hypar.errors import MemoryLimitError, OptionError, TableLimitError
from hypar.plan.plan import SEARCHED, BaselinesRecord
from hypar.planning.baselines import Trial, baseline_request
from hypar.planning.chunks.search import run_chunked
from hypar.planning.strategies.base import load_strategy
from hypar.planning.uneven.search import Planner, plan_branches, solver_for
from hypar.planning.uneven.tree import Branching, lanes_of
from hypar.schedule.memory import holds
from hypar.schedule.stages import StepWork

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.network.contraction import ContractedGraph
    from hypar.planning.chunks.search import Chunked
    from hypar.planning.request import Request
    from hypar.schedule.lanes import Lane
    from hypar.sharding.pins import Pin


class Fastest(NamedTuple):
    """The fastest plan.

    Attributes:
        branch: the tree, with the costs of the request.
        lanes: the groups that work.
        ran: the step.
        record: the timed steps; None if no baseline competed.
        passed_over: whether a faster plan does not fit the memory.
    """

    branch: Branching
    lanes: Sequence[Lane]
    ran: Chunked
    record: BaselinesRecord | None = None
    passed_over: bool = False


def take_fastest(
    request: Request, graph: ContractedGraph, pins: Sequence[Pin], element_bytes: int, found: Branching
) -> Fastest:
    """Run the search's plan and the baselines of a request, and take the fastest that fits the memory.

    Args:
        request: the request.
        graph: the layers that are cut.
        pins: choices to hold.
        element_bytes: bytes of an element.
        found: the search's plan.
    """
    planner = Planner(request, pins, element_bytes)
    branches = {SEARCHED: found, **dict(_entrants(request, graph, pins, planner))}
    works = {name: StepWork.of(*lanes_of(branch)) for name, branch in branches.items()}
    trials = []
    for name, work in works.items():
        ran = run_chunked(work, request.chunks)
        trials.append(Trial(name, (), ran, holds(work.lanes, ran.step)))
    best = trials[0]
    for trial in trials:
        best = trial if trial.beats(best) else best
    record = None
    if len(trials) > 1:
        record = BaselinesRecord(taken=best.name, step_s={trial.name: trial.seconds for trial in trials})
    branch = branches[best.name]
    if best.name != SEARCHED:
        costed = planner.costed(branch, planner.state_above(graph))
        assert isinstance(costed, Branching)  # noqa: S101 (the root is a split)
        branch = costed
    return Fastest(
        branch, works[best.name].lanes, best.ran, record, any(trial.faster(best) for trial in trials)
    )


def _entrants(
    request: Request, graph: ContractedGraph, pins: Sequence[Pin], planner: Planner
) -> Iterator[tuple[str, Branching]]:
    """Yield the baselines that can be planned: those within the space, or all if no space was requested."""
    for name in request.baselines:
        named = load_strategy(name)
        own = baseline_request(request, name)
        cost = named.heterogeneous_cost or named.cost
        shares = named.shares if load_cost(cost, {}).slowest else "equal"
        own = replace(own, cost=cost, shares=shares, solver=None)
        try:
            own = replace(own, solver=solver_for(own, graph))
            branch = plan_branches(own, graph, pins, planner.element_bytes)
        except (MemoryLimitError, OptionError, TableLimitError):
            continue
        if request.beyond_space or planner.within(branch):
            yield name, branch
