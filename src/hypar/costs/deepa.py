"""DeePa: seconds of transfers, computation and updates for layers that are cut in several dims at once.

Source: DeePa (2018), its cost model. In ``exact`` mode a device receives the data that it needs and does not hold: the
elements of F in its windows, the other devices' terms of E, the weight gradients of the other copies; all devices
receive at the same time. In ``serial`` mode the same bytes go one after another over one link, as the paper adds up its
estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hypar.costs.base import engine_rates, machine_setting
from hypar.errors import OptionError, suggestion
from hypar.machine.rates import computation, time_rates
from hypar.sharding.conventions import DIRECT
from hypar.sharding.rates import Rates

if TYPE_CHECKING:
    from hypar.costs.base import Cost, GroupRates, Items
    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanNode
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options

MODES = ("exact", "serial")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deepa:
    """Seconds of a step.

    Attributes:
        mode: ``exact`` or ``serial``.
        machine: the machine that the step runs on.
        optimizer: the optimizer whose updates are counted.
        profile: measured times of computation that replace the machine's.
    """

    unit: ClassVar[str] = "seconds"
    counts_work: ClassVar[bool] = True
    slowest: ClassVar[bool] = True
    convention: ClassVar[str] = DIRECT
    mode: str = "exact"
    machine: Machine | None = None
    optimizer: str = "sgd"
    profile: Profile | None = None

    def __post_init__(self) -> None:
        """Check the mode."""
        if self.mode not in MODES:
            published = "examples/papers/deepa_2018.py has the published estimates"
            hint = published if self.mode == "paper" else suggestion(str(self.mode), MODES)
            raise OptionError("mode", f"found {self.mode!r}", ", ".join(MODES), hint)

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:
        """Return the seconds of a device group: all its devices receive at once, or in ``serial`` mode one after another."""
        rates = engine_rates(group, element_bytes, self.optimizer)
        if self.mode == "exact":
            return rates
        return rates._replace(
            inside=element_bytes / group.bytes_per_s, between=element_bytes / group.bytes_per_s
        )

    def rates(self, level: Level) -> tuple[Rates, Rates]:
        """Return seconds of transfers: to all devices at once, or one after another, when no two share a port."""
        rates = time_rates(self._setting(level), level.index, shared=self.mode == "exact")
        if self.mode == "serial":
            lines = [
                line._replace(once=tuple([level.groups * each for each in line.once])) for line in rates.lines
            ]
            rates = Rates(tuple(lines))
        return rates, rates

    def work(self, level: Level, layer: PlanNode, options: Options, sizes: LocalSizes) -> Items:
        """Return measured or computed times of a device."""
        setting, shape = self._setting(level), (sizes.of("input").size, len(options))
        if self.profile is not None:
            seconds = [self.profile.of(layer.name, choice.as_degrees()) for choice in options]
            return {"compute": np.broadcast_to(np.array(seconds, dtype=np.float64), shape)}
        if not setting.machine.times(layer.nest):
            return {"compute": np.zeros(shape)}
        left = sizes.divided(layer.nest, options, level.ways)
        return {"compute": computation(setting, layer.nest, left).reshape(shape)}

    def _setting(self, level: Level) -> Setting:
        return machine_setting("deepa", self.machine, level, self.optimizer, direct=True)


plugin: Cost = Deepa()
