"""The activations and errors on devices over a step: the liveness of the arrays of its layers, in the order in which they run.

Layers run node by node, each node's own and those behind it, then backward in reverse; every rule of memory stands in this walk. The
arrays and the transfers between them are those of the program's fragments; how large an array is on a device, its holding says, or a
run that has written it. Of a stage in parts a microbatch's work is in pieces, between which others wait.
"""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.program.holding import Holding, Members
from hypar.schedule.liveness import Bytes, Ledger, Piece, larger, largest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hypar.network.nodes import LayerOp, PlanNode
    from hypar.program.fragments import Fragment
    from hypar.program.steps import Transfer
    from hypar.schedule.pipeline_orders import Moment

Elements = NDArray[np.int64]
"""Elements of an array on every device, ``[*devices]``."""


class Course(NamedTuple):
    """The activations and errors on some devices over a step.

    Attributes:
        pieces: the pieces of work of a microbatch: the forward phase of each part of a stage, then the backward phases in reverse.
        most: for each node the most bytes during its forward phase, that of the layers behind it included, and its backward phase.
        entering: the most bytes that come at once: from other stages for a piece of work, or of a copy at a level.
    """

    pieces: Sequence[Piece]
    most: Sequence[tuple[Bytes, Bytes]]
    entering: float

    def held(self, moments: Sequence[Moment]) -> tuple[Bytes, Bytes]:
        """Return the most bytes of microbatches that wait, and the most at any moment of work on one of them.

        Args:
            moments: the pieces of work, each with the microbatches that wait beside it.
        """
        waiting: Bytes = 0.0
        most: Bytes = 0.0
        behind = [piece.behind for piece in self.pieces]
        for piece, counts in moments:
            others = sum(map(mul, counts, behind), 0.0)
            most = larger(most, self.pieces[piece].most + others)
            for at in (piece - 1, piece):
                if 0 <= at < len(counts):
                    waiting = larger(waiting, others + behind[at])
        return waiting, most


class Sent(NamedTuple):
    """A tensor that another stage reads: the index of its node, its number there, the index of the node that reads it."""

    node: int
    number: int
    reader: int


ELSEWHERE, SAMPLES = -1, -2
"""In place of the number of a layer: one of another stage, or one before all nodes that nothing trains."""


class StepOp(NamedTuple):
    """A layer of a step.

    Attributes:
        layer: the layer.
        node: the index of its node in the network.
        part: the part of the stage that runs it.
        sources: the layer that makes each input; ``ELSEWHERE`` for another stage's, ``SAMPLES`` for what nothing before it trains.
        views: the layer whose output its own is; its own number for an output of its own.
        sent: for each reader in another stage a key by which the last one comes first, and how many parts have run before it reads.
    """

    layer: LayerOp
    node: int
    part: int
    sources: tuple[int, ...]
    views: int
    sent: tuple[tuple[tuple[int, int], int], ...]


@lru_cache(maxsize=256)
def ops_of(
    parts: tuple[tuple[int, tuple[PlanNode, ...]], ...],
    sent: tuple[Sent, ...] = (),
    idle: frozenset[int] = frozenset(),
) -> tuple[StepOp, ...]:
    """Return the layers of nodes in the order in which they run.

    Args:
        parts: the nodes of each part of a stage, behind the index in the network of the first of them.
        sent: the tensors that other stages read.
        idle: the indices of nodes for which the devices do not work.
    """
    found, numbers = list[StepOp](), dict[str, int]()
    readers: dict[tuple[int, int], list[tuple[tuple[int, int], int]]] = {}
    for number, (node_of, tensor, reader) in enumerate(sent):
        behind = sum(first < reader for first, _ in parts[1:])
        readers.setdefault((node_of, tensor), []).append(((-reader, number), behind))
    every = (
        (part, at, node) for part, (first, nodes) in enumerate(parts) for at, node in enumerate(nodes, first)
    )
    for part, at, node in every:
        before = len(node.ops) - _own(node)
        for place, own in enumerate(node.ops):
            if at in idle or own.name in numbers:
                continue
            sources = tuple([numbers.get(each, ELSEWHERE) for each in own.inputs])
            if place < before and not own.nest.trained and max(sources, default=SAMPLES) < 0:
                numbers[own.name] = SAMPLES
                continue
            view = own.nest.view and place != before
            views = found[sources[0]].views if view else len(found)
            gone = () if view else tuple(readers.get((at, own.number), ()))
            numbers[own.name] = len(found)
            found.append(StepOp(own, at, part, sources, views, gone))
    return tuple(found)


