"""The lifetimes of activations and of errors on a device over the forward and the backward phase.

Ops run in the order of their layers, each layer with the ops behind it, then backward in reverse. An activation lives
from its op to the last that reads it, in the forward phase, or to the backward phase of the first op that keeps it. An
error lives from the backward phase of the last op that reads its tensor to that of the op that made it; the error of a
join's input is the error of its output, and two errors of one tensor are added up. So a residual branch keeps its error
until the other branch has come back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from hypar.machine.machine import fullest
from hypar.machine.setting import degrees
from hypar.sharding.dims import CUTTABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hypar.network.contraction import ContractedGraph, CutLayer, Tensor
    from hypar.network.keeping import Trailing
    from hypar.network.ops.base import Einsum
    from hypar.sharding.placement import Options


class Kept(NamedTuple):
    """Bytes that a device keeps for the backward phase.

    Attributes:
        layer: index of the cut layer whose op, or whose trail's, keeps them first.
        num_bytes: the bytes on the fullest device.
    """

    layer: int
    num_bytes: float


class Course(NamedTuple):
    """The activations and errors on the fullest device over a step.

    Attributes:
        kept: what is kept when the forward phase ends.
        forward: for each cut layer the most bytes during its forward phase, that of the ops behind it included.
        backward: likewise for its backward phase.
    """

    kept: tuple[Kept, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]

    @property
    def activations(self) -> float:
        """Bytes of activations when the forward phase ends."""
        return math.fsum(kept.num_bytes for kept in self.kept)

    @property
    def peak(self) -> float:
        """Most bytes at any moment."""
        return max((*self.forward, *self.backward), default=0.0)


def own_trail(layer: CutLayer) -> tuple[Trailing, ...]:
    """Return the trail of a layer as it is."""
    return layer.trail


def course_of(
    graph: ContractedGraph,
    choices: Sequence[Options],
    element_bytes: int,
    outside: Sequence[Tensor] = (),
    trail_of: Callable[[CutLayer], Sequence[Trailing]] = own_trail,
) -> Course:
    """Return the activations and errors on the fullest device over a step.

    Args:
        graph: the layers.
        choices: for each layer a choice at each level.
        element_bytes: bytes of one element.
        outside: tensors that the layers read from other stages; their producers' indices are not the graph's.
        trail_of: returns a layer's trail; another one than the layer's own says what a publication counts as kept.
    """
    tape = _Tape(element_bytes)
    read: dict[int, list[Tensor]] = {}
    for tensor in (*graph.tensors, *outside):
        read.setdefault(tensor.consumer, []).append(tensor)
    for index, (layer, chosen) in enumerate(zip(graph.layers, choices, strict=True)):
        if not layer.empty:
            tape.layer(index, layer, trail_of(layer), degrees(chosen), read.get(index, ()))
    return tape.course(len(graph.layers))


@dataclass(slots=True)
class _Held:
    """A tensor in one division.

    Attributes:
        made: the op that writes it, or the first that receives it.
        num_bytes: its bytes on the fullest device.
        last: the last op that reads it in the forward phase.
        keeper: the first op that keeps it, or None; the loss keeps what nothing reads.
        errs: whether it has an error: the network's input has none.
        readers: the ops that read it, in ascending order, each with the tensor whose error it passes on, or None.
    """

    made: int
    num_bytes: float
    last: int
    keeper: int | None = None
    errs: bool = True
    readers: list[tuple[int, _Held | None]] = field(default_factory=list)

    def read(self, op: int, passed: _Held | None) -> None:
        """Read it in an op, which comes behind all before."""
        self.last = op
        self.readers.append((op, passed))


@dataclass(slots=True)
class _Error:
    """The span of the backward phase in which an error lives, from one op down to another."""

    first: int
    last: int
    num_bytes: float


_Shards = tuple[tuple[str, int], ...]
"""The dims of a tensor that are divided, each with its number of shards."""

_NONE: frozenset[str] = frozenset()
_ALL_BUT_CHANNELS = frozenset({"batch", "height", "width"})


class _Tape:
    """The ops of a step in the order of the forward phase, and the tensors that they read and write.

    Attributes:
        element_bytes: bytes of one element.
        owners: for each op the index of its cut layer.
        tensors: all tensors, in the order in which they are written.
        more: further bytes that an op keeps, with the op.
        written: each tensor of a trail, with its division.
        others: tensors of the network's input, and copies in another division than the one in which they were made.
    """

    def __init__(self, element_bytes: int) -> None:
        self.element_bytes = element_bytes
        self.owners: list[int] = []
        self.tensors: list[_Held] = []
        self.more: list[tuple[int, float]] = []
        self.written: dict[tuple[int, int], tuple[_Shards, _Held]] = {}
        self.others: dict[tuple[int | None, int, _Shards], _Held] = {}

    def layer(
        self,
        index: int,
        layer: CutLayer,
        trail: Sequence[Trailing],
        shards: tuple[int, ...],
        read: Sequence[Tensor],
    ) -> None:
        """Append a layer: the ops before it that nothing else did, itself, and the ops behind it."""
        einsum = layer.einsum
        placed = _placed(einsum, shards, "input", _NONE)
        inputs = self._fed(index, layer, shards, placed) if layer.ahead else []
        inputs += [self._received(tensor, placed) for tensor in read]
        plain, whole = _placed(einsum, shards, "output", _NONE), einsum.elements("output")
        scale = 1 if whole == trail[0].elements else whole / trail[0].elements
        own: list[_Held] = []
        for number, op in enumerate(trail):
            if op.source is not None and op.source == op.target:
                own.append(own[op.source])
                self.written[index, number] = self.written[index, op.source]
                continue
            place = _placed(einsum, shards, "output", op.contracted) if op.contracted else plain
            sources = inputs if op.source is None else (own[op.source],)
            own.append(self._op(index, op, scale * place.share, sources))
            self.written[index, op.target] = place.shards, own[-1]
            if op.statistics:
                self._statistics(op, _placed(einsum, shards, "output", _ALL_BUT_CHANNELS))

    def _fed(self, index: int, layer: CutLayer, shards: tuple[int, ...], placed: _Placed) -> list[_Held]:
        """Append the ops between the network's input and a layer, and return the tensor that the layer reads."""
        scale = layer.einsum.input_elements / layer.ahead[-1].elements
        for op in layer.ahead:
            key = (None, op.target, placed.shards)
            if key not in self.others:
                sources = () if op.source is None else (self.others[None, op.source, placed.shards],)
                made = self._op(index, op, scale * placed.share, sources)
                self.others[key] = made
                made.errs = False
                if op.statistics:
                    self._statistics(op, _placed(layer.einsum, shards, "input", _ALL_BUT_CHANNELS))
        return [self.others[None, layer.ahead[-1].target, placed.shards]]

    def _received(self, tensor: Tensor, placed: _Placed) -> _Held:
        """Return a tensor as a layer reads it: as it was made, or a copy in another division.

        A shard of a tensor that the device keeps anyway is no copy.
        """
        made = self.written.get((tensor.producer, tensor.number))
        if made is not None:
            kept = made[1].keeper is not None and _within(placed.shards, made[0])
            if kept or made[0] == placed.shards:
                return made[1]
        op, key = len(self.owners), (tensor.producer, tensor.number, placed.shards)
        if key not in self.others:
            copy = _Held(op, self.element_bytes * tensor.elements * placed.share, last=op)
            self.others[key] = copy
            self.tensors.append(copy)
            if made is not None:
                made[1].read(op, None)
        return self.others[key]

    def _statistics(self, op: Trailing, placed: _Placed) -> None:
        """Keep the statistics of the last op."""
        self.more.append((len(self.owners) - 1, self.element_bytes * op.statistics * placed.share))

    def _op(self, index: int, op: Trailing, share: float, sources: Sequence[_Held]) -> _Held:
        """Append an op that reads some tensors, and return the tensor that it writes."""
        number, size = len(self.owners), self.element_bytes
        self.owners.append(index)
        held = _Held(
            number, size * op.elements * share, last=number, keeper=number if op.keeps_output else None
        )
        self.tensors.append(held)
        for source in sources:
            source.read(number, held if op.passes else None)
            if op.keeps_input and source.keeper is None:
                source.keeper = number
        if op.more_elements or op.more_bytes:
            self.more.append((number, (size * op.more_elements + op.more_bytes) * share))
        return held

    def course(self, layers: int) -> Course:
        """Return the bytes on the device over the step, for a number of layers."""
        count = len(self.owners)
        end = 2 * count - 1
        changes = [0.0] * (2 * count + 1)
        kept = [Kept(self.owners[op], num_bytes) for op, num_bytes in self.more]
        for op, num_bytes in self.more:
            changes[op] += num_bytes
            changes[end - op + 1] -= num_bytes
        for held in self.tensors:
            keeper = held.keeper if held.readers else held.made
            changes[held.made] += held.num_bytes
            changes[(held.last if keeper is None else end - keeper) + 1] -= held.num_bytes
            if keeper is not None:
                kept.append(Kept(self.owners[keeper], held.num_bytes))
        for error in self._errors():
            changes[end - error.first] += error.num_bytes
            changes[end - error.last + 1] -= error.num_bytes
        most = ([0.0] * layers, [0.0] * layers)
        held_bytes = [*accumulate(changes)]
        for op, owner in enumerate(self.owners):
            most[0][owner] = max(most[0][owner], held_bytes[op])
            most[1][owner] = max(most[1][owner], held_bytes[end - op])
        return Course(tuple(kept), tuple(most[0]), tuple(most[1]))

    def _errors(self) -> Iterator[_Error]:
        """Yield the errors, each once, and what is added to one of several readers for the moment of the addition."""
        errors: dict[int, _Error] = {}
        for held in reversed(self.tensors):
            if not held.errs:
                continue
            (first, passed), *others = held.readers[::-1] or [(held.made, None)]
            if passed is not None:
                before = errors[id(passed)]
                before.last = min(before.last, others[0][0] if others else held.made)
                if not others:
                    errors[id(held)] = before
                    continue
                (first, _), *others = others
            errors[id(held)] = _Error(first, held.made, held.num_bytes)
            yield from (_Error(op, op, held.num_bytes) for op, other in others if other is None)
        yield from {id(error): error for error in errors.values()}.values()


class _Placed(NamedTuple):
    """A tensor's division over devices.

    Attributes:
        shards: the tensor's dims that are divided, each with its number of shards.
        share: the fraction of the tensor on the fullest device.
    """

    shards: _Shards
    share: float


@lru_cache(maxsize=4096)
def _within(part: _Shards, whole: _Shards) -> bool:
    """Return whether shards divide a tensor further that others have divided."""
    counts = dict(part)
    return all(counts.get(dim, 1) % count == 0 for dim, count in whole)


@lru_cache(maxsize=16384)
def _placed(einsum: Einsum, counts: tuple[int, ...], tensor: str, contracted: frozenset[str]) -> _Placed:
    """Return the division of a layer's input or output; ops behind the layer may have contracted dims of it."""
    names = getattr(einsum, tensor)
    shards, share = [], 1.0
    for dim, count in zip(CUTTABLE, counts, strict=True):
        if count > 1 and dim in names and names[dim] not in contracted:
            size = einsum.sizes[dim]
            shards.append((names[dim], count))
            share *= fullest(size, count) / size if size else 0.0
    return _Placed(tuple(shards), share)
