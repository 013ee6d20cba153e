"""What a topology is: links, and the paths that messages take over them.

From these follows how long bytes between the parts of a group take: every device sends to its like in
another part, the busiest link decides, and the longest path says over how many hops.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import TYPE_CHECKING

from hypar.files.quantities import Description

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Node = tuple[str, int] | int
Link = tuple[Node, Node]
"""From node to node; devices are the numbers from 0, everything else is a pair."""

Path = tuple[float, tuple[Link, ...]]
"""The part of a message that goes over some links, and the links."""


class Topology(Description):
    """Links and paths; subclasses add the fields of a hardware file."""

    @abstractmethod
    def links(self, devices: int) -> Mapping[Link, float]:
        """Every directed link, and how many times the bandwidth of one link it has."""

    @abstractmethod
    def paths(self, source: int, target: int, devices: int) -> Sequence[Path]:
        """How a message goes from device to device; the parts sum to 1."""

    def places(self, factors: Sequence[int]) -> Sequence[int]:
        """The device at which each position of the array stands; positions count in mixed radix.

        Args:
            factors: prime factors of the array's ways, outermost first.
        """
        count = 1
        for factor in factors:
            count *= factor
        return range(count)

    def num_links(self, devices: int) -> int:
        """Links that share a bandwidth given for the whole network; one counts for both directions."""
        return len({frozenset(link) for link in self.links(devices)})

    def fault(self, devices: int) -> str | None:  # noqa: ARG002
        """What is wrong with so many devices, one at least, wired so; None where all is well."""
        return None


def busiest(
    topology: Topology,
    messages: Mapping[tuple[int, int], float],
    devices: int,
    *,
    duplex: bool,
    capacity: Mapping[Link, float] | None = None,
) -> tuple[float, int]:
    """Load of the busiest link and hops of the longest path, all messages together.

    Args:
        topology: the wiring.
        messages: what goes from device to device, in any unit.
        devices: how many devices are wired.
        duplex: whether a link works in both directions at once.
        capacity: the topology's links, where they are known already.

    Returns:
        Load over the link's bandwidth, in units of one message over one link, and hops.
    """
    capacity = topology.links(devices) if capacity is None else capacity
    loads: Counter[Link] = Counter()
    hops = 0
    for (source, target), amount in messages.items():
        for part, path in topology.paths(source, target, devices):
            hops = max(hops, len(path))
            for link in path:
                loads[link] += amount * part  # type: ignore[assignment]
    both = 0 if duplex else 1
    worst = max(
        ((load + both * loads.get((link[1], link[0]), 0)) / capacity[link] for link, load in loads.items()),
        default=0.0,
    )
    return worst, hops
