"""The costs of a layer that follow from its counts but are no products: its computation, and the latency of its sums."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.costs.graphs.exponents import BATCH, UncountableError, choice_of
from hypar.sharding.amounts.inside import computing, elements_of
from hypar.sharding.levels import WHOLE_LAYER, Level
from hypar.sharding.placement import IDLE, WHOLE, grid
from hypar.solve.counts.idle import added, prices
from hypar.solve.counts.states import all_states, number_of_states
from hypar.solve.counts.tiers import Own

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.costs.base import Cost
    from hypar.costs.graphs.exponents import Dims
    from hypar.costs.graphs.tiered import Tiered
    from hypar.network.nodes import PlanNode
    from hypar.ops.nest import Nest
    from hypar.sharding.amounts.transfers import Sums
    from hypar.sharding.placement import Choice
    from hypar.solve.counts.forms import Numbers, Term
    from hypar.solve.edge import Costs

MOST_STATES = 2**16
"""Most states of a layer whose costs are computed."""

Degrees = tuple[int, ...]


class Layer(NamedTuple):
    """What the further costs of a layer depend on.

    Attributes:
        layer: the layer.
        dims: the dims that it may divide.
        replaced: those whose place the batch takes.
        offered: the options of each group.
        sums: the sums that are added up inside it.
        terms: what it receives inside, as products over the levels.
    """

    layer: PlanNode
    dims: Dims
    replaced: Dims
    offered: tuple[tuple[int, ...], ...]
    sums: Sums
    terms: tuple[Term, ...]

    @property
    def key(self) -> object:
        """What layers of equal costs have in common."""
        return (self.layer.nest, self.layer.weighted, *self[1:])


class Worked:
    """The further costs of layers on some groups of levels; those of equal layers are one object."""

    def __init__(
        self,
        cost: Cost,
        innermost: Level,
        ways: tuple[int, ...],
        depths: tuple[int, ...],
        tiers: Tiered,
    ) -> None:
        self.cost, self.ways, self.depths = cost, ways, depths
        self.latencies, self.tiers = tiers.latencies, tiers.tiers
        devices = math.prod(innermost.array)
        self.flat = Level(index=0, array=(devices,), element_bytes=innermost.element_bytes)
        self.known: dict[object, Own] = {}

    def of(self, layer: Layer) -> Own:
        """Return the further costs of a layer.

        Raises:
            UncountableError: it has too many states.
        """
        if layer.key not in self.known:
            self.known[layer.key] = self._of(layer)
        return self.known[layer.key]

    def _of(self, layer: Layer) -> Own:
        options = len(layer.dims)
        if number_of_states(self.depths, layer.offered) > MOST_STATES:
            raise UncountableError
        states = all_states(self.depths, layer.offered, options)
        costs = self._work(layer, states)
        for group, latency in enumerate(self.latencies):
            costs = costs + latency * (states[:, group] @ _sums(layer, self.ways[group]))
        if IDLE in layer.dims:
            by_group = [states[:, group] for group in range(len(self.ways))]
            by_tier = prices(by_group, layer.dims.index(IDLE), self.ways, self.tiers)
            for weight, powers in layer.terms:
                costs = costs + weight * added(by_tier, by_group, powers, self.ways, self.tiers)
        return Own(depths=self.depths, states=states, costs=costs)

    def _work(self, layer: Layer, states: Numbers) -> Costs:
        """Return the least cost of the work on a device, with the dims whose place the batch takes in any part of it."""
        if not self.cost.work(self.flat, layer.layer, (WHOLE,), WHOLE_LAYER):
            return np.zeros(len(states))
        names = sorted({*self.ways})
        by_ways = np.stack(
            [
                sum(states[:, group].astype(np.int64) for group, own in enumerate(self.ways) if own == name)
                for name in names
            ],
            axis=1,
        )
        kinds, which = np.unique(by_ways.reshape(len(states), -1), axis=0, return_inverse=True)
        named = [at for at, dim in enumerate(layer.dims) if dim not in {None, IDLE}]
        dims = [str(layer.dims[at]) for at in named]
        spatial = [str(dim) for dim in layer.replaced if dim is not None]
        batch = dims.index(BATCH) if spatial else -1
        number: dict[Degrees, int] = {}
        places: list[int] = []
        firsts: list[int] = []
        for kind in kinds.reshape(-1, len(names), len(layer.dims))[:, :, named].tolist():
            firsts.append(len(places))
            every = _degrees(kind, names, batch, 1 + len(spatial))
            places += [number.setdefault(own, len(number)) for own in every]
        options = tuple(_grid((*dims, *spatial), own) for own in number)
        items = self.cost.work(self.flat, layer.layer, options, WHOLE_LAYER)
        costs = sum((own[0] for own in items.values()), np.zeros(len(number)))
        least = np.minimum.reduceat(costs[places], firsts)
        return np.asarray(least[which.reshape(-1)])


@lru_cache(maxsize=2**16)
def _grid(dims: tuple[str, ...], degrees: Degrees) -> Choice:
    return grid(dict(zip(dims, degrees, strict=True)))


def _degrees(counts: Sequence[Sequence[int]], ways: Sequence[int], batch: int, shares: int) -> list[Degrees]:
    """Return the degrees of all dims for some counts of each number of ways.

    Args:
        counts: for each number of ways how often it divides each dim.
        ways: the numbers of ways.
        batch: the place of the batch, of which the cuts are split over several dims; the further ones are last.
        shares: the number of these dims; 1 for the batch alone.
    """
    plain = [
        math.prod(size ** own[at] for size, own in zip(ways, counts, strict=True))
        for at in range(len(counts[0]))
    ]
    if shares == 1:
        return [tuple(plain)]
    split = [(1,) * shares]
    for size, own in zip(ways, counts, strict=True):
        more = _powers(size, own[batch], shares)
        split = [
            tuple(one * other for one, other in zip(before, part, strict=True))
            for before in split
            for part in more
        ]
    return [(*plain[:batch], first, *plain[batch + 1 :], *rest) for first, *rest in split]


@lru_cache(maxsize=1024)
def _powers(size: int, total: int, count: int) -> list[Degrees]:
    """Return the ways to write a power of a number as a product of powers of it."""
    return [tuple(size**part for part in parts) for parts in _parts(total, count)]


def _parts(total: int, count: int) -> Iterator[tuple[int, ...]]:
    if count == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for rest in _parts(total - first, count - 1):
            yield (first, *rest)


def _sums(layer: Layer, ways: int) -> Costs:
    """Return the number of transfers of sums inside a layer at a level, for each option."""
    nest: Nest = layer.layer.nest
    if not nest.weight:
        return np.zeros(len(layer.dims))
    received = computing(nest.unsized, tuple(choice_of(dim, ways) for dim in layer.dims), ways)[:, :, 1]
    moves = (received > 0) & (elements_of(nest, layer.sums) > 0)
    return np.asarray(moves.sum(axis=0), dtype=np.float64)
