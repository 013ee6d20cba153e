"""The lifetimes of activations and of errors on a device over the forward and the backward phase.

Ops run in the order of their layers, each layer with the ops behind it, then backward in reverse. An activation lives
from its op to the last that reads it, in the forward phase, or to the backward phase of the first op that keeps it. An
error lives from the backward phase of the last op that reads its tensor to that of the op that made it; the error of a
join's input is the error of its output, and two errors of one tensor are added up. So a residual branch keeps its error
until the other branch has come back.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.network.nodes import kept_with_graph
from hypar.schedule.divisions import Amount, Onward, Places, Shares, placed
from hypar.schedule.shards import Shards, lacking, within
from hypar.schedule.tape import tape_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.network.nodes import PlanGraph, Tensor
    from hypar.schedule.pipeline_orders import Moment
    from hypar.schedule.tape import Block, Read, Tape, Written
    from hypar.sharding.placement import Options


class Span(NamedTuple):
    """A part of a stage.

    Attributes:
        layer: the index of its first layer among those of the stage.
        first: its index in the network.
    """

    layer: int
    first: int


class Kept(NamedTuple):
    """Bytes that a device keeps for the backward phase.

    Attributes:
        layer: index of the cut layer whose op, or whose trail's, keeps them first.
        num_bytes: the bytes on the fullest device.
    """

    layer: int
    num_bytes: float


class Piece(NamedTuple):
    """A piece of work of a microbatch.

    Attributes:
        most: the most bytes at any moment of it.
        behind: the bytes that stay until the next piece.
    """

    most: float
    behind: float


class Course(NamedTuple):
    """The activations and errors on the fullest device over a step.

    Attributes:
        kept: what is kept when the forward phase ends.
        forward: for each cut layer the most bytes during its forward phase, that of the ops behind it included.
        backward: likewise for its backward phase.
        entering: the bytes that come from other stages for the piece of work to which most come, or the most that a device lacks
            of a tensor whose shards differ between devices.
        pieces: the pieces of work of a microbatch: the forward phase of each part of a stage, then the backward phases in reverse.
    """

    kept: tuple[Kept, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    entering: float
    pieces: tuple[Piece, ...]

    @property
    def activations(self) -> float:
        """Bytes of activations when the forward phase ends."""
        return math.fsum(kept.num_bytes for kept in self.kept)

    @property
    def peak(self) -> float:
        """Most bytes at any moment."""
        return max((*self.forward, *self.backward), default=0.0)

    def held(self, moments: Sequence[Moment]) -> tuple[float, float]:
        """Return the most bytes of microbatches that wait, and the most at any moment of work on one of them.

        Args:
            moments: the pieces of work, each with the microbatches that wait beside it.
        """
        waiting, most = [0.0], [0.0]
        behind = [piece.behind for piece in self.pieces]
        for piece, counts in moments:
            others = math.fsum(map(mul, counts, behind))
            most.append(others + self.pieces[piece].most)
            for at in (piece - 1, piece):
                if 0 <= at < len(counts):
                    also = [count + (number == at) for number, count in enumerate(counts)]
                    waiting.append(math.fsum(map(mul, also, behind)))
        return max(waiting), max(most)


def courses_of(
    graph: PlanGraph,
    choices: Sequence[Options],
    element_bytes: int,
    outside: Sequence[Tensor] = (),
    above: Sequence[Shares] = (),
    idle: frozenset[int] = frozenset(),
    array: tuple[int, ...] = (),
    parts: Sequence[Span] = (),
    *,
    fused: bool = False,
) -> list[tuple[tuple[int, ...], Course]]:
    """Return the activations and errors over a step on the devices that hold alike, with these devices: none where all do.

    Devices hold unlike shards where they divide a grid or are idle; of others the fullest shard of each layer stands for all.

    Args:
        graph: the layers.
        choices: for each layer a choice at each level.
        element_bytes: bytes of one element.
        outside: tensors that the layers read from other stages, or that these read; the indices of the other stages'
            layers are not the graph's: negative of those that make one, and their number in the network behind those of the graph.
        above: for each layer the shares of the uneven splits above; nothing if there are none.
        idle: the layers for which the device does not work.
        array: the ways of each level; nothing if every choice has a shard for each of them.
        parts: the parts of the stage in order; nothing if it has one.
        fused: whether sums go straight to the devices that read them next.
    """
    readers = _only_readers(graph) if fused else {}
    starts = tuple(part.layer for part in parts[1:])
    tape = tape_of(graph, element_bytes, tuple(outside), idle, frozenset(readers), starts)
    tensors = _Tensors(array, tape, starts)
    for block in tape.blocks:
        onward = None
        if block.sums:
            reader = readers[block.layer]
            shares = above[reader.consumer] if above else ()
            onward = Onward(
                graph.layers[reader.consumer].nest, reader.operand, choices[reader.consumer], shares
            )
        tensors.run(block, choices[block.layer], above[block.layer] if above else (), onward)
    for number, tensor in enumerate(outside):
        if tensor.consumer >= len(graph.layers):
            # It goes there with what the stage has made last before.
            last = tensor.consumer - len(graph.layers)
            tensors.send(tensor, number, sum(part.first < last for part in parts[1:]))
    return _courses(tensors, graph)


@kept_with_graph
def _only_readers(graph: PlanGraph) -> dict[int, Tensor]:
    """Return the tensor between each layer that may leave terms and the only layer that reads its output."""
    readers = Counter([*(tensor.producer for tensor in graph.tensors), *graph.sent])
    return {
        tensor.producer: tensor
        for tensor in graph.tensors
        if readers[tensor.producer] == 1 and graph.layers[tensor.producer].nest.multiplies
    }


@dataclass(slots=True, eq=False)
class _Held:
    """A tensor in one division whose readers depend on the choices.

    Attributes:
        made: the op that writes it, or the first that receives it.
        num_bytes: its bytes on a device.
        last: the last op that reads it in the forward phase.
        keeper: the first op that keeps it, or None; the loss keeps what nothing reads, here or in another stage.
        whole: the tensor that the device has, of which this one is a shard; None for a tensor of its own.
        same: the copies that are the same shard, in the order of their readers.
        errs: whether it has an error: the network's input has none.
        sent: the last layer of other stages that reads it, whose error arrives first before the backward phase, and the negative
            number of the tensor for it; None if none does.
        from_stage: whether another stage has made it, to which each error goes back as it is.
        back: the op in whose backward phase its error is added to others: that which made it, or the arrival of errors in the
            part of the stage from which it was copied.
        wider: the copy for its first reader, if that holds at least as much of it: its error holds that of this one.
        readers: the ops that read it, in ascending order, each with the tensor whose error it passes on, or None.
        owner: the tensor whose error is that of this one as well, once that is known; it may be itself.
        first: the first op of the backward phase in which its own error lives.
        until: the last one.
    """

    made: int
    num_bytes: Amount
    last: int
    keeper: int | None = None
    whole: _Held | None = None
    same: Sequence[_Held] = ()
    errs: bool = True
    sent: tuple[int, int] | None = None
    from_stage: bool = False
    back: int = -1
    wider: _Held | None = None
    readers: list[tuple[int, _Held | None]] = field(default_factory=list)
    owner: _Held = field(init=False)
    first: int = field(init=False)
    until: int = field(init=False)

    def __post_init__(self) -> None:
        """Send the error back where the tensor is made, unless it goes further."""
        self.back = self.made if self.back < 0 else self.back


class _Kept(NamedTuple):
    """As ``Kept``, on all devices."""

    layer: int
    num_bytes: Amount


_Error = tuple[int, int, Amount]
"""The span of the backward phase in which an error lives: from one op down to another, and its bytes."""


class _Tensors:
    """The tensors on the fullest device, in the order in which they are written.

    Attributes:
        array: the ways of each level.
        tape: the ops.
        starts: the first layer of each part of the stage but the first.
        found: the tensors; those whose readers are all known without the choices with their bytes.
        more: further bytes that an op keeps, with the op.
        written: each tensor that other layers read, with its division.
        others: tensors of the network's input by their number and division.
        entering: the bytes that other stages send for each part, of activations and of errors.
        lacking: for each tensor that shards of several sizes divide the most bytes that a device lacks.
        slices: the copies of each shard of a tensor that a device has, in the order of their readers.
    """

    def __init__(self, array: tuple[int, ...], tape: Tape, starts: Sequence[int]) -> None:
        self.array, self.tape, self.starts = array, tape, starts
        self.found: list[_Held | tuple[Written, Amount]] = []
        self.more: list[tuple[int, Amount]] = []
        self.written: dict[tuple[int, int], tuple[Shards, _Held]] = {}
        self.others: dict[tuple[int, Shards], _Held] = {}
        self.entering: list[list[Amount]] = [[0.0] * (len(starts) + 1) for _ in range(2)]
        self.lacking: list[Amount] = []
        self.slices: dict[tuple[int, int, Shards], list[_Held]] = {}

    def send(self, tensor: Tensor, number: int, part: int) -> None:
        """Send a tensor, one of some by number, to another stage behind the work of a part, and receive its error."""
        made = self.written.get((tensor.producer, tensor.number))
        if made is not None:
            made[1].sent = max(made[1].sent or (0, 0), (tensor.consumer, -number))
            made[1].last = max(made[1].last, self._end(part) - 1)
            self.entering[1][self.part(tensor.producer)] += made[1].num_bytes

    def part(self, layer: int) -> int:
        """Return the part of a layer."""
        return bisect_right(self.starts, layer)

    def _end(self, part: int) -> int:
        """Return the number behind the ops of a part."""
        return (*self.tape.waits, self.tape.stop)[part]

    def arrival(self, part: int) -> int:
        """Return the number in whose backward phase the errors of other parts and stages arrive."""
        return min(self._end(part), self.tape.stop - 1)

    def run(self, block: Block, chosen: Options, above: Shares, onward: Onward | None) -> None:
        """Append a layer by its shares at the uneven splits above, its choice at each level, and who gets its sums."""
        places = placed(block.nest, block.divisions, chosen, above, self.array, onward)
        shards, shares = places
        inputs = self._fed(block, places) if block.ahead else []
        for tensor in block.read:
            inputs.append(self._received(tensor, block, shards[tensor.place], shares[tensor.place]))
        own: list[_Held | None] = []
        for written in block.written:
            sources = inputs if written.source is None else (own[written.source],)
            own.append(self._op(written, shares, sources))
        if block.sums and own[0] is not None:
            # Sums take the place of terms; backward, the shards that devices lack are brought to the others.
            own[0].last = own[0].made
            same = shards[block.written[0].amount.place] == shards[block.written[1].amount.place]
            own[0].readers = [(block.own + 1, own[1] if same else None)]
            if own[1] is not None and len(above) + len(self.array) == 1:
                # Below a single split all of its error that a device lacks arrives at once.
                self.lacking.append(own[0].num_bytes - own[1].num_bytes)
        self.more += [(op, num_bytes * shares[place]) for op, num_bytes, place in block.more]
        for number, index in block.leaving:
            held = own[index]
            assert held is not None  # noqa: S101 (its readers depend on the choices)
            self.written[block.layer, number] = shards[block.written[index].amount.place], held

    def _op(
        self, written: Written, shares: tuple[Amount, ...], sources: Sequence[_Held | None]
    ) -> _Held | None:
        """Append an op; return the tensor that it writes, or None if its readers are known."""
        (op, whole, place), _, keeps_input, keeps_output, passes, readers, _ = written
        num_bytes = whole * shares[place]
        if readers:
            held = None
            self.found.append((written, num_bytes))
        else:
            held = _Held(op, num_bytes, op, op if keeps_output else None)
            self.found.append(held)
        passed = held if passes else None
        for source in sources:
            if source is not None:
                source.readers.append((op, passed))
                source.last = op
                if keeps_input and source.keeper is None:
                    source.keeper = op
        return held

    def _fed(self, block: Block, places: Places) -> list[_Held | None]:
        """Append the ops between the network's input and a layer, and return the tensor that the layer reads."""
        shards, shares = places.shards[0], places.shares
        new = {written.amount.op for number, written in block.ahead if (number, shards) not in self.others}
        for number, written in block.ahead:
            if written.amount.op in new:
                sources = () if written.source is None else (self.others[written.source, shards],)
                made = self._op(written, shares, sources)
                assert made is not None  # noqa: S101 (its readers depend on the choices)
                made.errs = False
                self.others[number, shards] = made
        self.more += [
            (op, num_bytes * shares[place]) for op, num_bytes, place in block.ahead_more if op in new
        ]
        return [self.others[block.ahead[-1][0], shards]]

    def _received(self, tensor: Read, block: Block, placed: Shards, share: Amount) -> _Held:
        """Return a tensor as a layer reads it: as it was made, or a copy in another division.

        Of a shard of a tensor that the device has there is no copy: it is what is kept of the tensor.
        """
        (producer, number, num_bytes, at, _), op = tensor, block.own
        made = self.written.get((producer, number))
        if producer < 0:
            self.entering[0][self.part(block.layer)] += num_bytes * share
        whole = None
        if made is not None:
            shards, held = made
            if shards == placed:
                return held
            whole = held if within(placed, shards) else None
        copy = _Held(at, num_bytes * share, op, whole=whole, from_stage=producer < 0, back=op)
        self.found.append(copy)
        if made is not None:
            held.last = max(held.last, at)
            part = self.part(producer)
            if part < self.part(block.layer):
                # The error is handed on when the part begins that has made the tensor.
                copy.back = self.arrival(part)
            if not held.readers and within(shards, placed, later=True):
                held.wider = copy
            held.readers.append((copy.back, None))
            self.lacking += [
                num_bytes * share * lacking(placed, shards),
                held.num_bytes * lacking(shards, placed),
            ]
        if whole is not None:
            whole.last = op
            copy.same = self.slices.setdefault((producer, number, placed), [])
            self.slices[producer, number, placed].append(copy)
        return copy


