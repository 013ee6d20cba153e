"""Switch topology: each device has one link to a non-blocking switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypar.machine.listed import messages_on_switch
from hypar.machine.sets import on_switch
from hypar.machine.topologies.base import Link, Node, Path, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.listed import Busy, Listed
    from hypar.machine.sets import Loads, Sets

_SWITCH: Node = ("switch", 0)


class Switch(Topology):
    """Topology with two hops between any two devices."""

    counts_sets: ClassVar[bool] = True

    def links(self, devices: int) -> Mapping[Link, float]:
        """Return each device's links to and from the switch."""
        return {link: 1.0 for device in range(devices) for link in ((device, _SWITCH), (_SWITCH, device))}

    def paths(self, source: int, target: int, devices: int) -> Sequence[Path]:  # noqa: ARG002
        """Return the path over the switch."""
        return [(1.0, ((source, _SWITCH), (_SWITCH, target)))]

    def sets_loads(self, sets: Sets, devices: int, *, summed: bool) -> Loads:  # noqa: ARG002
        """Return the loads of links if the devices of sets exchange messages."""
        return on_switch(sets)

    def messages_loads(self, sent: Listed, devices: int) -> Busy:
        """Return the loads of links by messages."""
        return messages_on_switch(sent, devices)


plugin: type[Topology] = Switch
