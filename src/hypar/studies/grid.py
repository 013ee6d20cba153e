"""Grids of requests, the loop of every study over plans: comparisons of strategies, and sweeps over machines and arrays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from hypar.activity import COUNTER, count, holding
from hypar.costs.base import load_cost
from hypar.document import Note, Result
from hypar.errors import HardwareError, HyparError, OptionError, TableLimitError
from hypar.machine.load import load_machine
from hypar.machine.machine import Machine
from hypar.machine.setting import Setting
from hypar.network.graph import LayerGraph, load_model
from hypar.plan.plan import Plan
from hypar.plan.records import Score
from hypar.plan.request import Request, checked
from hypar.planning.planner import plan_model
from hypar.planning.replay import recosted, score_plan
from hypar.planning.resolved import BASELINE, Resolved, checked_array, drafted, follows, of_baseline
from hypar.planning.sources import times_of
from hypar.planning.strategies.base import load_strategy
from hypar.registry import plugin_names
from hypar.schedule.lanes import Lane
from hypar.schedule.stages import StepWork, summarise
from hypar.sharding.conventions import MOVED
from hypar.studies.remarks import on_this_machine

T = TypeVar("T")
Axes = Mapping[Any, Sequence[Any]]
Chosen = dict[Any, Any]

Hardware = Machine | str | Path
"""A machine, or the name of one."""

MOST_RUNS, OF_STAGES = 10_000, ("schedule", "microbatches", "parts", "balance")
"""The most requests of a grid, some minutes of an exploration; and options that the arrays of a sweep without stages do without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A request of a grid, and its answer.

    Attributes:
        axes: the value of each axis by name; of an exploration the choice at each place, a layer and a level.
        plan: its plan; of a comparison alone.
        remarks: what its machine leaves unused, and that its devices as another array take another time.
        totals: its score; None without a plan or a machine.
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
    totals: Score | None = None
    fits: bool = False
    note: str = ""
    refused: HyparError | None = None
    costs: tuple[float, ...] = ()
    gain: float | None = None
    own: bool = False

    @classmethod
    def of(cls, axes: Mapping[Any, Any], plan: Plan, machine: Machine | None = None, /, **more: Any) -> Self:
        """Return the run of a plan on a machine, with the plan only if that is among ``more``."""
        score, remarks = plan.score, tuple(on_this_machine(plan, machine))
        fits = score is None or score.fits
        return cls(axes=axes, remarks=remarks, totals=score, fits=fits, note=plan.claim, **more)

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
    """The runs of a grid, each counted by one ``convention``."""

    _document = "runs"
    convention: str
    baseline: Run | None = None

    def __new__(cls, runs: Iterable[Run] = (), convention: str = MOVED, **about: Any) -> Self:
        """Make a tuple of runs that knows what they are about."""
        made = super().__new__(cls, runs)
        vars(made).update(about, convention=convention)
        return made

    def base(self, run: Run) -> Run:
        """Return the run that a run is compared with: the ``baseline`` of all, by default the first."""
        del run
        return self[0] if self.baseline is None else self.baseline

    def value(self, run: Run) -> float:
        """Return what a run is compared by: the time of its step; infinity if it is not known."""
        return run.time_s

    def speedup(self, run: Run) -> float | None:
        """Return how many times faster a run is than the one it is compared with; None where that is not known."""
        first, own = self.value(self.base(run)), self.value(run)
        return first / own if own and math.inf not in {first, own} else None


def grid(
    axes: Axes, answer: Callable[[Chosen], T], refusals: tuple[type[HyparError], ...] = ()
) -> list[T | Run]:
    """Answer every combination of the axes' values, the last axis fastest; ``refusals`` are errors that are an answer."""
    number = math.prod(map(len, axes.values()))
    runs: list[T | Run] = []
    count(0, number)
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        with holding(COUNTER, max):
            try:
                runs.append(answer(chosen))
            except refusals as error:
                runs.append(Run(axes=chosen, note=str(error), refused=error))
        count(len(runs), number)
    return runs


