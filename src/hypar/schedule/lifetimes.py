"""The activations and errors on a device over a step: the liveness of the ops of its nodes, in the order in which they run.

Nodes run in their order, each with the ops behind it, then backward in reverse; every rule of memory stands in this walk. What
devices have of each tensor, and whether it lies in what it was made of, is asked of ``Sizes``: closed forms of a plan's
divisions, or what a run has written. Of a stage in parts a microbatch's work is in pieces, between which others wait.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from operator import mul
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from hypar.network.nodes import PlanGraph, kept_with_graph
from hypar.schedule.liveness import Ledger, Piece, held_at, larger, largest, on_device

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from hypar.network.nodes import FusedOp, PlanNode, Tensor
    from hypar.schedule.liveness import Bytes
    from hypar.schedule.pipeline_orders import Moment


class Span(NamedTuple):
    """A part of a stage.

    Attributes:
        layer: the index of its first layer among those of the stage.
        first: its index in the network.
    """

    layer: int
    first: int


class Course(NamedTuple):
    """The activations and errors on some devices over a step.

    Attributes:
        pieces: the pieces of work of a microbatch: the forward phase of each part of a stage, then the backward phases in reverse.
        most: for each layer the most bytes during its forward phase, that of the ops behind it included, and its backward phase.
        entering: the bytes that come from other stages for the piece of work to which most come.
    """

    pieces: Sequence[Piece]
    most: Sequence[tuple[Bytes, Bytes]]
    entering: float

    @property
    def activations(self) -> Bytes:
        """Bytes of activations when the forward phase ends."""
        return self.pieces[len(self.pieces) // 2 - 1].behind

    @property
    def peak(self) -> Bytes:
        """Most bytes at any moment."""
        return largest([piece.most for piece in self.pieces])

    def on(self, device: int) -> Course:
        """Return those on one device."""
        pieces = [Piece(on_device(most, device), on_device(behind, device)) for most, behind in self.pieces]
        most = [(on_device(forward, device), on_device(backward, device)) for forward, backward in self.most]
        return Course(pieces, most, self.entering)

    def held(self, moments: Sequence[Moment]) -> tuple[Bytes, Bytes]:
        """Return the most bytes of microbatches that wait, and the most at any moment of work on one of them.

        Args:
            moments: the pieces of work, each with the microbatches that wait beside it.
        """
        waiting: Bytes = 0.0
        behind = [piece.behind for piece in self.pieces]
        for piece, counts in moments:
            for at in (piece - 1, piece):
                if 0 <= at < len(counts):
                    also = [count + (number == at) for number, count in enumerate(counts)]
                    waiting = larger(waiting, sum(map(mul, also, behind), 0.0))
        return waiting, held_at(self.pieces, moments)


class Node(NamedTuple):
    """A node with its tensors.

    Attributes:
        layer: its index.
        node: the node.
        reads: the tensors that it reads of other nodes.
        sent: the tensors that other stages read, each with its number among those outside.
    """

    layer: int
    node: PlanNode
    reads: tuple[Tensor, ...]
    sent: tuple[tuple[Tensor, int], ...]


@kept_with_graph
def nodes_of(graph: PlanGraph, outside: tuple[Tensor, ...] = ()) -> tuple[Node, ...]:
    """Return the nodes of a graph, with the tensors that they share with other stages.

    Args:
        graph: the nodes.
        outside: those tensors; the indices of other stages' nodes are not the graph's: negative of those that make one, and their
            number in the network behind those of the graph.
    """
    reads: list[list[Tensor]] = [[] for _ in graph.layers]
    sent: list[list[tuple[Tensor, int]]] = [[] for _ in graph.layers]
    for number, tensor in enumerate((*graph.tensors, *outside)):
        if tensor.producer < 0 or number < len(graph.tensors):
            reads[tensor.consumer].append(tensor)
        else:
            sent[tensor.producer].append((tensor, number))
    rows = zip(graph.layers, reads, sent, strict=True)
    return tuple(Node(at, node, tuple(own), tuple(its)) for at, (node, own, its) in enumerate(rows))


def of_stage(
    layers: tuple[PlanNode, ...], own: Mapping[int, int], tensors: Iterable[Tensor]
) -> tuple[PlanGraph, tuple[Tensor, ...]]:
    """Return the nodes of a stage as a graph, and the tensors that they share with other stages, as ``nodes_of`` has them.

    Args:
        layers: the nodes.
        own: the index of each among these, by that in the network.
        tensors: the tensors of the network that they read or make.
    """
    inside: list[Tensor] = []
    outside: list[Tensor] = []
    for tensor in tensors:
        maker = own.get(tensor.producer, -1 - tensor.producer)
        reader = own.get(tensor.consumer, len(layers) + tensor.consumer)
        alone = maker >= 0 and reader < len(layers)
        (inside if alone else outside).append(replace(tensor, producer=maker, consumer=reader))
    sent = frozenset(tensor.producer for tensor in outside if tensor.producer >= 0)
    return PlanGraph(layers, tuple(inside), sent=sent), tuple(outside)


class Moved(NamedTuple):
    """A tensor behind a transfer: its bytes, and whether it lies in the buffer of what was there before."""

    size: Bytes
    inside: bool


class Reading(NamedTuple):
    """A tensor as an op reads it.

    Attributes:
        size: its bytes, as many as its error has.
        inside: whether it lies in what was made; None where it is that.
        returned: its error behind each transfer to those that have made it.
    """

    size: Bytes
    inside: bool | None
    returned: Sequence[Moved] = ()


class Made(NamedTuple):
    """A tensor as an op makes it.

    Attributes:
        size: its bytes: of a product those of its terms.
        kept: the bytes that the op keeps besides its tensors; None if there are none.
        summed: the sums of its terms; None where these are the sums.
        gathered: the error of its terms; None where it is that of their sums.
        reads: what the op reads, without the samples.
    """

    size: Bytes
    kept: Bytes | None
    summed: Moved | None
    gathered: Moved | None
    reads: Sequence[Reading]


Array = tuple[str, int, int]
"""A tensor that may be kept: ``made`` or ``read`` by a node, read by an op ``behind``, or of the ``samples``; the node; its number."""


class Sizes(Protocol):
    """What devices have of the tensors of nodes."""

    def made(self, node: Node, number: int, /) -> Made:
        """Return the tensors of an op of a node, by its number there."""

    def ahead(self, node: Node, op: FusedOp, /) -> tuple[Hashable, Bytes, Bytes | None]:
        """Return a key of how a node reads the samples, the bytes of an op between these and it, and of what that op keeps."""

    def arriving(self, node: Node, tensor: Tensor, /) -> Bytes:
        """Return the bytes of the error that another stage sends of a node's tensor."""

    def together(self, arrays: Sequence[Array], /) -> Bytes:
        """Return the bytes that are kept of some arrays of one memory, each element once."""


