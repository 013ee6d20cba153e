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
from hypar.sharding.grids.manners import CODE, back, forth
from hypar.sharding.grids.tensor_dims import GridDim, grid_dims

if TYPE_CHECKING:
    from hypar.network.nodes import Content
    from hypar.ops.nest import Nest
    from hypar.sharding.grids.manners import Codes
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs


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
        fractions: fraction of each op dim of the consumer's input that the levels above leave.
        operand: the consumer's tensor that it is.
    """

    ends: tuple[Nest, Nest]
    content: Content
    ways: int
    fractions: tuple[float, ...]
    operand: str = "input"


def reshards(gap: Gap, options: tuple[Options, Options]) -> tuple[Reshard, ...]:
    """Return the resharding of F from producer to consumer and of E back, for all pairs of choices."""
    ends, content, ways, fractions, operand = gap
    layouts = (layout(options[0], ways), layout(options[1], ways))
    summed = tuple(op for op, tensor in ends[0].names["output"].items() if tensor in content.contracted)
    both = _Ends(*layouts, grid_dims(ends, layouts, content, fractions, operand), summed)
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
        Reshard("forward", 1, forth(*layouts, names), lacking),
        Reshard("backward", 0, back(*layouts, names, terms.tobytes()), errors),
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
    return (Reshard("forward", 0, np.full((1, 1), CODE["all_reduce"]), elements),)
