"""Communication between two layers whose choices are grids, for all pairs of choices at once.

There are two conventions. *At once*: partial sums are reduced inside a layer and shards have real sizes; this
extends ``transfers`` from one dim per level to several. *Direct*: shards have whole elements, a consumer's device
receives the elements that its windows read and it does not hold, and a producer's device receives every term of
the error of its shard that it does not have. If several devices hold one shard, the terms go to each of them, or
to the first and their sum from it to the others, whichever is less.

Source of *direct*: DeePa (2018), whose transfers are the data that a worker needs less the data that it has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.sharding.grids.bounds import Bounds, Intersections, bounds, intersections, reach
from hypar.sharding.grids.intersection import boxes, copies, shared_elements
from hypar.sharding.grids.layouts import Layout, Numbers, layout
from hypar.sharding.redistribution import COLLECTIVES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.contraction import Content
    from hypar.network.ops.base import Einsum
    from hypar.network.windows import Window
    from hypar.sharding.placement import Choice, Options
    from hypar.solve.edge import Costs

Codes = NDArray[np.int64]
Names = tuple[tuple[str | None, str | None], ...]
INNER = "channels_in_group"
_CODE = {name: code for code, name in enumerate(COLLECTIVES)}


@dataclass(frozen=True, eq=False, slots=True)
class Manner:
    """Collectives for each pair of choices of producer and consumer; equal layers share one object.

    Attributes:
        collectives: index into ``COLLECTIVES``.
        devices: number of devices of a group that receive.
    """

    collectives: Codes
    devices: Numbers


class Reshard(NamedTuple):
    """One phase's resharding, for each pair of choices of producer and consumer.

    Attributes:
        phase: the phase.
        manner: the collectives.
        elements: elements that all devices of a group receive.
    """

    phase: str
    manner: Manner
    elements: Costs


class Moved(NamedTuple):
    """One phase's resharding, for one pair of choices.

    Attributes:
        phase: the phase.
        collective: the collective.
        elements: elements that all devices of a group receive.
        devices: number of devices that receive.
    """

    phase: str
    collective: str
    elements: float
    devices: int


@dataclass(frozen=True, eq=False, slots=True)
class _Dim:
    """A dim of a tensor, as producer and consumer divide it.

    Attributes:
        made: the producer's op dim; None if it has none.
        read: the consumer's op dim; None if it has none.
        size: elements of the dim; for real shares 1, or the remaining fraction.
        held: the producer's shards.
        needed: the elements that the consumer's shards read.
        intersections: the intersections of shards held and needed.
        core: the intersections of shards held and the consumer's shards without halo.
    """

    made: str | None
    read: str | None
    size: float
    held: Bounds
    needed: Bounds
    intersections: Intersections
    core: Intersections


class _Ends(NamedTuple):
    """Producer and consumer of a tensor.

    Attributes:
        made: layout of the producer's choices.
        read: layout of the consumer's choices.
        dims: the tensor's dims.
        summed: op dims of the producer that ops between the layers sum.
    """

    made: Layout
    read: Layout
    dims: tuple[_Dim, ...]
    summed: tuple[str, ...]


class Gap(NamedTuple):
    """A tensor between two layers, in one group of a level.

    Attributes:
        ends: producer and consumer.
        content: the tensor as the consumer reads it.
        ways: devices of the group.
        fractions: fraction of each op dim of the consumer's ``input`` that the levels above leave.
        direct: whether the terms of E go straight to the devices that need them, and shards have whole elements.
    """

    ends: tuple[Einsum, Einsum]
    content: Content
    ways: int
    fractions: tuple[float, ...]
    direct: bool


class _Known(dict["Gap", tuple[tuple["Options", "Options"], tuple["Reshard", ...]]]):
    """The last result for each gap, so that a plan's own choices are looked up after a search.

    Attributes:
        pairs: number of pairs of choices of all gaps.
    """

    pairs: int = 0

    def keep(self, gap: Gap, options: tuple[Options, Options], found: tuple[Reshard, ...]) -> None:
        """Store the result of a gap, dropping all others if the limit would be exceeded."""
        if gap in self:
            self.pairs -= _pairs(self.pop(gap)[0])
        if self.pairs + _pairs(options) > MOST_KNOWN:
            self.clear()
        self[gap] = (options, found)
        self.pairs += _pairs(options)

    def clear(self) -> None:
        """Remove all results."""
        super().clear()
        self.pairs = 0


_KNOWN = _Known()

MOST_KNOWN = 2**23
"""Most pairs of choices stored: 64 MiB of numbers for each phase."""


def reshards(gap: Gap, options: tuple[Options, Options]) -> tuple[Reshard, ...]:
    """Return the resharding of F from producer to consumer and of E back, for all pairs of choices."""
    known = _KNOWN.get(gap)
    if known is not None and known[0] == options:
        return known[1]
    found = _resharded(gap, options)
    _KNOWN.keep(gap, options, found)
    return found


def reshard(gap: Gap, made: Choice, read: Choice) -> tuple[Moved, ...]:
    """Return the resharding of F and E for one pair of choices.

    Sums of whole elements do not depend on their order and may be looked up; sums of real shares are computed
    afresh, so that a result does not depend on earlier calls.
    """
    known = _KNOWN.get(gap) if gap.direct else None
    if known is not None:
        row, column = _places(known[0][0]).get(made, -1), _places(known[0][1]).get(read, -1)
        if min(row, column) >= 0:
            return tuple(_moved(move, row, column) for move in known[1])
    return tuple(_moved(move, 0, 0) for move in _resharded(gap, ((made,), (read,))))


def _pairs(options: tuple[Options, Options]) -> int:
    return len(options[0]) * len(options[1])


@lru_cache(maxsize=512)
def _places(options: Options) -> dict[Choice, int]:
    return {choice: place for place, choice in enumerate(options)}


def _moved(move: Reshard, row: int, column: int) -> Moved:
    """Return one pair's entry of tables that have a single row or column if they do not vary along it."""
    collective, devices, elements = (
        table[min(row, len(table) - 1), min(column, table.shape[1] - 1)]
        for table in (move.manner.collectives, move.manner.devices, move.elements)
    )
    return Moved(move.phase, COLLECTIVES[collective], float(elements), int(devices))


