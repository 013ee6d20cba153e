"""A plan beside the plans of other strategies for the same devices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.errors import InputError, TableLimitError
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.routing import primes
from hypar.planning.asked import uneven_array
from hypar.planning.resolved import BASELINE
from hypar.studies.comparison import compare_strategies
from hypar.studies.counted import costs_of

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.studies.comparison import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A strategy beside the plan.

    Attributes:
        name: the strategy.
        plan: its plan; None if its search would not fit.
        cost: its cost, counted by the convention of all; 0 without a plan.
        score: its score; None without a machine or a plan.
        this: whether it is the plan itself.
        note: what the plan is optimal over, or why there is none.
    """

    name: str
    plan: Plan | None
    cost: float
    score: Score | None
    this: bool
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivals:
    """The strategies beside a plan.

    Attributes:
        rows: the fastest first, without a score those of the least cost; strategies without a plan last.
        refused: why no strategies are compared; empty if they are.
    """

    rows: tuple[Rival, ...]
    refused: str = ""

    @property
    def baseline(self) -> Rival | None:
        """Return the plan of data parallelism."""
        return next((row for row in self.rows if row.name == BASELINE and row.plan), None)

    @property
    def own(self) -> Rival:
        """Return the plan itself."""
        return next(row for row in self.rows if row.this)

    @property
    def best(self) -> Rival | None:
        """Return the first strategy that has a plan."""
        return next((row for row in self.rows if row.plan), None)


def rivals_of(
    plan: Plan,
    graph: LayerGraph,
    machine: Machine | HeterogeneousMachine | None,
    score: Score | None,
    convention: str | None,
) -> Rivals:
    """Plan the network by the strategies that minimise the same cost as data parallelism, for the plan's devices.

    Args:
        plan: the plan.
        graph: the network.
        machine: the machine; None if none is named.
        score: the plan's score on it.
        convention: the convention by which all are counted; None on a heterogeneous machine.
    """
    cost = plan.cost.value
    if score is None and convention is not None:
        cost = math.fsum(costs_of(plan, graph, convention, machine))
    own = Rival(name=own_name(plan), plan=plan, cost=cost, score=score, this=True, note=plan.claim)
    try:
        rows = compare_strategies(
            graph,
            array=_array(plan, machine),
            batch=plan.model.batch,
            inter_weight=_weight(plan),
            hardware=machine,
            optimizer="sgd" if score is None else score.optimizer,
            convention=convention,
        )
    except (InputError, TableLimitError) as error:
        return Rivals(rows=(own,), refused=str(error))
    others = [_rival(row) for row in rows if not _same(row, plan, score)]
    return Rivals(rows=tuple(sorted((own, *others), key=_order)))


def own_name(plan: Plan) -> str:
    """Return the strategy of a plan, with what sets it apart from the strategy alone."""
    stages = f"{len(plan.stages.stages)} stages" if plan.stages is not None and plan.staged else ""
    pins = f"{len(plan.pins)} pin{'s' * (len(plan.pins) > 1)}" if plan.pins else ""
    refined = "refined" if plan.refined else ""
    chunks = "chunks" if plan.chunks else ""
    return ", ".join(filter(None, (plan.strategy, stages, pins, refined, chunks)))


def _array(plan: Plan, machine: Machine | HeterogeneousMachine | None) -> tuple[int, ...] | None:
    """Return the levels for the other strategies: the plan's own, with a level for each prime factor of its stages."""
    if isinstance(machine, HeterogeneousMachine):
        return uneven_array(plan, machine) if plan.uneven else None
    if plan.stages is None:
        return tuple(plan.array)
    outside = plan.stages.outside or 0
    return (*plan.array[:outside], *primes(len(plan.stages.stages)), *plan.array[outside:])


def _weight(plan: Plan) -> float | None:
    """Return the plan's weight of communication between layers, if its cost has one."""
    weight = plan.cost.parameters.get("inter_weight")
    return None if weight is None else float(weight)


def _rival(row: Row) -> Rival:
    score = row.plan.score if row.plan else None
    return Rival(name=row.name, plan=row.plan, cost=row.cost, score=score, this=False, note=row.note)


def _same(row: Row, plan: Plan, score: Score | None) -> bool:
    """Return whether a strategy's plan is the plan itself: the same splits, and the same time."""
    own = row.plan
    return (
        own is not None
        and row.name == own_name(plan)
        and own.splits == plan.splits
        and (own.score is None) == (score is None)
        and (own.score is None or score is None or own.score.time_s == score.time_s)
    )


def _order(row: Rival) -> tuple[bool, bool, float, bool]:
    """Return the key that sorts by time, by the cost where there is none, and the plan itself first of equals."""
    if row.plan is None:
        return True, False, 0.0, False
    worth = row.cost if row.score is None else row.score.time_s
    return False, row.score is None, worth, not row.this
