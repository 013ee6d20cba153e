"""Lanes: groups of identical devices, and the transfers between them at uneven splits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.schedule.moves import Move

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.setting import Setting
    from hypar.network.contraction import ContractedGraph
    from hypar.sharding.placement import Options
    from hypar.sharding.uneven.transfers import Amount


class Lane(NamedTuple):
    """Identical devices that do the same at the same time, so that one of them and its links stand for all.

    Attributes:
        graph: the layers, with the sizes that the uneven splits above leave.
        choices: for each layer a choice at each level.
        setting: machine, array, element size, optimizer.
        name: name of the group; empty for the only one.
        depth: number of uneven splits above it.
    """

    graph: ContractedGraph
    choices: Sequence[Options]
    setting: Setting
    name: str = ""
    depth: int = 0


class Receiver(NamedTuple):
    """A device group of an uneven split that receives transfers from the others.

    Attributes:
        name: name of the group.
        lanes: the indices of its lanes.
        devices: number of its devices.
        bytes_per_s: bandwidth at which each of them receives.
        latency_s: latency of a transfer.
    """

    name: str
    lanes: tuple[int, ...]
    devices: int
    bytes_per_s: float
    latency_s: float


class Crossing(NamedTuple):
    """The transfers between the device groups of an uneven split.

    Attributes:
        level: number of uneven splits above this one.
        receivers: its device groups.
        inside: for each layer the amounts that it adds up.
        between: for each tensor the amounts that are moved.
        element_bytes: bytes of an element.
    """

    level: int
    receivers: tuple[Receiver, ...]
    inside: tuple[tuple[Amount, ...], ...]
    between: tuple[tuple[Amount, ...], ...]
    element_bytes: int

    def move(self, amount: Amount, group: int) -> Move | None:
        """Return the transfer of an amount to one group; None if the group receives nothing."""
        received, to = float(amount.elements[group]) * self.element_bytes, self.receivers[group]
        if not received:
            return None
        return Move(
            phase=amount.phase,
            level=self.level,
            seconds=received / (to.devices * to.bytes_per_s) + to.latency_s,
            subgroup_bytes=received,
            subgroup_devices=to.devices,
            total_bytes=received,
            collective=amount.collective,
        )
