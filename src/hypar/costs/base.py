"""The interface of costs: the price of an element that is received at a level, and the cost of a computation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from hypar.errors import OptionError
from hypar.machine.setting import Rates, Setting, group_seconds, time_rates
from hypar.registry import load_plugin
from hypar.sharding.conventions import PAPER
from hypar.sharding.placement import Choice, Options, dim_of
from hypar.units import exact_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypar.machine.machine import DeviceGroup, Machine
    from hypar.machine.profiles import Profile
    from hypar.network.nodes import PlanNode
    from hypar.sharding.placement import Level, LocalSizes
    from hypar.solve.edge import Costs

CONTEXT = ("machine", "optimizer", "profile", "convention")
"""Names of the fields that a cost may have besides its parameters."""

setting_of = lru_cache(maxsize=256)(Setting)


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
    """

    __slots__ = ()
    unit: ClassVar[str]
    counts_work: ClassVar[bool] = False
    slowest: ClassVar[bool] = False
    convention: str = PAPER

    @abstractmethod
    def rates(self, level: Level) -> tuple[Rates, Rates]:
        """Return the rates of an element received anywhere at a level: inside layers, and between two."""

    @abstractmethod
    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:
        """Return the rates of a device group of an uneven split.

        Raises:
            OptionError: the cost needs identical devices.
        """

    def compute(
        self,
        level: Level,  # noqa: ARG002
        layer: PlanNode,  # noqa: ARG002
        options: Options,  # noqa: ARG002
        sizes: LocalSizes,  # noqa: ARG002
    ) -> Costs | None:
        """Return the costs of a layer's computation, ``[tuples above, options]``, at the innermost level; None for nothing."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Time(Cost):
    """Seconds of a step on a machine, of which all devices receive, and all compute, at the same time.

    Attributes:
        machine: the machine that the step runs on.
        optimizer: the optimizer whose updates are counted.
        convention: the convention by which transfers are counted.
    """

    unit: ClassVar[str] = "seconds"
    counts_work: ClassVar[bool] = True
    slowest: ClassVar[bool] = True
    machine: Machine | None = None
    optimizer: str = "sgd"
    convention: str = PAPER

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
        return setting.layer_seconds(layer.nest, degrees).reshape(-1, len(options))

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
