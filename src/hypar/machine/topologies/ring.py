"""Ring topology: two neighbours each; messages go the shorter way round, upward if both ways are equal."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypar.machine.topologies.base import Link, Path, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Ring(Topology):
    """Ring of devices in the order of the array's positions."""

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


plugin: type[Topology] = Ring
