"""A training step as tasks: forward through the network, backward through it, gradients, updates.

Like devices do the same at the same time, so one of them and its links stand for a lane of them. A layer
first gets its tensors, computes, then adds up what its cuts left partial; errors take the same way back. On a
machine without overlap the tasks of a lane run one after another; with it a task waits only for the
data that it reads and for its resource, so gradients are added up beside the rest of the backward phase. Lanes wait
for each other only where something crosses between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypar.schedule.lanes import Lane
from hypar.schedule.moves import Move, moves_between, moves_inside
from hypar.schedule.setting import Setting, degrees, working
from hypar.timeline import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.forks.amounts import Amount
    from hypar.graph import ContractedGraph
    from hypar.hardware import LayerTime
    from hypar.placement import Options
    from hypar.schedule.lanes import Crossing

COMPUTE = "devices"
"""The resource that computes: every device of a lane, doing the same."""

After = tuple[int, ...]
"""Tasks to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneWork:
    """What the devices of a lane compute.

    Attributes:
        times: for each layer its time on a device; None without a weight, or where nothing of it is left.
        working: for each layer how many devices work.
    """

    times: tuple[LayerTime | None, ...]
    working: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step, lowered.

    Attributes:
        tasks: in an order in which they can run.
        layers: for each task the layer that it belongs to.
        moves: for each task its transfer; None for computation.
        lanes: for each task the lanes that it keeps.
        work: of each lane.
    """

    tasks: tuple[Task, ...]
    layers: tuple[int, ...]
    moves: tuple[Move | None, ...]
    lanes: tuple[tuple[int, ...], ...]
    work: tuple[LaneWork, ...]


class _Lowering:
    """The tasks so far."""

    def __init__(self, lanes: Sequence[Lane], crossings: Sequence[Crossing]) -> None:
        self.lanes, self.crossings = lanes, crossings
        self.names = [layer.name for layer in lanes[0].graph.layers]
        self.last: list[int | None] = [None if lane.setting.machine.overlap else -1 for lane in lanes]
        self.tasks: list[Task] = []
        self.layers: list[int] = []
        self.moves: list[Move | None] = []
        self.of: list[tuple[int, ...]] = []
        self.resources = [_resources(lane) for lane in lanes]
        self.tags = [f"{lane.name}: " if lane.name else "" for lane in lanes]
        self.own = [(lane,) for lane in range(len(lanes))]
        self.serial = any(last is not None for last in self.last)

    def add(
        self, of: tuple[int, ...], layer: int, what: str, seconds: float, after: After, resource: str,
        move: Move | None = None,
    ) -> int:  # fmt: skip
        """One task; returns its index."""
        index = len(self.tasks)
        if self.serial:
            after = self._behind(of, after, index)
        kind = what if move is None else "communication"
        tag = self.tags[of[0]] if len(of) == 1 else ""
        name = f"{tag}{self.names[layer]} {what}"
        if move is not None:
            name += f" {move.collective} H{move.level + 1}"
        self.tasks.append(Task(name, resource, seconds, after, kind))
        self.layers.append(layer)
        self.moves.append(move)
        self.of.append(of)
        return index

    def _behind(self, of: tuple[int, ...], after: After, index: int) -> After:
        """One thing after another on the lanes of a task; it still waits for what comes from others."""
        if len(self.lanes) == 1:
            self.last[0] = index
            return (index - 1,) if index else ()
        before = dict.fromkeys(last for lane in of if (last := self.last[lane]) is not None and last >= 0)
        for lane in of:
            self.last[lane] = None if self.last[lane] is None else index
        return (*before, *(task for task in after if task not in before and not self._kept(of, task)))

    def _kept(self, of: tuple[int, ...], task: int) -> bool:
        """Whether a task is behind another anyway, as both are of one lane without overlap."""
        return any(self.last[lane] is not None for lane in {*of} & {*self.of[task]})

    def compute(self, lane: int, layer: int, what: str, seconds: float, after: After) -> int:
        """A task of a lane's devices."""
        return self.add(self.own[lane], layer, what, seconds, after, self.resources[lane][-1])

    def send(self, lane: int, layer: int, moves: Sequence[Move], phase: str, after: After) -> After:
        """The transfers of a phase inside a lane, one behind the other; returns what to wait for then."""
        for move in moves:
            if move.phase == phase:
                resource = self.resources[lane][move.level]
                depth = self.lanes[lane].depth
                seen = move._replace(level=move.level + depth) if depth else move
                after = (self.add(self.own[lane], layer, phase, move.seconds, after, resource, seen),)
        return after

    def cross(
        self, crossing: Crossing, layer: int, amounts: Sequence[Amount], phase: str, after: list[After]
    ) -> list[After]:
        """The transfers of a phase at a fork: each side waits for all that hold something of it."""
        for amount in amounts:
            if amount.phase == phase:
                holders = (lane for side in crossing.receivers for lane in side.lanes)
                data = tuple(dict.fromkeys(task for lane in holders for task in after[lane]))
                after = list(after)
                for side, receiver in enumerate(crossing.receivers):
                    move = crossing.move(amount, side)
                    if move is not None:
                        resource = f"{receiver.name} outward links"
                        task = self.add(receiver.lanes, layer, phase, move.seconds, data, resource, move)
                        for lane in receiver.lanes:
                            after[lane] = (task,)
        return after


