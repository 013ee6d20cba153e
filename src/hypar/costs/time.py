"""Time: seconds of one training step on a machine, one task after another.

The transfers of a level take as long as the machine's links of that level say; computation is counted at the
innermost level, where the shards of every device are known. The sum over levels is the engine's time on a machine
without overlap whose levels reduce one after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hypar.costs.base import engine_rates, machine_setting
from hypar.machine.rates import computation, time_rates
from hypar.sharding.conventions import PAPER, require_convention
from hypar.sharding.rates import between_costs, inside_costs

if TYPE_CHECKING:
    from hypar.costs.base import Cost, GroupRates, Items
    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.machine.machine import Machine
    from hypar.machine.setting import Setting
    from hypar.network.contraction import CutLayer, Tensor
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.sharding.rates import Rates
    from hypar.solve.edge import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """Seconds of a step.

    Attributes:
        machine: the machine that the step runs on.
        optimizer: the optimizer whose updates are counted.
        convention: the convention by which transfers are counted, one of ``BY_LEVELS``.
    """

    unit: ClassVar[str] = "seconds"
    counts_work: ClassVar[bool] = True
    direct: ClassVar[bool] = False
    slowest: ClassVar[bool] = True
    machine: Machine | None = None
    optimizer: str = "sgd"
    convention: str = PAPER

    def __post_init__(self) -> None:
        """Check the convention."""
        require_convention(self.convention)

    def layer_costs(self, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes) -> Items:
        """Return the cost of adding up partial sums and, at the innermost level, of a device's computation."""
        return {
            **self.inside(level, layer, options, sizes),
            **self.work(level, layer, options, sizes),
        }

    def inside(self, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes) -> Items:
        """Return the seconds of adding up partial sums."""
        return inside_costs(layer, options, sizes, level.ways, self.rates(level)[0])

    def rates(self, level: Level) -> tuple[Rates, Rates]:
        """Return the seconds of an element on the links of a level."""
        rates = time_rates(self._setting(level), level.index)
        return rates, rates

    def work(self, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes) -> Items:
        """Return the seconds of a device's computation, at the innermost level."""
        if not level.innermost:
            return {}
        setting = self._setting(level)
        if not setting.machine.times(layer.einsum):
            return {}
        left = sizes.divided(layer.einsum, options, level.ways)
        seconds = computation(setting, layer.einsum, left)
        return {"compute": seconds.reshape(-1, len(options))}

    def tensor_costs(
        self,
        level: Level,
        tensor: Tensor,
        ends: tuple[CutLayer, CutLayer],
        options: tuple[Options, Options],
        sizes: LocalSizes,
    ) -> Costs:
        """Return the cost of F from producer to consumer and of E from consumer to producer."""
        return between_costs(tensor, ends, options, sizes, level.ways, self.rates(level)[1])

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:
        """Return the seconds of a device group, whose devices all receive, and all compute, at the same time."""
        return engine_rates(group, element_bytes, self.optimizer)

    def _setting(self, level: Level) -> Setting:
        return machine_setting("time", self.machine, level, self.optimizer)


plugin: Cost = Time()
