"""The tasks of a step, one by one: computation of a lane, transfers inside a lane, transfers between lanes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypar.schedule.moves import BETWEEN_STAGES, PHASE, Move
from hypar.schedule.timeline import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.schedule.entering import Entering
    from hypar.schedule.lanes import Crossing, Lane
    from hypar.schedule.moves import Moves
    from hypar.sharding.amounts.above import Amount

COMPUTE = "devices"
"""The resource that computes: the devices of a lane, which all do the same."""

COMMUNICATION = "communication"
"""The kind of transfers."""

After = tuple[int, ...]
"""Indices of the tasks to wait for."""


_new = tuple.__new__
"""The constructor of a named tuple without its binding of arguments, which takes longer than the rest."""


class TaskList:
    """The tasks of all lanes of a step so far.

    Attributes:
        tasks: in an order in which they can run.
        layers: for each task the layer that it belongs to; -1 for none.
        moves: for each task its transfer; None for computation.
        lanes: for each task the lanes that it occupies.
        items: for each task the microbatch that it works on.
    """

    def __init__(self) -> None:
        """Start without tasks."""
        self.tasks: list[Task] = []
        self.layers: list[int] = []
        self.moves: list[Move | None] = []
        self.lanes: list[tuple[int, ...]] = []
        self.items: list[int] = []

    def add(self, task: Task, lanes: tuple[int, ...], layer: int, move: Move | None, item: int) -> int:
        """Add a task and return its index."""
        self.tasks.append(task)
        self.layers.append(layer)
        self.moves.append(move)
        self.lanes.append(lanes)
        self.items.append(item)
        return len(self.tasks) - 1

    def copy(self, first: int, end: int, after: After, item: int) -> None:
        """Add tasks again for another microbatch, each behind the one before it.

        Args:
            first: the first of the tasks.
            end: the first behind them.
            after: the tasks for which the first one waits.
            item: the microbatch.
        """
        index, old, new = len(self.tasks), f" #{self.items[first] + 1}", f" #{item + 1}"
        waits = [after, *zip(range(index, index + end - first - 1))]
        self.tasks += [
            _new(Task, (name.removesuffix(old) + new, resource, seconds, before, kind))
            for (name, resource, seconds, _, kind), before in zip(self.tasks[first:end], waits, strict=True)
        ]
        self.layers += self.layers[first:end]
        self.moves += self.moves[first:end]
        self.lanes += self.lanes[first:end]
        self.items += [item] * (end - first)


class Lowering:
    """The lowering of the lanes of a step without stages, or of one stage.

    Attributes:
        found: the tasks so far, also those of other stages.
        item: the microbatch that is lowered; None without stages.
        start: the tasks for which all others wait.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        found: TaskList | None = None,
        first: tuple[int, int] = (0, 0),
        before: Lowering | None = None,
    ) -> None:
        """Start without tasks.

        Args:
            lanes: the lanes.
            found: the tasks of all stages; None without stages.
            first: the number of the first lane among those of all stages, and of the first layer.
            before: the lowering of another part of the same stage, with which it shares the devices.
        """
        self.found = TaskList() if found is None else found
        self.item: int | None = None if found is None else 0
        self.start: After = ()
        self._first = first
        self._depths = [lane.depth for lane in lanes]
        self._resources = [_resources(lane) for lane in lanes]
        self._arrays = [lane.setting.array for lane in lanes]
        tags = [f"{lane.name}: " if lane.name else "" for lane in lanes]
        self._tag = tags[0]
        self._names = [[f"{tag}{layer.name} " for layer in lanes[0].graph.layers] for tag in (*tags, "")]
        self._own = [(lane,) for lane in range(len(lanes))]
        self._placed: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._last: list[int | None] = [None if lane.setting.machine.overlap else -1 for lane in lanes]
        if before is not None:
            self._last = before._last
        self._serial = any(last is not None for last in self._last)
        alone = len(lanes) == 1 and found is None
        self._before: After | None = () if self._serial and alone else None

    def _add(
        self,
        of: tuple[int, ...],
        layer: int,
        name: str,
        resource: str,
        seconds: float,
        after: After,
        kind: str,
        move: Move | None = None,
    ) -> After:
        """Add a task and return it as the one to wait for afterwards."""
        index, item = len(self.found.tasks), 0
        done = (index,)
        if self._before is not None:
            after, self._before = self._before, done
        elif self._serial:
            after = self._behind(of, after, index)
        if self.item is not None:
            name, item = f"{name} #{self.item + 1}", self.item
            of, layer = self._in_step(of), self._first[1] + layer
        self.found.add(_new(Task, (name, resource, seconds, after, kind)), of, layer, move, item)
        return done

    def _in_step(self, of: tuple[int, ...]) -> tuple[int, ...]:
        """Return the indices of lanes among those of all stages."""
        if of not in self._placed:
            self._placed[of] = tuple(self._first[0] + lane for lane in of)
        return self._placed[of]

    def _behind(self, of: tuple[int, ...], after: After, index: int) -> After:
        """Return the tasks to wait for on lanes without overlap: the last ones there, and those of other lanes."""
        last = self._last[of[0]]
        if after == (last,) and len(of) == 1:
            self._last[of[0]] = index
            return after
        before = dict.fromkeys(last for lane in of if (last := self._last[lane]) is not None and last >= 0)
        for lane in of:
            self._last[lane] = None if self._last[lane] is None else index
        return (*before, *(task for task in after if task not in before and not self._kept(of, task)))

    def _kept(self, of: tuple[int, ...], task: int) -> bool:
        """Return whether a task precedes another anyway, as they share a lane without overlap."""
        own, first = self._in_step(of), self._first[0]
        return any(lane in own and self._last[lane - first] is not None for lane in self.found.lanes[task])

    @property
    def in_turn(self) -> bool:
        """Whether there is one lane, without overlap."""
        return self._serial and len(self._own) == 1

    def copied(self, first: int, end: int, after: After) -> None:
        """Add the tasks of one lane without overlap for this microbatch as they are for another.

        Args:
            first: the first of the tasks, each of which waits for the one before it.
            end: the first behind them.
            after: the tasks to wait for.
        """
        assert self.item is not None  # noqa: S101 (a step without stages has no microbatches)
        index = len(self.found.tasks)
        self.found.copy(first, end, self._behind(self._own[0], after, index), self.item)
        self._last[0] = index + end - first - 1

    def wait(self, task: int) -> None:
        """Let all tasks that follow wait for a task."""
        self.start = (task,)
        self._last[:] = [None if last is None else task for last in self._last]

    def compute(self, lane: int, layer: int, what: str, seconds: float, after: After) -> After:
        """Add a task of a lane's devices; return the tasks to wait for afterwards."""
        name = self._names[lane][layer] + what
        return self._add(self._own[lane], layer, name, self._resources[lane][-1], seconds, after, what)

    def stall(self, lane: int, layer: int, seconds: float, after: After, first: int) -> After:
        """Stall a lane's devices for a chunk of layers; return the tasks to wait for afterwards."""
        name = f"{self._span(lane, first, layer)}synchronisation"
        resource = self._resources[lane][-1]
        return self._add(self._own[lane], layer, name, resource, seconds, after, COMMUNICATION)

    def send(
        self,
        lane: int,
        layer: int,
        moves: Moves,
        after: After,
        first: int | None = None,
        *,
        apart: bool = False,
    ) -> After:
        """Add transfers inside a lane, in sequence; return the tasks to wait for afterwards.

        Args:
            lane: index of the lane.
            layer: the layer that they belong to; of several layers, the last.
            moves: the transfers, of one phase.
            after: the tasks to wait for.
            first: the first of several layers.
            apart: whether the transfers have links of their own.
        """
        of = self._names[lane][layer] if first is None else self._span(lane, first, layer)
        own, resources, depth = self._own[lane], self._resources[lane], self._depths[lane]
        if apart:
            resources = tuple([f"{one} of {self._names[-1][layer].rstrip()}" for one in resources])
        moves = moves.below(depth)
        for move, label in zip(moves, moves.labels, strict=True):
            resource = resources[move.level - depth]
            after = self._add(own, layer, of + label, resource, move.seconds, after, COMMUNICATION, move)
        return after

    def cross(
        self,
        crossing: Crossing,
        layer: int,
        amounts: Sequence[Amount],
        phase: str,
        after: list[After],
        first: int | None = None,
    ) -> list[After]:
        """Add the transfers of a phase at an uneven split: each group waits for all; arguments as in ``send``."""
        for amount in amounts:
            if amount.phase == phase:
                holders = (lane for group in crossing.receivers for lane in group.lanes)
                data = tuple(dict.fromkeys(task for lane in holders for task in after[lane]))
                after = list(after)
                for group, receiver in enumerate(crossing.receivers):
                    move = crossing.move(amount, group)
                    if move is not None:
                        of = self._names[-1][layer] if first is None else self._span(-1, first, layer)
                        name = f"{receiver.name}: {of}{phase} {move.collective} H{move.level + 1}"
                        links = f"{receiver.name} outward links"
                        done = self._add(
                            receiver.lanes, layer, name, links, move.seconds, data, COMMUNICATION, move
                        )
                        for lane in receiver.lanes:
                            after[lane] = done
        return after

    def enter(self, entering: Entering, layer: int, phase: str, after: After, link: str) -> After:
        """Add what the lanes of a stage receive from other stages; return the tasks to wait for afterwards.

        Args:
            entering: what they receive.
            layer: the layer that stands for all that read or make it.
            phase: the phase.
            after: the tasks that make it.
            link: the link that carries it.
        """
        of, devices = tuple(range(len(self._own))), sum(map(math.prod, self._arrays))
        received = entering.num_bytes
        move = Move(
            phase,
            BETWEEN_STAGES,
            entering.link_s,
            received,
            devices,
            received / devices,
            entering.from_stages,
            "all_reduce" if phase == PHASE else "send",
        )
        name = f"{self._tag}{phase} from other stages"
        return self._add(of, layer, name, link, move.seconds, after, COMMUNICATION, move)

    def hand_on(
        self, entering: Entering, phase: str, after: After, crossings: Sequence[Crossing] = ()
    ) -> After:
        """Add the transfers that hand on what came from other stages; return the tasks to wait for.

        Args:
            entering: what came.
            phase: the phase.
            after: the tasks that brought it.
            crossings: the uneven splits of the stage.
        """
        each = [after] * len(self._own)
        for arrival in entering.arrivals:
            moves = arrival.moves.phases.get(phase)
            if moves:
                each[arrival.lane] = self.send(arrival.lane, arrival.layer, moves, each[arrival.lane])
            for number, amount, _ in arrival.crossed:
                each = self.cross(crossings[number], arrival.layer, (amount,), phase, each)
        return each[0] if len(each) == 1 else tuple(dict.fromkeys(task for own in each for task in own))

    def _span(self, lane: int, first: int, last: int) -> str:
        return self._names[lane][first] + (f"to {self._names[-1][last]}" if first != last else "")


def _resources(lane: Lane) -> tuple[str, ...]:
    tag = f"{lane.name} " if lane.name else ""
    links = lane.setting.machine.links(lane.setting.array) if lane.setting.array else ()
    return (*(f"{tag}{link.resource}" for link in links), f"{tag}{COMPUTE}")
