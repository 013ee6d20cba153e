"""The ops of a step in the order of the forward phase, with the tensors that they read and write, whatever the choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.network.nodes import FusedOp, kept_with_graph
from hypar.ops.nest import Saved

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.network.nodes import PlanGraph, PlanNode, Tensor
    from hypar.ops.nest import Nest

_NONE: frozenset[str] = frozenset()
_NO_LAYERS: frozenset[int] = frozenset()
_ALL_BUT_CHANNELS = frozenset({"batch", "height", "width"})


class Division(NamedTuple):
    """A division of a layer's input or output over devices.

    Attributes:
        tensor: ``input`` or ``output``, or ``sums``, the output as its only reader divides it.
        whole: dims that are not divided, as ops before have contracted them.
        scale: a factor of the share of a device.
        channels: of a concatenation the channels of each tensor, which devices divide one by one; nothing for another layer.
    """

    tensor: str
    whole: frozenset[str]
    scale: float
    channels: tuple[int, ...] = ()


class Amount(NamedTuple):
    """Bytes that an op writes or keeps.

    Attributes:
        op: number of the op.
        num_bytes: the bytes on all devices together.
        place: index of their division among those of the block.
    """

    op: int
    num_bytes: float
    place: int


class Written(NamedTuple):
    """A tensor that an op writes.

    Attributes:
        amount: the op and the tensor's bytes.
        source: index of the tensor that the op reads among those of the block; None for the inputs of the block.
        keeps_input: whether the op keeps the tensors that it reads.
        keeps_output: whether it keeps this one.
        passes: whether the error of a tensor that it reads is that of this one.
        readers: the ops that read it, if all belong to the block and no error is passed on from it or to it; otherwise
            empty, as the ops are then known only with the choices.
        keeper: the first op that keeps it, if there are readers; None if there is none.
    """

    amount: Amount
    source: int | None
    keeps_input: bool
    keeps_output: bool
    passes: bool
    readers: tuple[int, ...] = ()
    keeper: int | None = None


class Read(NamedTuple):
    """A tensor that a layer reads of another.

    Attributes:
        producer: index of the layer that writes it.
        number: its number in the producer's trail.
        num_bytes: its bytes on all devices together.
        op: number of the transfer that brings it, before the layer's own op.
        place: index of its division among those of the block.
    """

    producer: int
    number: int
    num_bytes: float
    op: int
    place: int


class Block(NamedTuple):
    """A layer: the ops before it that read the network's input, itself, and the ops behind it.

    Attributes:
        layer: its index.
        nest: its dims.
        divisions: the divisions of its tensors; first that of its input, then that of its output.
        start: number of its first op.
        own: number of the layer's own op.
        stop: number of the first op behind the block.
        ahead: the tensors of the network's input that the ops before it write, with their numbers.
        ahead_more: further bytes that these ops keep.
        read: the tensors that it reads of other layers.
        written: the tensors that the layer and the ops behind it write.
        more: further bytes that they keep.
        leaving: the tensors that other layers read: their numbers, and their indices in ``written``.
        sums: whether the first tensor is of terms, whose sums, the second one, go straight to the only reader.
    """

    layer: int
    nest: Nest
    divisions: tuple[Division, ...]
    start: int
    own: int
    stop: int
    ahead: tuple[tuple[int, Written], ...]
    ahead_more: tuple[Amount, ...]
    read: tuple[Read, ...]
    written: tuple[Written, ...]
    more: tuple[Amount, ...]
    leaving: tuple[tuple[int, int], ...]
    sums: bool = False


class Tape(NamedTuple):
    """The ops of a step in order.

    Attributes:
        blocks: the layers for which devices work.
        waits: for each part of a stage but the last the number behind its ops, at which its errors arrive from other parts; behind
            it comes one at which a microbatch waits for the next part.
        stop: the number behind all ops.
    """

    blocks: tuple[Block, ...]
    waits: tuple[int, ...]
    stop: int


@kept_with_graph
def tape_of(
    graph: PlanGraph,
    element_bytes: int,
    outside: tuple[Tensor, ...],
    idle: frozenset[int] = _NO_LAYERS,
    onward: frozenset[int] = _NO_LAYERS,
    starts: tuple[int, ...] = (),
) -> Tape:
    """Return the ops of a step; arguments as in ``courses_of``, but for the layers whose sums go onward and those that start parts."""
    read: dict[int, list[Tensor]] = {}
    left: dict[int, dict[int, None]] = {}
    for tensor in (*graph.tensors, *outside):
        read.setdefault(tensor.consumer, []).append(tensor)
        left.setdefault(tensor.producer, {})[tensor.number] = None
    blocks: list[Block] = []
    waits: list[int] = []
    stop = 0
    for index, layer in enumerate(graph.layers):
        if index in starts:
            waits.append(stop)
            stop += 2
        if index not in idle:
            making = _Making(layer.nest, element_bytes, stop, _channels(layer, read.get(index, ())))
            ahead = making.ahead(layer.ahead)
            received = making.received(read.get(index, ()))
            more, own_op = tuple(making.more), making.op
            making.more = []
            sums = index in onward
            written, leaving = making.behind(layer.trail, left.get(index, ()), sums=sums)
            blocks.append(
                Block(
                    layer=index,
                    nest=layer.nest,
                    divisions=tuple(making.divisions),
                    start=making.start,
                    own=own_op,
                    stop=making.op,
                    ahead=ahead,
                    ahead_more=more,
                    read=received,
                    written=written,
                    more=tuple(making.more),
                    leaving=leaving,
                    sums=sums,
                )
            )
            stop = making.op
    return Tape(tuple(blocks), tuple(waits), stop)


def _channels(layer: PlanNode, tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """Return the channels of each tensor that a layer concatenates; nothing for another layer."""
    if not layer.join:
        return ()
    whole = layer.nest.sizes.get("channels", 0)
    found = tuple(dict(tensor.content.shape).get("channels", whole) for tensor in tensors)
    return found if any(own < whole for own in found) else ()


class _Making:
    """The ops of a block so far."""

    def __init__(self, nest: Nest, element_bytes: int, start: int, channels: tuple[int, ...] = ()) -> None:
        self.nest, self.element_bytes, self.channels = nest, element_bytes, channels
        self.start = self.op = start
        self.divisions: dict[Division, int] = {}
        self.more: list[Amount] = []
        for tensor in ("input", "output"):
            self._place(tensor, _NONE, 1)

    def ahead(self, ops: Sequence[FusedOp]) -> tuple[tuple[int, Written], ...]:
        """Add the ops between the network's input and the layer; the source of each is the number of a tensor."""
        found: dict[int, Written] = {}
        for op in ops:
            if op.target not in found:
                scale = self.nest.input_elements / ops[-1].elements
                found[op.target] = self._written(op, "input", scale, op.source)
        return tuple(found.items())

    def received(self, tensors: Sequence[Tensor]) -> tuple[Read, ...]:
        """Add the transfers of the tensors that the layer reads of others, one after another."""
        first, self.op = self.op, self.op + len(tensors)
        each: list[tuple[int, ...]] = [(own,) for own in self.channels] or [()] * len(tensors)
        return tuple(
            Read(
                tensor.producer,
                tensor.number,
                self.element_bytes * tensor.elements,
                op,
                self._place("input", _NONE, 1, own),
            )
            for op, (tensor, own) in enumerate(zip(tensors, each, strict=True), start=first)
        )

    def behind(
        self, trail: Sequence[FusedOp], left: Iterable[int], *, sums: bool = False
    ) -> tuple[tuple[Written, ...], tuple[tuple[int, int], ...]]:
        """Add the layer and the ops behind it; return their tensors, and those of the numbers that others read."""
        whole = self.nest.elements("output")
        scale = 1 if whole == trail[0].elements else whole / trail[0].elements
        tensor = "sums" if sums else "output"
        found: list[Written] = []
        index: list[int] = []
        if sums:
            # Whether the error of the sums is that of the terms depends on the choices.
            saved = trail[0].saved
            added = FusedOp(0, 0, trail[0].elements, passes=True, saved=Saved(output=saved.output))
            first = trail[0]._replace(saved=saved._replace(output=False))
            found.append(self._written(first, "output", scale, None))
            found.append(self._written(added, "sums", scale, 0))
            index, trail = [1], trail[1:]
        for op in trail:
            source = None if op.source is None else index[op.source]
            if source is not None and op.source == op.target:
                index.append(source)
                continue
            index.append(len(found))
            found.append(self._written(op, tensor, scale, source))
        leaving = tuple((number, index[number]) for number in left)
        others = {at for _, at in leaving}
        return tuple(own if at in others else _read(own, at, found) for at, own in enumerate(found)), leaving

    def _written(self, op: FusedOp, tensor: str, scale: float, source: int | None) -> Written:
        """Add an op, and return the tensor that it writes."""
        place, size, number = self._place(tensor, op.contracted, scale), self.element_bytes, self.op
        self.op += 1
        saved = op.saved
        if saved.elements or saved.mask_bytes:
            self.more.append(Amount(number, size * saved.elements + saved.mask_bytes, place))
        if saved.statistics:
            per_channel = self._place(tensor, _ALL_BUT_CHANNELS, 1)
            self.more.append(Amount(number, size * saved.statistics, per_channel))
        amount = Amount(number, size * op.elements, place)
        return Written(amount, source, saved.input, saved.output, op.passes)

    def _place(
        self, tensor: str, whole: frozenset[str], scale: float, channels: tuple[int, ...] | None = None
    ) -> int:
        own = Division(tensor, whole, scale, self.channels if channels is None else channels)
        return self.divisions.setdefault(own, len(self.divisions))


def _read(own: Written, at: int, written: Sequence[Written]) -> Written:
    """Return a tensor that no other layer reads with the ops that read it, unless an error is passed on."""
    readers = [other for other in written if other.source == at]
    if own.passes or not readers or any(reader.passes for reader in readers):
        return own
    keepers = [own.amount.op] if own.keeps_output else [one.amount.op for one in readers if one.keeps_input]
    return own._replace(
        readers=tuple(reader.amount.op for reader in readers), keeper=keepers[0] if keepers else None
    )
