"""Sweeps: a network planned and scored for every combination of machines, arrays, batches and strategies."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypar.costs.base import load_cost
from hypar.errors import HardwareError, OptionError, TableLimitError
from hypar.machine.load import load_machine
from hypar.machine.machine import Machine
from hypar.machine.setting import Setting
from hypar.plan.request import Request, checked
from hypar.planning.checks.levels import checked_array
from hypar.planning.checks.stages import checked_nodes, has_stages, named_starts
from hypar.planning.refusals import refusal
from hypar.planning.resolved import BASELINE, of_baseline
from hypar.planning.strategies.base import load_strategy
from hypar.schedule.lanes import Lane
from hypar.schedule.scoring import summarise
from hypar.schedule.stages import StepWork
from hypar.sharding.conventions import MOVED
from hypar.studies.grid import (
    MOST_RUNS,
    Hardware,
    Run,
    Runs,
    combinations,
    grid,
    network_of,
    plan_and_score,
    totals_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hypar.network.graph import LayerGraph
    from hypar.studies.grid import Axes, Chosen, Totals

OF_STAGES = ("schedule", "microbatches", "parts", "balance")
"""The options of stages, which the arrays of a sweep that have none do without."""


class Sweep(Runs):
    """The runs of a sweep, the last axis fastest: hardware, its changes, batch, strategy, and levels or array.

    Attributes:
        model: the network's name.
        asked: the arguments of ``plan_model`` that all runs share, without those as by default.
    """

    model: str
    asked: Mapping[str, Any]

    @property
    def varied(self) -> tuple[str, ...]:
        """The axes that have more than one value."""
        return tuple(name for name in self[0].axes if len({_key(run.axes[name]) for run in self}) > 1)

    def base(self, run: Run) -> Run:
        """Return the first run of the same batch that has a plan."""
        alike = (one for one in self if one.totals and one.axes["batch"] == run.axes["batch"])
        return next(alike, run)

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
    progress: Callable[[int, int], None] = lambda *_: None,
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
        progress: a function that takes the number of finished combinations and the number of all.
        asked: further arguments of ``plan_model``, the same for every combination; as in ``compare_strategies``.

    Raises:
        InputError: the request cannot be met by any combination.
    """
    given = Request.of("sweep_model", asked).given()
    graph, counted = network_of(model), checked("convention", convention or MOVED)
    axes = {
        "hardware": _values(hardware),
        **{name: _values(values) for name, values in (changes or {}).items()},
        "batch": (graph.batch,) if batch is None else _values(batch) or (graph.batch,),
        "strategy": _values(strategy),
        **_arrays(levels, array),
    }
    _check(axes, asked)
    ask = _Ask(axes, graph, counted, tuple(changes or ()), scale, asked)
    for chosen in combinations({name: axes[name] for name in ("hardware", *ask.changed)}):
        ask.machine(chosen)
    runs = grid(axes, ask.run, (HardwareError, OptionError, TableLimitError), progress)
    if all(run.refused for run in runs) and isinstance(runs[0].refused, OptionError):
        raise runs[0].refused
    return Sweep(runs, counted, model=graph.name, asked=given)


def _values(given: Any) -> tuple[Any, ...]:
    """Return the distinct values of an axis; a single value is an axis of one."""
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
        raise refusal("levels", "an array")
    one = all(isinstance(ways, int | str) for ways in array)
    return {"array": _values([tuple(array)] if one and array else [tuple(ways) for ways in array])}  # type: ignore[arg-type]


def _check(axes: Axes, asked: Mapping[str, Any]) -> None:
    """Refuse values that no combination allows, before the first one runs; those of one device are not planned."""
    number = math.prod(map(len, axes.values()))
    if not 0 < number <= MOST_RUNS:
        found = f"{number:,} combinations" if number else "nothing"
        raise OptionError("sweep", f"found {found}", f"1 to {MOST_RUNS:,} combinations")
    for count in axes.get("levels", ()):
        checked_array(count, None, stages=True)
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
        machine, needed = self.machine(chosen), self._devices(chosen)
        scalable = not machine.groups and len(machine.tiers) == 1 and "devices" not in self.changed
        if self.scale and scalable and needed not in {1, machine.num_devices}:
            machine = self.machine(chosen, devices=needed)
        try:
            return self._run_on(machine, chosen)
        except HardwareError as error:
            if self.scale or not scalable or needed <= machine.num_devices:
                raise
            hint = "--scale gives it as many as the array needs"
            raise HardwareError(error.where, error.found, error.allowed, hint) from None

    def _run_on(self, machine: Machine, chosen: Chosen) -> Run:
        levels, array, strategy = chosen.get("levels"), chosen.get("array"), chosen["strategy"]
        graph, asked = self.graph.with_batch(chosen["batch"]), self._of_array(array)
        asked = of_baseline(asked) if strategy == BASELINE else asked
        if levels == 0 and not has_stages(*self._stages, cut=False):
            found = _on_one_device(graph, machine, asked.get("optimizer", "sgd"))
            return Run(axes=chosen, totals=found, fits=machine.fits(found.memory_bytes), note="one device")
        plan = plan_and_score(
            graph, strategy, self.convention, machine, **{**asked, "levels": levels, "array": array}
        )
        return Run.of(chosen, plan, machine)

    @property
    def _stages(self) -> tuple[int | str | None, str | Sequence[str] | None]:
        return self.asked.get("stages"), self.asked.get("starts")

    def _of_array(self, array: Any) -> Mapping[str, Any]:
        """Return the arguments for an array: without those of stages where others have stages and it has none."""
        mixed = any(isinstance(ways, str) for own in self.axes.get("array", ()) for ways in own)
        left = OF_STAGES if mixed and checked_nodes(array, None).stages is None else ()
        return {name: value for name, value in self.asked.items() if name not in left}

    def _devices(self, chosen: Chosen) -> int:
        """Return the devices of an array and its stages, each of which has an array of its own."""
        nodes = checked_nodes(chosen.get("array", (2,) * chosen.get("levels", 0)), None)
        stages, starts = self._stages
        number = len(named_starts(starts)) if starts else nodes.stages or stages
        return (number if isinstance(number, int) else 1) * math.prod(nodes.array or ())


def _on_one_device(graph: LayerGraph, machine: Machine, optimizer: str) -> Totals:
    if machine.groups:
        found = "found one device, of kinds that differ"
        raise HardwareError(f"hardware {machine.name!r}", found, "1 level or more")
    setting = Setting(machine=machine, array=(), element_bytes=graph.element_bytes, optimizer=optimizer)
    lanes = [Lane(graph.contracted, [()] * len(graph.contracted.layers), setting)]
    return totals_of(summarise(lanes, StepWork.of(lanes).run(), machine))
