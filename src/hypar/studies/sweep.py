"""Sweeps: a model planned and scored for every combination of arrays, batches, strategies and machines."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hypar.costs.base import load_cost
from hypar.errors import HardwareError, OptionError, TableLimitError
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.load_heterogeneous import as_hardware
from hypar.machine.machine import Machine
from hypar.machine.setting import Setting
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.plan.request import Request, checked
from hypar.plan.score import Totals, totals_of
from hypar.planning.checks.levels import checked_array
from hypar.planning.checks.stages import checked_nodes, has_stages, named_starts
from hypar.planning.refusals import refusal
from hypar.planning.resolved import BASELINE, of_baseline
from hypar.planning.strategies.base import load_strategy
from hypar.results import Result
from hypar.schedule.scoring import totals
from hypar.sharding.conventions import MOVED
from hypar.sharding.tree import MOST_DEVICES
from hypar.studies.counted import convention_for, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Hardware = Machine | HeterogeneousMachine | str | Path
"""A machine, or the name of one."""

MOST_RUNS = 10_000
"""The largest number of combinations of a sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A combination of a sweep.

    Attributes:
        axes: the values set, by name: hardware, its changes, batch, strategy, and levels or the array.
        totals: the totals of its score; None if the search or the array would not fit.
        fits: whether the search's tables, the array on the machine and each device's memory suffice.
        note: why it has no totals, or the space over which the plan is optimal.
    """

    axes: Mapping[str, Any]
    totals: Totals | None
    fits: bool
    note: str


class Sweep(Result, tuple[Run, ...]):  # noqa: SLOT001 (a tuple with an attribute cannot have slots)
    """The runs of a sweep, the last axis fastest.

    Attributes:
        model: the network's name.
        convention: the convention by which every run is counted.
        asked: the arguments of ``plan_model`` that all runs share.
    """

    _view: ClassVar[str] = "sweep"
    model: str
    convention: str
    asked: Mapping[str, Any]

    def __new__(
        cls,
        runs: Iterable[Run] = (),
        model: str = "",
        convention: str = MOVED,
        asked: Mapping[str, Any] | None = None,
    ) -> Self:
        """Make a sweep of some runs."""
        made = super().__new__(cls, runs)
        made.model, made.convention, made.asked = model, convention, {} if asked is None else asked
        return made

    @property
    def cost(self) -> str | None:
        """Return the cost that every strategy minimises; None if each minimises its own."""
        return self.asked.get("cost")

    def __repr__(self) -> str:
        """Return the network, the number of runs and the axes that vary, short enough for a prompt."""
        return (
            f"<Sweep of {self.model}: {len(self)} runs over {', '.join(varied(self)) or 'one combination'}>"
        )


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
    not fit has a note with the reason instead of totals.

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

    Returns:
        One run for each combination, the last axis fastest: hardware, changes, batch, strategy, levels or array.

    Raises:
        InputError: the request cannot be met by any combination.
    """
    Request.of("sweep_model", asked)
    graph = model if isinstance(model, LayerGraph) else load_model(model)
    axes: dict[str, Sequence[Any]] = {
        "hardware": _values(hardware),
        **{name: _values(values) for name, values in (changes or {}).items()},
        "batch": (graph.batch,) if batch is None else _values(batch) or (graph.batch,),
        "strategy": _values(strategy),
        **_arrays(levels, array),
    }
    _check(axes, asked)
    graphs = {samples: graph.with_batch(samples) for samples in axes["batch"]}
    combinations = list(itertools.islice(itertools.product(*axes.values()), MOST_RUNS + 1))
    if not 0 < len(combinations) <= MOST_RUNS:
        found = "nothing" if not combinations else f"more than {MOST_RUNS:,} combinations"
        raise OptionError("sweep", f"found {found}", f"1 to {MOST_RUNS:,} combinations")
    every = [dict(zip(axes, values, strict=True)) for values in combinations]
    machines = _Machines(tuple(changes or ()), _stages(asked))
    for chosen in every:
        machines.of(chosen)
    counted = convention_for(convention)
    runs, refused = [], []
    for chosen in every:
        try:
            machine = machines.scaled(chosen) if scale else machines.of(chosen)
            runs.append(_run(graphs[chosen["batch"]], machine, chosen, counted, asked))
        except (HardwareError, OptionError, TableLimitError) as error:
            refused.append(error)
            runs.append(Run(axes=chosen, totals=None, fits=False, note=str(error)))
        progress(len(runs), len(every))
    if len(refused) == len(runs) and isinstance(refused[0], OptionError):
        raise refused[0]
    return Sweep(runs, graph.name, counted, asked)


def _values(given: Any) -> tuple[Any, ...]:
    """Return the distinct values of an axis; a single value is an axis of one."""
    several = isinstance(given, Iterable) and not isinstance(given, str | dict)
    found: dict[str, Any] = {}
    for value in given if several else [given]:
        found.setdefault(_key(value), value)
    return tuple(found.values())


