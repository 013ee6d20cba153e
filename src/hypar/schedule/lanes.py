"""Lanes: groups of like devices, and what crosses between them at the forks above."""

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
    """Like devices, which all do the same at the same time, so that one of them and its links stand for all.

    Attributes:
        graph: the layers, as large as the forks above leave them.
        choices: for each layer a choice at each level.
        setting: what they run on and with.
        name: of the group; empty where there is no other.
        depth: forks above it.
    """

    graph: ContractedGraph
    choices: Sequence[Options]
    setting: Setting
    name: str = ""
    depth: int = 0


class Receiver(NamedTuple):
    """A side of a fork, as what crosses to it sees it.

    Attributes:
        name: of the group.
        lanes: the numbers of its lanes.
        devices: how many it has.
        bytes_per_s: what each of them receives at.
        latency_s: what a transfer takes besides.
    """

    name: str
    lanes: tuple[int, ...]
    devices: int
    bytes_per_s: float
    latency_s: float


class Crossing(NamedTuple):
    """What a fork makes its sides receive from each other.

    Attributes:
        level: forks above this one.
        receivers: its sides.
        inside: of each layer what it adds up.
        between: of each tensor what it moves.
        element_bytes: bytes of an element.
    """

    level: int
    receivers: tuple[Receiver, ...]
    inside: tuple[tuple[Amount, ...], ...]
    between: tuple[tuple[Amount, ...], ...]
    element_bytes: int

    def move(self, amount: Amount, side: int) -> Move | None:
        """What one side receives of an amount; None where that is nothing."""
        received, to = float(amount.elements[side]) * self.element_bytes, self.receivers[side]
        if not received:
            return None
        return Move(
            phase=amount.phase,
            level=self.level,
            seconds=received / (to.devices * to.bytes_per_s) + to.latency_s,
            part_bytes=received,
            part_devices=to.devices,
            total_bytes=received,
            collective=amount.collective,
        )