def plan_and_score(
    graph: LayerGraph, strategy: str, convention: str, hardware: Hardware | None, /, **asked: Any
) -> Plan:
    """Plan a network with a score of a convention, and unless the strategy is named after a paper a cost; raises as ``plan_model``."""
    own, cost = load_strategy(strategy).convention, asked.get("cost")
    given = convention if own in {MOVED, convention} and (cost is None or follows(cost)) else None
    plan = plan_model(graph, strategy=strategy, hardware=hardware, convention=given, **asked)
    if plan.score is None or plan.score.convention == convention:
        return plan
    score = score_plan(plan, hardware=hardware, model=graph, convention=convention)
    return plan.model_copy(update={"score": score})


def costs_of(plan: Plan, graph: LayerGraph, convention: str, machine: Machine | None) -> tuple[float, ...]:
    """Return the cost of each level of a plan for a machine, counted by a convention; of uneven shares as the plan has it."""
    if plan.heterogeneous or not follows(plan.cost.name) or convention == plan.convention:
        return tuple(split.cost for split in plan.summed)
    request = replace(Resolved.of(plan, machine, times_of(plan)), convention=convention)
    return tuple(split.cost for split in recosted(plan, graph, request).splits)


class Comparison(Runs):
    """The runs of a comparison, one for each strategy, the baseline first."""

    @property
    def plan(self) -> Plan:
        """The first plan."""
        return next(row.plan for row in self if row.plan)

    @property
    def scores(self) -> dict[str, Score | None]:
        """The scores of the plans, by their strategies."""
        return {row.name: row.plan.score for row in self if row.plan}

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
    **asked: Any,
) -> Comparison:
    """Plan a network by several strategies.

    Args:
        model: a network, the path of a model file, or a bare name.
        strategies: their names; by default all with the same cost as the baseline. ``dp`` is always the baseline.
        hardware: a machine to score every plan on.
        convention: how costs, bytes and seconds of all rows are counted: ``moved`` if it is not given, ``paper`` or
            ``fused``. A strategy that is named after a paper still minimises what the paper counts.
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
    graph, counted = load_model(model), checked("convention", convention or MOVED)
    machine = None if hardware is None else load_machine(hardware)
    named = (strategies,) if isinstance(strategies, str) else strategies
    cost = load_strategy(BASELINE).cost
    alike = (name for name in plugin_names("strategies") if load_strategy(name).cost == cost)
    names = tuple(dict.fromkeys((BASELINE, *(named or alike))))

    def answer(chosen: Chosen) -> Run:
        plan = plan_and_score(graph, chosen["strategy"], counted, machine, **_asked(chosen, asked))
        costs = costs_of(plan, graph.with_batch(plan.model.batch), counted, machine)
        return Run.of(chosen, plan, machine, plan=plan, costs=costs)

    runs = grid({"strategy": names}, answer, (TableLimitError,))
    if all(run.refused for run in runs) and runs[-1].refused:
        raise runs[-1].refused
    return Comparison((replace(run, gain=_gain(runs[0], run)) for run in runs), counted)


def _asked(chosen: Chosen, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    return of_baseline(asked) if chosen["strategy"] == BASELINE else asked


def _gain(first: Run, own: Run) -> float | None:
    if not first.plan or not own.plan or first.plan.cost.name != own.plan.cost.name:
        return None
    return first.cost / own.cost if first.cost and own.cost else None


class Sweep(Runs):
    """The runs of a sweep, the last axis fastest: hardware, its changes, batch, strategy, and levels or array.

    They share the arguments of ``plan_model`` that were ``asked`` for, without those as by default.
    """

    model: str
    asked: Mapping[str, Any]

    @property
    def varied(self) -> tuple[str, ...]:
        """The axes that have more than one value."""
        return tuple(name for name in self[0].axes if len({_key(run.axes[name]) for run in self}) > 1)

    def base(self, run: Run) -> Run:
        """Return the first run of the same batch that has a plan."""
        return next((one for one in self if one.totals and one.axes["batch"] == run.axes["batch"]), run)

    def value(self, run: Run) -> float:
        """Return the time of a sample."""
        return run.time_s / float(run.axes["batch"])


def sweep_model(
    model: LayerGraph | str | Path,
    *,
    hardware: Hardware | Sequence[Hardware],
    levels: int | Sequence[int] | None = None,
    array: Sequence[int | str] | Sequence[Sequence[int | str]] | None = None,
    batch: int | Sequence[int] | None = None,
    strategy: str | Sequence[str] = "hypar",
    changes: Mapping[str, Any] | None = None,
    scale: bool = False,
    convention: str | None = None,
    **asked: Any,
) -> Sweep:
    """Plan and score a network for every combination of the given values.

    Zero levels mean one device. An array smaller than its machine uses some of its devices; a combination that does
    not fit has a note with the reason instead of totals. Options of stages count for the arrays that have stages.

    Args:
        model: a network, the path of a model file, or a bare name.
        hardware: machines, homogeneous or heterogeneous, hardware files or bare names.
        levels: numbers of two-way levels; 4 if neither these nor arrays are given.
        array: arrays in place of ``levels``, each by the ways of its levels, outermost first, as ``[(16,), (4, 4)]``; one
            with stages inside its levels as ``(2, "s4", 2)``.
        batch: samples in a mini-batch; the model's own number if none is given.
        strategy: names of strategies.
        changes: values for some fields of the machine, as ``{"duplex": ["full", "half"]}``.
        scale: whether a machine with one network gets as many devices as the array and the stages need, so that these
            share whatever its devices share.
        convention: how bytes and seconds of all runs are counted: ``moved`` if it is not given, ``paper`` or ``fused``.
        asked: further arguments of ``plan_model``, the same for every combination; as in ``compare_strategies``.

    Raises:
        InputError: the request cannot be met by any combination.
    """
    given = Request.of("sweep_model", asked).given()
    graph, counted = load_model(model), checked("convention", convention or MOVED)
    axes = {
        "hardware": _values(hardware),
        **{name: _values(values) for name, values in (changes or {}).items()},
        "batch": (graph.batch,) if batch is None else _values(batch) or (graph.batch,),
        "strategy": _values(strategy),
        **_arrays(levels, array),
    }
    _check(axes, asked)
    ask = _Ask(axes, graph, counted, tuple(changes or ()), scale, asked)
    grid({name: axes[name] for name in ("hardware", *ask.changed)}, ask.machine)
    runs = grid(axes, ask.run, (HardwareError, OptionError, TableLimitError))
    if all(run.refused for run in runs) and isinstance(runs[0].refused, OptionError):
        raise runs[0].refused
    return Sweep(runs, counted, model=graph.name, asked=given)


def _values(given: Any) -> tuple[Any, ...]:
    several = isinstance(given, Iterable) and not isinstance(given, str | dict)
    found: dict[str, Any] = {}
    for value in given if several else [given]:
        found.setdefault(_key(value), value)
    return tuple(found.values())


def _key(value: Any) -> str:
    """Return a key that identifies a value of an axis; for machines their digest, as several may have one name."""
    return value.digest if isinstance(value, Machine) else repr(value)


def _arrays(
    levels: int | Sequence[int] | None, array: Sequence[int | str] | Sequence[Sequence[int | str]] | None
) -> dict[str, tuple[Any, ...]]:
    if array is None:
        return {"levels": _values(4 if levels is None else levels)}
    if levels is not None:
        raise OptionError("levels", "given together with an array", "one of the two")
    one = all(isinstance(ways, int | str) for ways in array)
    return {"array": _values([tuple(array)] if one and array else [tuple(ways) for ways in array])}  # type: ignore[arg-type]


def _check(axes: Axes, asked: Mapping[str, Any]) -> None:
    """Refuse values that no combination allows, before the first one runs; those of one device are not planned."""
    number = math.prod(map(len, axes.values()))
    if not 0 < number <= MOST_RUNS:
        found = f"{number:,} combinations" if number else "nothing"
        raise OptionError("sweep", f"found {found}", f"1 to {MOST_RUNS:,} combinations")
    for levels in axes.get("levels", ()):
        checked_array(levels, None, stages=True)
    weights = {name: asked[name] for name in ("inter_weight",) if asked.get(name) is not None}
    for name in axes["strategy"]:
        load_cost(asked.get("cost") or load_strategy(name).cost, weights)


@dataclass(frozen=True, eq=False)
class _Ask:
    """What is asked of every combination; ``changed`` are the axes of the machine's fields."""

    axes: Axes
    graph: LayerGraph
    convention: str
    changed: tuple[str, ...]
    scale: bool
    asked: Mapping[str, Any]
    machines: dict[str, Machine] = field(default_factory=dict)

    def machine(self, chosen: Chosen, **more: Any) -> Machine:
        """Return the machine of a combination with further changes, which is loaded once."""
        changes = {**{name: chosen[name] for name in self.changed}, **more}
        key = f"{_key(chosen['hardware'])} {changes!r}"
        if key not in self.machines:
            self.machines[key] = load_machine(chosen["hardware"], changes)
        return self.machines[key]

    def run(self, chosen: Chosen) -> Run:
        """Return the answer to a combination; a machine that is too small for it may be scaled."""
        machine, node, array = self.machine(chosen), self._nodes(chosen), chosen.get("array")
        needed = math.prod(node.array) * (node.stages if isinstance(node.stages, int) else 1)
        scalable = not machine.groups and len(machine.tiers) == 1 and "devices" not in self.changed
        if self.scale and scalable and needed not in {1, machine.num_devices}:
            machine = self.machine(chosen, devices=needed)
        graph, asked = self.graph.with_batch(chosen["batch"]), _asked(chosen, self._of_array(array))
        if chosen.get("levels") == 0 and node.stages is None:
            found = _on_one_device(graph, machine, asked.get("optimizer", "sgd"))
            return Run(axes=chosen, totals=found, fits=found.fits, note="one device")
        asked = {**asked, "levels": chosen.get("levels"), "array": array}
        try:
            plan = plan_and_score(graph, chosen["strategy"], self.convention, machine, **asked)
        except HardwareError as error:
            if self.scale or not scalable or needed <= machine.num_devices:
                raise
            hint = "--scale gives it as many as the array needs"
            raise HardwareError(error.where, error.found, error.allowed, hint) from None
        return Run.of(chosen, plan, machine)

    def _nodes(self, chosen: Chosen) -> Resolved:
        names, both = ("stages", "starts", "parts", "schedule", "levels", "array"), {**self.asked, **chosen}
        return drafted(Request(**{name: both[name] for name in names if name in both}))

    def _of_array(self, array: Any) -> Mapping[str, Any]:
        """Return the arguments for an array: without those of stages where others have stages and it has none."""
        mixed = any(isinstance(ways, str) for own in self.axes.get("array", ()) for ways in own)
        left = OF_STAGES if mixed and not any(isinstance(ways, str) for ways in array) else ()
        return {name: value for name, value in self.asked.items() if name not in left}


def _on_one_device(graph: LayerGraph, machine: Machine, optimizer: str) -> Score:
    if machine.groups:
        found = "found one device, of kinds that differ"
        raise HardwareError(f"hardware {machine.name!r}", found, "1 level or more")
    setting = Setting(machine=machine, array=(), element_bytes=graph.element_bytes, optimizer=optimizer)
    lanes = [Lane(graph.contracted, [()] * len(graph.contracted.layers), setting)]
    return summarise(lanes, StepWork.of(lanes).run(), machine)