class _Ran(NamedTuple):
    """A node that was run: its ops; the buffers that each has read, made, and keeps besides; and those of ops ahead."""

    ops: list[Made]
    inputs: list[list[int]]
    own: list[int]
    kept: dict[int, int]
    ahead: list[tuple[FusedOp, list[int], list[int]]]


class _Step:
    """The ledger of a step under way."""

    def __init__(self, nodes: Sequence[Node], sizes: Sizes, parts: Sequence[Span]) -> None:
        self.nodes, self.sizes, self.parts = nodes, sizes, parts
        self.starts = [part.layer for part in parts[1:]]
        self.ledger = Ledger()
        self.ran: dict[int, _Ran] = {}
        self.samples: dict[tuple[int, Hashable], int] = {}
        self.arrays: dict[int, Array] = {}
        self.whole: dict[int, int] = {}
        self.errors: dict[tuple[int, int], list[int]] = {}
        self.waiting: list[list[tuple[tuple[int, int], Reading, int]]] = [
            [] for _ in range(len(self.starts) + 1)
        ]
        self.entering: list[list[Bytes]] = [[0.0] * (len(self.starts) + 1) for _ in range(2)]

    def course(self, idle: frozenset[int]) -> Course:
        """Write down both phases of all nodes for which devices work."""
        ends: list[list[tuple[int, int]]] = [[(0, 0)] * len(self.nodes) for _ in range(2)]
        parts: list[list[Node]] = [[] for _ in range(len(self.starts) + 1)]
        for node in self.nodes:
            if node.layer not in idle:
                parts[self._part(node.layer)].append(node)
        for part, nodes in enumerate(parts):
            for node in nodes:
                start = self.ledger.op + 1
                self._forward(node)
                ends[0][node.layer] = start, self.ledger.op + 1
            self._leave(part)
        for part, nodes in reversed([*enumerate(parts)]):
            self._arrive(part, nodes)
            for node in reversed(nodes):
                start = self.ledger.op + 1
                self._backward(node)
                ends[1][node.layer] = start, self.ledger.op + 1
            self.ledger.end()
        during, behind = self.ledger.course(self._kept)
        forward, backward = ([largest(during[start:end]) for start, end in own] for own in ends)
        entering = float(np.max(largest([*self.entering[0], *self.entering[1]])))
        most = [*zip(forward, backward, strict=True)]
        return Course(self.ledger.pieces(during, behind), most, entering)

    def _part(self, layer: int) -> int:
        return bisect_right(self.starts, layer)

    def _write(self, size: Bytes, array: Array, owner: int = -1) -> int:
        buffer = self.ledger.write(size, owner)
        self.arrays[buffer] = array
        return buffer

    def _kept(self, buffers: Sequence[int]) -> Bytes:
        """Return the bytes of what is kept of a tensor, each element once; of several arrays no more than all of it."""
        found = self.sizes.together([self.arrays[buffer] for buffer in buffers])
        whole = self.ledger.sizes[self.ledger.owners[buffers[0]]]
        return -larger(-found, -whole) if len(buffers) > 1 else found

    def _moved(self, before: int, moved: Moved | None, array: Array | None = None) -> int:
        """Write a tensor behind a transfer; without one it is the tensor before."""
        if moved is None:
            return before
        self.ledger.next(before)
        found = self.ledger.write(moved.size, before if moved.inside else -1)
        if array is not None:
            self.arrays[found] = array
        return found

    # Forward

    def _forward(self, node: Node) -> None:
        """Write the forward phase of a node: what it receives, its own op, and those behind it."""
        ops = [self.sizes.made(node, number) for number in range(len(node.node.trail))]
        self.ran[node.layer] = run = _Ran(ops, [], [], {}, [])
        sampled = [self._sampled(node, run)] if node.node.ahead else []
        inputs = [*(self._received(node, at, read) for at, read in enumerate(ops[0].reads)), *sampled]
        for number, (op, own) in enumerate(zip(node.node.trail, ops, strict=True)):
            reads = inputs
            if op.source is not None:
                reads = [self._read(("behind", node.layer, number), own.reads[0], run.own[op.source])]
            self.ledger.next(*reads, *[self.whole[read] for read in reads if read in self.whole])
            array = "made", node.layer, number
            # A tensor at rest is what it reads.
            made = self._write(own.size, array, reads[0] if node.node.rest and op.source is None else -1)
            if own.kept is not None:
                run.kept[number] = self.ledger.write(own.kept)
            run.inputs.append(reads)
            run.own.append(self._moved(made, own.summed, array))

    def _sampled(self, node: Node, run: _Ran) -> int:
        """Write the ops between the network's input and a node that no node before has run alike, and return the last one's buffer."""
        at = -1
        for op in node.node.ahead:
            key, size, more = self.sizes.ahead(node, op)
            if (op.target, key) not in self.samples:
                reads = [] if op.source is None else [self.samples[op.source, key]]
                self.ledger.next(*reads)
                writes = [self._write(size, ("samples", node.layer, op.target))]
                writes += [] if more is None else [self.ledger.write(more)]
                self.samples[op.target, key] = writes[0]
                run.ahead.append((op, reads, writes))
            at = self.samples[op.target, key]
        return at

    def _received(self, node: Node, at: int, read: Reading) -> int:
        """Write a tensor of another node as this one reads it; that of another stage, or of a node that is idle, arrives."""
        tensor, array = node.reads[at], ("read", node.layer, at)
        if tensor.producer in self.ran:
            return self._read(array, read, self.ran[tensor.producer].own[tensor.number])
        self.ledger.next()
        if tensor.producer < 0:
            part = self._part(node.layer)
            self.entering[0][part] = self.entering[0][part] + read.size
        return self._write(read.size, array)

    def _read(self, array: Array, read: Reading, made: int) -> int:
        """Write a tensor as an op reads it: as it was made, a shard of what the device has, or a copy."""
        if read.inside is None:
            return made
        found = self._moved(made, Moved(read.size, read.inside), array)
        if read.inside:
            self.whole[found] = made
        return found

    def _leave(self, part: int) -> None:
        """End the forward phase of a part: what other stages read next leaves."""
        going = [
            self.ran[node.layer].own[tensor.number]
            for node in self.nodes
            for tensor, _ in node.sent
            if node.layer in self.ran and self._behind(tensor) == part
        ]
        self.ledger.next(*going)
        self.ledger.end()

    def _behind(self, tensor: Tensor) -> int:
        """Return the part that has run last when another stage reads a tensor."""
        reader = tensor.consumer - len(self.nodes)
        return sum(part.first < reader for part in self.parts[1:])

    # Backward

    def _arrive(self, part: int, nodes: Sequence[Node]) -> None:
        """Begin the backward phase of a part: later parts hand errors on, then other stages send theirs, the last reader first."""
        for waiting in self.waiting[part]:
            self._return(*waiting)
        sent = [(tensor.consumer, -number, node, tensor) for node in nodes for tensor, number in node.sent]
        for *_, node, tensor in sorted(sent, key=lambda own: own[:2], reverse=True):
            size = self.sizes.arriving(node, tensor)
            self.errors.setdefault((node.layer, tensor.number), []).append(self.ledger.receive(size))
            self.entering[1][part] = self.entering[1][part] + size

    def _backward(self, node: Node) -> None:
        """Write the backward phase of a node, from its last op to its own."""
        run = self.ran[node.layer]
        for number, op in reversed([*enumerate(node.node.trail)]):
            sizes = run.ops[number]
            own, arrived = run.own[number], self.errors.pop((node.layer, number), [])
            if arrived:
                error = self.ledger.add(arrived, self.ledger.sizes[own])
            else:
                # The network's outputs stay until their errors come back: the training loop has a name for them.
                self.ledger.next(own)
                error = self.ledger.write(self.ledger.sizes[own])
            error = self._moved(error, sizes.gathered)
            reads = [error, *([own] if op.saved.output or not arrived else [])]
            saved = run.inputs[number] if op.saved.input else []
            self.ledger.next(*reads, *([run.kept[number]] if number in run.kept else []), saved=saved)
            self._send(node, op, error, sizes.reads)
            if op.source is None and node.node.weighted:
                # The gradient may be computed while the error of the input is sent, so its operands stay until then.
                self.ledger.next(*reads, saved=saved)
        for op, sources, (made, *more) in reversed(run.ahead):
            kept = [*(sources if op.saved.input else []), *([made] if op.saved.output else [])]
            if kept or more:
                self.ledger.next(*more, saved=kept)

    def _send(self, node: Node, op: FusedOp, error: int, reads: Sequence[Reading]) -> None:
        """Send the errors of an op's inputs to those that have made them, of an earlier part when its work begins."""
        if op.source is not None:
            self._return((node.layer, op.source), reads[0], self._passed(op, error, reads[0]))
            return
        found = [
            ((tensor.producer, tensor.number), read, self._passed(op, error, read))
            for tensor, read in zip(node.reads, reads, strict=True)
            if tensor.producer < 0 or tensor.producer in self.ran
        ]
        for maker, read, own in found:
            if maker[0] >= 0 and self._part(maker[0]) < self._part(node.layer):
                self.waiting[self._part(maker[0])].append((maker, read, own))
            elif maker[0] >= 0:
                self._return(maker, read, own)

    def _passed(self, op: FusedOp, error: int, read: Reading) -> int:
        """Write the error of a tensor that an op has read, which may be that of its output or a slice of it, as large as the whole."""
        return self.ledger.pass_on(error) if op.passes else self.ledger.write(read.size)

    def _return(self, maker: tuple[int, int], read: Reading, error: int) -> None:
        """Bring the error of what an op has read to those that have made it."""
        for moved in read.returned:
            error = self._moved(error, moved)
        self.errors.setdefault(maker, []).append(error)


def course_by(
    nodes: Sequence[Node], sizes: Sizes, parts: Sequence[Span] = (), idle: frozenset[int] = frozenset()
) -> Course:
    """Return the activations and errors over a step.

    Args:
        nodes: the nodes of some devices in order.
        sizes: what the devices have of their tensors.
        parts: the parts of the stage in order; nothing if it has one.
        idle: the nodes for which the devices do not work.
    """
    return _Step(nodes, sizes, parts).course(idle)
