"""Communication between two layers whose shards have whole elements, ``direct``, for all pairs of choices at once.

A consumer's device receives the elements that its windows read and it does not hold, and a producer's device receives
every term of the error of its shard that it does not have. If several devices hold one shard, the terms go to each of
them, or to the first and their sum from it to the others, whichever is less.

Source: DeePa (2018), whose transfers are the data that a worker needs less the data that it has.
"""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from operator import floordiv, mul
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.errors import TableLimitError
from hypar.ops.nest import IN_GROUP
from hypar.sharding.collectives import CODE, manners_of
from hypar.sharding.placement import COPIES, IDLE, layout, shards_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from hypar.network.nodes import Content
    from hypar.ops.nest import Nest
    from hypar.ops.windows import Window
    from hypar.sharding.collectives import Codes
    from hypar.sharding.placement import Layout, Numbers, Options
    from hypar.solve.edge import Costs

MOST_SHARED = 2**27
"""Most entries of a table of the shards of a dim in common: a gigabyte."""


class Reshard(NamedTuple):
    """One phase's resharding, for each pair of choices of producer and consumer.

    Attributes:
        phase: the phase.
        end: the end that receives, 0 for the producer.
        collectives: indices into ``COLLECTIVES``.
        elements: elements that all devices of a group receive.
    """

    phase: str
    end: int
    collectives: Codes
    elements: Costs


class Gap(NamedTuple):
    """A tensor between two layers, in one group of a level.

    Attributes:
        ends: producer and consumer.
        content: the tensor as the consumer reads it.
        ways: devices of the group.
        fractions: fraction of each op dim of the consumer's input that the levels above leave.
        operand: the consumer's tensor that it is.
    """

    ends: tuple[Nest, Nest]
    content: Content
    ways: int
    fractions: tuple[float, ...]
    operand: str = "input"


class _Dim(NamedTuple):
    """A dim of a tensor between two layers.

    Attributes:
        made: the producer's op dim; None if it has none.
        read: the consumer's op dim; None if it has none.
        size: elements of the dim.
        outputs: elements that the consumer makes along it.
        window: the consumer's window along it.
        units: elements that stay together at both ends; 0 for real shares.
    """

    made: str | None
    read: str | None
    size: float
    outputs: float
    window: Window | None
    units: tuple[int, int]


def reshards(gap: Gap, options: tuple[Options, Options]) -> tuple[Reshard, ...]:
    """Return the resharding of F from producer to consumer and of E back, for all pairs of choices.

    Raises:
        TableLimitError: a dim has too many shards.
    """
    dims, made, read = _dims(gap), layout(options[0], gap.ways), layout(options[1], gap.ways)
    total = math.prod(dim.size for dim in dims)
    needed, shared, first = _amounts(made, read, dims)
    holders = reduce(floordiv, (made.degree(dim.made) for dim in dims), made.working)[:, None]
    errors = np.minimum(holders * needed - shared, needed - first + (holders - 1) * total)
    forth, back = manners_of(made, read, tuple((dim.made, dim.read) for dim in dims))
    sums = np.where(needed > total * (1 + 1e-9), CODE["reduce_scatter"], back)
    summed = [op for op, dim in gap.ends[0].names["output"].items() if dim in gap.content.contracted]
    terms = np.prod([np.ones_like(made.working), *map(made.degree, summed)], axis=0)[:, None]
    added = 2 * (terms - 1) * holders / terms * total
    return (
        *[Reshard("forward", 0, np.full((1, 1), CODE["all_reduce"]), added)] * bool(added.any()),
        Reshard("forward", 1, forth, needed - shared),
        Reshard("backward", 0, sums, errors),
    )