def _courses(tensors: _Tensors, graph: PlanGraph) -> list[tuple[tuple[int, ...], Course]]:
    """Return the bytes on devices over the step; the loss keeps what nothing reads, unless other stages do."""
    tape = tensors.tape
    owners = {op: block.layer for block in tape.blocks for op in range(block.start, block.stop)}
    end = 2 * tape.stop - 1
    changes: list[Amount] = [0.0] * (end + 2)
    kept = [_Kept(owners[op], num_bytes) for op, num_bytes in tensors.more]
    for op, num_bytes in tensors.more:
        changes[op] += num_bytes
        changes[end - op + 1] -= num_bytes
    for held in tensors.found:
        if isinstance(held, tuple):
            written, num_bytes = held
            made, last, keeper = written.amount.op, written.readers[-1], written.keeper
        else:
            made, last, num_bytes = held.made, held.last, held.num_bytes
            loses = not held.readers and owners[made] not in graph.sent
            keeper = made if loses else held.keeper
            if held.whole is not None:
                kept += _kept_of(held, held.whole, owners, changes, end)
                continue
        changes[made] += num_bytes
        if keeper is None:
            changes[last + 1] -= num_bytes
        else:
            changes[end - keeper + 1] -= num_bytes
            kept.append(_Kept(owners[keeper], num_bytes))
    for first, until, num_bytes in _errors(tensors, owners):
        changes[end - first] += num_bytes
        changes[end - until + 1] -= num_bytes
    entering = max(_most(own) for own in (*tensors.entering[0], *tensors.entering[1], *tensors.lacking))
    return [
        (devices, _course(tape, graph, own, tuple(map(Kept, (one.layer for one in kept), each)), entering))
        for devices, own, each in _classes(changes, [one.num_bytes for one in kept])
    ]


