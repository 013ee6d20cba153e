"""The divisions of a layer's tensors over devices, by its choice at each level and its shares at uneven splits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.machine.work import fullest
from hypar.schedule.shards import TINY, WHOLE_DIM, Cut, Reach, Shards, of_whole, on_devices, share_of
from hypar.sharding.placement import IDLE, degrees, partial_results, shards_of, simple

if TYPE_CHECKING:
    from hypar.ops.nest import Nest
    from hypar.schedule.lanes import Share
    from hypar.sharding.placement import Options

Amount = float | NDArray[np.float64]
"""An amount on the fullest device, or on each one, ``[devices]``."""

Shares = Sequence["Share"]
"""The shares of a layer at the uneven splits above."""


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


class Onward(NamedTuple):
    """The only reader of a layer's output, to whose shards sums go.

    Attributes:
        nest: its dims.
        operand: its tensor that it is.
        chosen: its choice at each level.
        above: its shares at the uneven splits above.
    """

    nest: Nest
    operand: str
    chosen: Options
    above: Shares


class Places(NamedTuple):
    """Some divisions of a layer's tensors over devices.

    Attributes:
        shards: the tensor's dims that are divided, each with its number of shards.
        shares: the fraction of the tensor on a device, times the scale of the division: of each one where shards may differ, as
            of uneven dims, grids and idle devices, ``[devices]``; otherwise on the fullest.
    """

    shards: tuple[Shards, ...]
    shares: tuple[Amount, ...]


@lru_cache(maxsize=16384)
def _numbers(chosen: Options, dims: tuple[str, ...], array: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the shard of the dim of each level that each of its devices has, -1 for an idle one; nothing if no level has a grid."""
    pairs = [*zip(chosen, array, strict=True)] if array else []
    if all(simple(choice, ways) for choice, ways in pairs):
        return ()
    found = []
    for (choice, ways), dim in zip(pairs, dims, strict=False):
        shards = shards_of(choice, ways)
        found.append(tuple(np.where(shards[IDLE] == 0, shards.get(dim, 0), -1).tolist()))
    return tuple(found)


@lru_cache(maxsize=16384)
def _at_work(chosen: Options, array: tuple[int, ...]) -> Amount:
    """Return 1 for each device that works and 0 for another, ``[devices]``; 1 if no level has a grid."""
    pairs = [*zip(chosen, array, strict=True)] if array else []
    if all(simple(choice, ways) for choice, ways in pairs):
        return 1.0
    found = np.ones(1)
    for choice, ways in pairs:
        found = np.asarray(np.kron(found, shards_of(choice, ways)[IDLE] == 0), dtype=np.float64)
    return found


@lru_cache(maxsize=16384)
def placed(
    nest: Nest,
    divisions: tuple[Division, ...],
    chosen: Options,
    above: Shares,
    array: tuple[int, ...] = (),
    onward: Onward | None = None,
) -> Places:
    """Return some divisions of a layer's input and output; ops behind the layer may have contracted dims of them."""
    found: list[tuple[Shards, Amount]] = []
    for tensor, whole, scale, channels in divisions:
        if tensor == "sums" and onward is not None:
            found.append(_scattered(nest, chosen, above, array, onward, whole, scale))
            continue
        names = nest.names.get(tensor, {})
        shards: list[tuple[str, Cut]] = []
        share = _at_work(chosen, array)
        for dim, count in zip(nest.counted, degrees(chosen, nest.counted), strict=True):
            parts = tuple([ends if cut == dim else WHOLE_DIM for cut, ends in above])
            divided = count > 1 or any(part != WHOLE_DIM for part in parts)
            if divided and dim in names and names[dim] not in whole:
                size = nest.sizes[dim]
                ways = tuple([choice.degree(dim) for choice in chosen])
                each = channels if channels and names[dim] == "channels" else (size,)
                uneven = sum(each) if any(own % count for own in each) else 0
                numbers = _numbers(chosen, (dim,) * len(chosen), array)
                if tensor == "input" and size and dim in nest.windows and nest.windows[dim].halo:
                    reach = Reach(nest.windows[dim], nest.input_sizes[dim])
                    cut = Cut(ways, size, parts, numbers, reach)
                    rows = max(end - start for start, end in of_whole(cut, ways)) / share_of(cut)[1]
                else:
                    cut = Cut(ways, uneven, parts, numbers, None, each if uneven and len(each) > 1 else ())
                    rows = sum(fullest(own, count) for own in each) / sum(each) if sum(each) else 0.0
                shards.append((names[dim], cut))
                share = share * _on_each(cut, array, rows, size)
        found.append((tuple(shards), scale * share))
    return Places(*zip(*found, strict=True))


def _scattered(
    nest: Nest,
    chosen: Options,
    above: Shares,
    array: tuple[int, ...],
    onward: Onward,
    whole: frozenset[str],
    scale: float,
) -> tuple[Shards, Amount]:
    """Return the division of sums at the levels that leave terms as the reader divides, elsewhere as they are made."""
    read = onward.nest
    made_as, read_as = (
        {name: dim for dim, name in own.items()} for own in (nest.names["output"], read.names[onward.operand])
    )
    levels = [
        _leaves_terms(nest, made.divided)
        and len(reads.divided) == 1
        and made.devices(ways) == reads.devices(ways) == ways
        for made, reads, ways in zip(chosen, onward.chosen, array, strict=True)
    ]
    splits = [
        dim is not None and _leaves_terms(nest, (dim,)) and other is not None
        for (dim, _), (other, _) in zip(above, onward.above, strict=True)
    ]
    shards: list[tuple[str, Cut]] = []
    share: Amount = 1.0
    for name, dim in made_as.items():
        other = read_as.get(name, "")
        each = zip(levels, chosen, onward.chosen, strict=True)
        cuts = [(reads, other) if goes else (made, dim) for goes, made, reads in each]
        ways = tuple([choice.degree(own) for choice, own in cuts])
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
        count, size = math.prod(ways), math.ceil(nest.sizes[dim] * left - TINY)
        if name not in whole and (count > 1 or any(part != WHOLE_DIM for part in parts)):
            numbers = _numbers(*zip(*cuts, strict=True), array) if size % count else ()
            cut = Cut(ways, size if size % count else 0, parts, numbers)
            shards.append((name, cut))
            rows = fullest(size, count) / size if size else 0.0
            share = share * (size / nest.sizes[dim] if size else 1.0) * _on_each(cut, array, rows, size)
    return tuple(shards), scale * share


def _on_each(cut: Cut, array: tuple[int, ...], rows: float, size: float) -> Amount:
    """Return the fraction of a share of a dim that a device has: of each one where their shards may differ, else of the fullest.

    Args:
        cut: the division.
        array: the ways of each level; nothing if they are not known.
        rows: the fraction on the fullest device.
        size: the indices of the share.
    """
    if not size or not isinstance(size, int) or not (cut.numbers or (array and cut.size)):
        return rows
    numbers = cut.numbers or tuple(
        tuple(range(devices)) if ways > 1 else (0,) * devices
        for devices, ways in zip(array, cut.ways, strict=True)
    )
    return np.array(on_devices(cut._replace(numbers=numbers)))


def _leaves_terms(nest: Nest, dims: Sequence[str]) -> bool:
    """Return whether a division of some dims, and of no others, leaves terms of the output."""
    return bool(dims) and all("output" in partial_results(nest, dim) for dim in dims)
