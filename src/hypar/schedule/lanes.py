"""Lanes: groups of identical devices, and the transfers between them at uneven splits."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from hypar.network.nodes import PlanGraph
from hypar.schedule.measured import measured_moves
from hypar.schedule.moves import PHASE, Move, Moves, elements_on, in_whole_elements, merged, moves_of
from hypar.schedule.pipeline_orders import ALONE
from hypar.sharding.amounts.counted import received_between
from hypar.sharding.amounts.transfers import network_of
from hypar.sharding.conventions import MOVED, PAPER
from hypar.sharding.placement import degrees, working

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.machine.setting import Setting
    from hypar.machine.work import LayerTime
    from hypar.network.nodes import PlanNode, Tensor
    from hypar.schedule.pipeline_orders import Moment
    from hypar.sharding.amounts.above import Amount, State
    from hypar.sharding.placement import Options


class StagePlace(NamedTuple):
    """The place of a lane in a pipeline.

    Attributes:
        stages: number of places for stages of as many devices, of which the last may be empty; 0 without a pipeline.
        microbatches: microbatches in a mini-batch; its layers are those of one.
        moments: the pieces of work of its stage, at the moments when most microbatches wait.
        outside: the tensors that its layers read from other stages, or that these read, other parts of its own stage included;
            layers are counted from the lane's first one.
        outward: the phases in which other stages send from another device group.
        first: the index of its first layer in the network.
        parts: the lanes of the stage's parts, if there are several.
        shared: the layers whose weight an earlier stage has as well, with the transfers that add up its gradient at the levels
            outside the stages, in place of their own.
    """

    stages: int = 0
    microbatches: int = 1
    moments: tuple[Moment, ...] = ALONE
    outside: tuple[Tensor, ...] = ()
    outward: tuple[str, ...] = ()
    first: int = 0
    parts: tuple[Lane, ...] = ()
    shared: tuple[tuple[int, Moves], ...] = ()


Share = tuple[str | None, tuple[float, float]]
"""The dim that an uneven split divides, or None, with the ends of a share of it as fractions."""


class WholeShares(NamedTuple):
    """What the uneven splits above a lane leave it, in whole elements as its devices hold them.

    Attributes:
        graph: the layers, with these sizes.
        ends: for each layer the lane's share at each split.
    """

    graph: PlanGraph
    ends: tuple[tuple[Share, ...], ...]

    @property
    def parts(self) -> list[float]:
        """The fraction of each layer that the innermost split leaves."""
        return [end - start for *_, (_, (start, end)) in self.ends]


class Run:
    """What a run of its program brings a lane from beyond the uneven splits above, in whole elements."""

    def __init__(self, number: int, counted: Callable[[], Lanes]) -> None:
        """Count when it is asked for: times need no memory.

        Args:
            number: the lane's number.
            counted: returns all lanes, and the transfers between them, as a run moves them.
        """
        self._number, self._counted = number, counted

    @property
    def entered(self) -> State | None:
        """The state below these splits."""
        return self._counted()[0][self._number].entered

    @cached_property
    def brought(self) -> float:
        """The bytes of the largest transfer at them, but for gradients, that a device receives."""
        moves = (
            move.device_bytes * (move.fuller[to.lanes.index(self._number)] if move.fuller else 1.0)
            for crossing in self._counted()[1]
            for group, to in enumerate(crossing.receivers)
            if self._number in to.lanes
            for amounts in (*crossing.inside, *crossing.between)
            for amount in amounts
            if amount.phase != "gradient"
            if (move := crossing.move(amount, group)) is not None
        )
        return max(moves, default=0.0)


class _Devices(NamedTuple):
    """The fields of a lane.

    Attributes:
        graph: the layers, with the sizes that the uneven splits above leave.
        choices: for each layer a choice at each level.
        setting: machine, array, element size, optimizer.
        name: name of the group; empty for the only one.
        depth: number of uneven splits above it.
        entered: the state below these splits; None by ``paper``, which counts each level by itself.
        place: its place in a pipeline.
        shares: what the uneven splits above leave in whole elements; None if there are none.
        run: what a run brings it at these splits; None if there are none, or if their sizes are no whole elements.
    """

    graph: PlanGraph
    choices: Sequence[Options]
    setting: Setting
    name: str = ""
    depth: int = 0
    entered: State | None = None
    place: StagePlace = StagePlace()
    shares: WholeShares | None = None
    run: Run | None = None


class Lane(_Devices):
    """Identical devices that do the same at the same time, so that one of them and its links stand for all.

    Work and transfers are computed once, as the same lane is lowered again for every choice of chunks.
    """

    def at(self, name: str, place: StagePlace) -> Lane:
        """Return the same work under another name, at a place in a pipeline."""
        found = self._same(self._replace(name=name, place=place))
        found.__dict__.pop("inner", None)
        return found

    def of(self, graph: PlanGraph) -> Lane:
        """Return the same work of equal layers with other names."""
        return self._same(self._replace(graph=graph))

    def _same(self, other: Lane) -> Lane:
        """Give another lane the work and the transfers that are known of this one."""
        other.__dict__.update(self.__dict__)
        other.__dict__.pop("executed", None)
        return other

    @cached_property
    def executed(self) -> Lane:
        """The lane as a run of its program moves its tensors: as they are counted, by ``moved`` those counted by ``paper``."""
        setting = self.setting
        if setting.convention != PAPER:
            return self
        entered = self.entered if self.run is None else self.run.entered
        return self._replace(setting=replace(setting, convention=MOVED), entered=entered)

    @cached_property
    def times(self) -> tuple[LayerTime | None, ...]:
        """For each layer its time on a device; None without a weight, or if the layer is empty."""
        named = self.setting.machine.measured is not None
        known: dict[object, LayerTime | None] = {}
        found = []
        for layer, chosen in zip(self.graph.layers, self.choices, strict=True):
            # Measured times are those of one layer, not of all layers that are equal to it.
            key = (layer.nest, chosen, layer.name if named else "")
            if key not in known:
                known[key] = self._time(layer, chosen)
            found.append(known[key])
        return tuple(found)

    def _time(self, layer: PlanNode, chosen: Options) -> LayerTime | None:
        machine = self.setting.machine
        if layer.empty or not machine.times(layer.nest):
            return None
        own = degrees(chosen, layer.nest.counted)
        return machine.layer_time(layer.nest, own, self.setting.element_bytes, layer.name)

    @property
    def computing(self) -> Iterator[tuple[int, LayerTime | None, int]]:
        """Each layer by its index in the network, with its time and the number of devices that work, of all parts of its stage."""
        for part in self.place.parts or (self,):
            devices = (working(chosen, part.setting.array)[-1] for chosen in part.choices)
            yield from zip(count(part.place.first), part.times, devices, strict=False)

    @cached_property
    def updates(self) -> tuple[float, ...]:
        """For each layer the seconds of its update; 0 without a time."""
        found = {id(time): self.setting.update_seconds(time) for time in self.times if time is not None}
        return tuple([found.get(id(time), 0.0) for time in self.times])

    @cached_property
    def own_weights(self) -> tuple[float, ...]:
        """For each layer the fraction of its weight on a device that the device does not have for another layer.

        A weight that several layers use has one copy on a device, but below uneven splits, and in each stage that uses it.
        """
        found = [1.0] * len(self.graph.layers)
        if self.graph.ties and not self.depth and self.shares is None and self.entered is None:
            network, array = network_of(self.graph, MOVED), self.setting.array
            for at, tie in enumerate(self.graph.ties, start=len(self.graph.tensors)):
                own, nest = self.choices[tie.consumer], self.graph.layers[tie.consumer].nest
                parts, chosen = network.parts[at][1:], (self.choices[tie.producer], own)
                lacked = received_between(network.between[at], parts, array, chosen)
                held = working(own, array)[-1] * elements_on(nest, "weight", own)
                found[tie.consumer] = math.fsum(one.elements for one in lacked) / held
        return tuple(found)

    @cached_property
    def inner(self) -> tuple[Moves, ...]:
        """For each layer the transfers inside it."""
        found = [*self._moved[0]]
        for layer, outside in self.place.shared:
            levels = self.setting.machine.outside
            own = (move for move in found[layer] if move.phase != PHASE or move.level >= levels)
            found[layer] = Moves((*own, *outside))
        return tuple(found)

    @cached_property
    def outer(self) -> tuple[Moves, ...]:
        """For each tensor the transfers between its two layers."""
        return tuple(self._moved[1])

    @cached_property
    def _moved(self) -> tuple[list[Moves], list[Moves]]:
        inner, outer = moves_of(self.setting, self.graph, self.choices, self.entered)
        if self.shares is not None:
            layers = zip(self.graph.layers, self.shares.graph.layers, self.choices, strict=True)
            inner = [
                in_whole_elements(moves, layer.nest, held.nest, chosen)
                for moves, (layer, held, chosen) in zip(inner, layers, strict=True)
            ]
        times = self.setting.machine.measured
        if times is not None:
            named = zip(self.graph.layers, inner, strict=True)
            inner = [Moves(measured_moves(times, [layer.name], moves)) for layer, moves in named]
        return inner, outer

    def together(self, chunk: Sequence[int]) -> Moves:
        """Merge the gradient transfers of layers into one for each level and collective, innermost level first.

        Args:
            chunk: the layers that exchange their gradients together.
        """
        alike: dict[tuple[int, str], list[Move]] = {}
        for move in (move for layer in chunk for move in self.inner[layer].phases.get(PHASE, ())):
            alike.setdefault((-move.level, move.collective), []).append(move)
        links = self.setting.machine.links(self.setting.array)
        found = [merged(own, links[own[0].level]) for _, own in sorted(alike.items(), key=itemgetter(0))]
        names = [self.graph.layers[layer].name for layer in chunk]
        return Moves(measured_moves(self.setting.machine.measured, names, found))

    def latencies(self, moves: Sequence[Move]) -> list[float]:
        """Return the seconds of each transfer of a chunk that do not depend on its bytes."""
        times = self.setting.machine.measured
        if times is not None and times.exchanges:
            return [0.0 if number else times.sync_s for number in range(len(moves))]
        links = self.setting.machine.links(self.setting.array)
        return [links[move.level].line(move.collective, move.subgroup_bytes).latency_s for move in moves]


def whole_lane(parts: Sequence[Lane]) -> Lane:
    """Return the lane of a stage with the layers of all its parts, between which it has no tensors."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    layers = tuple(layer for part in parts for layer in part.graph.layers)
    choices = tuple(options for part in parts for options in part.choices)
    return Lane(
        PlanGraph(layers, ()),
        choices,
        first.setting,
        first.name,
        first.depth,
        first.entered,
        first.place._replace(outside=(), parts=tuple(parts)),
        None,
    )


