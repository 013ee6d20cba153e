"""The lifetimes of activations and of errors on a device over the forward and the backward phase.

Ops run in the order of their layers, each layer with the ops behind it, then backward in reverse. An activation lives
from its op to the last that reads it, in the forward phase, or to the backward phase of the first op that keeps it. An
error lives from the backward phase of the last op that reads its tensor to that of the op that made it; the error of a
join's input is the error of its output, and two errors of one tensor are added up. So a residual branch keeps its error
until the other branch has come back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, starmap
from typing import TYPE_CHECKING, NamedTuple

from hypar.machine.machine import fullest
from hypar.machine.setting import degrees
from hypar.network.contraction import kept_with_graph
from hypar.schedule.tape import tape_of
from hypar.sharding.dims import SPATIAL
from hypar.sharding.grids.layouts import layout
from hypar.sharding.placement import partial_results
from hypar.sharding.transfers import simple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypar.network.contraction import ContractedGraph, CutLayer, Tensor
    from hypar.network.einsum import Einsum
    from hypar.network.keeping import Trailing
    from hypar.network.windows import Window
    from hypar.schedule.lanes import Share
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
        entering: the bytes that come from other stages in the phase that brings more, or the most that a device lacks of a
            tensor whose shards differ between devices.
    """

    kept: tuple[Kept, ...]
    forward: tuple[float, ...]
    backward: tuple[float, ...]
    entering: float

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
    above: Sequence[Shares] = (),
    idle: frozenset[int] = frozenset(),
    array: tuple[int, ...] = (),
    *,
    fused: bool = False,
) -> Course:
    """Return the activations and errors on the fullest device over a step.

    Args:
        graph: the layers.
        choices: for each layer a choice at each level.
        element_bytes: bytes of one element.
        outside: tensors that the layers read from other stages, or that these read; the indices of the other stages'
            layers are not the graph's.
        trail_of: returns a layer's trail; another one than the layer's own says what a publication counts as kept.
        above: for each layer the shares of the uneven splits above; nothing if there are none.
        idle: the layers for which the device does not work.
        array: the ways of each level; nothing if every choice has a shard for each of them.
        fused: whether sums go straight to the devices that read them next.
    """
    readers = _only_readers(graph) if fused else {}
    tape = tape_of(graph, element_bytes, tuple(outside), trail_of, idle, frozenset(readers))
    tensors = _Tensors(array)
    for block in tape:
        onward = None
        if block.sums:
            reader = readers[block.layer]
            shares = above[reader.consumer] if above else ()
            onward = _Onward(graph.ends(reader)[1].einsum, choices[reader.consumer], shares)
        tensors.run(block, choices[block.layer], above[block.layer] if above else (), onward)
    for tensor in outside:
        if tensor.consumer >= len(graph.layers):
            tensors.send(tensor)
    return _course(tape, tensors, graph)


@kept_with_graph
def _only_readers(graph: ContractedGraph) -> dict[int, Tensor]:
    """Return the tensor between each layer that may leave terms and the only layer that reads its output."""
    readers = Counter([*(tensor.producer for tensor in graph.tensors), *graph.sent])
    return {
        tensor.producer: tensor
        for tensor in graph.tensors
        if readers[tensor.producer] == 1 and graph.layers[tensor.producer].einsum.contracts
    }


@dataclass(slots=True, eq=False)
class _Held:
    """A tensor in one division whose readers depend on the choices.

    Attributes:
        made: the op that writes it, or the first that receives it.
        num_bytes: its bytes on the fullest device.
        last: the last op that reads it in the forward phase.
        keeper: the first op that keeps it, or None; the loss keeps what nothing reads, here or in another stage.
        whole: the tensor that the device has, of which this one is a shard; None for a tensor of its own.
        same: the copy that another layer has read in this division, and whose memory this one has: its error comes back
            by itself; None for the first.
        errs: whether it has an error: the network's input has none.
        sent: whether other stages read it, whose errors arrive before the backward phase.
        from_stage: whether another stage has made it, to which each error goes back as it is.
        wider: copies that hold at least as much of it, by the op that reads them first: their error holds that of
            this one; None without any.
        readers: the ops that read it, in ascending order, each with the tensor whose error it passes on, or None.
        owner: the tensor whose error is that of this one as well, once that is known; it may be itself.
        first: the first op of the backward phase in which its own error lives.
        until: the last one.
    """

    made: int
    num_bytes: float
    last: int
    keeper: int | None = None
    whole: _Held | None = None
    same: _Held | None = None
    errs: bool = True
    sent: bool = False
    from_stage: bool = False
    wider: dict[int, _Held] | None = None
    readers: list[tuple[int, _Held | None]] = field(default_factory=list)
    owner: _Held = field(init=False)
    first: int = field(init=False)
    until: int = field(init=False)


