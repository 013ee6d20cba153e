"""DeePa: seconds of transfers, computation and updates for layers that are cut in several dims at once.

Source: DeePa (2018), its cost model. In ``exact`` mode a device receives the data that it needs and does not hold: the
elements of F in its windows, the other devices' terms of E, the weight gradients of the other copies; all devices
receive at the same time. In ``serial`` mode the same bytes go one after another over one link, as the paper adds up its
estimates. ``paper`` mode takes the paper's estimates: a tensor that changes its grid is sent whole to each of the
consumer's ``c`` shards, a weight with R copies is sent R times, and work is divided by the number of devices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hypar.costs.base import engine_rates, machine_setting
from hypar.errors import OptionError, suggestion
from hypar.machine.rates import computation, time_rates
from hypar.sharding.rates import between_costs, inside_costs

if TYPE_CHECKING:
    from hypar.costs.base import Cost, GroupRates, Items
    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.machine.machine import Machine
    from hypar.machine.profiles import Profile
    from hypar.machine.setting import Setting
    from hypar.network.contraction import CutLayer, Tensor
    from hypar.sharding.levels import Level, LocalSizes
    from hypar.sharding.placement import Choice, Options
    from hypar.sharding.rates import Rates
    from hypar.solve.edge import Costs

MODES = ("exact", "serial", "paper")
CHANNELS = ("out_channels", "channels", "groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deepa:
    """Seconds of a step.

    Attributes:
        mode: ``exact``, ``serial``, or ``paper`` for the published estimates.
        machine: the machine that the step runs on.
        optimizer: the optimizer whose updates are counted.
        profile: measured times of computation that replace the machine's.
    """

    unit: ClassVar[str] = "seconds"
    counts_work: ClassVar[bool] = True
    slowest: ClassVar[bool] = True
    mode: str = "exact"
    machine: Machine | None = None
    optimizer: str = "sgd"
    profile: Profile | None = None

    def __post_init__(self) -> None:
        """Check the mode."""
        if self.mode not in MODES:
            hint = suggestion(str(self.mode), MODES)
            raise OptionError("mode", f"found {self.mode!r}", ", ".join(MODES), hint)

    @property
    def direct(self) -> bool:
        """Return whether the terms of E go straight to their readers, which they do except in paper mode."""
        return self.mode != "paper"

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:
        """Return the seconds of a device group: all its devices receive at once, or in ``serial`` mode one after another.

        Raises:
            OptionError: the mode is ``paper``, whose estimates are of one level.
        """
        if self.mode == "paper":
            raise OptionError(
                "mode 'paper'", "found heterogeneous devices", "identical devices, or mode exact"
            )
        rates = engine_rates(group, element_bytes, self.optimizer)
        if self.mode == "exact":
            return rates
        return rates._replace(
            inside=element_bytes / group.bytes_per_s, between=element_bytes / group.bytes_per_s
        )

    def layer_costs(self, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes) -> Items:
        """Return seconds of computation and of the exchange of gradients; except in paper mode also of partial sums."""
        setting = self._setting(level)
        found: dict[str, Costs] = {}
        if self.direct:
            items = inside_costs(layer, options, sizes, level.ways, self._rates(setting, level))
            found |= {name: self._of_groups(costs, level, sizes) for name, costs in items.items()}
        else:
            weight_s = _element_seconds(setting, level) * layer.einsum.elements("weight") * sizes.of("weight")
            copies = np.array([update_copies(layer, choice) for choice in options])
            found["update"] = weight_s[:, None] * copies
        if level.innermost:
            found["compute"] = self._computation(setting, level, layer, options, sizes)
        return found

    def tensor_costs(
        self,
        level: Level,
        tensor: Tensor,
        ends: tuple[CutLayer, CutLayer],
        options: tuple[Options, Options],
        sizes: LocalSizes,
    ) -> Costs:
        """Return seconds of F and E; in paper mode the whole tensor for each shard of the consumer's channels."""
        setting = self._setting(level)
        if self.direct:
            costs = between_costs(tensor, ends, options, sizes, level.ways, self._rates(setting, level))
            return self._of_groups(costs, level, sizes)
        whole_s = _element_seconds(setting, level) * tensor.elements * sizes.of("input")
        return _transfers(options)[:, None, :] * whole_s[:, None]

    def _rates(self, setting: Setting, level: Level) -> Rates:
        """Return seconds of transfers: to all devices at once, or one after another, when no two share a port."""
        together = self.mode == "exact"
        return time_rates(setting, level.index, shared=together)._replace(together=together)

    def _of_groups(self, costs: Costs, level: Level, sizes: LocalSizes) -> Costs:
        """Return the costs of all groups: in serial mode their sum, otherwise those of one group."""
        return sizes.at_work(costs * level.groups) if self.mode == "serial" else costs

    def _setting(self, level: Level) -> Setting:
        """Return the setting; the published estimates support one level only."""
        if self.mode == "paper" and len(level.array) > 1:
            ways = "x".join(map(str, level.array))
            raise OptionError("mode 'paper'", f"found an array of {ways}", "one level, as --array 16")
        return machine_setting("deepa", self.machine, level, self.optimizer, direct=self.direct)

    def _computation(
        self, setting: Setting, level: Level, layer: CutLayer, options: Options, sizes: LocalSizes
    ) -> Costs:
        """Return measured or computed times of a device, ``[tuples above, options]``; in paper mode equal shares."""
        shape = (sizes.of("input").size, len(options))
        if self.direct:
            if self.profile is not None:
                seconds = [self.profile.of(layer.name, choice.as_degrees()) for choice in options]
                return np.broadcast_to(np.array(seconds, dtype=np.float64), shape)
            if not setting.machine.times(layer.einsum):
                return np.zeros(shape)
            left = sizes.divided(layer.einsum, options, level.ways)
            return computation(setting, layer.einsum, left).reshape(shape)
        if self.profile is not None:
            whole = np.full(shape[0], self.profile.of(layer.name, {}))
        else:
            timed = setting.machine.times(layer.einsum)
            whole = computation(setting, layer.einsum, sizes) if timed else np.zeros(shape[0])
        devices = np.array([choice.devices(level.ways) for choice in options], dtype=np.float64)
        return np.asarray(whole[:, None] / devices)


def update_copies(layer: CutLayer, choice: Choice) -> int:
    """Count how often DeePa sends a weight: once for each of the R devices with a copy, never for a single copy."""
    carried = layer.einsum.dims("weight")
    copies = math.prod(degree for dim, degree in choice.degrees if dim not in carried)
    return copies if copies > 1 else 0


def transfer_copies(made: Choice, read: Choice) -> int:
    """Count how often DeePa sends a tensor: once for each shard of the consumer's channels, never if grids agree."""
    return 0 if _grid(made) == _grid(read) else _grid(read)[0]


@lru_cache(maxsize=256)
def _transfers(options: tuple[Options, Options]) -> Costs:
    """Count how often a tensor is sent for each pair of choices, ``[made, read]``; many tensors share the table."""
    return np.array(
        [[transfer_copies(made, read) for read in options[1]] for made in options[0]], dtype=np.float64
    )


@lru_cache(maxsize=1024)
def _grid(choice: Choice) -> tuple[int, int, int, int]:
    """Return the degrees of an op's output channels, under any of their names, and of the other dims."""
    channels = math.prod(choice.degree(dim) for dim in CHANNELS)
    return channels, choice.degree("batch"), choice.degree("height"), choice.degree("width")


def _element_seconds(setting: Setting, level: Level) -> float:
    return time_rates(setting, level.index).lines[-1].per_element[-1]


plugin: Cost = Deepa()
