"""Grids of requests, the loop of every study over plans; and comparisons, the grid of strategies.

Every run of a grid is counted by one convention. A strategy that is named after a paper keeps the convention by which its cost
counts; any other minimises what is counted.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from hypar.document import Result
from hypar.errors import HyparError, TableLimitError
from hypar.machine.load import load_machine
from hypar.machine.machine import Machine
from hypar.network.graph import LayerGraph, load_model
from hypar.plan.request import Request, checked
from hypar.planning.counting import follows
from hypar.planning.planner import plan_model
from hypar.planning.replay import recosted, score_plan
from hypar.planning.resolved import BASELINE, Resolved, of_baseline
from hypar.planning.sources import times_of
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.sharding.conventions import MOVED, PAPER
from hypar.studies.remarks import on_this_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hypar.document import Note
    from hypar.plan.plan import Plan
    from hypar.plan.records import Score

    Axes = Mapping[Any, Sequence[Any]]
    Chosen = dict[Any, Any]
    Progress = Callable[[int, int], None]

Hardware = Machine | str | Path
"""A machine, or the name of one."""

MOST_RUNS = 10_000
"""The largest number of requests of a grid; so many points of an exploration take some minutes."""


class Totals(NamedTuple):
    """The totals of a score.

    Attributes:
        time_s: time of a step.
        energy_j: its energy on all devices; None if the machine's file gives no energies.
        communication_bytes: bytes that all devices receive.
        memory_bytes: peak on each device.
    """

    time_s: float
    energy_j: float | None
    communication_bytes: float
    memory_bytes: float


def totals_of(score: Score | None) -> Totals:
    """Return the totals of the score of a plan for a machine."""
    assert score is not None  # noqa: S101 (a machine was named, so there is one)
    return Totals(score.time_s, score.energy_j, score.communication_bytes, score.memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A request of a grid, and its answer.

    Attributes:
        axes: the value of each axis by name; of an exploration the choice at each place, a layer and a level.
        plan: its plan; of a comparison alone.
        remarks: what its machine leaves unused, and that its devices as another array take another time.
        totals: the totals of its score; None without a plan or a machine.
        fits: whether the search's tables, the array on the machine and each device's memory suffice.
        note: why it has no plan, or the space over which the plan is optimal.
        refused: the error that is its answer in place of a plan.
        costs: of a comparison its cost at each level, counted by the comparison's convention; empty without a plan.
        gain: of a comparison the baseline's cost over its own; None without a plan, or if its cost is 0 or another cost.
        own: whether it is the plan that an exploration starts from.
    """

    axes: Mapping[Any, Any]
    plan: Plan | None = None
    remarks: tuple[Note, ...] = ()
    totals: Totals | None = None
    fits: bool = False
    note: str = ""
    refused: HyparError | None = None
    costs: tuple[float, ...] = ()
    gain: float | None = None
    own: bool = False

    @classmethod
    def of(cls, axes: Mapping[Any, Any], plan: Plan, machine: Machine | None = None) -> Self:
        """Return the run of a plan on a machine, without the plan."""
        score = plan.score
        return cls(
            axes=axes,
            remarks=tuple(on_this_machine(plan, machine)),
            totals=None if score is None else totals_of(score),
            fits=score is None or score.fits,
            note=plan.claim,
        )

    @property
    def name(self) -> str:
        """Its strategy."""
        return str(self.axes["strategy"])

    @property
    def cost(self) -> float:
        """Its cost, counted by the comparison's convention."""
        return math.fsum(self.costs)

    @property
    def time_s(self) -> float:
        """The time of its step; infinity if it is not known."""
        return math.inf if self.totals is None else self.totals.time_s


class Runs(Result, tuple[Run, ...]):  # noqa: SLOT001 (a tuple with an attribute cannot have slots)
    """The runs of a grid.

    Attributes:
        convention: the convention by which every run is counted.
    """

    _document = "runs"
    convention: str

    def __new__(cls, runs: Iterable[Run] = (), convention: str = MOVED, **about: Any) -> Self:
        """Make a tuple of runs that knows what they are about."""
        made = super().__new__(cls, runs)
        vars(made).update(about, convention=convention)
        return made

    def base(self, run: Run) -> Run:
        """Return the run that a run is compared with: the first."""
        del run
        return self[0]

    def value(self, run: Run) -> float:
        """Return what a run is compared by: the time of its step; infinity if it is not known."""
        return run.time_s

    def speedup(self, run: Run) -> float | None:
        """Return how many times faster a run is than the one it is compared with; None where that is not known."""
        first, own = self.value(self.base(run)), self.value(run)
        return first / own if own and math.inf not in {first, own} else None


