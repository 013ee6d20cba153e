"""The activations and errors on devices over a step: the liveness of the arrays of its layers, in the order in which they run.

Layers run node by node, each node's own and those behind it, then backward in reverse; every rule of memory stands in this walk. The
arrays and the transfers between them are those of the program's fragments; how large an array is on a device, its holding says, or a
run that has written it. Of a stage in parts a microbatch's work is in pieces, between which others wait.

A buffer lives from the op that writes it to the last one that reads it. Buffers that share memory are one, as large as the
largest of them that lives, or is to come; what is saved of them for later ops lives on. Errors of one tensor are added up as
they arrive, as training frameworks do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, reduce
from itertools import pairwise
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.network.nodes import LayerOp, block_of
from hypar.network.training import Formats
from hypar.program.fragments import Fragment
from hypar.program.holding import Holding, Members, Transfer
from hypar.schedule.pipeline_orders import Moment

Bytes = NDArray[np.float64]
"""Bytes on a device of each kind, ``[kinds]``."""

Kept = Callable[[Sequence[int]], Bytes]
"""Returns the bytes of what is saved of some buffers of one memory, each element once."""

Elements = NDArray[np.int64]
"""Elements of an array on every device, ``[*devices]``."""


class Course(NamedTuple):
    """The bytes of activations and errors on devices of some kinds over a step.

    The pieces of work of a microbatch are the forward phase of each part of a stage, then the backward phases in reverse.

    Attributes:
        most: the most at any moment of each piece, ``[pieces, kinds]``.
        behind: those that stay behind it until the next one, ``[pieces, kinds]``.
        nodes: the most during the forward and the backward phase of each node and the layers behind it, ``[nodes, 2, kinds]``.
        entering: the most that come at once: from other stages for a piece of work, or of a transfer at a level, ``[kinds]``.
    """

    most: Bytes
    behind: Bytes
    nodes: Bytes
    entering: Bytes

    def held(self, moments: Sequence[Moment]) -> tuple[Bytes, Bytes]:
        """Return the most bytes of microbatches that wait, and the most at any moment of work on one."""
        waiting = most = np.zeros_like(self.behind[0])
        for piece, counts in moments:
            others = sum(map(mul, counts, self.behind), 0.0)
            most = np.maximum(most, self.most[piece] + others)
            for at in (piece - 1, piece):
                if 0 <= at < len(counts):
                    waiting = np.maximum(waiting, others + self.behind[at])
        return waiting, most


class StepOp(NamedTuple):
    """A layer of a step, with the index of its node in the network and the part of the stage that runs it.

    It is ``sent`` to readers in other stages, each with a key by which the last one comes first, and how many parts run before.
    """

    layer: LayerOp
    node: int
    part: int
    sent: tuple[tuple[tuple[int, int], int], ...]


@dataclass(frozen=True, eq=False)
class Arrays:
    """The arrays of the layers of a step on some devices, whose kinds have as much of every array.

    Attributes:
        ops: the layers.
        fragments: the fragment of each, by name, and of those before all nodes.
        formats: the bytes of elements.
        written: the elements of the arrays that a run has written, by name; None for those that devices are to have.
        whole: by the layer's name and the tensor, the bytes on each device of a ``weight`` that is gathered for its use, and of the terms
            of a ``gradient`` until it is shared, ``[*devices]``.
        again: the names of the blocks, and of the single layers, that are computed again.
        shards: the names of the layers whose inputs are gathered again.
        unit: the samples for which each one stands.
        more: further amounts by which devices are of unlike kinds.
        inside: returns an amount of all devices of the fragments on those that count.
    """

    ops: Sequence[StepOp]
    fragments: Mapping[str, Fragment]
    formats: Formats
    written: Mapping[str, Elements] | None = None
    whole: Mapping[tuple[str, str], Bytes] = field(default_factory=dict)
    again: frozenset[str] = frozenset()
    shards: frozenset[str] = frozenset()
    unit: int = 1
    more: Sequence[NDArray[Any]] = ()
    inside: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray

    @cached_property
    def flags(self) -> list[NDArray[np.bool_]]:
        """Whether devices have what they need of each transfer, where some have and others have not."""
        every = (own.inside for op in self.ops for own in self.fragments[op.layer.name].transfers)
        return [own for own in every if own.size > 1]

    @cached_property
    def kinds(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The kind of each device, ``[*devices]``, and the number of one device of each kind."""
        amounts = [own for op in self.ops for own in self.fragments[op.layer.name].amounts]
        every = (*self.more, *self.flags, *amounts, *self.whole.values(), *(self.written or {}).values())
        varied = [self.inside(own) for own in {id(own): own for own in every}.values() if own.size > 1]
        shape = np.broadcast_shapes((1,), *[own.shape for own in varied])
        rows = np.array([np.broadcast_to(own, shape).reshape(-1) for own in (np.zeros(1), *varied)])
        _, first, kind = np.unique(rows, axis=1, return_index=True, return_inverse=True)
        return kind.reshape(shape), first

    def of(self, amount: NDArray[Any]) -> NDArray[Any]:
        """Return an amount on a device of each kind, ``[kinds]``."""
        own = amount.reshape(1) if amount.size == 1 else self.inside(amount)
        kind, first = self.kinds
        return np.broadcast_to(own, kind.shape).reshape(-1)[first]

    def course(self, parts: int) -> Course:
        """Return the activations and errors over a step; kinds of devices whose arrays lie in the same buffers are walked together."""
        rows = np.array([np.zeros(len(self.kinds[1])), *[self.of(own) for own in self.flags]])
        _, alike = np.unique(rows, axis=1, return_inverse=True)
        kinds = [np.flatnonzero(alike.reshape(-1) == number) for number in range(alike.max() + 1)]
        each = zip(*[_Walk(self, own, parts).course() for own in kinds], strict=True)
        order = np.argsort(np.concatenate(kinds))
        return Course(*[np.concatenate(own, axis=-1)[..., order] for own in each])


