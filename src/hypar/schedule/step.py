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
from hypar.schedule.tasks import After, Lowering, TaskList

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.machine.setting import Setting
    from hypar.network.nodes import PlanGraph
    from hypar.schedule.chunked import Chunks
    from hypar.schedule.lanes import Crossing
    from hypar.schedule.moves import Move
    from hypar.schedule.timeline import Task
    from hypar.sharding.placement import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A training step, lowered.

    Attributes:
        tasks: in an order in which they can run.
        layers: for each task the layer that it belongs to.
        moves: for each task its transfer; None for computation.
        lanes: for each task the lanes that it occupies.
        items: for each task the microbatch that it works on, from 0; 0 without stages.
        work: the computation of each lane.
    """

    tasks: tuple[Task, ...]
    layers: tuple[int, ...]
    moves: tuple[Move | None, ...]
    lanes: tuple[tuple[int, ...], ...]
    items: tuple[int, ...]
    work: tuple[LaneWork, ...]


Ready = list[list[After]]
"""For each layer and lane the tasks to wait for."""


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


def lower(graph: PlanGraph, choices: Sequence[Options], setting: Setting) -> Step:
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
    flow = Flow(Lowering(lanes), lanes, crossings, chunks)
    flow.backward(flow.forward())
    return step_of(flow.lowering.found, [lane.work for lane in lanes])


def step_of(found: TaskList, work: Sequence[LaneWork]) -> Step:
    """Return the step of a list of tasks and of the computation of each lane."""
    return Step(
        tasks=tuple(found.tasks),
        layers=tuple(found.layers),
        moves=tuple(found.moves),
        lanes=tuple(found.lanes),
        items=tuple(found.items),
        work=tuple(work),
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


class Flow:
    """The lowering of the phases of some lanes, layer by layer on all of them, with the tasks to wait for on each."""

    def __init__(
        self,
        lowering: Lowering,
        lanes: Sequence[Lane],
        crossings: Sequence[Crossing] = (),
        chunks: Chunks | None = None,
    ) -> None:
        """Start without tasks; arguments as in ``lower_lanes``."""
        self.lowering, self.lanes, self.crossings = lowering, lanes, crossings
        self.times = [lane.work.times for lane in lanes]
        self.updates = [lane.updates for lane in lanes]
        self.inner = [lane.inner for lane in lanes]
        self.outer = [lane.outer for lane in lanes]
        count = len(lanes[0].graph.layers)
        self.made_by: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self.read_by: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for index, tensor in enumerate(lanes[0].graph.tensors):
            self.made_by[tensor.consumer].append((index, tensor.producer))
            self.read_by[tensor.producer].append((index, tensor.consumer))
        self.arrived: dict[int, list[After]] = {}
        self.late: list[tuple[int, int, After]] = []
        self.shared: set[int] = set()
        self.summed: dict[int, tuple[int | None, list[After]]] = {}
        self.overlaps = [lane.setting.machine.overlap for lane in lanes]
        self.overlapping = any(self.overlaps)
        if chunks is None and any(lane.setting.machine.independent for lane in lanes):
            chunks = tuple((layer,) for layer in reversed(range(count)))
        self.chunked = None if chunks is None else ChunkedGradients(lanes, crossings, chunks)

    def forward(self, after: After = ()) -> Ready:
        """Lower the forward phase, from the first layer to the last.

        Args:
            after: the tasks that bring what other stages made.

        Returns:
            For each layer the tasks to wait for on each lane until its output is there.
        """
        ready: Ready = []
        first = [(*self.lowering.start, *after)] * len(self.lanes)
        for layer, read in enumerate(self.made_by):
            moved = [self._moved(tensor, layer, "forward", ready[maker]) for tensor, maker in read]
            before = self._together(moved) if read else first
            ready.append(self._inside(layer, "forward", self._computed(layer, "forward", before)))
        return ready

    def backward(self, ready: Ready, after: After = (), *, final: bool = True) -> Ready:
        """Lower the backward phase from the last layer to the first, with each layer's gradient.

        Args:
            ready: the tasks that made each layer's output.
            after: the tasks that bring the errors of other stages.
            final: whether gradients are exchanged and weights are updated.

        Returns:
            For each layer the tasks to wait for on each lane until the error of its input is there.
        """
        self.arrived = {}
        errors: Ready = [[()] * len(self.lanes) for _ in ready]
        gradients: list[tuple[int, list[After]]] = []
        # Where nothing overlaps, the stage before would wait for the exchange of gradients.
        waits = self.lowering.item is not None and not all(self.overlaps)
        for layer in reversed(range(len(ready))):
            arrived = self._together(
                [self._returned(*tensor, layer, errors) for tensor in self.read_by[layer]]
            )
            before = [own or after or made for own, made in zip(arrived, ready[layer], strict=True)]
            if self.lowering.start:
                before = [(*self.lowering.start, *own) for own in before]
            errors[layer] = self._inside(layer, "backward", self._computed(layer, "backward", before))
            if self.overlapping:
                for tensor, maker in sorted(self.made_by[layer], key=itemgetter(1), reverse=True):
                    self._returned(tensor, layer, maker, errors)
            gradients.append((layer, self._computed(layer, "gradient", before)))
            if final and not waits:
                self._exchanged(*gradients[-1])
        for layer, gradient in gradients if final and waits else ():
            self._exchanged(layer, gradient)
        for lane, layer, summed_up in self.late if final else ():
            self._updated(lane, layer, summed_up)
        self.late = []
        return errors

    def made(self, ready: Ready) -> After:
        """Return the tasks to wait for until the outputs of all layers are there."""
        return _all(own for own, readers in zip(ready, self.read_by, strict=True) if not readers)

    def sent_back(self, errors: Ready) -> After:
        """Return the tasks to wait for until the errors of the inputs of all layers are there."""
        return _all(own for own, makers in zip(errors, self.made_by, strict=True) if not makers)

    def _exchanged(self, layer: int, gradient: list[After]) -> None:
        """Add up a layer's gradient, alone or in its chunk, and update what can be updated then."""
        if self.chunked is None:
            self._update(layer, self._inside(layer, "gradient", gradient))
        else:
            for done, summed in self.chunked.passed(self.lowering, layer, gradient):
                self._update(done, summed)

    def _returned(self, tensor: int, reader: int, maker: int, errors: Sequence[list[After]]) -> list[After]:
        """Send the error of a tensor back to the layer that made it, once."""
        if tensor not in self.arrived:
            self.arrived[tensor] = self._moved(tensor, maker, "backward", errors[reader])
        return self.arrived[tensor]

    def _update(self, layer: int, summed: list[After]) -> None:
        """Update a weight on the lanes that hold a shard of it, later if a transfer delays the update.

        One that a layer of another stage uses as well waits until that stage has its sum too.
        """
        if layer in self.shared:
            self.summed[layer] = self.lowering.item, summed
            return
        moves = self.lowering.found.moves
        for lane, times in enumerate(self.times):
            if times[layer] is not None:
                if self.overlaps[lane] and any(moves[task] is not None for task in summed[lane]):
                    self.late.append((lane, layer, summed[lane]))
                else:
                    self._updated(lane, layer, summed[lane])

    def update_shared(self, layer: int, after: list[After]) -> None:
        """Update a weight that a layer of another stage uses as well."""
        for lane, times in enumerate(self.times):
            if times[layer] is not None:
                self._updated(lane, layer, after[lane])

    def _updated(self, lane: int, layer: int, after: After) -> None:
        self.lowering.compute(lane, layer, "update", self.updates[lane][layer], after)

    def _computed(self, layer: int, phase: str, after: list[After]) -> list[After]:
        """Compute a phase of a layer on the lanes that hold a shard of it; return a new list of the tasks to wait for."""
        after = [*after]
        for lane, times in enumerate(self.times):
            time = times[layer]
            if time is not None:
                after[lane] = self.lowering.compute(lane, layer, phase, time.seconds[phase], after[lane])
        return after

    def _inside(self, layer: int, phase: str, after: list[After]) -> list[After]:
        """Add up the partial sums of a phase of a layer, inside each lane, then across the uneven splits."""
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


def _all(some: Iterable[list[After]]) -> After:
    """Return the tasks of several layers on all lanes, each once."""
    return tuple(dict.fromkeys(chain.from_iterable(chain.from_iterable(some))))


def exchanging(step: Step) -> tuple[int, ...]:
    """Return the layers that exchange gradients, in the order of the backward phase."""
    moved = zip(step.layers, step.moves, strict=True)
    return tuple(sorted({layer for layer, move in moved if move and move.phase == PHASE}, reverse=True))
