"""Comparison of several strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hypar.errors import TableLimitError
from hypar.machine.load_heterogeneous import as_hardware
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.planning.planner import plan_model
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.results import Result
from hypar.units import amount

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.planning.replay import ScoredStep

BASELINE = "dp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One strategy of a comparison.

    Attributes:
        name: the strategy.
        plan: its plan; None if its search would not fit.
        gain: the baseline's cost over its own; None without a plan, or if its cost is 0 or another cost.
        note: why it has no plan, or the space over which the plan is optimal.
    """

    name: str
    plan: Plan | None
    gain: float | None
    note: str


class Comparison(Result, tuple[Row, ...]):
    """The rows of a comparison, the baseline first."""

    __slots__ = ()
    _view: ClassVar[str] = "comparison"

    def __repr__(self) -> str:
        """Return the network and each strategy's cost, short enough for a prompt."""
        plan = next(row.plan for row in self if row.plan)
        costs = (f"{row.name} {amount(row.plan.cost.value, row.plan.cost.unit)}" for row in self if row.plan)
        return f"<Comparison of {plan.model.name}: {', '.join(costs)}>"


def compare_strategies(
    model: LayerGraph | str | Path,
    *,
    strategies: str | Sequence[str] = (),
    levels: int | None = None,
    array: Sequence[int] | None = None,
    batch: int | None = None,
    inter_weight: float | None = None,
    hardware: Machine | HeterogeneousMachine | str | Path | None = None,
    optimizer: str = "sgd",
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Comparison:
    """Plan a network by several strategies.

    Args:
        model: a network, the path of a model file, or a bare name.
        strategies: their names; by default all with the same cost as the baseline. ``dp`` is always the baseline.
        levels: number of two-way levels; 4 unless ``array`` is given.
        array: the ways of each level instead, outermost first.
        batch: samples in a mini-batch, if not the model's own number.
        inter_weight: weight of the communication between layers in the cost, 1 if not given.
        hardware: a machine to score every plan on.
        optimizer: ``sgd``, ``momentum`` or ``adam``.
        progress: a function that takes the number of finished strategies and the number of all.

    Returns:
        One row for each strategy, the baseline first, then in the order given. A strategy whose exact search
        would not fit has a note instead of a plan.

    Raises:
        InputError: the request cannot be met.
        TableLimitError: no strategy's search would fit.
    """
    graph = model if isinstance(model, LayerGraph) else load_model(model)
    asked = ((strategies,) if isinstance(strategies, str) else strategies) or _alike()
    machine = None if hardware is None else as_hardware(hardware)
    rows: list[Row] = []
    baseline = 0.0
    refused: TableLimitError | None = None
    names = dict.fromkeys((BASELINE, *asked))
    for number, name in enumerate(names):
        progress(number, len(names))
        try:
            plan = plan_model(
                graph,
                strategy=name,
                levels=levels,
                array=array,
                batch=batch,
                inter_weight=inter_weight,
                hardware=machine,
                optimizer=optimizer,
            )
        except TableLimitError as error:
            rows.append(Row(name=name, plan=None, gain=None, note=str(error)))
            refused = error
            continue
        baseline = plan.cost.value if name == BASELINE else baseline
        first = rows[0].plan if rows else plan
        alike = first is not None and first.cost.name == plan.cost.name
        gain = baseline / plan.cost.value if plan.cost.value and baseline and alike else None
        rows.append(Row(name=name, plan=plan, gain=gain, note=plan.claim))
    if refused is not None and not any(row.plan for row in rows):
        raise refused
    return Comparison(rows)


def baseline_score(ran: ScoredStep) -> Score | None:
    """Score the baseline with the array, the machine of identical devices and the optimizer of another plan's step."""
    setting = ran.lanes[0].setting
    plan = plan_model(
        ran.graph,
        strategy=BASELINE,
        array=ran.plan.array,
        hardware=setting.machine,
        optimizer=setting.optimizer,
    )
    return plan.score


def _alike() -> tuple[str, ...]:
    """Return the strategies that minimise the same cost as the baseline."""
    cost = load_strategy(BASELINE).cost
    return tuple(name for name in plugin_names("strategies") if load_strategy(name).cost == cost)
