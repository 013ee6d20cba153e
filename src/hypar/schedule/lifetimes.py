"""The activations and errors on devices over a step: the liveness of the arrays of its layers, in the order in which they run.

Layers run node by node, each node's own and those behind it, then backward in reverse; every rule of memory stands in this walk. The
arrays and the transfers between them are those of the program's fragments; how large an array is on a device, its holding says, or a
run that has written it. Of a stage in parts a microbatch's work is in pieces, between which others wait.
"""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from itertools import pairwise
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.network.nodes import block_of
from hypar.program.holding import Holding, Members, Transfer
from hypar.schedule.liveness import Bytes, Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hypar.network.nodes import LayerOp, PlanNode
    from hypar.program.fragments import Fragment, Whole
    from hypar.schedule.pipeline_orders import Moment

Elements = NDArray[np.int64]
"""Elements of an array on every device, ``[*devices]``."""


class Course(NamedTuple):
    """The bytes of activations and errors on devices of some kinds over a step.

    The pieces of work of a microbatch are the forward phase of each part of a stage, then the backward phases in reverse.

    Attributes:
        most: the most at any moment of each piece, ``[pieces, kinds]``.
        behind: those that stay behind it until the next one, ``[pieces, kinds]``.
        nodes: the most during the forward phase of each node, that of the layers behind it included, and its backward phase,
            ``[nodes, 2, kinds]``.
        entering: the most that come at once: from other stages for a piece of work, or of a transfer at a level, ``[kinds]``.
    """

    most: Bytes
    behind: Bytes
    nodes: Bytes
    entering: Bytes

    def held(self, moments: Sequence[Moment]) -> tuple[Bytes, Bytes]:
        """Return the most bytes of microbatches that wait, and the most at any moment of work on one of them.

        Args:
            moments: the pieces of work, each with the microbatches that wait beside it.
        """
        waiting = most = np.zeros_like(self.behind[0])
        for piece, counts in moments:
            others = sum(map(mul, counts, self.behind), 0.0)
            most = np.maximum(most, self.most[piece] + others)
            for at in (piece - 1, piece):
                if 0 <= at < len(counts):
                    waiting = np.maximum(waiting, others + self.behind[at])
        return waiting, most


Sent = tuple[int, int, int]
"""A tensor that another stage reads: the index of its node, its number there, the index of the node that reads it."""


class StepOp(NamedTuple):
    """A layer of a step.

    Attributes:
        layer: the layer.
        node: the index of its node in the network.
        part: the part of the stage that runs it.
        view: whether its output is that of the layer before.
        sent: for each reader in another stage a key by which the last one comes first, and how many parts have run before it reads.
    """

    layer: LayerOp
    node: int
    part: int
    view: bool
    sent: tuple[tuple[tuple[int, int], int], ...]


@lru_cache(maxsize=256)
def ops_of(
    parts: tuple[tuple[int, tuple[PlanNode, ...]], ...],
    sent: tuple[Sent, ...] = (),
    idle: frozenset[int] = frozenset(),
) -> tuple[StepOp, ...]:
    """Return the layers of nodes in the order in which they run, without those before all nodes that nothing trains.

    Args:
        parts: the nodes of each part of a stage, behind the index in the network of the first of them.
        sent: the tensors that other stages read.
        idle: the indices of nodes for which the devices do not work.
    """
    found, seen, run = list[StepOp](), set[str](), set[str]()
    readers: dict[tuple[int, int], list[tuple[tuple[int, int], int]]] = {}
    for number, (node_of, tensor, reader) in enumerate(sent):
        behind = sum(first < reader for first, _ in parts[1:])
        readers.setdefault((node_of, tensor), []).append(((-reader, number), behind))
    every = (
        (part, at, node) for part, (first, nodes) in enumerate(parts) for at, node in enumerate(nodes, first)
    )
    for part, at, node in every:
        before = [op.name for op in node.ops].index(node.name)
        for place, own in enumerate(node.ops):
            if at in idle or own.name in seen:
                continue
            seen.add(own.name)
            if place >= before or own.nest.trained or run.intersection(own.inputs):
                run.add(own.name)
                view = own.nest.view and place != before
                gone = () if view else tuple(readers.get((at, own.number), ()))
                found.append(StepOp(own, at, part, view, gone))
    return tuple(found)


