"""AccPar's time: operations at a device's speed and elements at its bandwidth.

Source: AccPar (HPCA 2020): ``E_cp = a C / c_i`` for the three phases of a layer, ``E_cm = A(T) / b_i``. At an uneven
split the slowest device group decides. At a level of identical devices shares are equal, and ``b_i`` is a device's
bandwidth on the machine's links of that level; computation is counted once, at the innermost level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hypar.costs.base import Cost, GroupRates, Time

if TYPE_CHECKING:
    from hypar.machine.machine import DeviceGroup
    from hypar.network.nodes import PlanNode
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class AccPar(Time):
    """Seconds of a step at the speed and at the bandwidth of a device."""

    def compute(self, level: Level, layer: PlanNode, options: Options, sizes: LocalSizes) -> Costs | None:
        """Return the seconds of a device's operations."""
        if not (layer.timed and self.machine is not None):
            return None
        own = sizes.divided(layer.nest, options, level.ways).fractions[:-1].prod(axis=0)
        flop = sum(layer.nest.flop.values())
        return np.asarray(flop / self.machine.flop_per_s(level.element_bytes) * own).reshape(-1, len(options))

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:
        """Return the seconds of a device group at its speed and its bandwidth."""
        return Time.group_rates(self, group, element_bytes)._replace(seconds=None)


plugin: Cost = AccPar()