_Error = tuple[int, int, float]
"""The span of the backward phase in which an error lives: from one op down to another, and its bytes."""


TINY = 1e-9
"""Difference below which the ends of two shards are equal."""

WHOLE_DIM = (0.0, 1.0)
"""The ends of a whole dim."""


class _Reach(NamedTuple):
    """The rows of an image that windows read across the borders of shards.

    Attributes:
        window: the window.
        rows: the rows of the image below the splits above.
    """

    window: Window
    rows: int


class _Cut(NamedTuple):
    """A dim of a tensor that is divided.

    Attributes:
        ways: the degree of each level. Of equally many shards of other levels, devices have other ones.
        size: its indices where the shards are not of equal size; otherwise 0. Of a dim of another size, as that of a
            flattened image, uneven shards have other elements.
        parts: the ends of the share that each uneven split above leaves, as fractions.
        numbers: the shard that each device of a level has, -1 for an idle one; nothing where devices are numbered through
            the shards of all levels.
        reach: the rows beyond its shard that a device reads; None if there are none.
    """

    ways: tuple[int, ...]
    size: int
    parts: tuple[tuple[float, float], ...]
    numbers: tuple[tuple[int, ...], ...] = ()
    reach: _Reach | None = None

    def inside(self, whole: _Cut, *, free: bool = False) -> bool:
        """Return whether each device's shard lies in its shard by another division of the same dim.

        Args:
            whole: the other division.
            free: whether shards need not be consecutive, so that each has what its devices have of the other tensor, if it fits.
        """
        if any(others not in (own, WHOLE_DIM) for own, others in zip(self.parts, whole.parts, strict=True)):
            return False
        if self.numbers or whole.numbers:
            return _fits(self, whole) if free else all(starmap(_nested, _pairs(self, whole)))
        if any(own % others for own, others in zip(self.ways, whole.ways, strict=True)):
            return False
        if not self.size and not whole.size:
            return True
        if self.reach or whole.reach:
            return all(map(_nested, _of_whole(self, self.ways), _of_whole(whole, self.ways)))
        return all(map(_nested, _ends(self, self.ways), _ends(whole, self.ways)))


_Ends = tuple[float, float]


def _pairs(own: _Cut, other: _Cut) -> Iterator[tuple[_Ends, _Ends]]:
    """Yield both shards of each device that works for both."""
    for pair in zip(_by_device(own, other), _by_device(other, own), strict=True):
        if pair[0] is not None and pair[1] is not None:
            yield pair[0], pair[1]


def _fits(part: _Cut, whole: _Cut) -> bool:
    """Return whether all shards of the devices that have one of another division fit it, and none belongs to two of these."""
    pairs = {*_pairs(part, whole)}
    left = {around: _size(around) for _, around in pairs}
    for own, around in pairs:
        left[around] -= _size(own)
    return len(pairs) == len({own for own, _ in pairs}) and all(size >= -TINY for size in left.values())


def _nested(own: tuple[float, float], around: tuple[float, float]) -> bool:
    """Return whether a shard lies between the ends of another one, or is empty."""
    return own[1] <= own[0] or (own[0] >= around[0] - TINY and own[1] <= around[1] + TINY)


Shares = Sequence["Share"]
"""The shares of a layer at the uneven splits above."""


class _Onward(NamedTuple):
    """The only reader of a layer's output, to whose shards sums go.

    Attributes:
        einsum: its dims, with the tensor as its first input.
        chosen: its choice at each level.
        above: its shares at the uneven splits above.
    """

    einsum: Einsum
    chosen: Options
    above: Shares


_Shards = tuple[tuple[str, _Cut], ...]
"""The dims of a tensor that are divided."""