def _most(amount: Amount) -> float:
    """Return an amount on the fullest device."""
    return amount if isinstance(amount, float) else float(amount.max())


def _classes(
    changes: Sequence[Amount], kept: Sequence[Amount]
) -> Iterator[tuple[tuple[int, ...], list[float], list[float]]]:
    """Yield the devices that hold alike, none where all do, with their changes and what they keep."""
    every = [*changes, *kept]
    devices = next((len(own) for own in every if isinstance(own, np.ndarray)), 0)
    if not devices:
        yield (), [*map(float, changes)], [*map(float, kept)]
        return
    # Fractions of bytes are the noise of shares.
    rows = np.round([np.broadcast_to(own, devices) for own in every], 3)
    alike, of = np.unique(rows, axis=1, return_inverse=True)
    for number, own in enumerate(alike.T.tolist()):
        found = tuple(np.flatnonzero(of.reshape(-1) == number).tolist())
        yield found, own[: len(changes)], own[len(changes) :]


def _course(
    tape: Tape, graph: PlanGraph, changes: Sequence[float], kept: tuple[Kept, ...], entering: float
) -> Course:
    """Return the bytes on a device, from their changes at each number."""
    end = 2 * tape.stop - 1
    most = ([0.0] * len(graph.layers), [0.0] * len(graph.layers))
    held_bytes = [*accumulate(changes)]
    for block in tape.blocks:
        start, stop = block.start, block.stop
        most[0][block.layer] = max(0.0, *held_bytes[start:stop])
        most[1][block.layer] = max(0.0, *held_bytes[end - stop + 1 : end - start + 1])
    pieces = _pieces(tape, held_bytes, math.fsum(one.num_bytes for one in kept))
    return Course(kept, tuple(most[0]), tuple(most[1]), entering, pieces)