def _resources(lane: Lane) -> tuple[str, ...]:
    """The links of each level of a lane, and its devices."""
    tag = f"{lane.name} " if lane.name else ""
    links = lane.setting.machine.links(lane.setting.array) if lane.setting.array else ()
    return (*(f"{tag}{link.resource}" for link in links), f"{tag}{COMPUTE}")


def lower(graph: ContractedGraph, choices: Sequence[Options], setting: Setting) -> Step:
    """The tasks of one training step on like devices.

    Args:
        graph: the layers that are cut.
        choices: for each layer a choice at each level.
        setting: machine, array, optimizer.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    return lower_lanes([Lane(graph, choices, setting)])


def lower_lanes(lanes: Sequence[Lane], crossings: Sequence[Crossing] = ()) -> Step:
    """The tasks of one training step on several groups of like devices.

    Args:
        lanes: the groups, whose layers are parts of the same ones.
        crossings: the forks between them, outer ones first.

    Raises:
        HardwareError: an array does not fit its machine.
    """
    lowering = _Lowering(lanes, crossings)
    flow = _Flow(lowering)
    work = tuple(_work(lane) for lane in lanes)
    ready: list[list[After]] = []
    for layer in range(len(lowering.names)):
        after: list[After] = [()] * len(lanes)
        for tensor, producer in flow.made_by[layer]:
            arrived = flow.between(layer, tensor, "forward", ready[producer])
            after = [before + own for before, own in zip(after, arrived, strict=True)]
        for lane, own in enumerate(work):
            time = own.times[layer]
            if time is not None:
                after[lane] = (
                    lowering.compute(lane, layer, "forward", time.seconds["forward"], after[lane]),
                )
        ready.append(flow.inside(layer, "forward", after))
    _backward(lowering, flow, work, ready)
    return Step(
        tasks=tuple(lowering.tasks),
        layers=tuple(lowering.layers),
        moves=tuple(lowering.moves),
        lanes=tuple(lowering.of),
        work=work,
    )


def _work(lane: Lane) -> LaneWork:
    """What a lane's devices compute."""
    machine, size = lane.setting.machine, lane.setting.element_bytes
    times = tuple(
        machine.layer_time(layer.einsum, degrees(chosen), size)
        if layer.weighted and layer.einsum.macs
        else None
        for layer, chosen in zip(lane.graph.layers, lane.choices, strict=True)
    )
    return LaneWork(
        times=times, working=tuple(working(chosen, lane.setting.array) for chosen in lane.choices)
    )


