"""The dims that layers may divide, with the batch in the place of height and width where that never costs more.

Put the batch in the place of both in every layer at once. Each tensor has as many terms as before, and levels below find as
much of it; rows beside borders are no longer read twice; and no two layers share less. So no level costs more, by any convention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.costs.base import Cost
from hypar.costs.graphs.pricing import prices_of
from hypar.network.nodes import PlanGraph
from hypar.sharding.amounts.factors import plain
from hypar.sharding.amounts.transfers import Between, Factors, Network, network_of
from hypar.sharding.dims import BATCH, SPATIAL
from hypar.sharding.placement import Level, Options, choice_of, runs_of

Powers = Mapping[str, NDArray[np.int64]]

Dims = tuple[str, ...]
"""What a layer may divide: dims, ``COPIES`` for the whole layer, or ``IDLE``: tensors are on one device, as if a dim of their own were cut."""


class UncountableError(Exception):
    """The costs are no products over the levels, or meet in a way that has no closed form."""


def exponents(between: Between, dims: tuple[Dims, Dims]) -> Powers:
    """Return the exponent of each factor of a level for each pair of dims, and 0 for one copy.

    A level of two ways multiplies by powers of two, whose exponents hold for any number of ways.
    """
    made, read = (tuple([choice_of(dim, 2) for dim in of]) for of in dims)
    factors = np.broadcast_arrays(np.ones((len(made), 1, len(read))), *plain(between, (made, read), 2))
    found = np.rint(np.log2(np.stack(factors)[:, :, 0])).astype(np.int64)
    return dict(zip(("", *Factors._fields), found, strict=True))


class Offered(NamedTuple):
    """The dims that a layer may divide.

    Attributes:
        levels: those at each level, without height and width.
        dims: all of them.
        replaced: height and width, in whose place the batch is divided.
    """

    levels: tuple[Dims, ...]
    dims: Dims
    replaced: Dims


def offered(
    graph: PlanGraph, network: Network, levels: Sequence[Level], options: Sequence[tuple[Options, ...]]
) -> list[Offered]:
    """Return the dims that each layer may divide.

    Raises:
        UncountableError: a choice divides several, or height or width where the batch is not offered or may cost more.
    """
    found = []
    for layer, own in zip(graph.layers, options, strict=True):
        every = [_dims(of, level.ways) for of, level in zip(own, levels, strict=True)]
        replaced = tuple(dict.fromkeys(dim for dims in every for dim in dims if dim in SPATIAL))
        carried = layer.nest.names.values()
        alone = any({*SPATIAL} & {*dims} and BATCH not in dims for dims in every)
        if alone or any((dim in names) != (BATCH in names) for dim in replaced for names in carried):
            raise UncountableError
        kept = tuple(tuple(dim for dim in dims if dim not in replaced) for dims in every)
        found.append(Offered(kept, tuple(dict.fromkeys(dim for dims in kept for dim in dims)), replaced))
    for tensor, between in zip(network.tensors, network.between, strict=True):
        made, read = (found[end].dims + found[end].replaced for end in (tensor.producer, tensor.consumer))
        if not _as_shared(between, (made, read)):
            raise UncountableError
    return found


@lru_cache(maxsize=4096)
def _dims(options: Options, ways: int) -> Dims:
    """Return what the options of a level divide."""
    runs = [runs_of(choice, ways) for choice in options]
    if any(len(own) > 1 for own in runs):
        raise UncountableError
    return tuple(dim for ((dim, _),) in runs)


@lru_cache(maxsize=4096)
def _as_shared(between: Between, dims: tuple[Dims, Dims]) -> bool:
    """Return whether two layers share no less once a cut of the batch takes the place of those of height and width.

    A dim that ops on the way sum leaves partial sums, which cost more than they save.
    """
    if not {*SPATIAL} & {*dims[0], *dims[1]}:
        return True
    both = exponents(between, dims)["both"]
    place = np.ix_(*[[of.index(BATCH if dim in SPATIAL else dim) for dim in of] for of in dims])
    kept = [dim not in between.contracted for dim in dims[0]]
    return not (both > both[place])[kept].any()


def without_spatial(
    cost: Cost, graph: PlanGraph, levels: Sequence[Level], options: Sequence[tuple[Options, ...]]
) -> tuple[tuple[Options, ...], ...]:
    """Return the options without cuts of height and width; all of them where these may cost less."""
    with suppress(UncountableError):
        if all(prices_of(cost.rates(level)) for level in levels):
            found = offered(graph, network_of(graph, cost.convention), levels, options)
            each = (zip(own.levels, levels, strict=True) for own in found)
            return tuple(
                tuple(tuple(choice_of(dim, level.ways) for dim in dims) for dims, level in own)
                for own in each
            )
    return tuple(options)