def _pieces(tape: Tape, held: Sequence[float], kept: float) -> tuple[Piece, ...]:
    """Return the pieces of work of a microbatch.

    Args:
        tape: the ops.
        held: the bytes on the device at each number, forward and then backward.
        kept: the bytes when the forward phase ends.
    """
    end = 2 * tape.stop - 1
    waits = [*(wait + 1 for wait in tape.waits), *(end - wait - 1 for wait in reversed(tape.waits))]
    behind = [held[wait] for wait in waits]
    behind.insert(len(tape.waits), kept)
    ends = [*waits, end + 1]
    ends.insert(len(tape.waits), tape.stop)
    firsts = [0, *(stop + (stop in waits) for stop in ends[:-1])]
    spans = zip(firsts, ends, strict=True)
    return tuple(
        Piece(max((0.0, *held[first:stop])), own)
        for (first, stop), own in zip(spans, [*behind, 0.0], strict=True)
    )


def _kept_of(
    held: _Held, whole: _Held, owners: Mapping[int, int], changes: list[Amount], end: int
) -> list[_Kept]:
    """Note what is kept of a tensor when the device no longer needs it whole, and return what the forward phase leaves."""
    first = whole.last + 1 if whole.keeper is None else end - whole.keeper + 1
    # Of equal shards the device keeps one, which the first reader that needs it in its backward phase keeps longest.
    shown = next((copy for copy in held.same if copy.keeper is not None), None)
    if shown is not held or held.keeper is None or first > end - held.keeper:
        return []
    changes[first] += held.num_bytes
    changes[end - held.keeper + 1] -= held.num_bytes
    return [_Kept(owners[held.keeper], held.num_bytes)] if whole.keeper is None else []