class _Flow:
    """How tensors come from layer to layer, on all lanes."""

    def __init__(self, lowering: _Lowering) -> None:
        self.lowering = lowering
        lanes = lowering.lanes
        self.inner = [
            [
                moves_inside(lane.setting, layer.einsum, layer.output_elements, chosen)
                if lane.works(index)
                else ()
                for index, (layer, chosen) in enumerate(zip(lane.graph.layers, lane.choices, strict=True))
            ]
            for lane in lanes
        ]
        self.outer = [[_moves_of(lane, index) for index in range(len(lane.graph.tensors))] for lane in lanes]
        self.made_by: list[list[tuple[int, int]]] = [[] for _ in lowering.names]
        self.read_by: list[list[tuple[int, int]]] = [[] for _ in lowering.names]
        for index, tensor in enumerate(lanes[0].graph.tensors):
            self.made_by[tensor.consumer].append((index, tensor.producer))
            self.read_by[tensor.producer].append((index, tensor.consumer))

    def between(self, layer: int, tensor: int, phase: str, after: list[After]) -> list[After]:
        """A tensor's way between two layers: over the forks, outer ones first, then inside each lane."""
        for crossing in self.lowering.crossings:
            after = self.lowering.cross(crossing, layer, crossing.between[tensor], phase, after)
        return [
            self.lowering.send(lane, layer, self.outer[lane][tensor], phase, own)
            for lane, own in enumerate(after)
        ]

    def inside(self, layer: int, phase: str, after: list[After]) -> list[After]:
        """Adding up inside a layer: in each lane, then over the forks, inner ones first."""
        after = [
            self.lowering.send(lane, layer, self.inner[lane][layer], phase, own)
            for lane, own in enumerate(after)
        ]
        for crossing in reversed(self.lowering.crossings):
            after = self.lowering.cross(crossing, layer, crossing.inside[layer], phase, after)
        return after


def _backward(
    lowering: _Lowering, flow: _Flow, work: Sequence[LaneWork], ready: Sequence[list[After]]
) -> None:
    """Errors from the last layer to the first, and with each the gradient and the update of its weight."""
    count = len(lowering.lanes)
    errors: list[list[After]] = [[()] * count for _ in ready]
    for layer in reversed(range(len(ready))):
        after: list[After] = [()] * count
        for tensor, consumer in flow.read_by[layer]:
            arrived = flow.between(layer, tensor, "backward", errors[consumer])
            after = [before + own for before, own in zip(after, arrived, strict=True)]
        after = [own or ready[layer][lane] for lane, own in enumerate(after)]
        done, summed = list(after), list(after)
        times = [own.times[layer] for own in work]
        for lane, time in enumerate(times):
            if time is not None:
                done[lane] = (
                    lowering.compute(lane, layer, "backward", time.seconds["backward"], after[lane]),
                )
        errors[layer] = flow.inside(layer, "backward", done)
        for lane, time in enumerate(times):
            if time is not None:
                summed[lane] = (
                    lowering.compute(lane, layer, "gradient", time.seconds["gradient"], after[lane]),
                )
        summed = flow.inside(layer, "gradient", summed)
        for lane, time in enumerate(times):
            if time is not None:
                seconds = lowering.lanes[lane].setting.update_seconds(time)
                lowering.compute(lane, layer, "update", seconds, summed[lane])


def _moves_of(lane: Lane, tensor: int) -> tuple[Move, ...]:
    """The transfers of a lane between the two layers of a tensor."""
    edge = lane.graph.tensors[tensor]
    if not (lane.works(edge.producer) and lane.works(edge.consumer)):
        return ()
    ends = (lane.graph.layers[edge.producer].einsum, lane.graph.layers[edge.consumer].einsum)
    chosen = (lane.choices[edge.producer], lane.choices[edge.consumer])
    return moves_between(lane.setting, ends, edge.content, chosen)