class _Tensors:
    """The tensors on the fullest device, in the order in which they are written.

    Attributes:
        array: the ways of each level.
        found: the tensors; those whose readers are all known without the choices with their bytes.
        more: further bytes that an op keeps, with the op.
        written: each tensor that other layers read, with its division.
        others: tensors of the network's input, and copies or shards in another division than the one in which they were
            made.
        entering: the bytes that other stages send, of activations and of errors.
        lacking: for each tensor that shards of several sizes divide the most bytes that a device lacks.
    """

    def __init__(self, array: tuple[int, ...]) -> None:
        self.array = array
        self.found: list[_Held | tuple[Written, float]] = []
        self.more: list[tuple[int, float]] = []
        self.written: dict[tuple[int, int], tuple[_Shards, _Held]] = {}
        self.others: dict[tuple[int | None, int, _Shards], _Held] = {}
        self.entering = [0.0, 0.0]
        self.lacking: list[float] = []

    def send(self, tensor: Tensor) -> None:
        """Send a tensor to another stage, from which an error comes back."""
        made = self.written.get((tensor.producer, tensor.number))
        if made is not None:
            made[1].sent = True
            self.entering[1] += made[1].num_bytes

    def run(self, block: Block, chosen: Options, above: Shares, onward: _Onward | None) -> None:
        """Append a layer by its shares at the uneven splits above, its choice at each level, and who gets its sums."""
        places = _placed(block.einsum, block.divisions, chosen, above, self.array, onward)
        shards, shares = places
        inputs = self._fed(block, places) if block.ahead else []
        for tensor in block.read:
            inputs.append(self._received(tensor, block.own, shards[0], shares[0]))
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
                source.readers.append((op, passed))
                memory = source if source.same is None else source.same
                memory.last = op
                if keeps_input and memory.keeper is None:
                    memory.keeper = op
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

        Of a shard of a tensor that the device has there is no copy: it is what is kept of the tensor.
        """
        producer, number, num_bytes = tensor
        made = self.written.get((producer, number))
        if producer < 0:
            self.entering[0] += num_bytes * share
        whole = None
        if made is not None:
            shards, held = made
            if shards == placed:
                return held
            whole = held if _within(placed, shards) else None
        key = (producer, number, placed)
        same = self.others.get(key)
        if same is not None and made is None:
            return same
        copy = _Held(op, num_bytes * share, op, whole=whole, same=same, from_stage=producer < 0)
        self.found.append(copy)
        if same is None:
            self.others[key] = copy
        if made is not None:
            held.last = op
            held.readers.append((op, None))
            if _within(shards, placed, later=True):
                held.wider = {**(held.wider or {}), op: copy}
            if same is None:
                self.lacking += [
                    num_bytes * share * _lacking(placed, shards),
                    held.num_bytes * _lacking(shards, placed),
                ]
        if whole is not None:
            whole.last = op
        return copy


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
            if held.same is not None:
                continue
            if held.whole is not None:
                kept += _kept_of(held, held.whole, owners, changes)
                continue
        changes[made] += num_bytes
        if keeper is None:
            changes[last + 1] -= num_bytes
        else:
            changes[end - keeper + 1] -= num_bytes
            kept.append(Kept(owners[keeper], num_bytes))
    for first, until, num_bytes in _errors(tensors.found, len(owners) - 1):
        changes[end - first] += num_bytes
        changes[end - until + 1] -= num_bytes
    most = ([0.0] * len(graph.layers), [0.0] * len(graph.layers))
    held_bytes = [*accumulate(changes)]
    for block in tape:
        start, stop = block.start, block.stop
        most[0][block.layer] = max(0.0, *held_bytes[start:stop])
        most[1][block.layer] = max(0.0, *held_bytes[end - stop + 1 : end - start + 1])
    return Course(tuple(kept), tuple(most[0]), tuple(most[1]), max(*tensors.entering, *tensors.lacking))


def _kept_of(held: _Held, whole: _Held, owners: Sequence[int], changes: list[float]) -> list[Kept]:
    """Note what is kept of a tensor when the device no longer needs it whole, and return what the forward phase leaves."""
    end = 2 * len(owners) - 1
    first = whole.last + 1 if whole.keeper is None else end - whole.keeper + 1
    if held.keeper is None or first > end - held.keeper:
        return []
    changes[first] += held.num_bytes
    changes[end - held.keeper + 1] -= held.num_bytes
    return [Kept(owners[held.keeper], held.num_bytes)] if whole.keeper is None else []


def _errors(tensors: Sequence[_Held | tuple[Written, float]], last: int) -> list[_Error]:
    """Return the errors, each once; first what is added to one of several readers, for the moment of the addition.

    Args:
        tensors: the tensors.
        last: the last op, before whose backward phase the errors of other stages arrive.
    """
    found: list[_Held | _Error] = []
    added: list[_Error] = []
    for held in reversed(tensors):
        if isinstance(held, tuple):
            written, num_bytes = held
            readers = written.readers
            found.append((readers[-1], written.amount[0], num_bytes))
            if len(readers) > 1:
                added += [(op, op, num_bytes) for op in readers[-2::-1]]
        elif held.from_stage:
            found += [(op, op, held.num_bytes) for op, other in held.readers if other is None]
        elif held.errs:
            readings = held.readers[::-1]
            if held.sent:
                readings.insert(0, (last, None))
            readings = readings or [(held.made, None)]
            if held.wider is not None or readings[0][1] is not None:
                readings = _shared_readings(held, readings)
            else:
                held.owner, held.first, held.until = held, readings[0][0], held.made
            if readings:
                found.append(held)
            if len(readings) > 1:
                added += [(op, op, held.num_bytes) for op, other in readings[1:] if other is None]
    own = [
        error if isinstance(error, tuple) else (error.first, error.until, error.num_bytes) for error in found
    ]
    return added + own


_Readings = list[tuple[int, "_Held | None"]]
"""The ops that read a tensor, in the order of the backward phase, each with the tensor whose error it passes on."""


def _shared_readings(held: _Held, readings: _Readings) -> _Readings:
    """Return the ops that send an error with memory of its own, where others may share it; note where the error lives.

    The error that is passed on first has the memory of another tensor's, and so has the last one if it is wider.
    """
    first, passed = readings[0]
    if passed is not None:
        before = passed.owner
        before.until = min(before.until, held.made if len(readings) == 1 else readings[1][0])
        if len(readings) == 1:
            held.owner = before
            return []
        readings = readings[1:]
        first = readings[0][0]
    held.owner, held.first, held.until = held, first, held.made
    wider = None if held.wider is None else held.wider.get(readings[-1][0])
    if wider is None:
        return readings
    wider.owner.until = min(wider.owner.until, held.made)
    held.until = readings[-1][0]
    if len(readings) == 1:
        held.owner = wider.owner
        return []
    return readings


class _Places(NamedTuple):
    """Some divisions of a layer's tensors over devices.

    Attributes:
        shards: the tensor's dims that are divided, each with its number of shards.
        shares: the fraction of the tensor on the fullest device, times the scale of the division.
    """

    shards: tuple[_Shards, ...]
    shares: tuple[float, ...]


@lru_cache(maxsize=4096)
def _within(part: _Shards, whole: _Shards, *, later: bool = False) -> bool:
    """Return whether shards divide a tensor further that others have divided.

    Args:
        part: the shards.
        whole: the others.
        later: whether the others are chosen later, among the elements that devices have, as far as dims allow.
    """
    cuts = dict(part)
    return all(dim in cuts and cuts[dim].inside(own, free=later and dim not in SPATIAL) for dim, own in whole)


@lru_cache(maxsize=4096)
def _lacking(read: _Shards, made: _Shards) -> float:
    """Return the largest fraction of its shard that a device lacks, as a fraction of the largest shard.

    Only of shards that differ by their unequal sizes alone, or of a single level of which devices are idle or divide a grid: of
    others all devices lack as much, and share what several of them lack.
    """
    grid = next((cut for _, cut in (*read, *made) if cut.numbers), None)
    if grid is not None:
        return _lacking_of_grid(read, made, grid) if len(grid.numbers) == 1 else 0.0
    cuts, lacking = dict(made), 0.0
    alike = ({dim: cut.ways for dim, cut in own} for own in (read, made))
    if next(alike) != next(alike):
        return 0.0
    for dim, cut in read:
        if cut != cuts[dim]:
            ends = zip(_of_whole(cut, cut.ways), _of_whole(cuts[dim], cut.ways), strict=True)
            lacking += max(
                (_beyond(own, around) / _size(own) for own, around in ends if _size(own)), default=0.0
            )
    return min(lacking, 1.0)


def _lacking_of_grid(read: _Shards, made: _Shards, grid: _Cut) -> float:
    """Return the largest part of its shard that a device of a grid lacks, as a fraction of the largest shard."""
    cuts, others, (devices,) = dict(made), dict(read), grid.numbers
    sizes, there = [1.0] * len(devices), [1.0] * len(devices)
    for dim in {**others, **cuts}:
        own, other = others.get(dim), cuts.get(dim)
        fits = dim not in SPATIAL and own is not None and other is not None and _fits(other, own)
        needed, have = (_of_devices(cut, grid) for cut in (own, other))
        for device, (mine, theirs) in enumerate(zip(needed, have, strict=True)):
            sizes[device] *= 0.0 if mine is None else _size(mine)
            if mine is None or theirs is None:
                there[device] = 0.0
            elif fits:
                there[device] *= min(_size(mine), _size(theirs))
            else:
                there[device] *= _size(mine) - _beyond(mine, theirs)
    return max(size - part for size, part in zip(sizes, there, strict=True)) / (max(sizes) or 1.0)


def _of_devices(cut: _Cut | None, grid: _Cut) -> Sequence[_Ends | None]:
    """Return the ends of each device's shard of a dim; the whole dim where nothing divides it."""
    return [WHOLE_DIM] * len(grid.numbers[0]) if cut is None else _by_device(cut, grid)


