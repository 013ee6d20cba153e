"""Volume: bytes received, summed over all devices and levels.

Source: HyPar (HPCA 2019), section 3, whose tables follow from the placements; in bytes over all devices
instead of elements over one half of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hypar.costs.base import Cost, GroupRates
from hypar.errors import OptionError
from hypar.machine.setting import Rates, even_rates
from hypar.sharding.conventions import PAPER

if TYPE_CHECKING:
    from hypar.machine.machine import DeviceGroup
    from hypar.sharding.levels import Level

MOST_WEIGHT = 10**6


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
            raise OptionError(
                "inter-weight", f"found {self.inter_weight}", f"a number from 0 to {MOST_WEIGHT:,}"
            )

    def rates(self, level: Level) -> tuple[Rates, Rates]:
        """Return the bytes of an element inside layers, and their weighted bytes between two."""
        return even_rates(level.element_bytes), even_rates(self.inter_weight * level.element_bytes)

    def group_rates(self, group: DeviceGroup, element_bytes: int) -> GroupRates:  # noqa: ARG002
        """Return bytes for each element, the same for every device group."""
        return GroupRates(inside=element_bytes, between=self.inter_weight * element_bytes)


plugin: Cost = Volume()
