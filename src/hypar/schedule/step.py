"""A training step as tasks: forward and backward phase, gradients, updates.

Identical devices do the same at the same time, so one of them and its links stand for a lane of them. A layer first
gets its tensors, computes, then adds up the partial sums that its cuts left; errors take the same way back. On a
machine without overlap the tasks of a lane run one after another; with overlap a task waits only for the data that it
reads and for its resource, so gradients are added up during the rest of the backward phase. Lanes wait for each other
only for transfers between them.

The order of the tasks is the order in which they are issued; it depends on no duration. With overlap the error of a
layer is sent before its gradient is computed, as the rest of the backward phase waits for it, and updates that wait
for a transfer come last, so that the devices do not wait for the transfer either.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from hypar.schedule.chunked import ChunkedGradients
from hypar.schedule.lanes import Lane, LaneWork
from hypar.schedule.moves import PHASE
from hypar.schedule.tasks import Lowering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.machine.setting import Setting
    from hypar.network.contraction import ContractedGraph
    from hypar.schedule.chunked import Chunks
    from hypar.schedule.lanes import Crossing
    from hypar.schedule.moves import Move
    from hypar.schedule.tasks import After
    from hypar.sharding.placement import Options
    from hypar.timeline import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step, lowered.

    Attributes:
        tasks: in an order in which they can run.
        layers: for each task the layer that it belongs to.
        moves: for each task its transfer; None for computation.
        lanes: for each task the lanes that it occupies.
        work: the computation of each lane.
    """

    tasks: tuple[Task, ...]
    layers: tuple[int, ...]
    moves: tuple[Move | None, ...]
    lanes: tuple[tuple[int, ...], ...]
    work: tuple[LaneWork, ...]


class Transfers(NamedTuple):
    """The transfers and the computation of a step, in no order.

    Attributes:
        moves: the transfers.
        lanes: for each of them the lanes that it occupies.
        work: the computation of each lane.
    """

    moves: tuple[Move, ...]
    lanes: tuple[tuple[int, ...], ...]
    work: tuple[LaneWork, ...]