class Arrays:
    """The arrays of the layers of a step on some devices, whose kinds have as much of every array.

    Attributes:
        ops: the layers.
        fragments: the fragment of each, by name, and of those before all nodes.
        element_bytes: bytes of an element.
        written: the elements of the arrays that a run has written, by name; None for those that devices are to have.
        whole: the weights in shares, by the layer's name.
        again: the names of the blocks, and of the single layers, that are computed again.
        shards: the names of the layers whose inputs are gathered again.
        loss_bytes: bytes of a share of a cross-entropy; 0 for those of an element.
        kind: the kind of each device, ``[*devices]``.
        first: the number of one device of each kind.
    """

    def __init__(
        self,
        ops: Sequence[StepOp],
        fragments: Mapping[str, Fragment],
        element_bytes: int,
        written: Mapping[str, Elements] | None = None,
        *,
        whole: Mapping[str, Whole] | None = None,
        again: frozenset[str] = frozenset(),
        shards: frozenset[str] = frozenset(),
        loss_bytes: int = 0,
        unit: int = 1,
        more: Iterable[NDArray[Any]] = (),
        inside: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
    ) -> None:
        """Take the layers, of which each sample stands for some; more amounts of devices tell their kinds apart as well.

        ``inside`` returns an amount of all devices of the fragments on those that count.
        """
        self.ops, self.fragments, self.written, self.inside = ops, fragments, written, inside
        self.element_bytes, self.unit, self.whole, self.again = float(element_bytes), unit, whole or {}, again
        self.shards, self.loss = shards, (loss_bytes or element_bytes) / element_bytes
        every = [fragments[op.layer.name] for op in ops]
        self.flags = [own for fragment in every for own in fragment.flags]
        amounts = [own for fragment in every for own in fragment.amounts]
        amounts += [own for each in self.whole.values() for own in each if own is not None]
        known = {id(own): own for own in (*more, *self.flags, *amounts, *(written or {}).values())}
        varied = [inside(own) for own in known.values() if own.size > 1]
        shape = np.broadcast_shapes((1,), *[own.shape for own in varied])
        rows = np.array([np.broadcast_to(own, shape).reshape(-1) for own in (np.zeros(1), *varied)])
        _, self.first, kind = np.unique(rows, axis=1, return_index=True, return_inverse=True)
        self.kind = kind.reshape(shape)

    def of(self, amount: NDArray[Any]) -> NDArray[Any]:
        """Return an amount on a device of each kind, ``[kinds]``."""
        own = amount.reshape(1) if amount.size == 1 else self.inside(amount)
        return np.broadcast_to(own, self.kind.shape).reshape(-1)[self.first]

    def course(self, parts: int) -> Course:
        """Return the activations and errors over a step; kinds of devices whose arrays lie in the same buffers are walked together."""
        rows = np.array([np.zeros(len(self.first)), *[self.of(own) for own in self.flags]])
        _, alike = np.unique(rows, axis=1, return_inverse=True)
        kinds = [np.flatnonzero(alike.reshape(-1) == number) for number in range(alike.max() + 1)]
        each = zip(*[_Walk(self, own, parts).course() for own in kinds], strict=True)
        order = np.argsort(np.concatenate(kinds))
        return Course(*[np.concatenate(own, axis=-1)[..., order] for own in each])


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
    def __init__(self, arrays: Arrays, kinds: NDArray[np.intp], parts: int) -> None:
        self.arrays, self.kinds, self.parts = arrays, kinds, parts
        self.ops, self.fragments = arrays.ops, arrays.fragments
        self.ledger = Ledger()
        self.known: dict[int, tuple[NDArray[Any], Bytes]] = {}
        self.own, self.kept, self.whole = dict[str, int](), dict[str, int](), dict[int, int]()
        self.part_of = {op.layer.name: op.part for op in arrays.ops}
        self.inputs: dict[str, list[int]] = {}
        self.samples: dict[tuple[str, Holding], int] = {}
        self.saves: dict[int, set[Holding]] = {}
        self.errors: dict[int, list[int]] = {}
        self.waiting: list[list[tuple[StepOp, int, int]]] = [[] for _ in range(parts)]
        self.entering = np.zeros((2 * parts, len(kinds)))
        self.ends: dict[tuple[int, int], tuple[int, int]] = {}
        self.ahead, self.there, self.summing = dict[str, str](), dict[str, int](), list[int]()
        self.arrived, self.anew = dict[str, int](), set[str]()
        self.shards, self.gathers = dict[int, tuple[int, Holding]](), dict[int, int]()

    def course(self) -> Course:
        each = [[op for op in self.ops if op.part == part] for part in range(self.parts)]
        for part, own in enumerate(each):
            self._run(own, 0, self._forward)
            self.ledger.next(*[self.own[op.layer.name] for op in self.ops for _, at in op.sent if at == part])
            self.ledger.end()
        for part, own in reversed([*enumerate(each)]):
            self._arrive(part, own)
            self._run(reversed(own), 1, self._back)
            self.ledger.end()
        during, behind = self.ledger.course(self._saved)
        nodes = np.zeros((1 + max((op.node for op in self.ops), default=-1), 2, len(self.kinds)))
        for place, (start, end) in self.ends.items():
            nodes[place] = during[start:end].max(axis=0, initial=0.0)
        entering = np.full(len(self.kinds), self.entering.max())
        return Course(*self.ledger.pieces(during, behind), nodes, entering)

    def _run(self, ops: Iterable[StepOp], phase: int, write: Callable[[StepOp], None]) -> None:
        every, whole = [*ops], self.arrays.whole
        gathered = [
            op.layer.name
            for op in every
            if op.layer.name in whole and whole[op.layer.name].weight is not None
        ]
        self.ahead, self.there, self.summing = dict(pairwise(gathered)), {}, []
        for op in every:
            start = self.ledger.op + 1
            write(op)
            first, _ = self.ends.get((op.node, phase), (start, 0))
            self.ends[op.node, phase] = first, self.ledger.op + 1

    # Sizes

    def _bytes(self, elements: NDArray[Any]) -> Bytes:
        if id(elements) not in self.known:
            own = self.arrays.element_bytes * self.arrays.unit * self.arrays.of(elements)[self.kinds]
            # The elements are kept too, so that no other ones get their identity.
            self.known[id(elements)] = elements, own
        return self.known[id(elements)][1]

    def _kept(self, own: Fragment) -> Bytes | None:
        saved, whole, each = own.nest.saved, math.prod(own.nest.result.shape) or 1, list[Bytes]()
        if own.trained and (saved.elements or saved.mask_bytes):
            size = saved.elements + saved.mask_bytes / self.arrays.element_bytes
            each.append(size * self._bytes(own.output.elements) / whole)
        if own.trained and saved.statistics:
            each.append(saved.statistics * self._bytes(own.channels) / self.arrays.unit)
        return np.asarray(sum(each, 0.0)) if each else None

    def _saved(self, buffers: Sequence[int]) -> Bytes:
        """Return the bytes of what is saved of a tensor, each element once; of several arrays no more than all of it."""
        found = self._bytes(_together(frozenset().union(*[self.saves[buffer] for buffer in buffers])))
        whole = self.ledger.sizes[self.ledger.owners[buffers[0]]]
        return np.minimum(found, whole) if len(buffers) > 1 else found

    def _write(self, name: str, holding: Holding, owner: int = -1) -> int:
        """Write an array; nothing of one that a run does not write, as it trains nothing before it."""
        written = self.arrays.written
        elements = holding.elements if written is None else written.get(name, _NONE)
        return self.ledger.write(self._bytes(elements), owner)

    def _moved(self, before: int, name: str, own: Transfer | None, held: Holding | None = None) -> int:
        """Write an array behind a transfer, in the buffer before where devices have it; without one it is that before."""
        if own is None or not own.moves:
            return before
        self.ledger.next(before)
        inside = self.arrays.of(own.inside)[self.kinds[0]]
        return self._write(name, held or own.need, before if inside else -1)

    # Weights in shares

    def _whole(self, bytes_of: NDArray[Any]) -> int:
        return self.ledger.write(self.arrays.of(bytes_of)[self.kinds].astype(float))

    def _gathered(self, name: str) -> None:
        """Have the weight that an op computes with, and gather that of the next one meanwhile."""
        for own in filter(None, (name, self.ahead.get(name))):
            if (each := self.arrays.whole.get(own)) and each.weight is not None:
                if own not in self.there:
                    self.there[own] = self._whole(each.weight)
                self.ledger.last[self.there[own]] = self.ledger.op

    def _summed(self, name: str) -> None:
        """Have the terms of a gradient until they are shared, which is while the next one is computed."""
        if (each := self.arrays.whole.get(name)) and each.gradient is not None:
            self.summing.append(self._whole(each.gradient))
            for buffer in self.summing[-2:]:
                self.ledger.last[buffer] = self.ledger.op

    # Forward

    def _forward(self, op: StepOp) -> None:
        name, own, ledger = op.layer.name, self.fragments[op.layer.name], self.ledger
        if op.view:
            self.own[name] = self.own[op.layer.inputs[0]]
            return
        reads = [self._read(op, own, number) for number in range(len(op.layer.inputs))]
        ledger.next(*reads, *[self.whole[read] for read in reads if read in self.whole])
        self._gathered(name)
        # A tensor at rest is what it reads.
        array = f"terms {name}" if own.summed else f"F {name}"
        made = self._write(array, own.output, reads[0] if own.rests else -1)
        if own.rests and reads[0] in self.shards:
            self.shards[made] = self.shards[reads[0]]
        if self.arrays.loss != 1 and op.layer.layer.op_name == "cross_entropy":
            ledger.sizes[made] = self.arrays.loss * ledger.sizes[made]
        if (kept := self._kept(own)) is not None:
            self.kept[name] = ledger.write(kept)
        sums = f"sums {name}" if op.layer.nest.multiplies else f"F {name}"
        self.inputs[name], self.own[name] = reads, self._moved(made, sums, own.summed)

    def _read(self, op: StepOp, own: Fragment, number: int) -> int:
        """Write a tensor as a layer reads it: as it was made, a shard of what the device has, or a copy; that of another stage arrives.

        Layers that read alike of the samples, or of what is made of these before all nodes, read one.
        """
        source, name, held = op.layer.inputs[number], f"in {op.layer.name} {number}", own.shards[number]
        if source in self.own:
            before = self.own[source]
            found = self._moved(before, name, own.reads[number], held)
            if found != before and self.ledger.owners[found] == self.ledger.owners[before]:
                self.whole[found] = before
            elif own.gathers[number] and op.layer.name in self.arrays.shards:
                self.shards[found] = before, own.sources[number].holding
            return found
        if source in self.fragments and not self.fragments[source].trained:
            if (source, held) not in self.samples:
                self.ledger.next()
                self.samples[source, held] = self.ledger.write(self._bytes(held.elements))
            return self.samples[source, held]
        if name not in self.arrived:
            self.ledger.next()
            self.arrived[name] = self._write(name, held)
            self.entering[op.part] += self.ledger.sizes[self.arrived[name]]
        return self.arrived[name]

    # Backward

    def _back(self, op: StepOp) -> None:
        """Go backward through a layer, before the last one of a block that is computed again forward through all of it."""
        block = block_of(op.layer.name)
        if block in self.arrays.again - self.anew and block != op.layer.name:
            self.anew.add(block)
            for own in [own for own in self.ops if own.part == op.part and block_of(own.layer.name) == block]:
                name, before = own.layer.name, self.own[own.layer.name]
                self._forward(own)
                if before in self.errors:
                    self.errors[self.own[name]] = self.errors.pop(before)
        self._backward(op)

    def _arrive(self, part: int, own: Sequence[StepOp]) -> None:
        """Begin the backward phase of a part: later parts hand errors on, then other stages send theirs, the last reader first."""
        for waiting in self.waiting[part]:
            self._return(*waiting)
        for _, name in sorted((key, op.layer.name) for op in own for key, _ in op.sent):
            size = self.ledger.sizes[self.own[name]]
            self.errors.setdefault(self.own[name], []).append(self.ledger.receive(size))
            self.entering[self.parts + part] += size

    def _backward(self, op: StepOp) -> None:
        name, fragment, ledger = op.layer.name, self.fragments[op.layer.name], self.ledger
        if op.view or not fragment.trained:
            return
        own, saved = self.own[name], fragment.nest.saved
        arrived = self.errors.pop(own, [])
        if arrived:
            error = ledger.add(arrived, ledger.sizes[own])
        else:
            # The network's outputs stay until their errors come back: the training loop has a name for them.
            ledger.next(own)
            error = ledger.write(ledger.sizes[own])
        error = self._moved(error, f"E all {name}", fragment.gathered)
        reads = [error, *([own] if saved.output or not arrived else [])]
        inputs = self._inputs(name) if saved.input else []
        for buffer, need in zip(inputs, fragment.shards, strict=False):
            self.saves.setdefault(buffer, set()).add(need)
        if name in self.arrays.again and name in self.kept:
            ledger.next(saved=inputs)
            self.kept[name] = ledger.write(ledger.sizes[self.kept[name]])
        ledger.next(*reads, *([self.kept[name]] if name in self.kept else []), saved=inputs)
        self._gathered(name)
        self._send(op, error)
        if op.layer.nest.weight:
            # The gradient may be computed while the error of the input is sent, so its operands stay until then.
            ledger.next(*reads, saved=inputs)
            self._summed(name)

    def _inputs(self, name: str) -> list[int]:
        """Return the buffers of what a layer reads; of what devices keep shards of, those that they gather again, once for all readers."""
        if name not in self.arrays.shards:
            return self.inputs[name]
        for buffer in self.inputs[name]:
            if buffer in self.shards and buffer not in self.gathers:
                shard, holding = self.shards[buffer]
                self.saves.setdefault(shard, set()).add(holding)
                self.ledger.next(saved=[shard])
                self.gathers[buffer] = self.ledger.write(self.ledger.sizes[buffer])
        return [self.gathers.get(buffer, buffer) for buffer in self.inputs[name]]

    def _send(self, op: StepOp, error: int) -> None:
        """Send the errors of a layer's inputs to those that have made them, of an earlier part when its work begins.

        An error may be that of the output or a slice of it, as large as the whole.
        """
        own, found = self.fragments[op.layer.name], []
        for number, (source, made) in enumerate(zip(op.layer.inputs, own.sources, strict=False)):
            if made.trained:
                name, held = f"E terms {op.layer.name} {number}", own.shards[number]
                array = self.ledger.pass_on(error) if own.nest.passes else self._write(name, held)
                found.append((source, number, array))
        for source, number, array in found:
            if source in self.part_of and self.part_of[source] < op.part:
                self.waiting[self.part_of[source]].append((op, number, array))
            elif source in self.part_of:
                self._return(op, number, array)

    def _return(self, op: StepOp, number: int, error: int) -> None:
        name, fragment = op.layer.name, self.fragments[op.layer.name]
        *sums, last = fragment.returned[number]
        for own in sums:
            error = self._moved(error, f"E sums {name} {number}", own)
        error = self._moved(error, f"E {name} {number}", last, fragment.sources[number].holding)
        self.errors.setdefault(self.own[op.layer.inputs[number]], []).append(error)
