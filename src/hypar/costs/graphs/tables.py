"""The cost graph of a network for the choices of one level or of several levels at once, and lower bounds of those of one.

A choice of a node is a tuple with one entry for each level, outermost first; the tuples are in lexicographic order. Under
``moved`` and ``fused`` what a level moves between two layers depends on the choices of both at the levels above: on the
product of a factor for each level. An edge of several levels is then a whole matrix over the pairs of tuples. Under
``paper`` each level is counted by itself, and is a term of the edge.

Layers of equal roles, and tensors between equal dims, with equal options are alike: one level's tables of all of them are
small arrays, and are computed together, as their number is what costs time. Otherwise equal costs are one object.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property, partial, reduce
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np

from hypar.costs.base import Cost, measured
from hypar.costs.graphs.pricing import Places, Seen, added_costs, columns, descended, level_costs, spread
from hypar.errors import TableLimitError
from hypar.network.nodes import PlanGraph, Tensor, kept_with_graph
from hypar.ops.nest import Nest
from hypar.sharding.amounts.counted import State
from hypar.sharding.amounts.cuts import Cuts
from hypar.sharding.amounts.factors import apart_of, divides_image, factors_of, of_input
from hypar.sharding.amounts.transfers import OUTERMOST, Network, Part, mapped, names_of
from hypar.sharding.conventions import PAPER
from hypar.sharding.dims import SPATIAL
from hypar.sharding.placement import WHOLE, Level, LocalSizes, Options
from hypar.solve.cost_graph import CostGraph, Structure, structure_of
from hypar.solve.edge import Costs, Edge, Indices
from hypar.solve.limits import ENTRY_BYTES, Budget

Found = TypeVar("Found")

Kept = tuple["Indices | None", "Indices | None"]
"""The tuples of two layers that are left to choose from; None for all."""

BLOCK = 2**19
"""Pairs of tuples whose costs are computed at once where only the least of them are kept."""

MOST_PAIRS = 2**28
"""Most pairs of tuples of all distinct tensors whose costs are computed."""

ROUNDING = 1e-9
"""Largest rounding error of a sum of costs, relative to it."""

GRAIN = 1024.0
"""Parts of a byte to which amounts that count halos are rounded: errors of fractions would hide that sums are equal."""


def structure(graph: PlanGraph, options: Sequence[Sequence[Options]], convention: str) -> Structure:
    """Return the shape of the cost graph, for the sizes of its tables before they are built."""
    digits = [tuple([len(at_level) for at_level in at_layer]) for at_layer in options]
    sizes = tuple(map(math.prod, digits))
    tensors = graph.tensors if convention == PAPER else (*graph.tensors, *graph.ties)
    ends = tuple([(tensor.producer, tensor.consumer) for tensor in tensors])
    by_level = tuple([(digits[made], digits[read]) for made, read in ends]) if convention == PAPER else None
    return structure_of(sizes, ends, by_level)


class Alike(NamedTuple):
    """The layers and tensors that may be computed together, whatever the levels above leave.

    Attributes:
        layers: the indices of each set of layers.
        tensors: those of each set of tensors.
        reaching: whether some choice divides a dim along which windows reach across borders.
    """

    layers: list[list[int]]
    tensors: list[list[int]]
    reaching: bool


@kept_with_graph
def _alike(graph: PlanGraph, options: tuple[tuple[Options, ...], ...], network: Network) -> Alike:
    """Return what may be computed together."""
    layers: dict[Hashable, list[int]] = {}
    for at, (layer, own) in enumerate(zip(graph.layers, options, strict=True)):
        layers.setdefault((layer.nest.unsized, own), []).append(at)
    sets: dict[Hashable, list[int]] = {}
    edges = zip(network.tensors, network.between, network.parts, strict=True)
    for at, (tensor, between, parts) in enumerate(edges):
        pair = (options[tensor.producer], options[tensor.consumer])
        sets.setdefault((between, names_of(parts), *pair), []).append(at)
    every = {own for of_layer in options for own in of_layer}
    reaching = any(not {*SPATIAL}.isdisjoint(choice.divided) for own in every for choice in own)
    return Alike([*layers.values()], [*sets.values()], reaching)


class Tables:
    """The costs of consecutive levels, for the choices of each layer."""

    def __init__(
        self,
        cost: Cost,
        graph: PlanGraph,
        levels: Sequence[Level],
        options: Sequence[Sequence[Options]],
        above: State,
    ) -> None:
        """Take the problem.

        Args:
            cost: the cost of a choice.
            graph: the layers that are cut.
            levels: the levels, outermost first.
            options: for each layer, its options at each of the levels.
            above: the state above the first level. If it has the least products of many tuples, there is one level, and
                every cost is the least one or less.
        """
        self.cost, self.graph, self.levels, self.above = cost, graph, levels, above
        self.options = tuple(map(tuple, options))
        self.apart = cost.convention == PAPER
        self.rates = [cost.rates(level) for level in levels]

    @cached_property
    def alike(self) -> Alike:
        """What may be computed together."""
        return _alike(self.graph, self.options, self.above.network)

    def built(self, kept: Sequence[Indices] | None = None) -> CostGraph:
        """Return the cost graph of some tuples; equal arrays, and selections of them, are one object.

        Args:
            kept: for each layer its tuples; None for all of them.
        """
        tensors = self.above.network.tensors
        if kept is None:
            nodes, terms = self.nodes, _once(self.alike.tensors, self.same, self._terms)
        else:
            cut = [(id(costs), id(own)) for costs, own in zip(self.nodes, kept, strict=True)]
            nodes = _once([range(len(cut))], cut, lambda some: [self.nodes[at][kept[at]] for at in some])
            pairs = [(kept[tensor.producer], kept[tensor.consumer]) for tensor in tensors]
            keys = [(first, *map(id, pair)) for first, pair in zip(self.same, pairs, strict=True)]
            terms = _once(
                [range(len(keys))], keys, lambda some: [self._terms([at], pairs[at])[0] for at in some]
            )
        ends = [(tensor.producer, tensor.consumer) for tensor in tensors]
        return CostGraph(nodes, [Edge(*pair, own) for pair, own in zip(ends, terms, strict=True)])

    @cached_property
    def nodes(self) -> list[Costs]:
        """For each layer the cost of each tuple; equal ones are one object."""
        parts = partial(self._some_at_once, entries=1)
        return _once(
            self.alike.layers, self._keys, lambda some: chain.from_iterable(map(self._nodes, parts(some)))
        )

    def _some_at_once(self, members: list[int], entries: int) -> Iterator[list[int]]:
        """Yield members that are alike: of one level many at once, whose arrays have few entries, as their number is what costs time."""
        step = max(1, BLOCK // entries) if len(self.levels) == 1 and not self.above.least else 1
        return (members[at : at + step] for at in range(0, len(members), step))

    @cached_property
    def left(self) -> list[list[tuple[LocalSizes, Cuts]]]:
        """For each layer its sizes and the cuts of its input above each level, for each tuple of the levels above."""
        return _once(self.alike.layers, self._keys, lambda some: [self._left(at) for at in some])

    @cached_property
    def same(self) -> list[int]:
        """For each tensor the first one of equal costs."""
        above = self.above
        parts, tensors = above.network.parts, above.tensors
        keys = [
            (id(parts[at]), id(tensors[at]), above.sizes[tensor.producer], above.sizes[tensor.consumer])
            for at, tensor in enumerate(above.network.tensors)
        ]
        return _once(self.alike.tensors, keys, lambda some: some)

    @cached_property
    def _keys(self) -> list[Hashable]:
        """What equal layers among those that are alike have in common."""
        every = zip(self.graph.layers, self.above.sizes, self.above.network.sums, strict=True)
        return [
            (layer.nest, measured(self.cost, layer), sizes, sums, self.above.inputs[at].digits)
            for at, (layer, sizes, sums) in enumerate(every)
        ]

    def _left(self, at: int) -> list[tuple[LocalSizes, Cuts]]:
        nest, sizes, cuts = self.graph.layers[at].nest, self.above.sizes[at], self.above.inputs[at].cuts
        found = [(sizes, cuts)]
        for level, own in zip(self.levels[:-1], self.options[at], strict=False):
            _, below = factors_of(of_input(nest), ((WHOLE,), own), level.ways, cuts)
            sizes = sizes.divided(nest, own, level.ways)
            cuts = below._replace(number=below.number.reshape(1, -1, 1))
            found.append((sizes, cuts))
        return found

    def _nodes(self, members: list[int]) -> Costs:
        """Return the costs of layers that are alike, ``[layers, tuples]``."""
        total = np.zeros((len(members), 1))
        for index, own in enumerate(self.options[members[0]]):
            here = reduce(np.add, self.items(index, members).values()).reshape(len(members), -1)
            total = total.repeat(len(own), axis=1) + here if index else here
        if self.above.least:
            total = total.reshape(len(members), -1, len(own)).min(axis=1)
        return self._rounded(total, self.graph.layers[members[0]].nest)

    def items(self, index: int, members: Sequence[int]) -> dict[str, Costs]:
        """Return the costs inside layers that are alike at one of the levels, item by item, ``[layers, tuples above, options]``."""
        cost, level, options = self.cost, self.levels[index], self.options[members[0]][index]
        layers = [self.graph.layers[at] for at in members]
        sums = [self.above.network.sums[at] for at in members]
        sizes, cuts = zip(*[self.left[at][index] for at in members], strict=True)
        nests, rates = [layer.nest for layer in layers], self.rates[index][0]
        found = added_costs(nests, options, sizes, level, sums, cuts, rates, bound=self.above.least)
        if level.innermost:
            # Equal layers share one nest, and equal sizes are one object.
            keys = [(id(nests[at]), id(own), measured(cost, layers[at])) for at, own in enumerate(sizes)]
            of_one = partial(cost.compute, level, options=options)
            every = _once(
                [range(len(layers))], keys, lambda some: [of_one(layers[at], sizes=sizes[at]) for at in some]
            )
            nothing = np.zeros((sizes[0].fractions.shape[1], len(options)))
            if any(own is not None for own in every):
                found["compute"] = np.stack([nothing if own is None else own for own in every])
        return found

    def _terms(self, members: list[int], pair: Kept = (None, None)) -> list[tuple[Costs, ...]]:
        """Return the terms of each of some tensors that are alike, as of ``_edges``."""
        one = self.above.network.tensors[members[0]]
        entries = math.prod(len(self.options[end][0]) for end in (one.producer, one.consumer))
        parts = [self._edges(some, pair) for some in self._some_at_once(members, entries)]
        return [own for terms in parts for own in zip(*terms, strict=True)]

    def _edges(self, members: list[int], pair: Kept = (None, None)) -> list[Costs]:
        """Return the terms of tensors that are alike, one only unless one level is built whole, given the tuples of both ends.

        They are ``[tensors, options of the producer, tuples above, options of the consumer]`` for each level, or one over tuples of both.
        """
        above = self.above
        tensors, between = [above.network.tensors[at] for at in members], above.network.between[members[0]]
        one, ends = tensors[0], self.graph.ends(tensors[0])
        names, products = names_of(above.network.parts[members[0]]), OUTERMOST
        parts = _stacked([above.network.parts[at] for at in members])
        every = [above.tensors[at] for at in members]
        if not self.apart:
            above_each = [own.products for own in every]
            products = mapped(lambda *own: np.array(own)[None, :, None], *above_each, names=names)
        # Without rows to divide all tensors have the same factors.
        whose = [*map(id, every)] if self.alike.reaching else [0] * len(every[:1])
        cuts = {of: own.cuts for of, own in zip(whose, every, strict=False)}
        terms, total = [], np.zeros((1, 1, 1))
        for index, (level, places) in enumerate(zip(self.levels, self._places(one, pair), strict=True)):
            read = _beside([self.left[own.consumer][index][0] for own in tensors])
            made = read if self.apart else _beside([self.left[own.producer][index][0] for own in tensors])
            options = (self.options[one.producer][index], self.options[one.consumer][index])
            seen = Seen(level, between, options, (made, read))
            if self.apart:
                copies = OUTERMOST._replace(need=level.copies(read, ends[1].nest, one.operand)[:, None])
                factors = apart_of(between, options, read, level.ways)
                term = level_costs(parts, copies, factors, seen, self.rates[index])
                terms.append(term.min(axis=1, keepdims=True) if above.least else term)
                continue
            if places is not None:
                products = mapped(lambda own, places=places: descended(own, places), products, names=names)
                total = descended(total, places)
                cuts = {of: own._replace(number=descended(own.number, places)) for of, own in cuts.items()}
            by = partial(spread, places=places)
            found = {of: factors_of(between, options, level.ways, own, by) for of, own in cuts.items()}
            cuts = {of: below for of, (_, below) in found.items()}
            factors = mapped(_beside_one_another, *[found[of][0] for of in whose])
            bound = None
            if above.least:
                bound = ~divides_image(between, options, level.ways)
            rates = self.rates[index]
            total = total + level_costs(parts, products, factors, seen, rates, places, bound=bound)
            if index + 1 < len(self.levels):
                products = mapped(operator.mul, products, factors, names=names)
        if not self.apart:
            terms = [self._rounded(total, ends[1].nest)]
        shapes = [(len(term), len(members), -1, term.shape[2]) for term in terms]
        return [term.reshape(shape).swapaxes(0, 1) for term, shape in zip(terms, shapes, strict=True)]

    def _places(self, tensor: Tensor, pair: Kept) -> Sequence[Places | None]:
        """Return the tuples of both ends of a tensor, seen from each level; None for the options of one level."""
        if self.apart or (len(self.levels) == 1 and all(own is None for own in pair)):
            return [None] * len(self.levels)
        made, read = (
            columns([len(own) for own in self.options[end]], kept)
            for end, kept in zip((tensor.producer, tensor.consumer), pair, strict=True)
        )
        return [*zip(made, read, strict=True)]

    def _rounded(self, costs: Costs, nest: Nest) -> Costs:
        """Return bytes of a layer with windows without the errors of products of fractions."""
        counts_halos = nest.windows and not self.apart and self.cost.unit == "bytes"
        if not (counts_halos and self.alike.reaching):
            return costs
        scaled = costs * GRAIN
        np.rint(scaled, out=scaled)
        scaled /= GRAIN
        return scaled

    def narrowed(self, known: float, budget: Budget) -> tuple[CostGraph, list[Indices]]:
        """Return the cost graph of the tuples that may be part of a plan of no more than a known cost, and these tuples.

        Idea: the cost of a tuple and the least costs of everything else exceed the known cost. Edges cost nothing or more, so they
        count as nothing at first; then each end is charged with half of the least cost of a pair, of matrices that are computed a
        block of rows at a time and not kept. Guarantee: every optimum stays, by more than rounding.

        Raises:
            TableLimitError: the pairs of tuples are too many, or the costs of those that are left exceed the memory.
        """
        kept = _shared(self.nodes, _promising(self.nodes, known))
        pairs = self._pairs(kept)
        if pairs > MOST_PAIRS:
            found = f"found {pairs:,} pairs of choices over all levels; allowed: {MOST_PAIRS:,}"
            raise TableLimitError(f"search 'joint': {found}", pairs, MOST_PAIRS)
        left = _promising(self._least(kept), known)
        kept = _shared(self.nodes, [own[keep] for own, keep in zip(kept, left, strict=True)])
        # While a matrix is built, its pairs take as much again for each of up to three products.
        stored = 4 * self._pairs(kept)
        if not budget.allows(stored=stored):
            most = int(budget.limits.bytes / ENTRY_BYTES)
            message = f"search 'joint': would hold tables of {stored:,} entries; allowed: {most:,}"
            raise TableLimitError(message, stored, most)
        return self.built(kept), kept

    def _least(self, kept: Sequence[Indices]) -> list[Costs]:
        """Return the cost of each of some tuples, with half of the least cost of a pair of each edge."""
        found = [costs[own] for costs, own in zip(self.nodes, kept, strict=True)]
        done: dict[Hashable, tuple[Costs, Costs]] = {}
        for same, tensor in zip(self.same, self.above.network.tensors, strict=True):
            ends = (tensor.producer, tensor.consumer)
            key = (same, *[id(kept[end]) for end in ends])
            if key not in done:
                done[key] = self._halves(same, *[kept[end] for end in ends])
            for end, least in zip(ends, done[key], strict=True):
                found[end] += least
        return found

    def _pairs(self, kept: Sequence[Indices]) -> int:
        """Return the number of pairs of some tuples, of all tensors that do not share them."""
        found = {}
        for same, tensor in zip(self.same, self.above.network.tensors, strict=True):
            made, read = kept[tensor.producer], kept[tensor.consumer]
            found[same, id(made), id(read)] = len(made) * len(read)
        return sum(found.values())

    def _halves(self, at: int, made: Indices, read: Indices) -> tuple[Costs, Costs]:
        """Return half of the least cost of an edge for each tuple of both ends, computed some rows at a time."""
        rows, columns = np.empty(len(made)), np.full(len(read), np.inf)
        height = max(1, BLOCK // len(read))
        for row in range(0, len(made), height):
            block = self._edges([at], (made[row : row + height], read))[0][0, :, 0]
            rows[row : row + height] = block.min(axis=1)
            np.minimum(columns, block.min(axis=0), out=columns)
        return rows / 2, columns / 2


def _beside_one_another(*factors: Costs) -> Costs:
    """Return the factors of several tensors, ``[made, tensors, read]``; of all one if they are the same."""
    return factors[0] if len({*map(id, factors)}) == 1 else np.concatenate(factors, axis=1)


def _once(
    sets: Iterable[Iterable[int]],
    keys: Sequence[Hashable],
    found_of: Callable[[list[int]], Iterable[Found]],
) -> list[Found]:
    """Return what a function finds for each member of some sets; members of a set with equal keys share one object."""
    found: dict[int, Found] = {}
    for members in sets:
        first: dict[Hashable, int] = {}
        for at in members:
            first.setdefault(keys[at], at)
        each = dict(zip(first, found_of([*first.values()]), strict=True))
        found.update({at: each[keys[at]] for at in members})
    return [found[at] for at in range(len(keys))]


def _promising(least: Sequence[Costs], known: float) -> list[Indices]:
    """Return the choices of each node whose least cost, with the least of all others, is no more than a known cost."""
    lowest = [float(costs.min()) for costs in least]
    slack = known * (1 + ROUNDING) - sum(lowest)
    return [np.flatnonzero(costs - low <= slack) for costs, low in zip(least, lowest, strict=True)]


def _shared(nodes: Sequence[Costs], kept: Sequence[Indices]) -> list[Indices]:
    found: dict[object, Indices] = {}
    return [found.setdefault((id(costs), own.tobytes()), own) for costs, own in zip(nodes, kept, strict=True)]


def _stacked(every: Sequence[tuple[Part, ...]]) -> tuple[Part, ...]:
    """Return transfers that count the same factors as one, with the elements of each, ``[1, tensors, 1]``."""
    if len(every) == 1:
        return every[0]
    elements = np.array([[change.elements for part in own for change in part.changes] for own in every])
    rows = iter(elements.T[:, None, :, None])
    return tuple(
        part._replace(changes=tuple([own._replace(elements=next(rows)) for own in part.changes]))
        for part in every[0]
    )


def _beside(every: Sequence[LocalSizes]) -> LocalSizes:
    """Return the sizes of layers of equal roles, for each layer as a tuple."""
    if len(every) == 1:
        return every[0]
    fractions = np.concatenate([own.fractions for own in every], axis=1)
    return LocalSizes(fractions, every[0].names)
