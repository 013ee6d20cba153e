"""How long bytes take from one device of a machine to another, with the route to themselves."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.machine.topologies.base import busiest

if TYPE_CHECKING:
    from hypar.machine.machine import Machine


class Route(NamedTuple):
    """The route between two devices.

    Attributes:
        seconds_per_byte: of the narrowest link.
        latency_s: once a message.
        duplex: whether it carries messages both ways at once.
    """

    seconds_per_byte: float
    latency_s: float
    duplex: bool

    def seconds(self, num_bytes: Any) -> Any:
        """Time until so many bytes have arrived, of a number or an array of them; none take none."""
        return num_bytes * self.seconds_per_byte + (num_bytes > 0) * self.latency_s


@lru_cache(maxsize=4096)
def route(machine: Machine, source: int, target: int) -> Route:
    """The route from one device to another, numbered as the machine numbers them, the outermost network first.

    A message goes over the network of each tier in which the two differ, as those of a level do.
    """
    slowest, latency, duplex = 0.0, 0.0, True
    below = machine.num_devices
    for tier in machine.tiers:
        above, below = below, below // tier.devices
        start, end = (device % above // below for device in (source, target))
        if start != end:
            load, hops = busiest(tier.topology, {(start, end): 1.0}, tier.devices, duplex=tier.duplex)
            slowest = max(slowest, load / tier.bytes_per_s)
            latency, duplex = latency + hops * tier.latency_s, duplex and tier.duplex
    return Route(slowest, latency, duplex)