def _resharded(gap: Gap, options: tuple[Options, Options]) -> tuple[Reshard, ...]:
    """Compute the resharding of all pairs of choices."""
    ends, content, ways, fractions, direct = gap
    layouts = (layout(options[0], ways), layout(options[1], ways))
    summed = tuple(op for op, tensor in ends[0].output.items() if tensor in content.contracted)
    both = _Ends(*layouts, _dims(ends, layouts, content, fractions, direct), summed)
    total = math.prod(dim.size for dim in both.dims)
    needed = boxes(both.read, [(dim.read, dim.needed) for dim in both.dims])
    held = boxes(both.made, [(dim.made, dim.held) for dim in both.dims])
    shared = shared_elements(both.made, both.read, [dim.intersections for dim in both.dims])
    each = copies(both.made, [dim.made for dim in both.dims])[:, None]
    lacking = needed - shared
    if direct:
        back = lacking if each.max() == 1 else _directly(both, total, each, needed, shared)
    elif any(dim.core is not dim.intersections for dim in both.dims):
        back = held[:, None] - shared_elements(both.made, both.read, [dim.core for dim in both.dims])
    else:
        back = held[:, None] - shared
    scale = 1.0 if direct else content.elements * math.prod(fractions)
    names = tuple((dim.made, dim.read) for dim in both.dims)
    terms = needed > total * (1 + 1e-9) if direct else np.zeros(1, bool)
    moves = (
        *_summed(both, each, total),
        Reshard("forward", _forth(*layouts, names), lacking),
        Reshard("backward", _back(*layouts, names, terms.tobytes()), back),
    )
    return moves if direct else tuple(_scaled(move, scale) for move in moves)


def _dims(
    ends: tuple[Einsum, Einsum],
    layouts: tuple[Layout, Layout],
    content: Content,
    fractions: tuple[float, ...],
    direct: bool,
) -> tuple[_Dim, ...]:
    """Return a tensor's dims as producer and consumer divide them."""
    made, read = ends
    makes = {tensor: op for op, tensor in made.output.items() if tensor not in content.contracted}
    reads = {tensor: op for op, tensor in read.input.items()}
    left = dict(zip(read.input, fractions, strict=True))
    image = dict(content.shape)
    flat = image.get("height", 1) * image.get("width", 1) > 1 and "height" not in reads
    found = []
    for dim, whole_size in (("batch", read.sizes["batch"]), *content.shape, (INNER, 1)):
        own, theirs = makes.get(dim), reads.get(dim)
        rest, window = left.get(theirs or "", 1.0), read.windows.get(theirs or "")
        degrees = (layouts[0].of(own), layouts[1].of(theirs))
        if not direct or dim == INNER:
            halo = 0.0 if window is None else min(1.0, window.halo / read.input_sizes[theirs or ""] / rest)
            # Channels in a group have no size of their own; in direct transfers their rest is the size.
            found.append(_shares(own, theirs, *degrees, halo, rest if direct else 1.0))
        else:
            size = math.ceil(whole_size * rest - 1e-9)
            output = size if window is None else math.ceil(read.sizes[theirs or ""] * rest - 1e-9)
            # A shard of a flattened image is a range of its channels, of which the last may be incomplete.
            ranges = flat and dim == "channels"
            units = (_unit(made, own, whole_size), _unit(read, theirs, whole_size))
            found.append(_elements(own, theirs, *degrees, size, output, window, units, whole=not ranges))
    return tuple(found)


def _unit(einsum: Einsum, dim: str | None, size: int) -> int:
    return size // einsum.sizes["groups"] if dim == "groups" else 1


