"""Grids of requests, the loop of every study over plans; and comparisons, the grid of strategies.

Every row of a grid is counted by one convention. A strategy that is named after a paper keeps the convention by which its cost
counts; any other minimises what is counted.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hypar.document import Result
from hypar.errors import TableLimitError
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.load_heterogeneous import as_hardware
from hypar.machine.machine import Machine
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.plan.request import Request, checked
from hypar.planning.counting import follows
from hypar.planning.planner import plan_model
from hypar.planning.replay import recosted, score_plan
from hypar.planning.resolved import BASELINE, Resolved, of_baseline
from hypar.planning.sources import times_of
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.sharding.conventions import MOVED, PAPER
from hypar.units import amount, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hypar.errors import HyparError
    from hypar.plan.plan import Plan

    Axes = Mapping[Any, Sequence[Any]]
    Chosen = dict[Any, Any]
    Progress = Callable[[int, int], None]

Hardware = Machine | HeterogeneousMachine | str | Path
"""A machine, or the name of one."""

MOST_RUNS = 10_000
"""The largest number of requests of a grid; so many points of an exploration take some minutes."""


def grid(
    axes: Axes,
    answer: Callable[[Chosen], Any],
    refusals: tuple[type[HyparError], ...] = (),
    progress: Progress = lambda *_: None,
) -> list[tuple[Chosen, Any]]:
    """Answer the request of every combination of the axes' values, the last axis fastest.

    Args:
        axes: the values of each axis.
        answer: plans and scores a combination.
        refusals: the errors that are the answer to a request, and leave the others alone; any other ends the grid.
        progress: a function that takes the number of finished requests and the number of all.
    """
    number = math.prod(map(len, axes.values()))
    found: list[tuple[Chosen, Any]] = []
    progress(0, number)
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        try:
            found.append((chosen, answer(chosen)))
        except refusals as error:
            found.append((chosen, error))
        progress(len(found), number)
    return found


def plan_and_score(
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


def asked_of(chosen: Chosen, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments for a strategy beside others: the baseline keeps its own space and equal shares."""
    return of_baseline(asked) if chosen["strategy"] == BASELINE else asked


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


def network_of(model: LayerGraph | str | Path) -> LayerGraph:
    """Return a network, given itself or as a file's name."""
    return model if isinstance(model, LayerGraph) else load_model(model)


def convention_for(asked: str | None) -> str:
    """Return the convention that counts all rows: the one that is asked for, otherwise ``moved``.

    Raises:
        UnknownNameError: there is no such convention.
    """
    return MOVED if asked is None else checked("convention", asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One strategy of a comparison.

    Attributes:
        name: the strategy.
        plan: its plan; None if its search would not fit.
        costs: its cost at each level, counted by the comparison's convention; empty without a plan.
        gain: the baseline's cost over its own; None without a plan, or if its cost is 0 or another cost.
        note: why it has no plan, or the space over which the plan is optimal.
    """

    name: str
    plan: Plan | None
    costs: tuple[float, ...]
    gain: float | None
    note: str

    @property
    def cost(self) -> float:
        """Its cost, counted by the comparison's convention."""
        return math.fsum(self.costs)


class Comparison(Result, tuple[Row, ...]):  # noqa: SLOT001 (a tuple with an attribute cannot have slots)
    """The rows of a comparison, the baseline first.

    Attributes:
        convention: the convention by which every row is counted.
    """

    _document: ClassVar[str] = "comparison"
    convention: str

    def __new__(cls, rows: Iterable[Row] = (), convention: str = MOVED) -> Self:
        """Make a comparison of some rows."""
        made = super().__new__(cls, rows)
        made.convention = convention
        return made

    def __repr__(self) -> str:
        """Return the network and each strategy's time, or without a machine its cost, short enough for a prompt."""
        made = [(row, row.plan) for row in self if row.plan]
        texts = (
            f"{row.name} {amount(row.cost, own.cost.unit) if own.score is None else format_seconds(own.score.time_s)}"
            for row, own in made
        )
        _, plan = made[0]
        named = plan.model.name + (f" on {plan.score.hardware}" if plan.score else "")
        return f"<Comparison of {named}: {', '.join(texts)}>"


def compare_strategies(
    model: LayerGraph | str | Path,
    *,
    strategies: str | Sequence[str] = (),
    hardware: Hardware | None = None,
    convention: str | None = None,
    progress: Progress = lambda *_: None,
    **asked: Any,
) -> Comparison:
    """Plan a network by several strategies.

    Args:
        model: a network, the path of a model file, or a bare name.
        strategies: their names; by default all with the same cost as the baseline. ``dp`` is always the baseline.
        hardware: a machine to score every plan on.
        convention: how costs, bytes and seconds of all rows are counted: ``moved`` if it is not given, ``paper`` or
            ``fused``. A strategy that is named after a paper still minimises what the paper counts.
        progress: a function that takes the number of finished strategies and the number of all.
        asked: further arguments of ``plan_model``, the same for every strategy, in place of its own: ``cost`` for
            example is minimised by each within its own space and search. The baseline keeps its own space and equal
            shares of device groups, and counts measured times and a mode only by a cost that has them.

    Returns:
        One row for each strategy, the baseline first, then in the order given. A strategy whose exact search
        would not fit has a note instead of a plan.

    Raises:
        InputError: the request cannot be met.
        TableLimitError: no strategy's search would fit.
    """
    Request.of("compare_strategies", asked)
    graph, counted = network_of(model), convention_for(convention)
    machine = None if hardware is None else as_hardware(hardware)
    named = (strategies,) if isinstance(strategies, str) else strategies
    cost = load_strategy(BASELINE).cost
    alike = (name for name in plugin_names("strategies") if load_strategy(name).cost == cost)

    names = tuple(dict.fromkeys((BASELINE, *(named or alike))))

    def answer(chosen: Chosen) -> Plan:
        return plan_and_score(graph, chosen["strategy"], counted, hardware=machine, **asked_of(chosen, asked))

    answers = grid({"strategy": names}, answer, (TableLimitError,), progress)
    refused = [found for _, found in answers if isinstance(found, TableLimitError)]
    if len(refused) == len(answers):
        raise refused[-1]
    rows: list[Row] = []
    for chosen, found in answers:
        own = Row(name=chosen["strategy"], plan=None, costs=(), gain=None, note=str(found))
        if found not in refused:
            costs = costs_of(found, graph.with_batch(found.model.batch), counted, machine)
            own = replace(own, plan=found, costs=costs, note=found.claim)
        rows.append(replace(own, gain=_gain(rows[0] if rows else own, own)))
    return Comparison(rows, counted)


def _gain(first: Row, own: Row) -> float | None:
    if not first.plan or not own.plan or first.plan.cost.name != own.plan.cost.name:
        return None
    return first.cost / own.cost if first.cost and own.cost else None
