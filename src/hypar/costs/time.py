"""Time: seconds of one training step on a machine, one task after another.

The transfers of a level take as long as the machine's links of that level say; computation is counted at the
innermost level, where the shards of every device are known. The sum over levels is the engine's time on a machine
without overlap whose levels reduce one after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from hypar.costs.base import Cost, GroupRates
from hypar.errors import OptionError
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.rates import computation, group_seconds, time_rates
from hypar.machine.setting import Setting
from hypar.sharding.conventions import DIRECT, PAPER, require_convention
from hypar.sharding.placement import dim_of

if TYPE_CHECKING:
    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.machine.machine import Machine
    from hypar.network.nodes import PlanNode
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Choice, Options
    from hypar.sharding.rates import Rates
    from hypar.solve.edge import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds(Cost):
    """Seconds of a step on a machine, of which all devices receive, and all compute, at the same time.

    Attributes:
        machine: the machine that the step runs on.
        optimizer: the optimizer whose updates are counted.
    """

    unit: ClassVar[str] = "seconds"
    counts_work: ClassVar[bool] = True
    slowest: ClassVar[bool] = True
    machine: Machine | None = None
    optimizer: str = "sgd"

    def rates(self, level: Level) -> tuple[Rates, Rates]:
        """Return the seconds of an element at the bandwidth of a device on the links of a level."""
        rates = time_rates(self.setting(level), level.index)
        return rates, rates

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:
        """Return the seconds of a device group, with those of the engine for its computation."""
        each, machine = element_bytes / (group.num_devices * group.bytes_per_s), group.machine
        rates = GroupRates(each, each, once=group.latency_s, work=1 / group.flop_per_s)
        if isinstance(machine, HeterogeneousMachine):
            return rates
        setting = _setting(machine, (), element_bytes, self.optimizer, direct=False)

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
        return computation(setting, layer.nest, left).reshape(-1, len(options))

    def setting(self, level: Level) -> Setting:
        """Return the machine at a level, with the settings of the step.

        Raises:
            OptionError: no machine is named.
        """
        if self.machine is None:
            name = type(self).__name__.lower()
            raise OptionError(f"cost {name!r}", "no machine is named", "one, as --hardware hmc")
        direct = self.convention == DIRECT
        return _setting(self.machine, level.array, level.element_bytes, self.optimizer, direct=direct)


@lru_cache(maxsize=256)
def _setting(
    machine: Machine, array: tuple[int, ...], element_bytes: int, optimizer: str, *, direct: bool
) -> Setting:
    return Setting(
        machine=machine, array=array, element_bytes=element_bytes, optimizer=optimizer, direct=direct
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Time(Seconds):
    """Seconds of a step, as the engine counts them.

    Attributes:
        convention: the convention by which transfers are counted, one of ``BY_LEVELS``.
    """

    convention: str = PAPER

    def __post_init__(self) -> None:
        """Check the convention."""
        require_convention(self.convention)


plugin: Cost = Time()