@lru_cache(maxsize=1024)
def _shares(
    made: str | None,
    read: str | None,
    makers: tuple[int, ...],
    readers: tuple[int, ...],
    halo: float,
    size: float,
) -> _Dim:
    """Return a dim divided into shares of real size, with the halo that windows read."""
    held, core = bounds(makers, size, False), bounds(readers, size, False)
    needed = _with_halo(core, halo) if halo and len(core.low) > 1 else core
    alone = intersections(made, read, held, core)
    return _Dim(
        made,
        read,
        size,
        held,
        needed,
        alone if needed is core else intersections(made, read, held, needed),
        alone,
    )


@lru_cache(maxsize=1024)
def _elements(
    made: str | None,
    read: str | None,
    makers: tuple[int, ...],
    readers: tuple[int, ...],
    size: int,
    output: int,
    window: Window | None,
    units: tuple[int, int],
    *,
    whole: bool,
) -> _Dim:
    """Return a dim divided into whole elements, with the elements that windows read."""
    held, core = bounds(makers, size, True, units[0]), bounds(readers, output, whole, units[1])
    needed = core if window is None else reach(core, window, size)
    both = intersections(made, read, held, needed)
    return _Dim(made, read, size, held, needed, both, both)


def _with_halo(core: Bounds, halo: float) -> Bounds:
    low, high = np.maximum(core.low - halo / 2, 0.0), np.minimum(core.high + halo / 2, 1.0)
    return Bounds(low, high, high - low)


def _directly(both: _Ends, total: float, holders: Numbers, needed: Costs, shared: Costs) -> Costs:
    """Return the elements of E received: terms to every holder of a shard, or to the first and its sum to the rest."""
    each = holders * needed - shared
    factors = [dim.intersections for dim in both.dims]
    carried = {dim.made for dim in both.dims}
    for dim, degrees in both.made.degrees.items():
        if dim not in carried:
            factors.append(_first_copies(dim, degrees))
    once = needed - shared_elements(both.made, both.read, factors) + (holders - 1) * total
    return np.minimum(each, once)


@lru_cache(maxsize=64)
def _first_copies(dim: str, degrees: tuple[int, ...]) -> Intersections:
    """Return a factor that selects the devices holding the first of several copies."""
    first = np.concatenate([np.arange(degree) == 0 for degree in degrees]).astype(np.float64)
    return Intersections(dim, None, first[:, None])


def _summed(both: _Ends, holders: Numbers, total: float) -> tuple[Reshard, ...]:
    """Return the all-reduce of sums that ops between layers take over dims that the producer divides."""
    terms = np.ones(len(both.made.working))
    for dim in both.summed:
        terms *= both.made.degree(dim)
    terms = terms[:, None]
    if (terms == 1).all():
        return ()
    elements = 2 * (terms - 1) * holders / terms * total
    manner = Manner(np.full((1, 1), _CODE["all_reduce"]), both.made.working[:, None])
    return (Reshard("forward", manner, elements),)


@lru_cache(maxsize=64)
def _forth(made: Layout, read: Layout, names: Names) -> Manner:
    """Return the collectives of F: gathered if the consumer needs all of it, a halo between equal grids."""
    codes = _codes(_undivided(read, [theirs for _, theirs in names])[None], _same_grid(made, read, names))
    return Manner(codes, read.working[None])


@lru_cache(maxsize=64)
def _back(made: Layout, read: Layout, names: Names, terms: bytes) -> Manner:
    """Return the collectives of E: reduced if several devices have terms of an element."""
    codes = _codes(_undivided(made, [own for own, _ in names])[:, None], _same_grid(made, read, names))
    codes = np.where(np.frombuffer(terms, bool)[None], _CODE["reduce_scatter"], codes)
    return Manner(codes, made.working[:, None])


def _codes(gathers: NDArray[np.bool_], equal: NDArray[np.bool_]) -> Codes:
    shards = np.where(equal, _CODE["neighbours"], _CODE["all_to_all"])
    return np.where(gathers, _CODE["all_gather"], shards)


def _undivided(layout: Layout, dims: Sequence[str | None]) -> NDArray[np.bool_]:
    """Return whether every device has the whole tensor, for each choice."""
    found = np.ones(len(layout.working), bool)
    for dim in dims:
        found &= layout.degree(dim) == 1
    return found


@lru_cache(maxsize=64)
def _same_grid(made: Layout, read: Layout, names: Names) -> NDArray[np.bool_]:
    """Return whether both choices of a pair divide the tensor into the same grid."""
    found: NDArray[np.bool_] = made.working[:, None] == read.working
    for own, theirs in names:
        degrees = made.degree(own), read.degree(theirs)
        if not all(isinstance(degree, int) for degree in degrees):
            found &= np.asarray(degrees[0])[..., None] == degrees[1]
    return found


def _scaled(move: Reshard, scale: float) -> Reshard:
    """Return elements of the tensor, with rounding residues of shares set to zero."""
    return move._replace(elements=np.where(np.abs(move.elements) <= 1e-9, 0.0, move.elements) * scale)
