"""Tasks of a step: the pieces of its ops in the order of issue, each behind the tasks that made what its op reads.

On a machine without overlap the tasks of a group run one after another; with overlap a task waits for its data and its
resource alone. Of the tasks that made the buffers of an op only the last of each line counts, as a line runs its tasks in
order: a resource, or a group without overlap. So no task waits for more tasks than there are lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.schedule.pieces import Piece
from hypar.schedule.record import ERROR, INPUT, backward_of, bucketed, issued, record_of
from hypar.schedule.timeline import Task

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from hypar.schedule.costed import Costed, Entering, StageWork
    from hypar.schedule.pieces import Rounds
    from hypar.schedule.pipeline_orders import Work
    from hypar.schedule.record import Buckets, Op

After = tuple[int, ...]
"""Indices of the tasks to wait for."""

Waits = list[After]
"""The tasks to wait for on each group of a part."""

_new = tuple.__new__
"""The constructor of a named tuple without its binding of arguments, which takes longer than the rest."""


class Place(NamedTuple):
    """What a task is for.

    Attributes:
        layer: the layer that it belongs to, of all stages; of a bucket the last one; -1 for none.
        first: the first layer of the bucket; otherwise the same.
        item: the microbatch, from 0.
    """

    layer: int
    first: int
    item: int


class TaskList:
    """The tasks of all stages of a step so far.

    Attributes:
        tasks: in an order in which they can run.
        pieces: for each task its piece of an op.
        places: for each task what it is for.
        start: the tasks for which all others wait.
    """

    def __init__(self, serial: Iterable[bool], *, alone: bool = False) -> None:
        """Start without tasks.

        Args:
            serial: for each device group whether it does one thing at a time.
            alone: whether there is one part of one stage.
        """
        self.tasks: list[Task] = []
        self.pieces: list[Piece] = []
        self.places: list[Place] = []
        self.start: After = ()
        self._lines: list[str | int] = []
        self._serial = [*serial]
        self._last: list[After] = [()] * len(self._serial)
        self._chain, self._some = alone and self._serial == [True], any(self._serial)

    def add(self, piece: Piece, after: After, place: Place) -> int:
        """Add a task behind some others, and behind all before it on a group without overlap; return its index."""
        groups, _, resource, seconds, kind = piece[:5]
        index = len(self.tasks)
        line: str | int = resource
        if self._chain:
            after = (index - 1,) if index else ()
        elif self._some:
            line, after = self._in_turn(groups, resource, after, index)
        self.tasks.append(_new(Task, ("", resource, seconds, after, kind)))
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
            before += tuple([one for one in after if one not in before and not self._precedes(one, own)])
        return (resource if len(groups) > 1 else own[0]), before

    def _precedes(self, task: int, groups: Collection[int]) -> bool:
        """Return whether a task precedes the next one of some groups without overlap anyway, as it is on one of them."""
        return any(group in groups for group in self.pieces[task].groups)

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
        """Add the pieces of an op; return the tasks to wait for afterwards.

        Args:
            rounds: the pieces.
            after: the tasks to wait for on each group of the part.
            place: what they are for.
            first: the number of the part's first group.
        """
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

    def end(self, task: Task) -> None:
        """Add a task that takes no time, for which all that follow wait."""
        index = len(self.tasks)
        self.tasks.append(task)
        self.pieces.append(Piece((), (), task.resource, 0.0, task.kind))
        self.places.append(Place(-1, -1, 0))
        self._lines.append(task.resource)
        self.start = (index,)
        self._last = [self.start] * len(self._last)


class PartTasks:
    """A part of a stage: its ops in the order of issue, and for each microbatch the tasks that made each buffer.

    Attributes:
        summed: for each layer whose gradient several stages add up the microbatch, and the tasks to wait for on each group.
    """

    def __init__(
        self,
        found: TaskList,
        costs: StageWork,
        buckets: Buckets | None = None,
        *,
        layer: int = 0,
        entering: Mapping[str, Entering] | None = None,
        shared: Collection[int] = (),
    ) -> None:
        """Start without microbatches.

        Args:
            found: the tasks of all stages.
            costs: its devices, with the pieces of its ops.
            buckets: the nodes that add up their gradients together; None if each adds up its own.
            layer: the number of its first layer over all stages.
            entering: what other stages send for each phase; None without stages.
            shared: the nodes whose weight other stages have as well.
        """
        self.found, self.costs, self.layer = found, costs, layer
        self.graph, self.first = costs.lanes[0].graph, costs.lanes[0].number
        self.record = record_of(self.graph)
        self.overlaps = [lane.setting.machine.overlap for lane in costs.lanes]
        if buckets is None and any(lane.setting.machine.independent for lane in costs.lanes):
            buckets = tuple((node,) for node in reversed(range(len(self.graph.layers))))
        self.buckets, self.entering, self.shared = buckets, entering or {}, shared
        self.staged = entering is not None
        self.summed: dict[int, tuple[int, Waits]] = {}
        self._orders: dict[tuple[str, bool], list[Costed]] = {}
        self._same = [*range(self.record.buffers)]
        self._done: dict[int, list[Waits]] = {}
        # Each task of one group without overlap is behind the one before it, whatever it reads inside.
        self._chain = self.overlaps == [False]

    def _ops(self, phase: str, *, final: bool) -> Iterable[Op]:
        if phase == "forward":
            return self.record.forward
        # Where nothing overlaps, the stage before would wait for the sums of gradients.
        deferred = self.staged and not all(self.overlaps)
        if self.buckets is None:
            return backward_of(self.graph, eager=any(self.overlaps), deferred=deferred, final=final)
        ops = bucketed(self.record.backward, self.buckets)
        return issued(ops, eager=any(self.overlaps), deferred=deferred, final=final)

    def _order(self, phase: str, *, final: bool) -> list[Costed]:
        """Return the ops of a phase with their pieces; without those that only pass a buffer on, if they are issued often."""
        if (phase, final) not in self._orders:
            ops = self.costs.costed(self._ops(phase, final=final))
            self._orders[phase, final] = self._short(ops) if self.staged else ops
        return self._orders[phase, final]

    def _short(self, ops: Iterable[Costed]) -> list[Costed]:
        """Leave out the ops that take no time and only pass on one buffer: what they write is there when that is."""
        same, found = self._same, []
        for op, rounds in ops:
            shared = op.kind == "update" and op.node in self.shared
            passes = len(op.reads) == 1 and not rounds and not shared
            if not passes:
                found.append((op._replace(reads=tuple([same[read] for read in op.reads])), rounds))
            for write in op.writes:
                same[write] = same[op.reads[0]] if passes else write
        return found

    def phase(self, phase: str, item: int, after: After = (), *, final: bool = True) -> After:
        """Issue a phase of a microbatch; return the tasks that make its result.

        Args:
            phase: ``forward`` or ``backward``.
            item: the microbatch.
            after: the tasks that bring what other stages made.
            final: whether gradients are summed and weights are updated.
        """
        done = self._begun(phase, item, [after] * len(self.overlaps))
        start = self.found.start if phase == "backward" else ()
        late: list[tuple[Rounds, Waits, Place]] = []
        read: tuple[tuple[int, ...], Waits] = (), []
        for (kind, _, node, reads, writes, _, bucket), rounds in self._order(phase, final=final):
            if kind == "update":
                late += self._updated(node, rounds, done[reads[0]], item)
                continue
            if self._chain and rounds and reads[0] > ERROR:
                waits: Waits = [()]
            elif len(reads) == 1:
                waits = done[reads[0]]
            else:
                # A node's error and its gradient read the same.
                read = read if read[0] == reads else (reads, self._joined(reads, done, start))
                waits = read[1]
            if rounds:
                waits = self.found.issue(rounds, waits, self._place(node, item, bucket), self.first)
            for write in writes:
                done[write] = waits
        for one, own, place in late:
            self.found.issue(one, own, place, self.first)
        results = self.record.made if phase == "forward" else self.record.sent
        return self.found.latest([own for buffer in results for own in done[self._same[buffer]]])

    def _begun(self, phase: str, item: int, after: Waits) -> list[Waits]:
        """Return the tasks that made each buffer of a microbatch before a phase."""
        if phase == "backward":
            done = self._done.pop(item)
            done[ERROR] = after
        else:
            done = self._done[item] = [[]] * self.record.buffers
            done[INPUT] = [(*self.found.start, *own) for own in after]
        return done

    def _joined(self, reads: tuple[int, ...], done: Sequence[Waits], start: After) -> Waits:
        """Return the tasks that made several buffers, on each group, behind the end of the step before."""
        waits = [self.found.latest(own) for own in zip(*[done[read] for read in reads], strict=True)]
        return [(*start, *own) for own in waits] if start else waits

    def _updated(
        self, node: int, rounds: Rounds, after: Waits, item: int
    ) -> list[tuple[Rounds, Waits, Place]]:
        """Update a weight on each group; return what is updated behind the phase, as it waits for a transfer meanwhile.

        A weight that a layer of another stage uses as well waits until that stage has its sum too.
        """
        if node in self.shared:
            self.summed[node] = item, after
            return []
        place = self._place(node, item)
        late: list[tuple[Rounds, Waits, Place]] = []
        for one in rounds:
            group = one[0].groups[0] - self.first
            if self.overlaps[group] and any(self.found.pieces[task].collective for task in after[group]):
                late.append(((one,), after, place))
            else:
                self.found.issue((one,), after, place, self.first)
        return late

    def _place(self, node: int, item: int, bucket: tuple[int, ...] = ()) -> Place:
        layer = self.layer + node
        return _new(Place, (layer, self.layer + bucket[0] if bucket else layer, item))

    def update(self, node: int, after: Waits, item: int) -> None:
        """Update a weight that a layer of another stage uses as well."""
        (op,) = (op for op in self.record.backward if op.kind == "update" and op.node == node)
        ((_, rounds),) = self.costs.costed([op])
        for one in rounds:
            self.found.issue((one,), after, self._place(node, item), self.first)

    def entered(self, entering: Entering, phase: str, link: str, after: After, node: int, item: int) -> After:
        """Receive what other stages send for a phase; return the task to wait for.

        Args:
            entering: what they send.
            phase: the phase.
            link: the link that carries it.
            after: the tasks that made it.
            node: the node that stands for all that read or make it.
            item: the microbatch.
        """
        piece = self.costs.entered(entering, phase, link)
        return (self.found.add(piece, after, self._place(node, item)),)

    def _handed_on(self, work: Work, after: After) -> After:
        """Hand on what came from other stages; return the tasks to wait for."""
        waits = [after] * len(self.overlaps)
        for arrival in self.entering[work.phase].arrivals:
            rounds, place = self.costs.placed(arrival.rounds), self._place(arrival.layer, work.item)
            waits = self.found.issue(rounds, waits, place, self.first)
        return self.found.latest(waits)

    def issue(self, work: Work, after: After, *, final: bool) -> After:
        """Do a stage's work; arguments and result as of a ``Part`` of a pipeline. Updates follow the last backward phase."""
        if work.phase == "update":
            return ()
        after = self._handed_on(work, after) if after else ()
        return self.phase(work.phase, work.item, after, final=final)

    def at_once(self, phase: str) -> bool | None:
        """Return whether it receives what is sent for a phase beside its work, or just before it; None if nothing is sent."""
        return all(self.overlaps) if self.entering[phase].from_stages else None

    def receive(self, work: Work, link: str, after: After) -> After:
        """Receive what other stages send for some work; return the task to wait for."""
        node = 0 if work.phase == "forward" else len(self.graph.layers) - 1
        return self.entered(self.entering[work.phase], work.phase, link, after, node, work.item)
