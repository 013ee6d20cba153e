"""Every cost of hypar's own by its name, beside those of ``base``.

*volume:* bytes received, summed over all devices and levels. Source: HyPar (HPCA 2019), section 3, whose tables follow from the
placements; in bytes over all devices instead of elements over one half of them.

*time:* seconds of one training step on a machine, one task after another. The transfers of a level take as long as the machine's
links of that level say; computation is counted at the innermost level, where the shards of every device are known. The sum over
levels is the engine's time on a machine without overlap whose levels reduce one after another.

*accpar:* operations at a device's speed and elements at its bandwidth. Source: AccPar (HPCA 2020): ``E_cp = a C / c_i`` for the
three phases of a layer, ``E_cm = A(T) / b_i``. At an uneven split the slowest device group decides. At a level of identical devices
shares are equal, and ``b_i`` is a device's bandwidth on the machine's links of that level; computation is counted once, at
the innermost level.

*deepa:* seconds of transfers, computation and updates for layers that are cut in several dims at once. Source: DeePa (2018), its
cost model. In ``exact`` mode a device receives the data that it needs and does not hold: the elements of F in its windows, the
other devices' terms of E, the weight gradients of the other copies; all devices receive at the same time. In ``serial`` mode
the same bytes go one after another over one link, as the paper adds up its estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hypar.costs.base import Cost, GroupRates, Time
from hypar.errors import OptionError, suggestion
from hypar.machine.setting import Rates, even_rates, time_rates
from hypar.network.nodes import PlanNode
from hypar.sharding.conventions import DIRECT, PAPER
from hypar.sharding.placement import Level, LocalSizes, Options
from hypar.solve.edge import Costs

if TYPE_CHECKING:
    from hypar.machine.machine import DeviceGroup
    from hypar.machine.profiles import Profile

MOST_WEIGHT = 10**6
"""Largest weight of a byte between layers."""

MODES = ("exact", "serial")
"""How ``deepa`` counts transfers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume(Cost):
    """Bytes received.

    Attributes:
        inter_weight: weight of a byte between layers against a byte inside one. 1 counts the bytes that are moved;
            one half reproduces HyPar's Figures 5, 9 and 10, which count amounts inside a layer in both directions
            and amounts between layers in one.
        convention: the convention by which transfers are counted.
    """

    unit: ClassVar[str] = "bytes"
    inter_weight: float = 1.0
    convention: str = PAPER

    def __post_init__(self) -> None:
        """Check the weight."""
        if not (isinstance(self.inter_weight, int | float) and 0 <= self.inter_weight <= MOST_WEIGHT):
            allowed = f"a number from 0 to {MOST_WEIGHT:,}"
            raise OptionError("inter-weight", f"found {self.inter_weight}", allowed)

    def rates(self, level: Level) -> tuple[Rates, Rates]:
        """Return the bytes of an element inside layers, and their weighted bytes between two."""
        return even_rates(level.element_bytes), even_rates(self.inter_weight * level.element_bytes)

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:  # noqa: ARG002
        """Return bytes for each element, the same for every device group."""
        return GroupRates(inside=element_bytes, between=self.inter_weight * element_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccPar(Time):
    """Seconds of a step at the speed and at the bandwidth of a device."""

    def compute(self, level: Level, layer: PlanNode, options: Options, sizes: LocalSizes) -> Costs | None:
        """Return the seconds of a device's operations."""
        if not (layer.nest.multiplies and self.machine is not None):
            return None
        own = sizes.divided(layer.nest, options, level.ways).fractions[:-1].prod(axis=0)
        flop = sum(layer.nest.flop.values())
        return np.asarray(flop / self.machine.flop_per_s(level.element_bytes) * own).reshape(-1, len(options))

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:
        """Return the seconds of a device group at its speed and its bandwidth."""
        return Time.group_rates(self, group, element_bytes)._replace(seconds=None)


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
            each = [(line, [level.groups * own for own in line.once]) for line in rates.lines]
            rates = Rates(tuple([line._replace(once=tuple(once)) for line, once in each]))
        return rates, rates

    def compute(self, level: Level, layer: PlanNode, options: Options, sizes: LocalSizes) -> Costs | None:
        """Return measured or computed times of a device."""
        if self.profile is None:
            return Time.compute(self, level, layer, options, sizes)
        seconds = [self.profile.of(layer.name, dict(choice.degrees)) for choice in options]
        shape = (sizes.fractions.shape[1], len(options))
        return np.broadcast_to(np.array(seconds, dtype=np.float64), shape)


plugins: dict[str, Cost] = {"accpar": AccPar(), "deepa": Deepa(), "time": Time(), "volume": Volume()}