def _dims(gap: Gap) -> tuple[_Dim, ...]:
    """Return a tensor's dims as producer and consumer divide them into whole elements."""
    made, read = gap.ends
    contracted, image = gap.content.contracted, dict(gap.content.shape)
    makes = {tensor: op for op, tensor in made.names["output"].items() if tensor not in contracted}
    reads = {tensor: op for op, tensor in read.names[gap.operand].items()}
    left = dict(zip(read.names[gap.operand], gap.fractions, strict=True))
    # A shard of a flattened image is a range of its channels, of which the last may be incomplete.
    flat = image.get("height", 1) * image.get("width", 1) > 1 and "height" not in reads
    found = []
    for dim, size in (("batch", read.sizes["batch"]), *gap.content.shape):
        own, theirs = makes.get(dim), reads.get(dim)
        rest, window = left.get(theirs or "", 1.0), read.windows.get(theirs or "")
        outputs = read.sizes[theirs] if theirs and window else size
        each = zip(gap.ends, (own, theirs), strict=True)
        kept = [size // nest.sizes[op] if op == "groups" else 1 for nest, op in each]
        units = kept[0], kept[1] * (not (flat and dim == "channels"))
        whole, places = (math.ceil(count * rest - 1e-9) for count in (size, outputs))
        found.append(_Dim(own, theirs, whole, places, window, units))
    # Channels in a group have no size of their own; their rest is the size.
    own, theirs = makes.get(IN_GROUP), reads.get(IN_GROUP)
    rest = left.get(theirs or "", 1.0)
    return (*found, _Dim(own, theirs, rest, rest, None, (0, 0)))


@lru_cache(maxsize=64)
def _amounts(made: Layout, read: Layout, dims: tuple[_Dim, ...]) -> tuple[Costs, Costs, Costs]:
    """Return the elements that all devices need, ``[choices]``, and those that they, or the first of several holders, hold too."""
    at_work = needed = _first(read, ()).astype(float)
    common = []
    for dim in dims:
        width, shared = _shared(made, read, dim)
        (_, rows), (_, columns) = _patterns(made, dim.made), _patterns(read, dim.read)
        needed = needed * width[columns]
        common.append((rows, shared.take(columns, axis=1)))
    copied = {*made.chosen, COPIES} - {dim.made for dim in dims}
    holding = np.stack([_first(made, own) for own in ((), copied)]).astype(float)
    both = np.empty((2, len(made.choices), len(read.choices)))
    # Choices of unlike copies and idle devices have the same shards.
    each = np.stack([rows for rows, _ in common])
    for own in np.unique(each, axis=1).T:
        here = reduce(mul, (shared[row] for row, (_, shared) in zip(own, common, strict=True)), at_work)
        alike = np.flatnonzero((own == each.T).all(axis=1))
        both[:, alike] = holding[:, alike] @ here.T
    return needed.sum(axis=1), *both


@lru_cache(maxsize=256)
def _patterns(own: Layout, dim: str | None) -> tuple[Numbers, Numbers]:
    """Return the unlike shards of a dim on devices, ``[patterns, ways]``, and which of these each choice has."""
    whole = np.zeros(own.ways, np.int64)
    shards = np.stack([shards_of(choice, own.ways).get(dim or "", whole) for choice in own.choices])
    rows = shards.view(f"V{shards[0].nbytes}").reshape(-1)
    _, first, which = np.unique(rows, return_index=True, return_inverse=True)
    return shards[first], which


def _first(own: Layout, copied: Iterable[str]) -> NDArray[np.bool_]:
    """Return whether each device works, and has the first shards of some dims, ``[choices, ways]``."""
    each = (_patterns(own, dim) for dim in (IDLE, *copied))
    return np.asarray(np.all([(shards == 0)[which] for shards, which in each], axis=0))


@lru_cache(maxsize=64)
def _shared(made: Layout, read: Layout, dim: _Dim) -> tuple[Costs, Costs]:
    """Return the elements of a dim that each device reads, ``[patterns, ways]``, and those that it holds too, ``[made, read, ways]``."""
    (mine, _), (theirs, _) = _patterns(made, dim.made), _patterns(read, dim.read)
    entries = len(mine) * len(read.choices) * made.ways
    if entries > MOST_SHARED:
        size = f"{len(read.choices):,} choices of {made.ways:,} ways"
        message = f"shards of {size} would take {entries:,} entries; allowed: {MOST_SHARED:,}"
        raise TableLimitError(f"{message}, so levels of fewer ways", entries, MOST_SHARED)
    (low, high), below = bounds(mine, dim.size, dim.units[0]), _reading(theirs, dim)
    return below(float(dim.size)) - below(0.0), below(high[:, None]) - below(low[:, None])


def bounds(shards: Numbers, size: float, unit: int = 1) -> tuple[Costs, Costs]:
    """Return the starts and the ends of shards of a dim divided as evenly as whole elements allow; of real numbers if the unit is 0.

    Args:
        shards: the number of each shard, ``[..., shards]``, up to the highest one.
        size: elements of the dim.
        unit: elements that stay together, as the channels of a group.
    """
    degrees = shards.max(axis=-1, keepdims=True) + 1
    low, high = shards / degrees * size, (shards + 1) / degrees * size
    if not unit:
        return low, high
    return np.floor(low / unit + 1e-9) * unit, np.floor(high / unit + 1e-9) * unit


def _reading(shards: Numbers, dim: _Dim) -> Callable[[Costs | float], Costs]:
    """Return the function that counts the elements below some positions that shards of a consumer read, ``[patterns, ways]``."""
    low, high = bounds(shards, dim.outputs, dim.units[1])
    window = dim.window
    if window is not None and window.gaps:
        low, high = low * window.extent, high * window.extent
    elif window is not None:
        # From the first to the last tap, without padding.
        first, last = (np.clip(places, 0, dim.size) for places in window.reads(low, high))
        low, high = first, np.where(high <= low, first, np.maximum(last, first))

    def below(places: Costs | float) -> Costs:
        if window is not None and window.gaps:
            windows, within = np.divmod(places + window.padding, window.stride)
            places = windows * window.extent + np.minimum(within, window.extent)
        return np.clip(places, low, high) - low

    return below