def _errors(tensors: _Tensors, owners: Mapping[int, int]) -> list[_Error]:
    """Return the errors, each once; first what is added to one of several readers, for the moment of the addition.

    Args:
        tensors: the tensors.
        owners: the layer of each op.
    """
    found: list[_Held | _Error] = []
    added: list[_Error] = []
    arriving = _first_to_arrive(tensors, owners)
    for held in reversed(tensors.found):
        if isinstance(held, tuple):
            written, num_bytes = held
            readers = written.readers
            found.append((readers[-1], written.amount[0], num_bytes))
            if len(readers) > 1:
                added += [(op, op, num_bytes) for op in readers[-2::-1]]
        elif held.from_stage:
            found += [(op, op, held.num_bytes) for op, other in held.readers if other is None]
        elif held.errs:
            readings = [_Reading(*reading) for reading in held.readers[::-1]]
            if held.sent is not None:
                part = tensors.part(owners[held.made])
                _arrive(readings, tensors, part, last=held.sent < arriving[part])
            readings = readings or [_Reading(held.made)]
            if held.wider is not None or readings[0][1] is not None:
                found += _without_wider(held, readings[0].op)
                readings = _shared_readings(held, readings)
            else:
                held.owner, held.first, held.until = held, readings[0].op, held.back
            if readings:
                found.append(held)
            if len(readings) > 1:
                ops = [op for op, other, *_ in readings[1:] if other is None]
                # What arrives of other parts is added one after another.
                arrived = dict.fromkeys(op for op in ops if op in tensors.tape.waits)
                ops = [*arrived, *(op for op in ops if op not in arrived)]
                added += [(op, op, held.num_bytes) for op in ops]
    own = [
        error if isinstance(error, tuple) else (error.first, error.until, error.num_bytes) for error in found
    ]
    return added + own


