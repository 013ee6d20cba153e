"""The activations and errors on a device over a step: the liveness of the ops of its nodes, in the order in which they run.

Nodes run in their order, each with the ops behind it, then backward in reverse. What a device holds of each tensor follows from
the divisions of nodes; whether a tensor has memory of its own where it is read, or is the one that was made, from whether
shards lie in each other. Of a stage in parts a microbatch's work is in pieces, between which others wait.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.network.nodes import kept_with_graph
from hypar.schedule.divisions import Division, Onward, placed
from hypar.schedule.liveness import Ledger, Piece, held_at, larger, largest
from hypar.schedule.shards import lacking, within
from hypar.sharding.placement import partial_results

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.network.nodes import FusedOp, PlanGraph, PlanNode, Tensor
    from hypar.schedule.divisions import Places, Shares
    from hypar.schedule.liveness import Bytes
    from hypar.schedule.pipeline_orders import Moment
    from hypar.schedule.shards import Shards
    from hypar.sharding.placement import Options

_WHOLE: frozenset[str] = frozenset()
_BUT_CHANNELS = frozenset({"batch", "height", "width"})


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
        forward: for each layer the bytes during each op of its forward phase, that of the ops behind it included.
        backward: likewise for its backward phase.
        entering: the bytes that come from other stages for the piece of work to which most come, or the most that a device lacks
            of a tensor whose shards differ between devices.
    """

    pieces: tuple[Piece, ...]
    forward: tuple[Sequence[Bytes], ...]
    backward: tuple[Sequence[Bytes], ...]
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
        pieces = tuple(Piece(_on(piece.most, device), _on(piece.behind, device)) for piece in self.pieces)
        forward, backward = (
            tuple([_on(held, device) for held in own] for own in each)
            for each in (self.forward, self.backward)
        )
        return Course(pieces, forward, backward, self.entering)

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


def _on(amount: Bytes, device: int) -> float:
    """Return an amount on a device; fractions of bytes are the noise of shares."""
    return amount if isinstance(amount, float) else round(float(amount[device]), 3)