def _own(node: PlanNode) -> int:
    """Return the number of layers of a node that are not before it."""
    names = [op.name for op in node.ops]
    return len(names) - names.index(node.name)


class Kinds:
    """The devices of each kind, which have as much of everything.

    Attributes:
        inside: returns an amount of devices on some of them, whose kinds these are.
        number: the kind of each device, ``[*devices]``.
        first: the number of one device of each kind.
        shape: the axes of the devices.
    """

    def __init__(self, every: Iterable[NDArray[Any]], inside: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Tell devices apart that have unlike amounts."""
        varied = [inside(own) for own in {id(own): own for own in every if own.size > 1}.values()]
        self.inside, self.shape = inside, np.broadcast_shapes((1,), *[own.shape for own in varied])
        rows = np.array([np.broadcast_to(own, self.shape).reshape(-1) for own in (np.zeros(1), *varied)])
        _, self.first, number = np.unique(rows, axis=1, return_index=True, return_inverse=True)
        self.number = number.reshape(self.shape)

    def of(self, amount: NDArray[Any]) -> NDArray[Any]:
        """Return an amount on the devices of each kind, ``[kinds]``."""
        own = amount.reshape(1) if amount.size == 1 else self.inside(amount)
        return np.broadcast_to(own, self.shape).reshape(-1)[self.first]


class Arrays:
    """The arrays of the layers of a step on some devices.

    Attributes:
        ops: the layers.
        fragments: the fragment of each.
        element_bytes: bytes of an element.
        written: the elements of the arrays that a run has written, by name; None for those that devices are to have.
        kinds: the devices that have as much of every array.
    """

    def __init__(
        self,
        ops: Sequence[StepOp],
        fragments: Mapping[str, Fragment],
        element_bytes: int,
        written: Mapping[str, Elements] | None = None,
        *,
        unit: int = 1,
        more: Iterable[NDArray[Any]] = (),
        inside: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
    ) -> None:
        """Take the layers, of which each sample stands for some; more amounts of devices tell their kinds apart as well.

        ``inside`` returns an amount of all devices of the fragments on those that count.
        """
        self.ops, self.fragments = ops, [fragments[op.layer.name] for op in ops]
        self.element_bytes, self.unit, self.written = float(element_bytes), unit, written
        self.flags = [own for fragment in self.fragments for own in fragment.flags]
        amounts = [own for fragment in self.fragments for own in fragment.amounts]
        self.kinds = Kinds([*more, *self.flags, *amounts, *(written or {}).values()], inside)

    def courses(self, parts: int) -> Iterator[tuple[NDArray[np.intp], Course]]:
        """Yield the kinds of devices whose arrays lie in the same buffers, with their activations and errors over a step."""
        rows = np.reshape([self.kinds.of(own) for own in self.flags], (-1, len(self.kinds.first)))
        for row in np.unique(rows, axis=1).T:
            kinds = np.flatnonzero((rows == row[:, None]).all(axis=0))
            yield kinds, _Walk(self, kinds, parts).course()

    def elements(self, name: str, holding: Holding) -> Elements:
        """Return the elements of an array; none of one that a run does not write, as it trains nothing before it."""
        return holding.elements if self.written is None else self.written.get(name, _NONE)


_NONE = np.zeros(1, np.int64)


@lru_cache(maxsize=1024)
def _together(holdings: frozenset[Holding]) -> Elements:
    """Return the elements of what devices have in any of some holdings of a tensor; of views with other dims those of the largest."""
    shapes: dict[tuple[int, ...], list[tuple[Members, ...]]] = {}
    for own in holdings:
        shapes.setdefault(own.shape, []).append(own.members)
    each = [Holding(first, tuple(more)).elements for first, *more in shapes.values()]
    return np.asarray(reduce(np.maximum, each, _NONE), np.int64)


class _Walk:
    """The ledger of a step under way, on devices of some kinds."""

    def __init__(self, arrays: Arrays, kinds: NDArray[np.intp], parts: int) -> None:
        self.arrays, self.kinds, self.parts = arrays, kinds, parts
        self.ops, self.fragments = arrays.ops, arrays.fragments
        self.ledger = Ledger()
        self.known: dict[int, tuple[NDArray[Any], Bytes]] = {}
        self.own, self.kept, self.whole = dict[int, int](), dict[int, int](), dict[int, int]()
        self.inputs: dict[int, list[int]] = {}
        self.samples: dict[tuple[str, Holding], int] = {}
        self.saves: dict[int, set[Holding]] = {}
        self.errors: dict[int, list[int]] = {}
        self.waiting: list[list[tuple[int, int, int]]] = [[] for _ in range(parts)]
        self.entering: list[Bytes] = [0.0] * (2 * parts)

    def course(self) -> Course:
        """Write down both phases of all layers."""
        nodes = 1 + max((op.node for op in self.ops), default=-1)
        ends: list[dict[int, tuple[int, int]]] = [{}, {}]
        each = [[at for at, op in enumerate(self.ops) if op.part == part] for part in range(self.parts)]
        for part, own in enumerate(each):
            for at in own:
                start = self.ledger.op + 1
                self._forward(at)
                node = self.ops[at].node
                ends[0][node] = ends[0].get(node, (start,))[0], self.ledger.op + 1
            self._leave(part)
        for part, own in reversed([*enumerate(each)]):
            self._arrive(part, own)
            for at in reversed(own):
                start = self.ledger.op + 1
                self._backward(at)
                node = self.ops[at].node
                ends[1][node] = ends[1].get(node, (start,))[0], self.ledger.op + 1
            self.ledger.end()
        during, behind = self.ledger.course(self._saved)
        forward, backward = (
            [largest(during[slice(*own.get(node, (0, 0)))]) for node in range(nodes)] for own in ends
        )
        most = [*zip(forward, backward, strict=True)]
        return Course(self.ledger.pieces(during, behind), most, float(np.max(largest(self.entering))))

    # Sizes

    def _bytes(self, elements: NDArray[Any]) -> Bytes:
        """Return the bytes of elements on these devices; of those that all have alike as a number."""
        if id(elements) not in self.known:
            own = self.arrays.element_bytes * self.arrays.unit * self.arrays.kinds.of(elements)[self.kinds]
            # The elements are kept too, so that no other ones get their identity.
            self.known[id(elements)] = elements, float(own[0]) if (own == own[0]).all() else own
        return self.known[id(elements)][1]

    def _kept(self, own: Fragment) -> Bytes | None:
        """Return the bytes that a layer keeps besides its tensors; None if there are none."""
        saved, whole, found = own.nest.saved, math.prod(own.nest.result.shape) or 1, None
        if own.trained and (saved.elements or saved.mask_bytes):
            each = saved.elements + saved.mask_bytes / self.arrays.element_bytes
            found = each * self._bytes(own.output.elements) / whole
        if own.trained and saved.statistics:
            found = (0.0 if found is None else found) + saved.statistics * self._bytes(
                own.channels
            ) / self.arrays.unit
        return found

    def _saved(self, buffers: Sequence[int]) -> Bytes:
        """Return the bytes of what is saved of a tensor, each element once; of several arrays no more than all of it."""
        found = self._bytes(_together(frozenset().union(*[self.saves[buffer] for buffer in buffers])))
        whole = self.ledger.sizes[self.ledger.owners[buffers[0]]]
        return -larger(-found, -whole) if len(buffers) > 1 else found

    def _write(self, name: str, holding: Holding, owner: int = -1) -> int:
        return self.ledger.write(self._bytes(self.arrays.elements(name, holding)), owner)

    def _moved(self, before: int, name: str, own: Transfer | None, held: Holding | None = None) -> int:
        """Write an array behind a transfer, in the buffer before where devices have it; without one it is that before."""
        if own is None or not own.moves:
            return before
        self.ledger.next(before)
        inside = self.arrays.kinds.of(own.inside)[self.kinds[0]]
        return self._write(name, held or own.need, before if inside else -1)

    # Forward

    def _forward(self, at: int) -> None:
        """Write the forward phase of a layer: what it receives, and what it makes."""
        op, own, ledger = self.ops[at], self.fragments[at], self.ledger
        if op.views != at:
            self.own[at] = self.own[op.views]
            return
        reads = [self._read(op, own, number) for number in range(len(op.sources))]
        ledger.next(*reads, *[self.whole[read] for read in reads if read in self.whole])
        # A tensor at rest is what it reads.
        array = f"terms {op.layer.name}" if own.summed else f"F {op.layer.name}"
        made = self._write(array, own.output, reads[0] if own.rests else -1)
        if (kept := self._kept(own)) is not None:
            self.kept[at] = ledger.write(kept)
        sums = f"sums {op.layer.name}" if op.layer.nest.multiplies else f"F {op.layer.name}"
        self.inputs[at], self.own[at] = reads, self._moved(made, sums, own.summed)

    def _read(self, op: StepOp, own: Fragment, number: int) -> int:
        """Write a tensor as a layer reads it: as it was made, a shard of what the device has, or a copy; that of another stage arrives.

        Layers that read alike of the samples, or of what is made of these before all nodes, read one.
        """
        name, held = f"in {op.layer.name} {number}", own.shards[number]
        if op.sources[number] == SAMPLES:
            key = op.layer.inputs[number], held
            if key not in self.samples:
                self.ledger.next()
                self.samples[key] = self.ledger.write(self._bytes(held.elements))
            return self.samples[key]
        if op.sources[number] == ELSEWHERE:
            self.ledger.next()
            found = self._write(name, held)
            self.entering[op.part] = self.entering[op.part] + self.ledger.sizes[found]
            return found
        before = self.own[op.sources[number]]
        found = self._moved(before, name, own.reads[number], held)
        if found != before and self.ledger.owners[found] == self.ledger.owners[before]:
            self.whole[found] = before
        return found

    def _leave(self, part: int) -> None:
        """End the forward phase of a part: what other stages read next leaves."""
        going = [self.own[at] for at, op in enumerate(self.ops) for _, behind in op.sent if behind == part]
        self.ledger.next(*going)
        self.ledger.end()

    # Backward

    def _arrive(self, part: int, own: Sequence[int]) -> None:
        """Begin the backward phase of a part: later parts hand errors on, then other stages send theirs, the last reader first."""
        for waiting in self.waiting[part]:
            self._return(*waiting)
        sent = [(key, at) for at in own for key, _ in self.ops[at].sent]
        for _, at in sorted(sent):
            size = self.ledger.sizes[self.own[at]]
            self.errors.setdefault(at, []).append(self.ledger.receive(size))
            self.entering[self.parts + part] = self.entering[self.parts + part] + size

    def _backward(self, at: int) -> None:
        """Write the backward phase of a layer."""
        op, fragment, ledger = self.ops[at], self.fragments[at], self.ledger
        if op.views != at or not fragment.trained:
            return
        own, arrived, saved = self.own[at], self.errors.pop(at, []), fragment.nest.saved
        if arrived:
            error = ledger.add(arrived, ledger.sizes[own])
        else:
            # The network's outputs stay until their errors come back: the training loop has a name for them.
            ledger.next(own)
            error = ledger.write(ledger.sizes[own])
        error = self._moved(error, f"E all {op.layer.name}", fragment.gathered)
        reads = [error, *([own] if saved.output or not arrived else [])]
        inputs = self.inputs[at] if saved.input else []
        for buffer, need in zip(inputs, fragment.shards, strict=False):
            self.saves.setdefault(buffer, set()).add(need)
        ledger.next(*reads, *([self.kept[at]] if at in self.kept else []), saved=inputs)
        self._send(at, error)
        if op.layer.nest.weight:
            # The gradient may be computed while the error of the input is sent, so its operands stay until then.
            ledger.next(*reads, saved=inputs)

    def _send(self, at: int, error: int) -> None:
        """Send the errors of a layer's inputs to those that have made them, of an earlier part when its work begins.

        An error may be that of the output or a slice of it, as large as the whole.
        """
        op, own, found = self.ops[at], self.fragments[at], []
        for number, source in enumerate(op.sources):
            if own.nest.passes and own.sources[number].trained:
                found.append((source, number, self.ledger.pass_on(error)))
            elif own.sources[number].trained:
                array = self._write(f"E terms {op.layer.name} {number}", own.shards[number])
                found.append((source, number, array))
        for source, number, array in found:
            if source >= 0 and self.ops[source].part < op.part:
                self.waiting[self.ops[source].part].append((at, number, array))
            elif source >= 0:
                self._return(at, number, array)

    def _return(self, at: int, number: int, error: int) -> None:
        """Bring the error of what a layer has read to those that have made it."""
        op, fragment = self.ops[at], self.fragments[at]
        *sums, last = fragment.returned[number]
        for own in sums:
            error = self._moved(error, f"E sums {op.layer.name} {number}", own)
        error = self._moved(error, f"E {op.layer.name} {number}", last, fragment.sources[number].holding)
        self.errors.setdefault(self.ops[op.sources[number]].views, []).append(error)
