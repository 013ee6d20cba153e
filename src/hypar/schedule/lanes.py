"""Lanes: groups of identical devices, and the transfers between them at uneven splits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from hypar.machine.setting import degrees, working
from hypar.schedule.moves import Move, moves_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.machine import LayerTime
    from hypar.machine.setting import Setting
    from hypar.network.contraction import ContractedGraph, CutLayer
    from hypar.schedule.moves import Moves
    from hypar.sharding.placement import Options
    from hypar.sharding.uneven.transfers import Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneWork:
    """The computation of the devices of a lane.

    Attributes:
        times: for each layer its time on a device; None without a weight, or if the layer is empty.
        working: for each layer the number of devices that work.
    """

    times: tuple[LayerTime | None, ...]
    working: tuple[int, ...]


class _Devices(NamedTuple):
    """The fields of a lane.

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


class Lane(_Devices):
    """Identical devices that do the same at the same time, so that one of them and its links stand for all.

    Work and transfers are computed once, as the same lane is lowered again for every choice of chunks.
    """

    @cached_property
    def work(self) -> LaneWork:
        """The computation of its devices."""
        setting = self.setting
        known: dict[object, tuple[LayerTime | None, int]] = {}
        found = []
        for layer, chosen in zip(self.graph.layers, self.choices, strict=True):
            key = (layer.einsum, chosen)
            if key not in known:
                known[key] = _worked(setting, layer, chosen)
            found.append(known[key])
        times, devices = tuple(zip(*found, strict=True)) or ((), ())
        return LaneWork(times=times, working=devices)

    @cached_property
    def updates(self) -> tuple[float, ...]:
        """For each layer the seconds of its update; 0 without a time."""
        found = {id(time): self.setting.update_seconds(time) for time in self.work.times if time is not None}
        return tuple([found.get(id(time), 0.0) for time in self.work.times])

    @cached_property
    def inner(self) -> tuple[Moves, ...]:
        """For each layer the transfers inside it."""
        return tuple(self._moved[0])

    @cached_property
    def outer(self) -> tuple[Moves, ...]:
        """For each tensor the transfers between its two layers."""
        return tuple(self._moved[1])

    @cached_property
    def _moved(self) -> tuple[list[Moves], list[Moves]]:
        return moves_of(self.setting, self.graph, self.choices)


def _worked(setting: Setting, layer: CutLayer, chosen: Options) -> tuple[LayerTime | None, int]:
    """Return the time of a layer on a device, and the devices that work."""
    devices = working(chosen, setting.array)
    if not layer.weighted or layer.empty:
        return None, devices
    return setting.machine.layer_time(layer.einsum, degrees(chosen), setting.element_bytes), devices


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
