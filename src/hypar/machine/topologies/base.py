"""Base class of topologies: what messages load on the links between devices."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from hypar.files.quantities import Description

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.traffic import Loads, Numbers, Traffic


class Topology(Description):
    """Wiring of some devices; subclasses add the fields of a hardware file."""

    takes_sets: ClassVar[bool] = True
    """Whether messages may be given as sets, without a list of them."""

    @abstractmethod
    def loads(self, sent: Traffic, devices: int) -> Loads:
        """Return what messages load.

        Args:
            sent: the messages, of several networks of this wiring; listed, unless the topology ``takes_sets``.
            devices: number of devices wired.
        """

    @abstractmethod
    def num_links(self, devices: int) -> int:
        """Return the number of links that share a total bandwidth; one counts for both directions."""

    @property
    def adds_up(self) -> bool:
        """Whether its nodes add up the messages of an all-reduce and send the sum back."""
        return False

    def places(self, factors: Sequence[int]) -> Sequence[int]:
        """Return the device at each position of the array; positions count in mixed radix.

        Args:
            factors: prime factors of the array's ways, outermost first.
        """
        return range(math.prod(factors))

    def coordinates(self, device: Numbers, devices: int) -> tuple[Numbers, ...]:  # noqa: ARG002
        """Return the coordinates of devices: one for each dimension of the network."""
        return (device,)

    def fault(self, devices: int) -> str | None:  # noqa: ARG002
        """Return why this number of devices, at least one, cannot be wired so; None if it can."""
        return None
