"""Sweeps: a model planned and scored for every combination of levels, batches, strategies and machines."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from hypar.costs.base import load_cost
from hypar.errors import HardwareError, OptionError, TableLimitError
from hypar.machine.load import as_machine
from hypar.machine.machine import Machine
from hypar.machine.setting import Setting
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.plan.plan import MOST_DEVICES
from hypar.plan.score import Totals, totals_of
from hypar.planning.request import checked_optimizer
from hypar.planning.strategies.base import load_strategy
from hypar.results import Result
from hypar.schedule.scoring import totals
from hypar.sharding.conventions import MOVED
from hypar.studies.counted import convention_for, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

MOST_RUNS = 10_000
"""The largest number of combinations of a sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A combination of a sweep.

    Attributes:
        axes: the values set, by name: hardware, its changes, batch, strategy, levels.
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
        cost: the cost that every strategy minimises; None if each minimises its own.
    """

    _view: ClassVar[str] = "sweep"
    model: str
    convention: str
    cost: str | None

    def __new__(
        cls, runs: Iterable[Run] = (), model: str = "", convention: str = MOVED, cost: str | None = None
    ) -> Self:
        """Make a sweep of some runs."""
        made = super().__new__(cls, runs)
        made.model, made.convention, made.cost = model, convention, cost
        return made

    def __repr__(self) -> str:
        """Return the network, the number of runs and the axes that vary, short enough for a prompt."""
        return (
            f"<Sweep of {self.model}: {len(self)} runs over {', '.join(varied(self)) or 'one combination'}>"
        )


def sweep_model(
    model: LayerGraph | str | Path,
    *,
    hardware: Machine | str | Path | Sequence[Machine | str | Path],
    levels: int | Sequence[int] = 4,
    batch: int | Sequence[int] = (),
    strategy: str | Sequence[str] = "hypar",
    cost: str | None = None,
    changes: Mapping[str, Any] | None = None,
    inter_weight: float | None = None,
    optimizer: str = "sgd",
    scale: bool = False,
    convention: str | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Sweep:
    """Plan and score a network for every combination of the given values.

    Zero levels mean one device. An array smaller than its machine uses some of its devices; a combination that does
    not fit has a note with the reason instead of totals.

    Args:
        model: a network, the path of a model file, or a bare name.
        hardware: machines, hardware files or bare names.
        levels: numbers of two-way levels.
        batch: samples in a mini-batch; the model's own number if none is given.
        strategy: names of strategies.
        cost: a cost that every strategy minimises within its own space and search, in place of its own.
        changes: values for some fields of the machine, as ``{"duplex": ["full", "half"]}``.
        inter_weight: weight of the communication between layers in the cost, 1 if not given.
        optimizer: ``sgd``, ``momentum`` or ``adam``.
        scale: whether a machine with one network gets as many devices as the levels need, so that these share
            whatever its devices share.
        convention: how bytes and seconds of all runs are counted: ``moved`` if it is not given, ``paper`` or ``fused``.
        progress: a function that takes the number of finished combinations and the number of all.

    Returns:
        One run for each combination, the last axis fastest: hardware, changes, batch, strategy, levels.

    Raises:
        InputError: the request cannot be met.
    """
    graph = model if isinstance(model, LayerGraph) else load_model(model)
    axes: dict[str, Sequence[Any]] = {
        "hardware": _values(hardware),
        **{name: _values(values) for name, values in (changes or {}).items()},
        "batch": _values(batch) or (graph.batch,),
        "strategy": _values(strategy),
        "levels": _values(levels),
    }
    _check(axes, cost, inter_weight, optimizer)
    graphs = {samples: graph.with_batch(samples) for samples in axes["batch"]}
    combinations = list(itertools.islice(itertools.product(*axes.values()), MOST_RUNS + 1))
    if not 0 < len(combinations) <= MOST_RUNS:
        found = "nothing" if not combinations else f"more than {MOST_RUNS:,} combinations"
        raise OptionError("sweep", f"found {found}", f"1 to {MOST_RUNS:,} combinations")
    every = [dict(zip(axes, values, strict=True)) for values in combinations]
    machines = _Machines(tuple(changes or ()))
    for chosen in every:
        machines.of(chosen)
    fixed = _Fixed(cost, inter_weight, optimizer, scale, convention_for(convention))
    runs = []
    for chosen in every:
        runs.append(_run(graphs[chosen["batch"]], machines, chosen, fixed))
        progress(len(runs), len(every))
    return Sweep(runs, graph.name, fixed.convention, cost)


class _Fixed(NamedTuple):
    """Values that all combinations share."""

    cost: str | None
    inter_weight: float | None
    optimizer: str
    scale: bool
    convention: str


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


def _check(
    axes: Mapping[str, Sequence[Any]], cost: str | None, inter_weight: float | None, optimizer: str
) -> None:
    """Refuse values that no combination allows, before the first one runs."""
    checked_optimizer(optimizer)
    most = MOST_DEVICES.bit_length() - 1
    for count in axes["levels"]:
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= most:
            raise OptionError("levels", f"found {count}", f"a whole number from 0 to {most}")
    for name in axes["strategy"]:
        own = load_strategy(name).cost
        load_cost(
            own if cost is None else cost, {} if inter_weight is None else {"inter_weight": inter_weight}
        )


def _run(graph: LayerGraph, machines: _Machines, chosen: Mapping[str, Any], fixed: _Fixed) -> Run:
    """Plan and score one combination."""
    try:
        machine = machines.scaled(chosen) if fixed.scale else machines.of(chosen)
        found = _totals(graph, machine, chosen, fixed)
    except (HardwareError, TableLimitError) as error:
        return Run(axes=chosen, totals=None, fits=False, note=str(error))
    return Run(axes=chosen, totals=found[0], fits=machine.fits(found[0].memory_bytes), note=found[1])


def _totals(
    graph: LayerGraph, machine: Machine, chosen: Mapping[str, Any], fixed: _Fixed
) -> tuple[Totals, str]:
    """Return the totals of the plan's score, and the space over which the plan is optimal."""
    setting = Setting(machine=machine, array=(), element_bytes=graph.element_bytes, optimizer=fixed.optimizer)
    if not chosen["levels"]:
        layers = graph.contracted
        return totals(layers, [()] * len(layers.layers), setting), "one device"
    plan = planned(
        graph,
        chosen["strategy"],
        fixed.convention,
        cost=fixed.cost,
        levels=chosen["levels"],
        inter_weight=fixed.inter_weight,
        hardware=machine,
        optimizer=fixed.optimizer,
    )
    return totals_of(plan.score), plan.claim


class _Machines:
    """All machines of a sweep, each loaded once.

    Attributes:
        changed: the axes that change a machine.
    """

    def __init__(self, changed: Sequence[str]) -> None:
        self.changed = changed
        self._known: dict[str, Machine] = {}

    def of(self, chosen: Mapping[str, Any], **more: Any) -> Machine:
        """Return the machine of a combination, with further changes.

        Raises:
            InputError: its file or a change is wrong.
        """
        changes = {**{name: chosen[name] for name in self.changed}, **more}
        key = f"{_key(chosen['hardware'])} {changes!r}"
        if key not in self._known:
            self._known[key] = as_machine(chosen["hardware"], changes)
        return self._known[key]

    def scaled(self, chosen: Mapping[str, Any]) -> Machine:
        """Return the same machine with as many devices as the levels need, if it has one network."""
        machine, needed = self.of(chosen), 2 ** chosen["levels"]
        if len(machine.tiers) != 1 or "devices" in self.changed or needed in {1, machine.num_devices}:
            return machine
        return self.of(chosen, devices=needed)


def varied(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the axes that have more than one value."""
    for name in runs[0].axes:
        if len({_key(run.axes[name]) for run in runs}) > 1:
            yield name