def combinations(axes: Axes) -> Iterator[Chosen]:
    """Yield every combination of the axes' values, the last axis fastest."""
    return (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))


def grid(
    axes: Axes,
    answer: Callable[[Chosen], Run],
    refusals: tuple[type[HyparError], ...] = (),
    progress: Progress = lambda *_: None,
) -> list[Run]:
    """Answer the request of every combination; ``refusals`` are errors that are an answer, and any other ends the grid."""
    number = math.prod(map(len, axes.values()))
    runs: list[Run] = []
    progress(0, number)
    for chosen in combinations(axes):
        try:
            runs.append(answer(chosen))
        except refusals as error:
            runs.append(Run(axes=chosen, note=str(error), refused=error))
        progress(len(runs), number)
    return runs


def plan_and_score(
    graph: LayerGraph, strategy: str, convention: str, hardware: Hardware | None, /, **asked: Any
) -> Plan:
    """Plan a network by a strategy, with a score, and unless the strategy is named after a paper a cost, of a convention.

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


def costs_of(plan: Plan, graph: LayerGraph, convention: str, machine: Machine | None) -> tuple[float, ...]:
    """Return the cost of each level of a plan for a machine, counted by a convention; of uneven shares as the plan has it."""
    own = plan.convention or PAPER
    if plan.heterogeneous or not follows(plan.cost.name) or convention == own:
        return tuple(split.cost for split in plan.summed)
    request = replace(Resolved.of(plan, machine, times_of(plan)), convention=convention)
    return tuple(split.cost for split in recosted(plan, graph, request).splits)


def network_of(model: LayerGraph | str | Path) -> LayerGraph:
    """Return a network itself, or that of a file."""
    return model if isinstance(model, LayerGraph) else load_model(model)


class Comparison(Runs):
    """The runs of a comparison, one for each strategy, the baseline first."""

    @property
    def plan(self) -> Plan:
        """The first plan."""
        return next(row.plan for row in self if row.plan)

    def value(self, run: Run) -> float:
        """Return the time of a strategy's step, without a machine its cost if it is the first one's; infinity if not known."""
        alike = run.totals is None and run.plan and run.plan.cost.name == self.plan.cost.name
        return run.cost if alike else run.time_s


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
        One run for each strategy, the baseline first, then in the order given. A strategy whose exact search
        would not fit has a note instead of a plan.

    Raises:
        InputError: the request cannot be met.
        TableLimitError: no strategy's search would fit.
    """
    Request.of("compare_strategies", asked)
    graph, counted = network_of(model), checked("convention", convention or MOVED)
    machine = None if hardware is None else load_machine(hardware)
    named = (strategies,) if isinstance(strategies, str) else strategies
    cost = load_strategy(BASELINE).cost
    alike = (name for name in plugin_names("strategies") if load_strategy(name).cost == cost)
    names = tuple(dict.fromkeys((BASELINE, *(named or alike))))

    def answer(chosen: Chosen) -> Run:
        own = of_baseline(asked) if chosen["strategy"] == BASELINE else asked
        plan = plan_and_score(graph, chosen["strategy"], counted, machine, **own)
        costs = costs_of(plan, graph.with_batch(plan.model.batch), counted, machine)
        return replace(Run.of(chosen, plan, machine), plan=plan, costs=costs)

    runs = grid({"strategy": names}, answer, (TableLimitError,), progress)
    if all(run.refused for run in runs) and runs[-1].refused:
        raise runs[-1].refused
    return Comparison((replace(run, gain=_gain(runs[0], run)) for run in runs), counted)


def _gain(first: Run, own: Run) -> float | None:
    if not first.plan or not own.plan or first.plan.cost.name != own.plan.cost.name:
        return None
    return first.cost / own.cost if first.cost and own.cost else None
