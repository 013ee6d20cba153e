"""Fully connected topology: a link between any two devices."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, ClassVar

from hypar.machine.sets import between_all
from hypar.machine.topologies.base import Link, Path, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.sets import Loads, Sets

MOST = 512
"""Most devices."""


class FullyConnected(Topology):
    """Topology with one hop between any two devices."""

    counts_sets: ClassVar[bool] = True

    def links(self, devices: int) -> Mapping[Link, float]:
        """Return a link from each device to each other."""
        return dict.fromkeys(permutations(range(devices), 2), 1.0)

    def paths(self, source: int, target: int, devices: int) -> Sequence[Path]:  # noqa: ARG002
        """Return the link between the two devices."""
        return [(1.0, ((source, target),))]

    def sets_loads(self, sets: Sets, devices: int, *, summed: bool) -> Loads:  # noqa: ARG002
        """Return the loads of links if the devices of sets exchange messages."""
        return between_all(sets)

    def fault(self, devices: int) -> str | None:
        """Refuse too many devices, as links grow with their square."""
        many = f"{devices} devices; allowed: at most {MOST}, as each pair has a link"
        return many if devices > MOST else None


plugin: type[Topology] = FullyConnected