def _without_wider(held: _Held, first: int) -> list[_Error]:
    """Return the error of a tensor on devices that are idle for its first reader, whose copy is elsewhere that of others."""
    if held.wider is None or not isinstance(held.num_bytes, np.ndarray):
        return []
    return [(first, held.back, held.num_bytes * np.equal(held.wider.num_bytes, 0.0))]


def _first_to_arrive(tensors: _Tensors, owners: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Return for each part of a stage where the error that arrives first was read in another stage."""
    found: dict[int, tuple[int, int]] = {}
    for held in tensors.found:
        if isinstance(held, _Held) and held.sent is not None:
            part = tensors.part(owners[held.made])
            found[part] = max(found.get(part, held.sent), held.sent)
    return found


class _Reading(NamedTuple):
    """The error of a tensor that an op sends which reads it, or other stages.

    Attributes:
        op: the op in whose backward phase it comes.
        passed: the tensor whose error it is; None for an error with memory of its own.
        buffered: whether it arrives in the buffer, where the one before is added.
        last: whether errors of other tensors have arrived then, beside the one before.
    """

    op: int
    passed: _Held | None = None
    buffered: bool = False
    last: bool = False


def _arrive(readings: list[_Reading], tensors: _Tensors, part: int, *, last: bool) -> None:
    """Insert the error of other stages behind those of later parts: one that has memory of its own takes it up in the buffer."""
    op = tensors.arrival(part)
    # Errors of later parts are handed on before.
    later = sum(reading.op > op or reading.op == op in tensors.tape.waits for reading in readings)
    if later == 0 or (later == 1 and readings[0].passed is not None):
        readings.insert(later, _Reading(op, buffered=later > 0, last=later > 0 and last))


def _shared_readings(held: _Held, readings: list[_Reading]) -> list[_Reading]:
    """Return the ops that send an error with memory of its own, where others may share it; note where the error lives.

    The error that is passed on first has the memory of another tensor's, and so has the last one if it is wider.
    """
    first, passed, *_ = readings[0]
    if passed is not None:
        before = passed.owner
        until = (
            held.back
            if len(readings) == 1
            else readings[1].op + (readings[1].buffered and not readings[1].last)
        )
        before.until = min(before.until, until)
        if len(readings) == 1:
            held.owner = before
            return []
        readings = readings[1:]
        # The sum takes the place of the larger one before, which is counted at the arrival of them all.
        first = readings[0].op - readings[0].last
    held.owner, held.first, held.until = held, first, held.back
    wider = held.wider
    if wider is None:
        return readings
    wider.owner.until = min(wider.owner.until, held.back)
    held.until = readings[-1].op
    if len(readings) == 1:
        held.owner = wider.owner
        return []
    return readings