class Receiver(NamedTuple):
    """A device group of an uneven split that receives transfers from the others.

    Attributes:
        name: name of the group.
        lanes: the indices of its lanes.
        devices: number of its devices.
        working: number of those that work.
        bytes_per_s: bandwidth at which each of them receives.
        latency_s: latency of a transfer.
    """

    name: str
    lanes: tuple[int, ...]
    devices: int
    working: int
    bytes_per_s: float
    latency_s: float

    def seconds(self, _collective: str, num_bytes: float) -> float:
        """Return the time until its devices have received bytes from other groups, which all collectives share."""
        return num_bytes / (self.devices * self.bytes_per_s) + self.latency_s


SUMS = frozenset({"all_reduce", "reduce_scatter"})
"""The collectives that add up terms."""


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
        held = received
        if amount.collective in SUMS:
            # Whoever adds up a sum, so that no group needs more room for terms and sums than the others.
            at_work = sum(1 for elements in amount.elements if elements)
            held = math.fsum(map(float, amount.elements)) * self.element_bytes / at_work
        return Move(
            phase=amount.phase,
            level=self.level,
            seconds=to.seconds(amount.collective, received),
            subgroup_bytes=received,
            subgroup_devices=to.devices,
            device_bytes=held / to.working,
            total_bytes=received,
            collective=amount.collective,
            fuller=amount.fuller[group] if amount.fuller else (),
        )


Lanes = tuple[list[Lane], list[Crossing]]
"""Lanes, and the transfers between them at uneven splits."""
