"""The tasks of a step, one by one: computation of a lane, transfers inside a lane, transfers between lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.timeline import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.schedule.lanes import Crossing, Lane
    from hypar.schedule.moves import Move, Moves
    from hypar.sharding.uneven.transfers import Amount

COMPUTE = "devices"
"""The resource that computes: the devices of a lane, which all do the same."""

COMMUNICATION = "communication"
"""The kind of transfers."""

After = tuple[int, ...]
"""Indices of the tasks to wait for."""


_new = tuple.__new__
"""The constructor of a named tuple without its binding of arguments, which takes longer than the rest."""


class Lowering:
    """The tasks so far.

    Attributes:
        tasks: in an order in which they can run.
        layers: for each task the layer that it belongs to.
        moves: for each task its transfer; None for computation.
        of: for each task the lanes that it occupies.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        """Start without tasks."""
        self.tasks: list[Task] = []
        self.layers: list[int] = []
        self.moves: list[Move | None] = []
        self.of: list[tuple[int, ...]] = []
        self._depths = [lane.depth for lane in lanes]
        self._resources = [_resources(lane) for lane in lanes]
        tags = [f"{lane.name}: " if lane.name else "" for lane in lanes]
        self._names = [[f"{tag}{layer.name} " for layer in lanes[0].graph.layers] for tag in (*tags, "")]
        self._own = [(lane,) for lane in range(len(lanes))]
        self._last: list[int | None] = [None if lane.setting.machine.overlap else -1 for lane in lanes]
        self._serial = any(last is not None for last in self._last)
        self._before: After | None = () if self._serial and len(lanes) == 1 else None

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
        tasks = self.tasks
        index = len(tasks)
        done = (index,)
        if self._before is not None:
            after, self._before = self._before, done
        elif self._serial:
            after = self._behind(of, after, index)
        tasks.append(_new(Task, (name, resource, seconds, after, kind)))
        self.layers.append(layer)
        self.moves.append(move)
        self.of.append(of)
        return done

    def _behind(self, of: tuple[int, ...], after: After, index: int) -> After:
        """Return the tasks to wait for on lanes without overlap: the last ones there, and those of other lanes."""
        before = dict.fromkeys(last for lane in of if (last := self._last[lane]) is not None and last >= 0)
        for lane in of:
            self._last[lane] = None if self._last[lane] is None else index
        return (*before, *(task for task in after if task not in before and not self._kept(of, task)))

    def _kept(self, of: tuple[int, ...], task: int) -> bool:
        """Return whether a task precedes another anyway, as they share a lane without overlap."""
        return any(self._last[lane] is not None for lane in {*of} & {*self.of[task]})

    def compute(self, lane: int, layer: int, what: str, seconds: float, after: After) -> After:
        """Add a task of a lane's devices; return the tasks to wait for afterwards."""
        name = self._names[lane][layer] + what
        return self._add(self._own[lane], layer, name, self._resources[lane][-1], seconds, after, what)

    def send(self, lane: int, layer: int, moves: Moves, after: After, first: int | None = None) -> After:
        """Add transfers inside a lane, in sequence; return the tasks to wait for afterwards.

        Args:
            lane: index of the lane.
            layer: the layer that they belong to; of several layers, the last.
            moves: the transfers, of one phase.
            after: the tasks to wait for.
            first: the first of several layers.
        """
        of = self._names[lane][layer] if first is None else self._span(lane, first, layer)
        own, resources, depth = self._own[lane], self._resources[lane], self._depths[lane]
        labels = moves.labels_below(depth) if depth else moves.labels
        for move, label in zip(moves, labels, strict=True):
            level, seconds = move.level, move.seconds
            seen = move._replace(level=depth + level) if depth else move
            after = self._add(own, layer, of + label, resources[level], seconds, after, COMMUNICATION, seen)
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
        """Add the transfers of a phase at an uneven split: each group waits for all; otherwise as ``send``."""
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

    def _span(self, lane: int, first: int, last: int) -> str:
        return self._names[lane][first] + (f"to {self._names[-1][last]}" if first != last else "")


def _resources(lane: Lane) -> tuple[str, ...]:
    tag = f"{lane.name} " if lane.name else ""
    links = lane.setting.machine.links(lane.setting.array) if lane.setting.array else ()
    return (*(f"{tag}{link.resource}" for link in links), f"{tag}{COMPUTE}")
