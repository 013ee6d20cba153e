"""A step as tasks: the pieces of its ops in the order of issue, each behind the tasks that made what its op reads.

On a machine without overlap the tasks of a group run one after another; with overlap a task waits for its data and its
resource alone. Of the tasks that made the buffers of an op only the last of each line counts, as a line runs its tasks in
order: a resource, or a group without overlap. So no task waits for more tasks than there are lines.

In a pipeline a stage sends the result for a microbatch to its neighbour, which waits for it. The order of the tasks follows
from the schedule alone, whatever their durations: a link sends results in turn, and a stage that spends its own time on
receiving does so just before it needs the result, or at the end of the step.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple, Protocol, Self

from hypar.machine.machine import DeviceGroup
from hypar.schedule.lanes import Piece, Rounds
from hypar.schedule.pipeline_orders import Schedule, Work
from hypar.schedule.record import ERROR, INPUT, Op, Record
from hypar.schedule.timeline import Task, Timeline, run

Costed = tuple["Op", "Rounds"]

After = tuple[int, ...]
"""Indices of the tasks to wait for."""

Waits = list[After]
"""The tasks to wait for on each group of a part."""

Moved = Callable[[After], After]
"""Function from tasks of a microbatch to the same ones of another one."""

_new = tuple.__new__
"""The constructor of a named tuple without its binding of arguments, which takes longer than the rest."""


class Place(NamedTuple):
    """What a task is for: a layer of all stages, of a bucket its last and its ``first`` one, and a microbatch."""

    layer: int
    first: int
    item: int


class Link(Protocol):
    """What brings tensors to a stage."""

    def seconds(self, collective: str, num_bytes: Any, /) -> Any:
        """Return the time until bytes have been received by a collective."""


class Arrival(NamedTuple):
    """A tensor that a stage receives from another one.

    Attributes:
        layer: the index in the stage of the layer that reads or makes it; by ``paper``, which joins the tensors of an output,
            that of its producer, which may be none of the stage.
        num_bytes: the bytes that come from the other stage.
        replicas: the number of parts outside the stages that receive an equal share of the bytes, all at the same time.
        rounds: the transfers that hand it on inside, of lanes numbered in the stage.
    """

    layer: int
    num_bytes: float = 0.0
    replicas: int = 1
    rounds: Rounds = ()


class Entering(NamedTuple):
    """All tensors that a stage receives from others in one phase of a microbatch, and the seconds of their link.

    If they come from another device group, ``outward`` is the one that receives them.
    """

    link_s: float = 0.0
    arrivals: tuple[Arrival, ...] = ()
    outward: DeviceGroup | None = None

    @classmethod
    def over(cls, link: Link | None, arrivals: Iterable[Arrival]) -> Self:
        """Return what arrives over a link, all tensors together; what no link brings takes no time there."""
        arrivals = tuple(arrivals)
        num_bytes = math.fsum(own.num_bytes / own.replicas for own in arrivals)
        link_s = float(link.seconds("neighbours", num_bytes)) if link is not None and num_bytes else 0.0
        return cls(link_s, arrivals, link if isinstance(link, DeviceGroup) else None)

    @property
    def seconds(self) -> float:
        """The seconds until it has arrived at the devices that need it, besides what groups of the stage send each other."""
        spent: dict[tuple[int, ...], list[float]] = {(): [0.0]}
        for piece in (piece for own in self.arrivals for pieces in own.rounds for piece in pieces):
            if piece.groups == piece.waits:
                spent.setdefault(piece.groups, []).append(piece.seconds)
        return self.link_s + max(map(math.fsum, spent.values()))

    @property
    def from_stages(self) -> float:
        """The bytes that come from other stages."""
        return math.fsum(arrival.num_bytes for arrival in self.arrivals)


class Issued(NamedTuple):
    """A phase of a microbatch that was issued.

    Attributes:
        start: its first task; -1 in an earlier step.
        forward: the first task of the forward phase of the microbatch.
        entry: the tasks that bring its input, and that of the forward phase.
        done: for each buffer the tasks that made it, on each group.
        same: function to these tasks from those of another microbatch, if those are given.
        end: the first task behind it.
        result: the tasks that make its result.
    """

    start: int
    forward: int
    entry: After
    done: list[Waits]
    same: Moved | None = None
    end: int = 0
    result: After = ()

    @property
    def all_done(self) -> list[Waits]:
        """For each buffer the tasks that made it in this microbatch, on each group."""
        same = self.same
        return self.done if same is None else [[*map(same, waits)] for waits in self.done]

    def moved(self, start: int, forward: int, entry: After) -> Moved:
        """Return a function from tasks of the phase, and those it waits for, to the ones of another microbatch."""
        first, forth, back = self.start, start - self.start, forward - self.forward
        entered = dict(zip(self.entry, entry, strict=True))
        return lambda tasks: tuple(
            [task + forth if task >= first else entered.get(task, task + back) for task in tasks]
        )


class TaskList:
    """The tasks of all stages of a step, in an order in which they can run, with their pieces and places."""

    def __init__(self, serial: Iterable[bool]) -> None:
        """Start without tasks; ``serial`` says for each device group whether it does one thing at a time."""
        self._serial = [*serial]
        self._chain, self._some = self._serial == [True], any(self._serial)
        self.clear()

    def clear(self) -> None:
        """Begin a step, whose tasks wait for none of the steps before."""
        self.tasks: list[Task] = []
        self.pieces: list[Piece] = []
        self.places: list[Place] = []
        self._lines: list[str | int] = []
        self._last: list[After] = [()] * len(self._serial)

    def add(self, piece: Piece, after: After, place: Place) -> int:
        """Add a task behind some others, and behind all before it on a group without overlap; return its index."""
        groups, _, resource, seconds, kind = piece[:5]
        index = len(self.tasks)
        line: str | int = resource
        if self._chain:
            after = (index - 1,) if index else ()
        elif self._some:
            line, after = self._in_turn(groups, resource, after, index)
        self.tasks.append(_new(Task, (resource, seconds, after, kind)))
        self.pieces.append(piece)
        self.places.append(place)
        self._lines.append(line)
        return index

    def _in_turn(
        self, groups: tuple[int, ...], resource: str, after: After, index: int
    ) -> tuple[str | int, After]:
        """Return the line of a task, and what it waits for: the last tasks of its groups without overlap, and those of others."""
        last, serial = self._last, self._serial
        own = [group for group in groups if serial[group]]
        if not own:
            return resource, after
        before = last[own[0]]
        if len(own) > 1:
            before = tuple(dict.fromkeys([task for group in own for task in last[group]]))
        for group in own:
            last[group] = (index,)
        if after and after != before:
            # A task on one of these groups precedes the next one there anyway.
            there, pieces = {*own}, self.pieces
            before += tuple([t for t in after if t not in before and there.isdisjoint(pieces[t].groups)])
        return (resource if len(groups) > 1 else own[0]), before

    def alike(self, one: After, other: After) -> bool:
        """Return whether what waits for some tasks waits for others in the same way, as a resource runs its tasks in order."""
        lines = self._lines
        return not self._some and [lines[task] for task in one] == [lines[task] for task in other]

    def repeat(self, issued: Issued, moved: Moved, item: int) -> None:
        """Add the tasks of a phase once more, for another microbatch."""
        own = slice(issued.start, issued.end)
        self.tasks += [
            _new(Task, (on, seconds, moved(after), kind)) for on, seconds, after, kind in self.tasks[own]
        ]
        self.places += [_new(Place, (layer, first, item)) for layer, first, _ in self.places[own]]
        self.pieces += self.pieces[own]
        self._lines += self._lines[own]

    def latest(self, each: Sequence[After]) -> After:
        """Return the tasks to wait for instead of several: of each line the last one."""
        first = each[0]
        if len(first) < 2 and each.count(first) == len(each):
            return first
        lines, found = self._lines, dict[str | int, int]()
        for own in each:
            for task in own:
                line = lines[task]
                if found.get(line, -1) < task:
                    found[line] = task
        return tuple(found.values())

    def issue(self, rounds: Rounds, after: Waits, place: Place, first: int) -> Waits:
        """Add the pieces of an op of a part, whose first group has a number; return the tasks to wait for afterwards."""
        for pieces in rounds:
            there, after = after, [*after]
            for piece in pieces:
                waits = piece.waits
                data = there[waits[0] - first]
                if len(waits) > 1:
                    data = self.latest([there[group - first] for group in waits])
                done = (self.add(piece, data, place),)
                for group in piece.groups:
                    after[group - first] = done
        return after


Issue = tuple["Rounds", Waits, Place]
"""The pieces of an op, the tasks to wait for on each group, and what they are for."""


@dataclass(eq=False, kw_only=True)
class PartTasks:
    """A part of a stage: the issue of its work, and for each microbatch the tasks that made each buffer.

    Attributes:
        found: the tasks of all stages.
        record: its ops and buffers.
        ops: function from a phase, and whether it is the last of a mini-batch, to the ops in the order of issue, with their pieces.
        overlaps: for each of its device groups whether it computes while it receives.
        first: the number of its first device group over all stages.
        layer: the number of its first layer over all stages.
        shared: for each of its layers whose weight other stages have as well the transfer of their gradients, as in ``arriving``.
        arriving: for each phase the layer and the transfer of what other stages send, over a link yet without a name.
        handed_on: for each phase the layers and the pieces that hand it on inside.
        summed: for each shared layer the update that waits for the sum of all stages.
    """

    found: TaskList
    record: Record
    ops: Callable[[str, bool], Iterable[Costed]]
    overlaps: tuple[bool, ...]
    first: int = 0
    layer: int = 0
    shared: dict[int, Piece] = field(default_factory=dict)
    arriving: dict[str, tuple[int, Piece]] = field(default_factory=dict)
    handed_on: dict[str, Sequence[tuple[int, Rounds]]] = field(default_factory=dict)
    summed: dict[int, Issue] = field(default_factory=dict)
    _made: dict[int, Issued] = field(default_factory=dict)
    _issued: dict[str, Issued] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a step: what was made in those before is there."""
        for item in self._made:
            self._made[item] = Issued(-1, -1, (), [[()] * len(self.overlaps)] * self.record.buffers)
        self._issued = {}

    def phase(self, phase: str, item: int, after: After = (), *, final: bool = True) -> After:
        """Issue a phase of a microbatch, whose input some tasks bring; return the tasks that make its result.

        Where resources run tasks in order, all microbatches have the same ones but at the end of a mini-batch.
        """
        start, forward = len(self.found.tasks), phase == "forward"
        made = Issued(start, start, after, [[]] * self.record.buffers) if forward else self._made.pop(item)
        if forward:
            self._made[item] = made
        several = forward or (made.start >= 0 and not final)
        # What is computed again waits for what the forward phase did.
        entry = after if forward else (*made.entry, *after)
        issued = self._issued.get(phase) if several else None
        if issued is not None and self.found.alike(issued.entry, entry):
            moved = issued.moved(start, made.start, entry)
            self.found.repeat(issued, moved, item)
            if forward:
                self._made[item] = made._replace(done=issued.done, same=moved)
            return moved(issued.result)
        done = made.all_done
        result = self._phase(phase, item, after, done, final=final)
        if several:
            end = len(self.found.tasks)
            self._issued[phase] = Issued(start, made.start, entry, [*done], end=end, result=result)
        return result

    def _phase(self, phase: str, item: int, after: After, done: list[Waits], *, final: bool) -> After:
        found, first, record, forward = self.found, self.first, self.record, phase == "forward"
        # Each task of one group without overlap is behind the one before it, whatever it reads inside.
        chain = self.overlaps == (False,)
        done[INPUT if forward else ERROR] = self._handed_on(phase, item, after)
        late: list[Issue] = []
        for (kind, _, node, reads, writes, _, bucket, _), rounds in self.ops(phase, final):
            if kind == "update":
                late += self._updated(node, (rounds, done[reads[0]], self.place(node, item)))
                continue
            waits = done[reads[0]]
            if chain and rounds and reads[0] > ERROR:
                waits = [()]
            elif len(reads) > 1:
                waits = [found.latest(own) for own in zip(*[done[read] for read in reads], strict=True)]
            if rounds:
                waits = found.issue(rounds, waits, self.place(node, item, bucket), first)
            for write in writes:
                done[write] = waits
        for one in late:
            found.issue(*one, first)
        results = record.made if forward else record.sent
        return found.latest([own for buffer in results for own in done[buffer]])

    def _handed_on(self, phase: str, item: int, after: After) -> Waits:
        waits = [after] * len(self.overlaps)
        for node, rounds in self.handed_on.get(phase, ()):
            waits = self.found.issue(rounds, waits, self.place(node, item), self.first)
        return [self.found.latest(waits)] * len(waits)

    def _updated(self, node: int, update: Issue) -> Iterator[Issue]:
        """Update a weight on each group; yield what is updated behind the phase, as it waits for a transfer meanwhile.

        A weight that a layer of another stage uses as well waits until that stage has its sum too.
        """
        if node in self.shared:
            self.summed[node] = update
            return
        rounds, after, place = update
        for groups, own in groupby(rounds, key=lambda one: one[0].groups):
            each, group = tuple(own), groups[0] - self.first
            if self.overlaps[group] and any(self.found.pieces[task].collective for task in after[group]):
                yield each, after, place
            else:
                self.found.issue(each, after, place, self.first)

    def place(self, node: int, item: int, bucket: tuple[int, ...] = ()) -> Place:
        """Return what a task is for: a layer, or a bucket, of a microbatch."""
        layer = self.layer + node
        return _new(Place, (layer, self.layer + bucket[0] if bucket else layer, item))