class _Node(NamedTuple):
    """A node with its tensors.

    Attributes:
        layer: its index.
        node: the node.
        reads: the tensors that it reads of other nodes.
        leaving: the numbers of the tensors that others read.
        sent: the tensors that other stages read, each with its number among those outside.
        divisions: the divisions of its tensors.
        inputs: for each tensor that it reads the index of its division; one at least.
        outputs: likewise for the tensor of each op of its trail.
        sums: likewise for the sums that go straight to the only reader, of each op; nothing without these.
        channels: the index of that of numbers for each channel, if an op keeps any.
        ahead: the index of the division of the network's input.
    """

    layer: int
    node: PlanNode
    reads: tuple[Tensor, ...]
    leaving: tuple[int, ...]
    sent: tuple[tuple[Tensor, int], ...]
    divisions: tuple[Division, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    sums: tuple[int, ...]
    channels: int
    ahead: int


@kept_with_graph
def _nodes(graph: PlanGraph, outside: tuple[Tensor, ...], *, fused: bool) -> tuple[_Node, ...]:
    """Return the nodes of a graph, with the tensors that they share with other stages; by ``fused`` with sums for the only reader."""
    count, readers = len(graph.layers), only_readers(graph) if fused else {}
    reads: list[list[Tensor]] = [[] for _ in range(count)]
    leaving: list[list[int]] = [[] for _ in range(count)]
    sent: list[list[tuple[Tensor, int]]] = [[] for _ in range(count)]
    for number, tensor in enumerate((*graph.tensors, *outside)):
        if tensor.producer < 0 or number < len(graph.tensors):
            reads[tensor.consumer].append(tensor)
        else:
            sent[tensor.producer].append((tensor, number))
        if tensor.producer >= 0:
            leaving[tensor.producer].append(tensor.number)
    return tuple(
        _node(index, node, reads[index], leaving[index], sent[index], sums=index in readers)
        for index, node in enumerate(graph.layers)
    )


def _node(
    index: int,
    node: PlanNode,
    reads: Sequence[Tensor],
    leaving: Sequence[int],
    sent: Sequence[tuple[Tensor, int]],
    *,
    sums: bool,
) -> _Node:
    found: dict[Division, int] = {}

    def at(tensor: str, whole: frozenset[str], scale: float, channels: tuple[int, ...]) -> int:
        return found.setdefault(Division(tensor, whole, scale, channels), len(found))

    trail, elements, joined = node.trail, node.nest.elements("output"), _channels(node, reads)
    scale = 1.0 if elements == trail[0].elements else elements / trail[0].elements
    statistics = any(op.saved.statistics for op in trail)
    return _Node(
        layer=index,
        node=node,
        reads=tuple(reads),
        leaving=tuple(dict.fromkeys(leaving)),
        sent=tuple(sent),
        inputs=tuple(at("input", _WHOLE, 1.0, (own,)) for own in joined)
        or (at("input", _WHOLE, 1.0, ()),) * max(1, len(reads)),
        outputs=tuple(at("output", op.contracted, scale, joined) for op in trail),
        sums=tuple(at("sums", op.contracted, scale, joined) for op in trail) if sums else (),
        channels=at("sums" if sums else "output", _BUT_CHANNELS, 1.0, joined) if statistics else 0,
        ahead=at("input", _WHOLE, node.nest.input_elements / node.ahead[-1].elements, ())
        if node.ahead
        else 0,
        divisions=tuple(found),
    )


def _channels(node: PlanNode, tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """Return the channels of each tensor that a node concatenates; nothing for another node."""
    if not node.join:
        return ()
    whole = node.nest.sizes.get("channels", 0)
    found = tuple(dict(tensor.content.shape).get("channels", whole) for tensor in tensors)
    return found if any(own < whole for own in found) else ()


@kept_with_graph
def only_readers(graph: PlanGraph) -> dict[int, Tensor]:
    """Return the tensor between each layer that may leave terms and the only layer that reads its output."""
    readers = Counter([*(tensor.producer for tensor in graph.tensors), *graph.sent])
    return {
        tensor.producer: tensor
        for tensor in graph.tensors
        if readers[tensor.producer] == 1 and graph.layers[tensor.producer].nest.multiplies
    }


class _Made(NamedTuple):
    """A tensor as it was made: its buffer, its division, and its bytes."""

    buffer: int
    shards: Shards
    size: Bytes


class _Run(NamedTuple):
    """A node that was run: its divisions, and the buffers of its inputs, of its trail, and of what each op keeps besides.

    ``ahead`` has the ops between the network's input and it that no node before has run, with the buffers that they read and write.
    """

    places: Places
    inputs: Sequence[int]
    own: Sequence[int]
    kept: dict[int, int]
    ahead: Sequence[tuple[FusedOp, Sequence[int], Sequence[int]]]


class _Step:
    """The ledger of a step under way."""

    def __init__(
        self,
        graph: PlanGraph,
        nodes: Sequence[_Node],
        choices: Sequence[Options],
        element_bytes: int,
        above: Sequence[Shares],
        array: tuple[int, ...],
        parts: Sequence[Span],
        *,
        fused: bool,
    ) -> None:
        self.graph, self.nodes, self.choices, self.bytes = graph, nodes, choices, float(element_bytes)
        self.above, self.array, self.parts, self.fused = above, array, parts, fused
        self.starts = [part.layer for part in parts[1:]]
        self.ledger = Ledger()
        self.made: dict[tuple[int, int], _Made] = {}
        self.ran: dict[int, _Run] = {}
        self.data: dict[tuple[int, Shards], int] = {}
        self.divided: dict[int, Shards] = {}
        self.whole: dict[int, int] = {}
        self.errors: dict[tuple[int, int], list[int]] = {}
        self.waiting: list[list[tuple[_Node, int, int]]] = [[] for _ in range(len(self.starts) + 1)]
        self.entering: list[list[Bytes]] = [[0.0] * (len(self.starts) + 1) for _ in range(2)]
        self.lacking: list[Bytes] = []

    def course(self, idle: frozenset[int]) -> Course:
        """Write down both phases of all nodes for which devices work."""
        ends: list[list[tuple[int, int]]] = [[(0, 0)] * len(self.graph.layers) for _ in range(2)]
        parts: list[list[_Node]] = [[] for _ in range(len(self.starts) + 1)]
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
        forward, backward = (tuple(during[start:end] for start, end in own) for own in ends)
        entering = float(np.max(largest([*self.entering[0], *self.entering[1], *self.lacking])))
        return Course(self.ledger.pieces(during, behind), forward, backward, entering)

    def _part(self, layer: int) -> int:
        return bisect_right(self.starts, layer)

    def _write(self, size: Bytes, shards: Shards | None = None, owner: int = -1) -> int:
        buffer = self.ledger.write(size, owner)
        if shards is not None:
            self.divided[buffer] = shards
        return buffer

    def _kept(self, buffers: Sequence[int]) -> Bytes:
        """Return the bytes of shards of a tensor, each once; together they are no more than all of it."""
        sizes, owner = self.ledger.sizes, self.ledger.owners[buffers[0]]
        if len(buffers) == 1:
            return sizes[buffers[0]]
        each = {self.divided[buffer]: sizes[buffer] for buffer in buffers}
        return -larger(-sum(each.values(), 0.0), -sizes[owner])

    # Forward

    def _forward(self, node: _Node) -> None:
        """Write the forward phase of a node: what it receives, its own op, and those behind it."""
        places = self._placed(node)
        ahead = [*self._ahead(node, places)]
        if node.node.ahead:
            inputs = [self.data[node.node.ahead[-1].target, places.shards[node.inputs[0]]]]
        else:
            inputs = [self._received(node, tensor, at, places) for at, tensor in enumerate(node.reads)]
        own: list[int] = []
        kept: dict[int, int] = {}
        for number, op in enumerate(node.node.trail):
            wholes = [self.whole[read] for read in inputs if read in self.whole]
            self.ledger.next(*([*inputs, *wholes] if op.source is None else [own[op.source]]))
            at = node.sums[number] if node.sums and number else node.outputs[number]
            own.append(self._write(self._size(op, places, at), places.shards[at]))
            more = self._more(op, places, at, node.channels)
            if more is not None:
                kept[number] = self.ledger.write(more)
            if node.sums and not number:
                own = [self._summed(node, op, own[0], places)]
        self.ran[node.layer] = _Run(places, inputs, own, kept, ahead)
        for number in node.leaving:
            shards = places.shards[(node.sums or node.outputs)[number]]
            self.made[node.layer, number] = _Made(own[number], shards, self.ledger.sizes[own[number]])

    def _placed(self, node: _Node) -> Places:
        """Return the divisions of a node's tensors on the devices."""
        layer, onward = node.layer, None
        if node.sums:
            reader = only_readers(self.graph)[layer]
            chosen, above = self.choices[reader.consumer], self.above[reader.consumer] if self.above else ()
            onward = Onward(self.graph.layers[reader.consumer].nest, reader.operand, chosen, above)
        above = self.above[layer] if self.above else ()
        return placed(node.node.nest, node.divisions, self.choices[layer], above, self.array, onward)

    def _size(self, op: FusedOp, places: Places, at: int) -> Bytes:
        return self.bytes * op.elements * places.shares[at]

    def _more(self, op: FusedOp, places: Places, at: int, channels: int) -> Bytes | None:
        """Return the bytes that an op keeps besides its tensors; None if there are none."""
        saved, found = op.saved, None
        if saved.elements or saved.mask_bytes:
            found = (self.bytes * saved.elements + saved.mask_bytes) * places.shares[at]
        if saved.statistics:
            found = (0.0 if found is None else found) + self.bytes * saved.statistics * places.shares[
                channels
            ]
        return found

    def _summed(self, node: _Node, op: FusedOp, terms: int, places: Places) -> int:
        """Write sums, which take the place of terms, in the shards of their reader."""
        size = self._size(op, places, node.sums[0])
        if len(self.array) + len(self.above[node.layer] if self.above else ()) == 1:
            # Below a single split all of its error that a device lacks arrives at once.
            self.lacking.append(self.ledger.sizes[terms] - size)
        self.ledger.next(terms)
        return self._write(size, places.shards[node.sums[0]], terms)

    def _ahead(self, node: _Node, places: Places) -> Iterator[tuple[FusedOp, Sequence[int], Sequence[int]]]:
        """Write the ops between the network's input and a node that no node before has run in the same division."""
        shards = places.shards[node.inputs[0]]
        for op in node.node.ahead:
            if (op.target, shards) not in self.data:
                reads = [] if op.source is None else [self.data[op.source, shards]]
                self.ledger.next(*reads)
                writes = [self._write(self._size(op, places, node.ahead), shards)]
                more = self._more(op, places, node.ahead, node.ahead)
                writes += [] if more is None else [self.ledger.write(more)]
                self.data[op.target, shards] = writes[0]
                yield op, reads, writes

    def _received(self, node: _Node, tensor: Tensor, at: int, places: Places) -> int:
        """Write a tensor as a node reads it: as it was made, a shard of what the device has, or a copy in another division."""
        shards, size = (
            places.shards[node.inputs[at]],
            self.bytes * tensor.elements * places.shares[node.inputs[at]],
        )
        made = self.made.get((tensor.producer, tensor.number))
        if tensor.producer < 0:
            part = self._part(node.layer)
            self.entering[0][part] = self.entering[0][part] + size
        if made is None:
            self.ledger.next()
            return self._write(size, shards)
        self.ledger.next(made.buffer)
        if made.shards == shards:
            return made.buffer
        self.lacking += [size * lacking(shards, made.shards), made.size * lacking(made.shards, shards)]
        if not within(shards, made.shards):
            return self._write(size, shards)
        shard = self._write(size, shards, made.buffer)
        self.whole[shard] = made.buffer
        return shard

    def _leave(self, part: int) -> None:
        """End the forward phase of a part: what other stages read next leaves."""
        sent = [(node.layer, *own) for node in self.nodes for own in node.sent]
        going = [
            self.made[layer, tensor.number].buffer
            for layer, tensor, _ in sent
            if (layer, tensor.number) in self.made and self._behind(tensor) == part
        ]
        self.ledger.next(*going)
        self.ledger.end()

    def _behind(self, tensor: Tensor) -> int:
        """Return the part that has run last when another stage reads a tensor."""
        reader = tensor.consumer - len(self.graph.layers)
        return sum(part.first < reader for part in self.parts[1:])

    # Backward

    def _arrive(self, part: int, nodes: Sequence[_Node]) -> None:
        """Begin the backward phase of a part: later parts hand errors on, then other stages send theirs, the last reader first."""
        for node, at, error in self.waiting[part]:
            self._return(node, at, error)
        sent = [
            (tensor.consumer, -number, node.layer, tensor.number)
            for node in nodes
            for tensor, number in node.sent
        ]
        for *_, layer, number in sorted(sent, reverse=True):
            size = self.made[layer, number].size
            self.errors.setdefault((layer, number), []).append(self.ledger.receive(size))
            self.entering[1][part] = self.entering[1][part] + size

    def _backward(self, node: _Node) -> None:
        """Write the backward phase of a node, from its last op to its own."""
        run = self.ran[node.layer]
        arrived: list[list[int]] = [[] for _ in run.own]
        for number in node.leaving:
            arrived[number] = self.errors.pop((node.layer, number), [])
        for number, op in reversed([*enumerate(node.node.trail)]):
            own, lost = run.own[number], not arrived[number]
            if lost:
                # The network's outputs stay until their errors come back: the training loop has a name for them.
                self.ledger.next(own)
                error = self.ledger.write(self.ledger.sizes[own])
            else:
                error = self.ledger.add(arrived[number], self.ledger.sizes[own])
            if (
                node.sums
                and not number
                and run.places.shards[node.sums[0]] != run.places.shards[node.outputs[0]]
            ):
                self.ledger.next(error)
                error = self.ledger.write(self._size(op, run.places, node.outputs[0]))
            inputs = run.inputs if op.source is None else [run.own[op.source]]
            reads = [error, *([own] if op.saved.output or lost else [])]
            saved = inputs if op.saved.input else []
            self.ledger.next(*reads, *([run.kept[number]] if number in run.kept else []), saved=saved)
            if op.source is None:
                self._send(node, op, error, run)
                if node.node.weighted:
                    # The gradient may be computed while the error of the input is sent, so its operands stay until then.
                    self.ledger.next(*reads, saved=saved)
            else:
                arrived[op.source].append(self._passed(op, error, self.ledger.sizes[inputs[0]]))
        for op, sources, (made, *more) in reversed(run.ahead):
            kept = [*(sources if op.saved.input else []), *([made] if op.saved.output else [])]
            if kept or more:
                self.ledger.next(*more, saved=kept)

    def _passed(self, op: FusedOp, error: int, size: Bytes) -> int:
        """Write the error of a tensor that an op has read, which may be that of its output or a slice of it, as large as the whole."""
        if op.passes:
            return self.ledger.pass_on(error)
        return self.ledger.write(size)

    def _send(self, node: _Node, op: FusedOp, error: int, run: _Run) -> None:
        """Send the errors of a node's inputs to those that have made them, of an earlier part when its work begins."""
        found = [
            (at, self._passed(op, error, self.ledger.sizes[run.inputs[at]]))
            for at, tensor in enumerate(node.reads)
            if tensor.producer < 0 or (tensor.producer, tensor.number) in self.made
        ]
        for at, own in found:
            producer = node.reads[at].producer
            if producer >= 0 and self._part(producer) < self._part(node.layer):
                self.waiting[self._part(producer)].append((node, at, own))
            elif producer >= 0:
                self._return(node, at, own)

    def _return(self, node: _Node, at: int, error: int) -> None:
        """Bring an error to the shards of those that have made the tensor.

        Nothing moves where all devices have theirs, idle ones included, and by ``fused`` no terms are left to be added up.
        """
        tensor, shards = node.reads[at], self.ran[node.layer].places.shards[node.inputs[at]]
        made = self.made[tensor.producer, tensor.number]
        inside, size = within(made.shards, shards, later=True), self.ledger.sizes[error]
        if made.shards != shards and (not inside or self._sums(node, tensor) or _lacks(size, made.size)):
            self.ledger.next(error)
            error = self.ledger.write(made.size, error if inside else -1)
        self.errors.setdefault((tensor.producer, tensor.number), []).append(error)

    def _sums(self, node: _Node, tensor: Tensor) -> bool:
        """Return whether the errors that a node sends are terms, which are added up on their way."""
        return self.fused and any(
            tensor.operand in partial_results(node.node.nest, dim)
            for choice in self.choices[node.layer]
            for dim in choice.divided
        )


def _lacks(size: Bytes, made: Bytes) -> bool:
    """Return whether a device that has some of a tensor has nothing of another one."""
    return not isinstance(size, float) and bool(np.any((size == 0.0) & np.not_equal(made, 0.0)))


def course_of(
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
) -> Course:
    """Return the activations and errors over a step: of each device where they hold unlike shards, else of the fullest.

    Devices hold unlike shards where they divide a grid or are idle, or where shards have several sizes.

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
    nodes = _nodes(graph, tuple(outside), fused=fused)
    return _Step(graph, nodes, choices, element_bytes, above, array, parts, fused=fused).course(idle)
