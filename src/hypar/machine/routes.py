"""Transfer times from one device of a machine to another over an otherwise idle route."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.machine.topologies.base import busiest

if TYPE_CHECKING:
    from hypar.machine.machine import Machine


class Route(NamedTuple):
    """Route between two devices.

    Attributes:
        seconds_per_byte: time per byte on the narrowest link.
        latency_s: latency of a message.
        duplex: whether it carries messages both ways at once.
    """

    seconds_per_byte: float
    latency_s: float
    duplex: bool

    def seconds(self, num_bytes: Any) -> Any:
        """Return the time until some bytes, a number or an array, have arrived; 0 for no bytes."""
        return num_bytes * self.seconds_per_byte + (num_bytes > 0) * self.latency_s


@lru_cache(maxsize=4096)
def route(machine: Machine, source: int, target: int) -> Route:
    """Return the route between two devices of the machine, numbered with the outermost network first.

    A message goes over the network of each tier in which the two devices differ, as at a level.
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
