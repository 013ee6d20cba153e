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

from hypar.costs.base import Cost, GroupRates, Time
from hypar.errors import OptionError, suggestion
from hypar.machine.setting import Rates, time_rates
from hypar.sharding.conventions import DIRECT

if TYPE_CHECKING:
    from hypar.machine.machine import DeviceGroup
    from hypar.machine.profiles import Profile
    from hypar.network.nodes import PlanNode
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs

MODES = ("exact", "serial")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deepa(Time):
    """Seconds of a step.

    Attributes:
        mode: ``exact`` or ``serial``.
        profile: measured times of computation that replace the machine's.
    """

    convention: ClassVar[str] = DIRECT  # type: ignore[misc]
    mode: str = "exact"
    profile: Profile | None = None

    def __post_init__(self) -> None:
        """Check the mode."""
        if self.mode not in MODES:
            published = "examples/papers/deepa_2018.py has the published estimates"
            hint = published if self.mode == "paper" else suggestion(str(self.mode), MODES)
            raise OptionError("mode", f"found {self.mode!r}", ", ".join(MODES), hint)

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:
        """Return the seconds of a device group: all its devices receive at once, or in ``serial`` mode one after another."""
        rates = Time.group_rates(self, group, element_bytes)
        if self.mode == "exact":
            return rates
        each = element_bytes / group.bytes_per_s
        return rates._replace(inside=each, between=each)

    def rates(self, level: Level) -> tuple[Rates, Rates]:
        """Return seconds of transfers: to all devices at once, or one after another, when no two share a port."""
        rates = time_rates(self.setting(level), level.index, shared=self.mode == "exact")
        if self.mode == "serial":
            lines = [
                line._replace(once=tuple([level.groups * each for each in line.once])) for line in rates.lines
            ]
            rates = Rates(tuple(lines))
        return rates, rates

    def compute(self, level: Level, layer: PlanNode, options: Options, sizes: LocalSizes) -> Costs | None:
        """Return measured or computed times of a device."""
        if self.profile is None:
            return Time.compute(self, level, layer, options, sizes)
        seconds = [self.profile.of(layer.name, dict(choice.degrees)) for choice in options]
        shape = (sizes.fractions.shape[1], len(options))
        return np.broadcast_to(np.array(seconds, dtype=np.float64), shape)


plugin: Cost = Deepa()