def _arrays(
    levels: int | Sequence[int] | None, array: Sequence[int | str] | Sequence[Sequence[int | str]] | None
) -> dict[str, Sequence[Any]]:
    """Return the axis of the arrays: of numbers of two-way levels, or of the ways of all levels."""
    if array is None:
        return {"levels": _values(4 if levels is None else levels)}
    if levels is not None:
        raise refusal("levels", "an array")
    one = all(isinstance(ways, int | str) for ways in array)
    return {"array": _values([tuple(array)] if one and array else [tuple(ways) for ways in array])}  # type: ignore[arg-type]


def _key(value: Any) -> str:
    """Return a key that identifies a value of an axis; for machines their digest, as several may have one name."""
    return value.digest if isinstance(value, Machine | HeterogeneousMachine) else repr(value)


def _stages(asked: Mapping[str, Any]) -> int:
    """Return the number of stages, each of which has an array of its own."""
    stages, starts = asked.get("stages"), asked.get("starts")
    if starts:
        return len(named_starts(starts))
    return stages if isinstance(stages, int) else 1


def _check(axes: Mapping[str, Sequence[Any]], asked: Mapping[str, Any]) -> None:
    """Refuse values that no combination allows, before the first one runs."""
    checked("optimizer", asked.get("optimizer", "sgd"))
    most = MOST_DEVICES.bit_length() - 1
    for count in axes.get("levels", ()):
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= most:
            raise OptionError("levels", f"found {count}", f"a whole number from 0 to {most}")
    for ways in axes.get("array", ()):
        nodes = checked_nodes(ways, None)
        checked_array(None, nodes.array, stages=nodes.stages is not None)
    for name in axes["strategy"]:
        own, cost, weight = load_strategy(name).cost, asked.get("cost"), asked.get("inter_weight")
        load_cost(own if cost is None else cost, {} if weight is None else {"inter_weight": weight})


def _run(
    graph: LayerGraph,
    machine: Machine | HeterogeneousMachine,
    chosen: Mapping[str, Any],
    convention: str,
    asked: Mapping[str, Any],
) -> Run:
    """Plan and score one combination."""
    levels = chosen.get("levels")
    if levels == 0 and not has_stages(asked.get("stages"), asked.get("starts"), cut=False):
        found = _on_one_device(graph, machine, asked.get("optimizer", "sgd"))
        fits = machine.fits(found.memory_bytes)  # type: ignore[union-attr]
        return Run(axes=chosen, totals=found, fits=fits, note="one device")
    given = of_baseline(asked) if chosen["strategy"] == BASELINE else asked
    plan = planned(
        graph,
        chosen["strategy"],
        convention,
        hardware=machine,
        levels=levels,
        array=chosen.get("array"),
        **given,
    )
    fits = plan.score is not None and plan.score.fits
    return Run(axes=chosen, totals=totals_of(plan.score), fits=fits, note=plan.claim)


def _on_one_device(graph: LayerGraph, machine: Machine | HeterogeneousMachine, optimizer: str) -> Totals:
    """Return the totals of a step on one device.

    Raises:
        HardwareError: the devices differ.
    """
    if isinstance(machine, HeterogeneousMachine):
        raise HardwareError(
            f"hardware {machine.name!r}", "found one device, of kinds that differ", "1 level or more"
        )
    setting = Setting(machine=machine, array=(), element_bytes=graph.element_bytes, optimizer=optimizer)
    layers = graph.contracted
    return totals(layers, [()] * len(layers.layers), setting)


class _Machines:
    """All machines of a sweep, each loaded once.

    Attributes:
        changed: the axes that change a machine.
        stages: the number of stages, each of which has an array of its own.
    """

    def __init__(self, changed: Sequence[str], stages: int) -> None:
        self.changed, self.stages = changed, stages
        self._known: dict[str, Machine | HeterogeneousMachine] = {}

    def of(self, chosen: Mapping[str, Any], **more: Any) -> Machine | HeterogeneousMachine:
        """Return the machine of a combination, with further changes.

        Raises:
            InputError: its file or a change is wrong.
        """
        changes = {**{name: chosen[name] for name in self.changed}, **more}
        key = f"{_key(chosen['hardware'])} {changes!r}"
        if key not in self._known:
            self._known[key] = as_hardware(chosen["hardware"], changes)
        return self._known[key]

    def scaled(self, chosen: Mapping[str, Any]) -> Machine | HeterogeneousMachine:
        """Return the same machine with as many devices as the array and the stages need, if it has one network."""
        nodes = checked_nodes((2,) * chosen["levels"] if "levels" in chosen else chosen["array"], None)
        stages = nodes.stages if isinstance(nodes.stages, int) else self.stages
        machine, needed = self.of(chosen), stages * math.prod(nodes.array or ())
        if isinstance(machine, HeterogeneousMachine) or len(machine.tiers) != 1:
            return machine
        if "devices" in self.changed or needed in {1, machine.num_devices}:
            return machine
        return self.of(chosen, devices=needed)


def varied(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the axes that have more than one value."""
    for name in runs[0].axes:
        if len({_key(run.axes[name]) for run in runs}) > 1:
            yield name
