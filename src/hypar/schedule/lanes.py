"""Lanes: groups of identical devices, and the transfers between them at uneven splits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from hypar.machine.setting import degrees, working
from hypar.schedule.measured import measured_moves, measured_time
from hypar.schedule.moves import PHASE, Move, moves_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.machine import LayerTime
    from hypar.machine.setting import Setting
    from hypar.network.contraction import ContractedGraph, CutLayer, Tensor
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


class StagePlace(NamedTuple):
    """The place of a lane in a pipeline.

    Attributes:
        stages: number of places for stages of as many devices, of which the last may be empty; 0 without a pipeline.
        microbatches: microbatches in a mini-batch; its layers are those of one.
        in_flight: the largest number of microbatches whose activations it keeps.
        outside: the tensors that its layers read from other stages; their producers' indices are not the lane's.
        outward: the phases in which other stages send from another device group.
    """

    stages: int = 0
    microbatches: int = 1
    in_flight: int = 1
    outside: tuple[Tensor, ...] = ()
    outward: tuple[str, ...] = ()


class _Devices(NamedTuple):
    """The fields of a lane.

    Attributes:
        graph: the layers, with the sizes that the uneven splits above leave.
        choices: for each layer a choice at each level.
        setting: machine, array, element size, optimizer.
        name: name of the group; empty for the only one.
        depth: number of uneven splits above it.
        place: its place in a pipeline.
    """

    graph: ContractedGraph
    choices: Sequence[Options]
    setting: Setting
    name: str = ""
    depth: int = 0
    place: StagePlace = StagePlace()


class Lane(_Devices):
    """Identical devices that do the same at the same time, so that one of them and its links stand for all.

    Work and transfers are computed once, as the same lane is lowered again for every choice of chunks.
    """

    def at(self, name: str, place: StagePlace) -> Lane:
        """Return the same work under another name, at a place in a pipeline."""
        return self._same(self._replace(name=name, place=place))

    def of(self, graph: ContractedGraph) -> Lane:
        """Return the same work of equal layers with other names."""
        return self._same(self._replace(graph=graph))

    def _same(self, other: Lane) -> Lane:
        """Give another lane the work and the transfers that are known of this one."""
        other.__dict__.update(self.__dict__)
        return other

    @cached_property
    def work(self) -> LaneWork:
        """The computation of its devices."""
        times = tuple(
            self._time(layer, chosen) if layer.weighted and not layer.empty else None
            for layer, chosen in zip(self.graph.layers, self.choices, strict=True)
        )
        return LaneWork(
            times=times, working=tuple(working(chosen, self.setting.array) for chosen in self.choices)
        )

    def _time(self, layer: CutLayer, chosen: Options) -> LayerTime:
        machine = self.setting.machine
        time = machine.layer_time(layer.einsum, degrees(chosen), self.setting.element_bytes)
        if machine.measured is None:
            return time
        return measured_time(machine.measured, layer.name, chosen, time)

    @cached_property
    def inner(self) -> tuple[tuple[Move, ...], ...]:
        """For each layer the transfers inside it."""
        return tuple(self._moved[0])

    @cached_property
    def outer(self) -> tuple[tuple[Move, ...], ...]:
        """For each tensor the transfers between its two layers."""
        return tuple(self._moved[1])

    @cached_property
    def _moved(self) -> tuple[list[tuple[Move, ...]], list[tuple[Move, ...]]]:
        inner, outer = moves_of(self.setting, self.graph, self.choices)
        times = self.setting.machine.measured
        if times is not None:
            layers = zip(self.graph.layers, inner, strict=True)
            inner = [tuple(measured_moves(times, [layer.name], moves)) for layer, moves in layers]
        return inner, outer

    def together(self, chunk: Sequence[int]) -> list[Move]:
        """Merge the gradient transfers of layers into one for each level and collective, innermost level first.

        Args:
            chunk: the layers that exchange their gradients together.
        """
        alike: dict[tuple[int, str], list[Move]] = {}
        for move in (move for layer in chunk for move in self.inner[layer] if move.phase == PHASE):
            alike.setdefault((-move.level, move.collective), []).append(move)
        merged = [self._merged(alike[kind]) for kind in sorted(alike)]
        names = [self.graph.layers[layer].name for layer in chunk]
        return [*measured_moves(self.setting.machine.measured, names, merged)]

    def _merged(self, moves: Sequence[Move]) -> Move:
        """Merge transfers of one level and collective."""
        if len(moves) == 1:
            return moves[0]
        move, subgroup_bytes = moves[0], math.fsum(each.subgroup_bytes for each in moves)
        link = self.setting.machine.links(self.setting.array)[move.level]
        return move._replace(
            seconds=link.seconds(move.collective, subgroup_bytes),
            subgroup_bytes=subgroup_bytes,
            total_bytes=math.fsum(each.total_bytes for each in moves),
        )

    def latencies(self, moves: Sequence[Move]) -> list[float]:
        """Return the seconds of each transfer of a chunk that do not depend on its bytes."""
        times = self.setting.machine.measured
        if times is not None and times.exchanges:
            return [0.0 if number else times.sync_s for number in range(len(moves))]
        links = self.setting.machine.links(self.setting.array) if moves else ()
        return [links[move.level].line(move.collective, move.subgroup_bytes).latency_s for move in moves]


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

    def seconds(self, _collective: str, num_bytes: float) -> float:
        """Return the time until its devices have received bytes from other groups, which all collectives share."""
        return num_bytes / (self.devices * self.bytes_per_s) + self.latency_s


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
            seconds=to.seconds(amount.collective, received),
            subgroup_bytes=received,
            subgroup_devices=to.devices,
            total_bytes=received,
            collective=amount.collective,
        )
