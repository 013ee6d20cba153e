"""Ring topology: two neighbours each; messages go the shorter way round, upward if both ways are equal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, ClassVar

from hypar.machine.listed import messages_on_grid
from hypar.machine.sets import on_grid
from hypar.machine.topologies.base import Link, Path, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.listed import Busy, Listed
    from hypar.machine.sets import Loads, Sets


class Ring(Topology):
    """Ring of devices in the order of the array's positions."""

    counts_sets: ClassVar[bool] = True

    def links(self, devices: int) -> Mapping[Link, float]:
        """Return one link in each direction per device."""
        return {
            (device, (device + step) % devices): 1.0
            for device in range(devices)
            for step in (1, -1)
            if devices > 1
        }

    def paths(self, source: int, target: int, devices: int) -> Sequence[Path]:
        """Return the shorter path round the ring."""
        away = (target - source) % devices
        step, count = (1, away) if 2 * away <= devices else (-1, devices - away)
        stops = [(source + step * number) % devices for number in range(count + 1)]
        return [(1.0, tuple(itertools.pairwise(stops)))]

    def sets_loads(self, sets: Sets, devices: int, *, summed: bool) -> Loads:  # noqa: ARG002
        """Return the loads of links if the devices of sets exchange messages."""
        return on_grid(sets, 1, closed=True)

    def messages_loads(self, sent: Listed, devices: int) -> Busy:
        """Return the loads of links by messages."""
        return messages_on_grid(sent, 1, devices, closed=True)


plugin: type[Topology] = Ring
