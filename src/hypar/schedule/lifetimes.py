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
from hypar.schedule.tape import tape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypar.network.contraction import ContractedGraph, CutLayer, Tensor
    from hypar.network.einsum import Einsum
    from hypar.network.keeping import Trailing
    from hypar.schedule.tape import Block, Division, Read, Written
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
    tape = tape_of(graph, element_bytes, tuple(outside), trail_of)
    tensors = _Tensors()
    for block in tape:
        tensors.run(block, degrees(choices[block.layer], block.einsum.counted))
    return _course(tape, tensors, graph)


@dataclass(slots=True, eq=False)
class _Held:
    """A tensor in one division whose readers depend on the choices.

    Attributes:
        made: the op that writes it, or the first that receives it.
        num_bytes: its bytes on the fullest device.
        last: the last op that reads it in the forward phase.
        keeper: the first op that keeps it, or None; the loss keeps what nothing reads, here or in another stage.
        errs: whether it has an error: the network's input has none.
        readers: the ops that read it, in ascending order, each with the tensor whose error it passes on, or None.
        owner: the tensor whose error is that of this one as well, once that is known; it may be itself.
        first: the first op of the backward phase in which its own error lives.
        until: the last one.
    """

    made: int
    num_bytes: float
    last: int
    keeper: int | None = None
    errs: bool = True
    readers: list[tuple[int, _Held | None]] = field(default_factory=list)
    owner: _Held = field(init=False)
    first: int = field(init=False)
    until: int = field(init=False)


_Error = tuple[int, int, float]
"""The span of the backward phase in which an error lives: from one op down to another, and its bytes."""


_Shards = tuple[tuple[str, int], ...]
"""The dims of a tensor that are divided, each with its number of shards."""


class _Tensors:
    """The tensors on the fullest device, in the order in which they are written.

    Attributes:
        found: the tensors; those whose readers are all known without the choices with their bytes.
        more: further bytes that an op keeps, with the op.
        written: each tensor that other layers read, with its division.
        others: tensors of the network's input, and copies in another division than the one in which they were made.
    """

    def __init__(self) -> None:
        self.found: list[_Held | tuple[Written, float]] = []
        self.more: list[tuple[int, float]] = []
        self.written: dict[tuple[int, int], tuple[_Shards, _Held]] = {}
        self.others: dict[tuple[int | None, int, _Shards], _Held] = {}

    def run(self, block: Block, counts: tuple[int, ...]) -> None:
        """Append a layer whose dims are divided into some shards."""
        places = _placed(block.einsum, block.divisions, counts)
        shards, shares = places
        inputs = self._fed(block, places) if block.ahead else []
        for tensor in block.read:
            inputs.append(self._received(tensor, block.own, shards[0], shares[0]))
        own: list[_Held | None] = []
        for written in block.written:
            sources = inputs if written.source is None else (own[written.source],)
            own.append(self._op(written, shares, sources))
        self.more += [(op, num_bytes * shares[place]) for op, num_bytes, place in block.more]
        for number, index in block.leaving:
            held = own[index]
            assert held is not None  # noqa: S101 (its readers depend on the choices)
            self.written[block.layer, number] = shards[block.written[index].amount.place], held

    def _op(
        self, written: Written, shares: tuple[float, ...], sources: Sequence[_Held | None]
    ) -> _Held | None:
        """Append an op; return the tensor that it writes, or None if its readers are known."""
        (op, num_bytes, place), _, keeps_input, keeps_output, passes, readers, _ = written
        num_bytes *= shares[place]
        if readers:
            held = None
            self.found.append((written, num_bytes))
        else:
            held = _Held(op, num_bytes, op, op if keeps_output else None)
            self.found.append(held)
        passed = held if passes else None
        for source in sources:
            if source is not None:
                source.last = op
                source.readers.append((op, passed))
                if keeps_input and source.keeper is None:
                    source.keeper = op
        return held

    def _fed(self, block: Block, places: _Places) -> list[_Held | None]:
        """Append the ops between the network's input and a layer, and return the tensor that the layer reads."""
        shards, shares = places.shards[0], places.shares
        new = {
            written.amount.op for number, written in block.ahead if (None, number, shards) not in self.others
        }
        for number, written in block.ahead:
            if written.amount.op in new:
                sources = () if written.source is None else (self.others[None, written.source, shards],)
                made = self._op(written, shares, sources)
                assert made is not None  # noqa: S101 (its readers depend on the choices)
                made.errs = False
                self.others[None, number, shards] = made
        self.more += [
            (op, num_bytes * shares[place]) for op, num_bytes, place in block.ahead_more if op in new
        ]
        return [self.others[None, block.ahead[-1][0], shards]]

    def _received(self, tensor: Read, op: int, placed: _Shards, share: float) -> _Held:
        """Return a tensor as a layer reads it: as it was made, or a copy in another division.

        A shard of a tensor that the device keeps anyway is no copy.
        """
        producer, number, num_bytes = tensor
        made = self.written.get((producer, number))
        if made is not None:
            shards, held = made
            if shards == placed or (held.keeper is not None and _within(placed, shards)):
                return held
        key = (producer, number, placed)
        if key not in self.others:
            copy = _Held(op, num_bytes * share, op)
            self.others[key] = copy
            self.found.append(copy)
            if made is not None:
                held.last = op
                held.readers.append((op, None))
        return self.others[key]


