"""The interface of costs: the price of an element that is received at a level, and the cost of a computation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from hypar.errors import OptionError
from hypar.machine.setting import Rates, Setting, group_seconds, time_rates
from hypar.network.nodes import Kept, PlanNode
from hypar.network.training import AS_USUAL, Training
from hypar.ops.nest import Nest
from hypar.registry import load_plugin
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import Choice, Level, LocalSizes, Options, dim_of
from hypar.solve.edge import Costs
from hypar.units import exact_number

if TYPE_CHECKING:
    from hypar.machine.machine import DeviceGroup, Machine
    from hypar.machine.profiles import Profile

CONTEXT = ("machine", "optimizer", "profile", "convention", "prices", "training")
"""Names of the fields that a cost may have besides its parameters."""

setting_of = lru_cache(maxsize=256)(Setting)


class Prices(NamedTuple):
    """What a second of each kind of work of a step counts for, and the seconds that a byte on a device does.

    Where transfers run beside computation the step is the longest path through it. Prices that are a mean of paths make a sum
    that is no longer than the step, whatever the plan; any others propose plans.

    Attributes:
        forward: transfers of the forward phase that the layer which runs next waits for.
        apart: those that only layers further on wait for.
        backward: transfers of errors.
        gradient: the exchange of gradients.
        last: that of the first layer, whose gradient comes last.
        update: the updates of all layers but the first.
        byte: a byte of weights, gradients and optimizer state on a device.
        saved: a byte of what layers save for the backward phase; several may save one tensor.
    """

    forward: float = 1.0
    apart: float = 1.0
    backward: float = 1.0
    gradient: float = 1.0
    last: float = 1.0
    update: float = 1.0
    byte: float = 0.0
    saved: float = 0.0

    def of(self, layer: int, *, near: bool) -> tuple[float, float, float]:
        """Return the prices of the forward transfers, errors and gradient of a layer, whose output the next one reads if it is ``near``."""
        forward = self.forward if near else self.apart
        return forward, self.backward, self.gradient if layer else self.last

    @property
    def first(self) -> Prices:
        """The prices of the first layer, whose update is the last of all, where its exchange counts."""
        return self._replace(update=1.0) if self.last else self


EVEN = Prices()
"""The prices that add up all seconds."""


class GroupRates(NamedTuple):
    """The cost rates of one device group of an uneven split.

    Attributes:
        inside: cost of each element that it receives inside a layer.
        between: cost of each element that it receives between two layers.
        once: cost of each transfer.
        work: cost of each floating-point operation.
        seconds: the time of a layer's computation if it is no multiple of the operations; None if it is.
    """

    inside: float
    between: float
    once: float = 0.0
    work: float = 0.0
    seconds: Callable[[PlanNode, Choice, float], float] | None = None

    def computing(self, layer: PlanNode, choice: Choice, share: float) -> float:
        """Return the cost of the computation of a group with a share of a layer."""
        if self.seconds is not None:
            return self.seconds(layer, choice, share)
        # Source: AccPar (HPCA 2020), ``E_cp``: the share times the operations of the whole layer.
        flop = sum(layer.nest.flop.values())
        return float(self.work * (flop * share if dim_of(choice) else flop))


class Cost(ABC):
    """The number that a search minimises, level by level: a frozen dataclass whose fields are its parameters.

    Attributes:
        unit: the unit of the sum.
        counts_work: whether computation is counted, so that more devices can be dearer or cheaper than fewer.
        slowest: whether an uneven split costs as much as its slowest device group, and not the sum of all.
        convention: the convention by which transfers are counted.
        prices: what each kind of work counts for.
    """

    __slots__ = ()
    unit: ClassVar[str]
    counts_work: ClassVar[bool] = False
    slowest: ClassVar[bool] = False
    convention: str = PAPER
    prices: Prices = EVEN

    @abstractmethod
    def rates(self, level: Level) -> tuple[Rates, Rates]:
        """Return the rates of an element received anywhere at a level: inside layers, and between two."""

    @abstractmethod
    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:
        """Return the rates of a device group of an uneven split.

        Raises:
            OptionError: the cost needs identical devices.
        """

    def at(self, prices: Prices) -> Self:
        """Return the cost with other prices, where it has any."""
        return self if prices == self.prices else replace(self, prices=prices)  # type: ignore[type-var]

    def compute(self, level: Level, layer: PlanNode, options: Options, sizes: LocalSizes) -> Costs | None:  # noqa: ARG002
        """Return the costs of a layer's computation, ``[tuples above, options]``, at the innermost level; None for nothing."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Time(Cost):
    """Seconds of a step on a machine, of which all devices receive, and all compute, at the same time.

    Attributes:
        machine: the machine that the step runs on.
        optimizer: the optimizer whose updates are counted.
        convention: the convention by which transfers are counted.
        prices: what each kind of work counts for, in a search by counts.
        training: how the step trains.
    """

    unit: ClassVar[str] = "seconds"
    counts_work: ClassVar[bool] = True
    slowest: ClassVar[bool] = True
    machine: Machine | None = None
    optimizer: str = "sgd"
    convention: str = PAPER
    prices: Prices = EVEN
    training: Training = AS_USUAL

    def rates(self, level: Level) -> tuple[Rates, Rates]:
        """Return the seconds of an element at the bandwidth of a device on the links of a level."""
        rates = time_rates(self.setting(level), level.index)
        return rates, rates

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:
        """Return the seconds of a device group, with those of the engine for its computation."""
        each, machine = element_bytes / (group.num_devices * group.bytes_per_s), group.machine
        rates = GroupRates(each, each, once=group.latency_s, work=1 / group.flop_per_s(element_bytes))
        if machine.groups:
            return rates
        setting = setting_of(machine=machine, array=(), element_bytes=element_bytes, optimizer=self.optimizer)

        def seconds(layer: PlanNode, choice: Choice, share: float) -> float:
            """Return the seconds of a device if all devices divide the group's part alike."""
            dim = dim_of(choice)
            if not machine.times(layer.nest) or (dim is not None and not share):
                return 0.0
            return group_seconds(setting, layer.nest, dim, share if dim else 1.0, group.num_devices)

        return rates._replace(seconds=seconds)

    def compute(self, level: Level, layer: PlanNode, options: Options, sizes: LocalSizes) -> Costs | None:
        """Return the seconds of a device's computation."""
        setting = self.setting(level)
        if not setting.machine.times(layer.nest):
            return None
        left = sizes.divided(layer.nest, options, level.ways)
        degrees = np.rint(1 / np.stack([left.of(dim) for dim in layer.nest.counted], axis=1)).astype(np.int64)
        seconds = setting.layer_seconds(layer.nest, degrees, self.prices.update)
        return seconds.reshape(-1, len(options))

    def held(self, level: Level, nest: Nest, options: Options, saved: Kept) -> Costs:
        """Return the seconds for which the bytes on a device count, ``[options]``, of options at a level of all devices.

        Args:
            level: the level.
            nest: the layer.
            options: its options.
            saved: what it saves for the backward phase.
        """
        from hypar.machine.work import fullest_share  # noqa: PLC0415 (only where the memory counts)

        formats, zero = self.setting(level).formats, self.training.zero
        degrees = np.array([[own.degree(dim) for own in options] for dim in nest.counted], np.int64)
        whole, kept = formats.whole(0, self.optimizer), formats.whole(zero, self.optimizer)
        sizes = {"input": formats.operand} if formats.operand and nest.weight else {}
        each = self.prices.saved / self.training.microbatches
        saves = ((name, each * part * sizes.get(name, formats.activation)) for name, part in saved)
        kinds = [("weight", self.prices.byte * kept), *saves]
        # What devices with the same piece of a weight share is as much on each device, whoever has it.
        shared = self.prices.byte * (whole - kept) * nest.elements("weight") / level.ways
        total = np.full(len(options), shared)
        for tensor, times in kinds:
            total = total + times * nest.elements(tensor) * fullest_share(nest, tuple(degrees), tensor)
        return total

    def setting(self, level: Level) -> Setting:
        """Return the machine at a level, with the settings of the step.

        Raises:
            OptionError: no machine is named.
        """
        if self.machine is None:
            name = type(self).__name__.lower()
            raise OptionError(f"cost {name!r}", "no machine is named", "one, as --hardware hmc")
        return setting_of(
            machine=self.machine,
            array=level.array,
            element_bytes=level.element_bytes,
            optimizer=self.optimizer,
            convention=self.convention,
            training=self.training,
        )


