"""Time: seconds of one training step on a machine, one task after another.

The transfers of a level take as long as the machine's links of that level say; computation is counted at the
innermost level, where the shards of every device are known. The sum over levels is the engine's time on a machine
without overlap whose levels reduce one after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.costs.base import Seconds, engine_rates, machine_setting
from hypar.machine.rates import computation

if TYPE_CHECKING:
    from hypar.costs.base import Cost, GroupRates, Items
    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanNode
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Time(Seconds):
    """Seconds of a step, with updates by ``optimizer``."""

    optimizer: str = "sgd"

    def work(self, level: Level, layer: PlanNode, options: Options, sizes: LocalSizes) -> Items:
        """Return the seconds of a device's computation, at the innermost level."""
        if not level.innermost:
            return {}
        setting = self.setting(level)
        if not setting.machine.times(layer.nest):
            return {}
        left = sizes.divided(layer.nest, options, level.ways)
        seconds = computation(setting, layer.nest, left)
        return {"compute": seconds.reshape(-1, len(options))}

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:
        """Return the seconds of a device group, whose devices all receive, and all compute, at the same time."""
        return engine_rates(group, element_bytes, self.optimizer)

    def setting(self, level: Level) -> Setting:
        """Return the machine at a level."""
        return machine_setting("time", self.machine, level, self.optimizer)


plugin: Cost = Time()
