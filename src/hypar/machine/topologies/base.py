"""Base class of topologies: links, and the paths that messages take over them.

The time of a transfer between subgroups follows from these: every device sends to its counterpart in
another subgroup, the busiest link sets the bandwidth, and the longest path sets the number of hops.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from hypar.files.quantities import Description

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.listed import Busy, Listed
    from hypar.machine.sets import Loads, Sets

Node = tuple[str, int] | int
Link = tuple[Node, Node]
"""A pair of nodes; devices are numbers from 0, every other node is a pair."""

Path = tuple[float, tuple[Link, ...]]
"""The fraction of a message that takes some links, and the links."""


class Topology(Description):
    """Links and paths; subclasses add the fields of a hardware file."""

    counts_sets: ClassVar[bool] = False
    """Whether loads are counted without a list of the links of each path."""

    @abstractmethod
    def links(self, devices: int) -> Mapping[Link, float]:
        """Return every directed link with its width, in bandwidths of one link."""

    @abstractmethod
    def paths(self, source: int, target: int, devices: int) -> Sequence[Path]:
        """Return the paths of a message between two devices; their fractions sum to 1."""

    def places(self, factors: Sequence[int]) -> Sequence[int]:
        """Return the device at each position of the array; positions count in mixed radix.

        Args:
            factors: prime factors of the array's ways, outermost first.
        """
        count = 1
        for factor in factors:
            count *= factor
        return range(count)

    def coordinates(self, device: int, devices: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return the coordinates of a device: one for each dimension of the network."""
        return (device,)

    @property
    def adds_up(self) -> bool:
        """Whether its nodes add up the messages of an all-reduce and send the sum back."""
        return False

    def sets_loads(self, sets: Sets, devices: int, *, summed: bool) -> Loads:
        """Return the loads of links if the devices of sets exchange messages; only of a topology that ``counts_sets``.

        Args:
            sets: the sets.
            devices: number of devices wired.
            summed: whether the nodes of the network add up the messages of a set.
        """
        raise NotImplementedError

    def messages_loads(self, sent: Listed, devices: int) -> Busy:
        """Return the loads of links by messages; only of a topology of any number of devices that ``counts_sets``."""
        raise NotImplementedError

    def num_links(self, devices: int) -> int:
        """Return the number of links that share a total bandwidth; one counts for both directions."""
        return len({frozenset(link) for link in self.links(devices)})

    def fault(self, devices: int) -> str | None:  # noqa: ARG002
        """Return why this number of devices, at least one, cannot be wired so; None if it can."""
        return None


def busiest(
    topology: Topology,
    messages: Mapping[tuple[int, int], float],
    devices: int,
    *,
    duplex: bool,
    capacity: Mapping[Link, float] | None = None,
) -> tuple[float, int]:
    """Return the load of the busiest link and the hops of the longest path for a set of messages.

    Args:
        topology: the wiring.
        messages: amounts from device to device, in any unit.
        devices: number of devices wired.
        duplex: whether a link works in both directions at once.
        capacity: the topology's links, if known already.

    Returns:
        Load over the link's bandwidth, in units of one message over one link, and hops.
    """
    capacity = topology.links(devices) if capacity is None else capacity
    loads: Counter[Link] = Counter()
    hops = 0
    for (source, target), amount in messages.items():
        for fraction, path in topology.paths(source, target, devices):
            hops = max(hops, len(path))
            for link in path:
                loads[link] += amount * fraction  # type: ignore[assignment]
    both = 0 if duplex else 1
    worst = max(
        ((load + both * loads.get((link[1], link[0]), 0)) / capacity[link] for link, load in loads.items()),
        default=0.0,
    )
    return worst, hops