def load_cost(
    name: str, parameters: Mapping[str, float | str], context: Mapping[str, Any] | None = None
) -> Cost:
    """Load a cost by name and set some of its parameters, the fields of its dataclass.

    Args:
        name: the plug-in's name.
        parameters: numbers that a plan records.
        context: values of fields in ``CONTEXT``; a cost without such a field ignores the value.

    Raises:
        UnknownNameError: there is no such cost.
        OptionError: it has no such parameter, or refuses the value.
    """
    cost: Cost = load_plugin("costs", name)
    known = parameters_of(cost)
    for parameter in parameters:
        if parameter not in known:
            raise OptionError(f"cost {name!r}", f"has no parameter {parameter!r}", ", ".join(known) or "none")
    taken = {item.name for item in fields(cost)}  # type: ignore[arg-type]
    given = {**parameters, **{key: value for key, value in (context or {}).items() if key in taken}}
    return replace(cost, **given) if given else cost  # type: ignore[type-var]


def parameters_of(cost: Cost) -> dict[str, int | float | str]:
    """Return a cost's parameters and their values: its fields except those in ``CONTEXT``."""
    names = [item.name for item in fields(cost) if item.name not in CONTEXT]  # type: ignore[arg-type]
    values = {name: getattr(cost, name) for name in names}
    return {name: value if isinstance(value, str) else exact_number(value) for name, value in values.items()}


def measured(cost: Cost, layer: PlanNode) -> frozenset[tuple[str, float]]:
    """Return the measured times of a layer, which tell apart layers that are equal otherwise."""
    profile: Profile | None = getattr(cost, "profile", None)
    return frozenset() if profile is None else frozenset(profile.seconds.get(layer.name, {}).items())