class Ledger:
    """Buffers with the ops between which they live, written down op by op.

    Attributes:
        op: the number of the op that is being written down.
        sizes: the bytes of each buffer.
        made: the op that writes it.
        last: the last op that reads it.
        owners: the buffer whose memory it has; its own number for a memory of its own.
        later: for a buffer of which something is saved the last op that reads that.
        passed: the errors that several tensors have, so that nothing is added to them.
        outside: the errors that lie in the buffer of a transfer until they are added to others.
        ends: the number of ops at the end of each piece of work.
    """

    def __init__(self) -> None:
        self.op = -1
        self.sizes: list[Bytes] = []
        self.made, self.last, self.owners, self.ends = list[int](), list[int](), list[int](), list[int]()
        self.later: dict[int, int] = {}
        self.passed, self.outside = set[int](), set[int]()

    def next(self, *reads: int, saved: Iterable[int] = ()) -> None:
        """Begin an op that reads some buffers, and what was saved of others."""
        self.op += 1
        for buffer in reads:
            self.last[buffer] = self.op
        for buffer in saved:
            self.later[buffer] = self.op

    def end(self) -> None:
        """End a piece of work."""
        self.ends.append(self.op + 1)

    def write(self, size: Bytes, owner: int = -1) -> int:
        """Write a buffer, in a memory of its own or in that of another one, and return it."""
        buffer = len(self.sizes)
        self.sizes.append(size)
        self.made.append(self.op)
        self.last.append(self.op)
        self.owners.append(buffer if owner < 0 else self.owners[owner])
        if owner in self.passed:
            self.passed.add(buffer)
        return buffer

    def pass_on(self, error: int) -> int:
        """Write an error that is a slice of another one, or that error itself: as large as the whole, whose memory it has."""
        buffer = self.write(self.sizes[error], error)
        self.passed.add(buffer)
        return buffer

    def receive(self, size: Bytes) -> int:
        """Write an error that another stage sends, behind what makes room for it."""
        self.next()
        self.next()
        buffer = self.write(size)
        self.outside.add(buffer)
        return buffer

    def add(self, arrived: Sequence[int], size: Bytes) -> int:
        """Return the sum of errors of one tensor, which is formed as they arrive.

        An error is added in its place to those before; from another stage in the buffer, so that both are not held at once. Nothing
        is added to an error that is passed on, as others may have the same memory.
        """
        before, *others = sorted(arrived, key=lambda own: (self.made[own], own)) if arrived[1:] else arrived
        for buffer in others:
            at = self.made[buffer]
            self.last[before] = max(self.last[before], at - (buffer in self.outside))
            self.last[buffer] = max(self.last[buffer], at)
            before = self.write(size, next((own for own in (buffer, before) if own not in self.passed), -1))
            self.made[before] = self.last[before] = at
        self.next(before)
        return before

    def course(self, kept: Kept) -> tuple[Bytes, Bytes]:
        """Return the bytes during each op, and behind it, no more than during it and the next one: ``[ops, kinds]``."""
        during, behind = list[tuple[int, Bytes]](), list[tuple[int, Bytes]]()
        each: dict[int, list[int]] = {}
        for buffer, owner in enumerate(self.owners):
            each.setdefault(owner, []).append(buffer)
        for buffers in each.values():
            spans = self._spans(buffers, kept)
            for start, end, size in spans:
                during += (start, size), (end + 1, -size)
                behind += (start, size), (end, -size)
            for (_, end, size), (*_, after) in pairwise(spans):
                both = np.minimum(size, after)
                behind += (end, both), (end + 1, -both)
        return self._held(during), self._held(behind)

    def _held(self, changes: Sequence[tuple[int, Bytes]]) -> Bytes:
        found = np.zeros((self.op + 2, *np.shape(changes[0][1] if changes else 0.0)))
        np.add.at(found, [op for op, _ in changes], [size for _, size in changes])
        total: Bytes = found[:-1].cumsum(axis=0)
        return total

    def pieces(self, during: Bytes, behind: Bytes) -> tuple[Bytes, Bytes]:
        """Return the most bytes of each piece of work, and those that stay until the next one: ``[pieces, kinds]``."""
        most = [during[start:end].max(axis=0, initial=0.0) for start, end in pairwise([0, *self.ends])]
        return np.array(most), np.array([behind[end - 1] * (end > 0) for end in self.ends])

    def _spans(self, buffers: Sequence[int], kept: Kept) -> list[tuple[int, int, Bytes]]:
        """Return the bytes of a memory from one op to another: of its largest buffer there, or else to come; then of what is saved."""
        made, last, sizes = self.made, self.last, self.sizes
        first = sizes[buffers[0]]
        if all(sizes[own] is first for own in buffers):
            found = [(min([made[own] for own in buffers]), max([last[own] for own in buffers]), first)]
        else:
            found, ends = [], sorted({at for own in buffers for at in (made[own], last[own] + 1)})
            for start, after in pairwise(ends):
                there = [own for own in buffers if made[own] <= start <= last[own]]
                there = there or [own for own in buffers if made[own] >= after]
                found.append((start, after - 1, np.maximum.reduce([sizes[own] for own in there])))
        until = found[-1][1]
        if saved := [own for own in buffers if self.later.get(own, -1) > until]:
            found.append((until + 1, max([self.later[own] for own in saved]), kept(saved)))
        return found


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
        self.ops, self.fragments, self.size = arrays.ops, arrays.fragments, float(arrays.formats.activation)
        self.ledger = Ledger()
        self.known: dict[int, tuple[NDArray[Any], Bytes]] = {}
        self.own, self.kept, self.whole = dict[str, int](), dict[str, int](), dict[int, int]()
        self.part_of = {op.layer.name: op.part for op in arrays.ops}
        self.inputs, self.errors = dict[str, list[int]](), dict[int, list[int]]()
        self.saves: dict[int, set[tuple[Holding, float]]] = {}
        self.waiting: list[list[tuple[StepOp, int, int]]] = [[] for _ in range(parts)]
        self.entering = np.zeros((2 * parts, len(kinds)))
        self.ends: dict[tuple[int, int], tuple[int, int]] = {}
        self.ahead, self.there, self.summing = dict[str, str](), dict[tuple[str, str], int](), ""
        self.arrived, self.anew = dict[tuple[str, Holding | None], int](), set[str]()
        self.shards, self.gathers = dict[int, tuple[int, Holding]](), dict[int, int]()

    def course(self) -> Course:
        each = [[op for op in self.ops if op.part == part] for part in range(self.parts)]
        for part, own in enumerate(each):
            self._run(own, 0, self._forward)
            self.ledger.next(*[self.own[op.layer.name] for op in self.ops for _, at in op.sent if at == part])
            self.ledger.end()
        for part, own in reversed([*enumerate(each)]):
            self._arrive(part, own)
            self._run(reversed(own), 1, self._backward)
            self.ledger.end()
        during, behind = self.ledger.course(self._saved)
        nodes = np.zeros((1 + max((op.node for op in self.ops), default=-1), 2, len(self.kinds)))
        for place, (start, end) in self.ends.items():
            nodes[place] = during[start:end].max(axis=0, initial=0.0)
        entering = np.full(len(self.kinds), self.entering.max())
        return Course(*self.ledger.pieces(during, behind), nodes, entering)

    def _run(self, ops: Iterable[StepOp], phase: int, write: Callable[[StepOp], None]) -> None:
        every = [*ops]
        gathered = [op.layer.name for op in every if (op.layer.name, "weight") in self.arrays.whole]
        self.ahead, self.there, self.summing = dict(pairwise(gathered)), {}, ""
        for op in every:
            start = self.ledger.op + 1
            write(op)
            first, _ = self.ends.get((op.node, phase), (start, 0))
            self.ends[op.node, phase] = first, self.ledger.op + 1

    # Sizes

    def _bytes(self, elements: NDArray[Any]) -> Bytes:
        if id(elements) not in self.known:
            own = self.size * self.arrays.unit * self.arrays.of(elements)[self.kinds]
            # The elements are kept too, so that no other ones get their identity.
            self.known[id(elements)] = elements, own
        return self.known[id(elements)][1]

    def _kept(self, own: Fragment) -> Bytes | None:
        saved, whole, each = own.nest.saved, math.prod(own.nest.result.shape) or 1, list[Bytes]()
        if own.trained and (saved.elements or saved.mask_bytes):
            size = saved.elements + saved.mask_bytes / self.size
            each.append(size * self._bytes(own.output.elements) / whole)
        if own.trained and saved.statistics:
            each.append(saved.statistics * self._bytes(own.channels) / self.arrays.unit)
        return np.asarray(sum(each, 0.0)) if each else None

    def _saved(self, buffers: Sequence[int]) -> Bytes:
        """Return the bytes of what is saved of a tensor, each element once in each format; of several arrays no more than all of it."""
        saves = set().union(*[self.saves[buffer] for buffer in buffers])
        whole, total = self.ledger.sizes[self.ledger.owners[buffers[0]]], np.zeros(1)
        for part in {part for _, part in saves}:
            found = self._bytes(_together(frozenset([own for own, of in saves if of == part])))
            total = total + part * (np.minimum(found, whole) if len(buffers) > 1 else found)
        return total

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

    def _have(self, tensor: str, name: str, beside: str) -> None:
        """Have a weight that an op computes with whole, or the terms of its gradient; so another one that is gathered, or shared, meanwhile."""
        for key in ((name, tensor), (beside, tensor)):
            if key in self.arrays.whole and (name, tensor) in self.arrays.whole:
                if key not in self.there:
                    self.there[key] = self.ledger.write(self.arrays.of(self.arrays.whole[key])[self.kinds])
                self.ledger.last[self.there[key]] = self.ledger.op

    # Forward

    def _forward(self, op: StepOp) -> None:
        name, own, ledger = op.layer.name, self.fragments[op.layer.name], self.ledger
        if op.layer.views:
            self.own[name] = self.own[op.layer.inputs[0]]
            return
        reads = [self._read(op, own, number) for number in range(len(op.layer.inputs))]
        ledger.next(*reads, *[self.whole[read] for read in reads if read in self.whole])
        self._have("weight", name, self.ahead.get(name, ""))
        # A tensor at rest is what it reads.
        array = f"terms {name}" if own.summed else f"F {name}"
        made = self._write(array, own.output, reads[0] if own.rests else -1)
        if own.rests and reads[0] in self.shards:
            self.shards[made] = self.shards[reads[0]]
        if op.layer.layer.op_name == "cross_entropy" and self.arrays.formats.loss:
            ledger.sizes[made] = self.arrays.formats.loss / self.size * ledger.sizes[made]
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
        sample = source in self.fragments and not self.fragments[source].trained
        key = (source, held) if sample else (name, None)
        if key not in self.arrived:
            self.ledger.next()
            self.arrived[key] = (
                self.ledger.write(self._bytes(held.elements)) if sample else self._write(name, held)
            )
            self.entering[op.part] += 0.0 if sample else self.ledger.sizes[self.arrived[key]]
        return self.arrived[key]

    # Backward

    def _arrive(self, part: int, own: Sequence[StepOp]) -> None:
        """Begin the backward phase of a part: later parts hand errors on, then other stages send theirs, the last reader first."""
        for waiting in self.waiting[part]:
            self._return(*waiting)
        for _, name in sorted((key, op.layer.name) for op in own for key, _ in op.sent):
            size = self.ledger.sizes[self.own[name]]
            self.errors.setdefault(self.own[name], []).append(self.ledger.receive(size))
            self.entering[self.parts + part] += size

    def _backward(self, op: StepOp) -> None:
        """Go backward through a layer, before the last one of a block that is computed again forward through all of it."""
        name, fragment, ledger = op.layer.name, self.fragments[op.layer.name], self.ledger
        if (block := block_of(name)) in self.arrays.again - self.anew and block != name:
            self.anew.add(block)
            inside = [one for one in self.ops if one.part == op.part and block_of(one.layer.name) == block]
            for other in inside:
                before = self.own[other.layer.name]
                self._forward(other)
                if before in self.errors:
                    self.errors[self.own[other.layer.name]] = self.errors.pop(before)
        if op.layer.views or not fragment.trained:
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
        operand = self.arrays.formats.operand if op.layer.nest.weight else 0
        part = operand / self.size if operand else 1.0
        for buffer, need in zip(inputs, fragment.shards, strict=False):
            self.saves.setdefault(buffer, set()).add((need, part))
        if name in self.arrays.again and name in self.kept:
            ledger.next(saved=inputs)
            self.kept[name] = ledger.write(ledger.sizes[self.kept[name]])
        ledger.next(*reads, *([self.kept[name]] if name in self.kept else []), saved=inputs)
        self._have("weight", name, self.ahead.get(name, ""))
        self._send(op, error)
        if op.layer.nest.weight:
            # The gradient may be computed while the error of the input is sent, so its operands stay until then.
            ledger.next(*reads, saved=inputs)
            self._have("gradient", name, self.summing)
            self.summing = name if (name, "gradient") in self.arrays.whole else self.summing

    def _inputs(self, name: str) -> list[int]:
        """Return the buffers of what a layer reads; of what devices keep shards of, those that they gather again, once for all readers."""
        if name not in self.arrays.shards:
            return self.inputs[name]
        for buffer in self.inputs[name]:
            if buffer in self.shards and buffer not in self.gathers:
                shard, holding = self.shards[buffer]
                self.saves.setdefault(shard, set()).add((holding, 1.0))
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
