"""Networks of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.machine.collectives.schedules import ALGORITHMS

if TYPE_CHECKING:
    from hypar.machine.topologies.base import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One network of a machine.

    Attributes:
        name: the topology's name.
        topology: the wiring.
        devices: number of devices, or groups of devices, that it links.
        bytes_per_s: bandwidth of one link, each way.
        latency_s: latency of each hop.
        duplex: whether a link works in both directions at once.
        ports: number of links with which a group is part of it, shared by the devices of the group as evenly as their numbers allow; None
            for one for each device.
        collectives: names of the algorithms that reductions and gatherings over it may use.
    """

    name: str
    topology: Topology
    devices: int
    bytes_per_s: float
    latency_s: float
    duplex: bool
    ports: int | None = None
    collectives: tuple[str, ...] = ALGORITHMS

    def __hash__(self) -> int:
        """Return a hash of all but the topology, whose fields may be lists."""
        return hash((self.name, self.devices, self.bytes_per_s, self.latency_s, self.ports, self.collectives))