def lower(graph: ContractedGraph, choices: Sequence[Options], setting: Setting) -> Step:
    """Lower one training step on identical devices to tasks.

    Args:
        graph: the layers that are cut.
        choices: for each layer a choice at each level.
        setting: machine, array, optimizer.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    return lower_lanes([Lane(graph, choices, setting)])


def lower_lanes(
    lanes: Sequence[Lane], crossings: Sequence[Crossing] = (), chunks: Chunks | None = None
) -> Step:
    """Lower one training step on several groups of identical devices to tasks.

    Args:
        lanes: the groups, whose layers are shards of the same layers.
        crossings: the transfers at the uneven splits between them, outer splits first.
        chunks: the layers that exchange their gradients together; without chunks each layer exchanges its own.

    Raises:
        HardwareError: an array does not fit its machine.
    """
    flow = _Flow(lanes, crossings, chunks)
    flow.forward()
    flow.backward()
    return Step(
        tasks=tuple(flow.lowering.tasks),
        layers=tuple(flow.lowering.layers),
        moves=tuple(flow.lowering.moves),
        lanes=tuple(flow.lowering.of),
        work=flow.work,
    )


def transfers_of(lanes: Sequence[Lane], crossings: Sequence[Crossing] = ()) -> Transfers:
    """Return the transfers that ``lower_lanes`` makes tasks of, each layer exchanging its own gradients."""
    found: list[tuple[Move, tuple[int, ...]]] = [
        (move, (number,))
        for number, lane in enumerate(lanes)
        for moves in chain(lane.inner, lane.outer)
        for move in moves
    ]
    for crossing in crossings:
        for amount in chain.from_iterable((*crossing.inside, *crossing.between)):
            for group, receiver in enumerate(crossing.receivers):
                move = crossing.move(amount, group)
                found += [] if move is None else [(move, receiver.lanes)]
    moves, of = tuple(zip(*found, strict=True)) or ((), ())
    return Transfers(moves, of, tuple(lane.work for lane in lanes))


class _Flow:
    """The lowering of a step, layer by layer on all lanes, with the tasks to wait for on each lane."""

    def __init__(self, lanes: Sequence[Lane], crossings: Sequence[Crossing], chunks: Chunks | None) -> None:
        self.lanes, self.crossings = lanes, crossings
        self.lowering = Lowering(lanes)
        self.work = tuple(lane.work for lane in lanes)
        self.times = [work.times for work in self.work]
        self.updates = [lane.updates for lane in lanes]
        self.inner = [lane.inner for lane in lanes]
        self.outer = [lane.outer for lane in lanes]
        count = len(lanes[0].graph.layers)
        self.made_by: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self.read_by: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for index, tensor in enumerate(lanes[0].graph.tensors):
            self.made_by[tensor.consumer].append((index, tensor.producer))
            self.read_by[tensor.producer].append((index, tensor.consumer))
        self.ready: list[list[After]] = []
        self.arrived: dict[int, list[After]] = {}
        self.late: list[tuple[int, int, After]] = []
        self.overlaps = [lane.setting.machine.overlap for lane in lanes]
        self.overlapping = any(self.overlaps)
        self.chunked = None if chunks is None else ChunkedGradients(lanes, crossings, self.inner, chunks)

    def forward(self) -> None:
        """Lower the forward phase, from the first layer to the last."""
        for layer, read in enumerate(self.made_by):
            moved = [self._moved(tensor, layer, "forward", self.ready[maker]) for tensor, maker in read]
            after = self._together(moved)
            self.ready.append(self._computed(layer, "forward", after))

    def backward(self) -> None:
        """Lower the backward phase from the last layer to the first, with each layer's gradient and update."""
        errors: list[list[After]] = [[()] * len(self.lanes) for _ in self.ready]
        for layer in reversed(range(len(self.ready))):
            sent = [self._returned(tensor, reader, layer, errors) for tensor, reader in self.read_by[layer]]
            after = [own or made for own, made in zip(self._together(sent), self.ready[layer], strict=True)]
            errors[layer] = self._computed(layer, "backward", after)
            if self.overlapping:
                for tensor, maker in sorted(self.made_by[layer], key=itemgetter(1), reverse=True):
                    self._returned(tensor, layer, maker, errors)
            if self.chunked is None:
                self._update(layer, self._computed(layer, "gradient", after))
            else:
                gradient = self._computed(layer, "gradient", after, summed=False)
                for done, summed in self.chunked.passed(self.lowering, layer, gradient):
                    self._update(done, summed)
        for lane, layer, summed_up in self.late:
            self._updated(lane, layer, summed_up)

    def _returned(self, tensor: int, reader: int, maker: int, errors: Sequence[list[After]]) -> list[After]:
        """Send the error of a tensor back to the layer that made it, once."""
        if tensor not in self.arrived:
            self.arrived[tensor] = self._moved(tensor, maker, "backward", errors[reader])
        return self.arrived[tensor]

    def _update(self, layer: int, summed: list[After]) -> None:
        """Update a weight on the lanes that hold a shard of it, later if a transfer delays the update."""
        for lane, times in enumerate(self.times):
            if times[layer] is not None:
                moves = self.lowering.moves
                if self.overlaps[lane] and any(moves[task] is not None for task in summed[lane]):
                    self.late.append((lane, layer, summed[lane]))
                else:
                    self._updated(lane, layer, summed[lane])

    def _updated(self, lane: int, layer: int, after: After) -> None:
        self.lowering.compute(lane, layer, "update", self.updates[lane][layer], after)

    def _computed(self, layer: int, phase: str, after: list[After], *, summed: bool = True) -> list[After]:
        """Compute a phase of a layer on the lanes that hold a shard of it, and add up its partial sums.

        Returns:
            A new list of the tasks to wait for.
        """
        after = [*after]
        for lane, times in enumerate(self.times):
            time = times[layer]
            if time is not None:
                after[lane] = self.lowering.compute(lane, layer, phase, time.seconds[phase], after[lane])
        if summed:
            for lane, inner in enumerate(self.inner):
                moves = inner[layer].phases.get(phase)
                if moves:
                    after[lane] = self.lowering.send(lane, layer, moves, after[lane])
            for crossing in self.crossings[::-1]:
                after = self.lowering.cross(crossing, layer, crossing.inside[layer], phase, after)
        return after

    def _moved(self, tensor: int, layer: int, phase: str, after: list[After]) -> list[After]:
        """Send a tensor to or from the layer at its other end, across the uneven splits, then inside each lane."""
        for crossing in self.crossings:
            after = self.lowering.cross(crossing, layer, crossing.between[tensor], phase, after)
        for lane, outer in enumerate(self.outer):
            moves = outer[tensor].phases.get(phase)
            if moves:
                after = [*after]
                after[lane] = self.lowering.send(lane, layer, moves, after[lane])
        return after

    def _together(self, arrived: Sequence[list[After]]) -> list[After]:
        """Merge the tasks to wait for, on each lane, of all tensors that a layer gets."""
        if len(arrived) == 1:
            return arrived[0]
        found: list[After] = [()] * len(self.lanes)
        for after in arrived:
            for lane, own in enumerate(after):
                found[lane] += own
        return found


def exchanging(step: Step) -> tuple[int, ...]:
    """Return the layers that exchange gradients, in the order of the backward phase."""
    moved = zip(step.layers, step.moves, strict=True)
    return tuple(sorted({layer for layer, move in moved if move and move.phase == PHASE}, reverse=True))