def _size(ends: tuple[float, float]) -> float:
    return ends[1] - ends[0]


def _beyond(own: tuple[float, float], other: tuple[float, float]) -> float:
    """Return how much of a shard lies outside of another one."""
    return _size(own) - max(0.0, min(own[1], other[1]) - max(own[0], other[0]))


def _of_whole(cut: _Cut, finer: tuple[int, ...]) -> list[tuple[float, float]]:
    """Return the ends of each shard of a share of a dim, as fractions of the whole dim; arguments as below."""
    low, width = _share_of(cut)
    found = [(low + width * start, low + width * end) for start, end in _ends(cut, finer)]
    return found if cut.reach is None else [_reached(cut, cut.reach, *own) for own in found]


def _share_of(cut: _Cut) -> tuple[float, float]:
    """Return the start of the share that the splits above leave, and its size, as fractions of the whole dim."""
    low, width = 0.0, 1.0
    for start, end in cut.parts:
        low, width = low + width * start, width * (end - start)
    return low, width


def _reached(cut: _Cut, reach: _Reach, start: float, end: float) -> tuple[float, float]:
    """Return the ends of the rows that windows read to make a shard of their outputs, as fractions of the image."""
    width = _share_of(cut)[1]
    made, rows = cut.size / width, reach.rows / width
    if end <= start:
        return start, start
    first, last = reach.window.reads(round(start * made), round(end * made))
    return max(first, 0) / rows, min(last, rows) / rows