NEXT = {"forward": 1, "backward": -1}
"""The offset of the part that reads the result of a phase."""

Result = tuple[int, str, int]
"""What work of a stage reads of another one: the number of the part that reads it, the phase and the microbatch."""

Tied = tuple[tuple[int, int, "Entering"], ...]
"""The stages that add up a gradient, that of the weight's own layer first: a part's number, its layer, and what it receives."""


@dataclass(eq=False)
class Pipeline:
    """The tasks of a pipeline, issued in the order of a schedule.

    The parts of the stages are in the network's order, in turn of the first stage to the last; some stages exchange
    gradients, which they add up once a mini-batch.
    """

    found: TaskList
    parts: Sequence[PartTasks]
    count: int
    exchanges: Sequence[Tied] = ()
    _made: dict[Result, After] = field(default_factory=dict)
    # Results that are yet to be sent: at the end of the step, or just before they are read.
    _unsent: dict[Result, bool] = field(default_factory=dict)

    def run(self, schedule: Schedule, microbatches: int) -> Timeline:
        """Run the first step in which every stage has its full work."""
        orders = [schedule.steps(stage, self.count, microbatches) for stage in range(self.count)]
        steps = [*zip(*orders, strict=True)]
        sizes = [sum(map(len, works)) for works in steps]
        for works in steps[: sizes.index(max(sizes)) + 1]:
            self.issue(works)
        return run(self.found.tasks)

    def issue(self, works: Sequence[Sequence[Work]]) -> None:
        """Begin a step: add the work of all stages, each as far as its neighbours' results allow."""
        self.found.clear()
        self._made = dict.fromkeys(self._made, ())
        for part in self.parts:
            part.begin()
        left = [
            deque([((work.part * self.count + stage, work.phase, work.item), work.final) for work in own])
            for stage, own in enumerate(works)
        ]
        turns = deque(range(self.count))
        while turns:
            own = left[turns.popleft()]
            while own and self._there(own[0][0]):
                turns += self._add(*own.popleft())
        assert not any(left)  # noqa: S101 (a schedule has no work that waits for itself)
        for result in [*self._unsent]:
            self._send(result)
        for members in self.exchanges:
            self._exchange(members)

    def _there(self, own: Result) -> bool:
        number, phase, _ = own
        return own in self._made or not 0 <= number - NEXT[phase] < len(self.parts)

    def _add(self, own: Result, final: bool) -> tuple[int, ...]:
        """Add work of a stage behind the transfer of its input; return the stage that reads its result, if there is one."""
        number, phase, item = own
        reader = number + NEXT[phase]
        self._send(own)
        made = self.parts[number].phase(phase, item, self._made.pop(own, ()), final=final)
        if not 0 <= reader < len(self.parts):
            return ()
        result = reader, phase, item
        self._made[result], self._unsent[result] = made, True
        if all(self.parts[reader].overlaps):
            self._send(result)
        return (reader % self.count,)

    def _send(self, result: Result) -> None:
        number, phase, item = result
        reader = self.parts[number]
        if self._unsent.pop(result, False) and phase in reader.arriving:
            (node, piece), sender = reader.arriving[phase], number - NEXT[phase]
            place, after = reader.place(node, item), self._made[result]
            self._made[result] = self._received(piece, sender, number, after, place)

    def _received(self, piece: Piece, sender: int, reader: int, after: After, place: Place) -> After:
        link = f"link {sender % self.count + 1}-{reader % self.count + 1}"
        return (self.found.add(piece._replace(resource=link), after, place),)

    def _exchange(self, members: Tied) -> None:
        """Add up the gradients of some stages, each of which then updates its own copy of the weight.

        Where mini-batches do not wait for each other, stages add up those of the mini-batches that they have then.
        """
        each = [self.parts[number].summed.pop(node, None) for number, node, _ in members]
        sums = tuple(dict.fromkeys(task for own in each if own for lane in own[1] for task in lane))
        first, other = (number for number, _, _ in members[:2])
        for (number, node, _), own in zip(members, each, strict=True):
            if own is not None:
                (rounds, after, place), part = own, self.parts[number]
                if None not in each:
                    sender, piece = other if number == first else first, part.shared[node]
                    after = [self._received(piece, sender, number, sums, place)] * len(after)
                self.found.issue(rounds, after, place, part.first)