def _course(tape: Sequence[Block], tensors: _Tensors, graph: ContractedGraph) -> Course:
    """Return the bytes on the device over the step; the loss keeps what nothing reads, unless other stages do."""
    owners = [block.layer for block in tape for _ in range(block.start, block.stop)]
    end = 2 * len(owners) - 1
    changes = [0.0] * (end + 2)
    kept = [Kept(owners[op], num_bytes) for op, num_bytes in tensors.more]
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
        changes[made] += num_bytes
        if keeper is None:
            changes[last + 1] -= num_bytes
        else:
            changes[end - keeper + 1] -= num_bytes
            kept.append(Kept(owners[keeper], num_bytes))
    for first, until, num_bytes in _errors(tensors.found):
        changes[end - first] += num_bytes
        changes[end - until + 1] -= num_bytes
    most = ([0.0] * len(graph.layers), [0.0] * len(graph.layers))
    held_bytes = [*accumulate(changes)]
    for block in tape:
        start, stop = block.start, block.stop
        most[0][block.layer] = max(0.0, *held_bytes[start:stop])
        most[1][block.layer] = max(0.0, *held_bytes[end - stop + 1 : end - start + 1])
    return Course(tuple(kept), tuple(most[0]), tuple(most[1]))


def _errors(tensors: Sequence[_Held | tuple[Written, float]]) -> list[_Error]:
    """Return the errors, each once; first what is added to one of several readers, for the moment of the addition."""
    found: list[_Held | _Error] = []
    added: list[_Error] = []
    for held in reversed(tensors):
        if isinstance(held, tuple):
            written, num_bytes = held
            readers = written.readers
            found.append((readers[-1], written.amount[0], num_bytes))
            if len(readers) > 1:
                added += [(op, op, num_bytes) for op in readers[-2::-1]]
        elif held.errs:
            readings = held.readers[::-1] or [(held.made, None)]
            first, passed = readings[0]
            if passed is not None:
                before = passed.owner
                before.until = min(before.until, held.made if len(readings) == 1 else readings[1][0])
                if len(readings) == 1:
                    held.owner = before
                    continue
                del readings[0]
                first = readings[0][0]
            held.owner, held.first, held.until = held, first, held.made
            found.append(held)
            if len(readings) > 1:
                added += [(op, op, held.num_bytes) for op, other in readings[1:] if other is None]
    own = [
        error if isinstance(error, tuple) else (error.first, error.until, error.num_bytes) for error in found
    ]
    return added + own


class _Places(NamedTuple):
    """Some divisions of a layer's tensors over devices.

    Attributes:
        shards: the tensor's dims that are divided, each with its number of shards.
        shares: the fraction of the tensor on the fullest device, times the scale of the division.
    """

    shards: tuple[_Shards, ...]
    shares: tuple[float, ...]


@lru_cache(maxsize=4096)
def _within(part: _Shards, whole: _Shards) -> bool:
    """Return whether shards divide a tensor further that others have divided."""
    counts = dict(part)
    return all(counts.get(dim, 1) % count == 0 for dim, count in whole)


@lru_cache(maxsize=16384)
def _placed(einsum: Einsum, divisions: tuple[Division, ...], counts: tuple[int, ...]) -> _Places:
    """Return some divisions of a layer's input and output; ops behind the layer may have contracted dims of them."""
    found = []
    for tensor, whole, scale in divisions:
        names = einsum.names(tensor)
        shards, share = [], 1.0
        for dim, count in zip(einsum.counted, counts, strict=True):
            if count > 1 and dim in names and names[dim] not in whole:
                size = einsum.sizes[dim]
                shards.append((names[dim], count))
                share *= fullest(size, count) / size if size else 0.0
        found.append((tuple(shards), scale * share))
    return _Places(*zip(*found, strict=True))
