"""Comparison of several strategies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hypar.errors import TableLimitError
from hypar.machine.load_heterogeneous import as_hardware
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.plan.request import Request
from hypar.planning.resolved import BASELINE, of_baseline
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.results import Result
from hypar.sharding.conventions import MOVED
from hypar.studies.counted import convention_for, costs_of, planned
from hypar.units import amount, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.planning.replay import ScoredStep


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
        """Return its cost, counted by the comparison's convention."""
        return math.fsum(self.costs)

    @property
    def text(self) -> str:
        """Return the strategy with its time on the machine, or without one its cost; alone without a plan."""
        if self.plan is None:
            return self.name
        score, unit = self.plan.score, self.plan.cost.unit
        return f"{self.name} {amount(self.cost, unit) if score is None else format_seconds(score.time_s)}"


class Comparison(Result, tuple[Row, ...]):  # noqa: SLOT001 (a tuple with an attribute cannot have slots)
    """The rows of a comparison, the baseline first.

    Attributes:
        convention: the convention by which every row is counted.
    """

    _view: ClassVar[str] = "comparison"
    convention: str

    def __new__(cls, rows: Iterable[Row] = (), convention: str = MOVED) -> Self:
        """Make a comparison of some rows."""
        made = super().__new__(cls, rows)
        made.convention = convention
        return made

    def __repr__(self) -> str:
        """Return the network and each strategy's time, or without a machine its cost, short enough for a prompt."""
        plan = next(row.plan for row in self if row.plan)
        named = plan.model.name + (f" on {plan.score.hardware}" if plan.score else "")
        return f"<Comparison of {named}: {', '.join(row.text for row in self if row.plan)}>"


def compare_strategies(
    model: LayerGraph | str | Path,
    *,
    strategies: str | Sequence[str] = (),
    hardware: Machine | HeterogeneousMachine | str | Path | None = None,
    convention: str | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
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
    graph = model if isinstance(model, LayerGraph) else load_model(model)
    named = ((strategies,) if isinstance(strategies, str) else strategies) or _alike()
    machine = None if hardware is None else as_hardware(hardware)
    counted = convention_for(convention)
    rows: list[Row] = []
    baseline = 0.0
    refused: TableLimitError | None = None
    names = dict.fromkeys((BASELINE, *named))
    for number, name in enumerate(names):
        progress(number, len(names))
        try:
            given = of_baseline(asked) if name == BASELINE else asked
            plan = planned(graph, name, counted, hardware=machine, **given)
        except TableLimitError as error:
            rows.append(Row(name=name, plan=None, costs=(), gain=None, note=str(error)))
            refused = error
            continue
        costs = costs_of(plan, graph.with_batch(plan.model.batch), counted, machine)
        total = math.fsum(costs)
        baseline = total if name == BASELINE else baseline
        first = rows[0].plan if rows else plan
        alike = first is not None and first.cost.name == plan.cost.name
        gain = baseline / total if total and baseline and alike else None
        rows.append(Row(name=name, plan=plan, costs=costs, gain=gain, note=plan.claim))
    if refused is not None and not any(row.plan for row in rows):
        raise refused
    return Comparison(rows, counted)


def baseline_score(ran: ScoredStep) -> Score | None:
    """Score the baseline with the array, the machine of identical devices and the optimizer of another plan's step."""
    setting = ran.lanes[0].setting
    plan = planned(
        ran.graph,
        BASELINE,
        setting.convention,
        array=ran.plan.array,
        hardware=setting.machine,
        optimizer=setting.optimizer,
    )
    return plan.score


def _alike() -> tuple[str, ...]:
    """Return the strategies that minimise the same cost as the baseline."""
    cost = load_strategy(BASELINE).cost
    return tuple(name for name in plugin_names("strategies") if load_strategy(name).cost == cost)