def _by_device(cut: _Cut, other: _Cut) -> list[tuple[float, float] | None]:
    """Return the ends of each device's shard as fractions of the whole dim; None for an idle device.

    Args:
        cut: the division.
        other: another one of the same devices, of which one has the shards of all devices by number.
    """
    devices = [len(own) for own in cut.numbers or other.numbers]
    numbers = cut.numbers or tuple(
        tuple(device * ways // count for device in range(count))
        for ways, count in zip(cut.ways, devices, strict=True)
    )
    shards, shard = _of_whole(cut, cut.ways), [0]
    for ways, own in zip(cut.ways, numbers, strict=True):
        shard = [-1 if -1 in (at, one) else at * ways + one for at in shard for one in own]
    return [None if at < 0 else shards[at] for at in shard]


def _ends(cut: _Cut, finer: tuple[int, ...]) -> list[tuple[float, float]]:
    """Return the ends of the shard that each device has of a dim, as fractions of it.

    Args:
        cut: the division.
        finer: the degree of each level, a multiple of that of the division, by which devices are told apart.
    """
    size = cut.size or math.prod(cut.ways)
    pieces = [(0, size)]
    for ways, devices in zip(cut.ways, finer, strict=True):
        numbers = [device * ways // devices for device in range(devices)]
        pieces = [
            (start + (end - start) * number // ways, start + (end - start) * (number + 1) // ways)
            for start, end in pieces
            for number in numbers
        ]
    return [(start / size, end / size) for start, end in pieces]


@lru_cache(maxsize=16384)
def _numbers(chosen: Options, array: tuple[int, ...], dim: str) -> tuple[tuple[int, ...], ...]:
    """Return the shard of a dim that each device of each level has, -1 for an idle one; nothing if no level has a grid."""
    pairs = [*zip(chosen, array, strict=True)] if array else []
    if all(simple(choice, ways) for choice, ways in pairs):
        return ()
    found = []
    for choice, ways in pairs:
        grid = layout((choice,), ways)
        shards = grid.rows[dim][0].tolist() if dim in grid.rows else [0] * ways
        active = grid.active[0].tolist()
        found.append(tuple([shard if at_work else -1 for shard, at_work in zip(shards, active, strict=True)]))
    return tuple(found)


@lru_cache(maxsize=16384)
def _placed(
    einsum: Einsum,
    divisions: tuple[Division, ...],
    chosen: Options,
    above: Shares,
    array: tuple[int, ...] = (),
    onward: _Onward | None = None,
) -> _Places:
    """Return some divisions of a layer's input and output; ops behind the layer may have contracted dims of them."""
    found = []
    for tensor, whole, scale in divisions:
        if tensor == "sums" and onward is not None:
            found.append(_scattered(einsum, chosen, above, array, onward, whole, scale))
            continue
        names = einsum.names(tensor)
        shards, share = [], 1.0
        for dim, count in zip(einsum.counted, degrees(chosen, einsum.counted), strict=True):
            parts = tuple([ends if cut == dim else WHOLE_DIM for cut, ends in above])
            divided = count > 1 or any(part != WHOLE_DIM for part in parts)
            if divided and dim in names and names[dim] not in whole:
                size = einsum.sizes[dim]
                ways = tuple([choice.degree(dim) for choice in chosen])
                uneven, numbers = size if size % count else 0, _numbers(chosen, array, dim)
                if tensor == "input" and size and dim in einsum.windows and einsum.windows[dim].halo:
                    reach = _Reach(einsum.windows[dim], einsum.input_sizes[dim])
                    cut = _Cut(ways, size, parts, numbers, reach)
                    rows = max(end - start for start, end in _of_whole(cut, ways)) / _share_of(cut)[1]
                else:
                    cut = _Cut(ways, uneven, parts, numbers)
                    rows = fullest(size, count) / size if size else 0.0
                shards.append((names[dim], cut))
                share *= rows
        found.append((tuple(shards), scale * share))
    return _Places(*zip(*found, strict=True))


def _scattered(
    einsum: Einsum,
    chosen: Options,
    above: Shares,
    array: tuple[int, ...],
    onward: _Onward,
    whole: frozenset[str],
    scale: float,
) -> tuple[_Shards, float]:
    """Return the division of sums at the levels that leave terms as the reader divides, elsewhere as they are made."""
    read = onward.einsum
    made_as, read_as = (
        {name: dim for dim, name in own.items()} for own in (einsum.names("output"), read.names("input"))
    )
    levels = [
        _leaves_terms(einsum, made.divided)
        and len(reads.divided) == 1
        and made.devices(ways) == reads.devices(ways) == ways
        for made, reads, ways in zip(chosen, onward.chosen, array, strict=True)
    ]
    splits = [
        dim is not None and _leaves_terms(einsum, (dim,)) and other is not None
        for (dim, _), (other, _) in zip(above, onward.above, strict=True)
    ]
    shards, share = [], 1.0
    for name, dim in made_as.items():
        other = read_as.get(name, "")
        each = zip(levels, chosen, onward.chosen, strict=True)
        ways = tuple([reads.degree(other) if goes else made.degree(dim) for goes, made, reads in each])
        pairs = [(goes, own, theirs) for goes, own, theirs in zip(splits, above, onward.above, strict=True)]
        parts = tuple(
            (theirs[1] if theirs[0] == other else WHOLE_DIM)
            if goes
            else own[1]
            if own[0] == dim
            else WHOLE_DIM
            for goes, own, theirs in pairs
        )
        left = math.prod(end - start for goes, (start, end) in zip(splits, parts, strict=True) if goes)
        count, size = math.prod(ways), math.ceil(einsum.sizes[dim] * left - TINY)
        if name not in whole and (count > 1 or any(part != WHOLE_DIM for part in parts)):
            shards.append((name, _Cut(ways, size if size % count else 0, parts)))
            share *= fullest(size, count) / einsum.sizes[dim] if size else 0.0
    return tuple(shards), scale * share


def _leaves_terms(einsum: Einsum, dims: Sequence[str]) -> bool:
    """Return whether a division of some dims, and of no others, leaves terms of the output."""
    return bool(dims) and all("output" in partial_results(einsum, dim) for dim in dims)
