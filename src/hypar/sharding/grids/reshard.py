"""Communication between two layers whose shards have whole elements, ``direct``, for all pairs of choices at once.

A consumer's device receives the elements that its windows read and it does not hold, and a producer's device receives
every term of the error of its shard that it does not have. If several devices hold one shard, the terms go to each of
them, or to the first and their sum from it to the others, whichever is less.

Source: DeePa (2018), whose transfers are the data that a worker needs less the data that it has.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.sharding.grids.bounds import Intersections
from hypar.sharding.grids.intersection import boxes, copies, shared_elements
from hypar.sharding.grids.layouts import Layout, Numbers, layout
from hypar.sharding.grids.manners import CODE, Manner, back, forth
from hypar.sharding.grids.tensor_dims import GridDim, grid_dims
from hypar.sharding.rates import COLLECTIVES

if TYPE_CHECKING:
    from hypar.network.nodes import Content
    from hypar.ops.nest import Nest
    from hypar.sharding.placement import Choice, Options
    from hypar.solve.edge import Costs


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
    dims: tuple[GridDim, ...]
    summed: tuple[str, ...]


class Gap(NamedTuple):
    """A tensor between two layers, in one group of a level.

    Attributes:
        ends: producer and consumer.
        content: the tensor as the consumer reads it.
        ways: devices of the group.
        fractions: fraction of each op dim of the consumer's ``input`` that the levels above leave.
    """

    ends: tuple[Nest, Nest]
    content: Content
    ways: int
    fractions: tuple[float, ...]


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

    Sums of whole elements do not depend on their order, and may be looked up.
    """
    known = _KNOWN.get(gap)
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
    ends, content, ways, fractions = gap
    layouts = (layout(options[0], ways), layout(options[1], ways))
    summed = tuple(op for op, tensor in ends[0].names["output"].items() if tensor in content.contracted)
    both = _Ends(*layouts, grid_dims(ends, layouts, content, fractions), summed)
    total = math.prod(dim.size for dim in both.dims)
    needed = boxes(both.read, [(dim.read, dim.needed) for dim in both.dims])
    shared = shared_elements(both.made, both.read, [dim.intersections for dim in both.dims])
    each = copies(both.made, [dim.made for dim in both.dims])[:, None]
    lacking = needed - shared
    errors = lacking if each.max() == 1 else _directly(both, total, each, needed, shared)
    names = tuple((dim.made, dim.read) for dim in both.dims)
    terms = needed > total * (1 + 1e-9)
    return (
        *_summed(both, each, total),
        Reshard("forward", forth(*layouts, names), lacking),
        Reshard("backward", back(*layouts, names, terms.tobytes()), errors),
    )


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
    manner = Manner(np.full((1, 1), CODE["all_reduce"]), both.made.working[:, None])
    return (Reshard("forward", manner, elements),)
