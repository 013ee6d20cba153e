"""A problem of counts: levels in groups, and costs that are sums of products over the levels.

Two costs of a tensor are no products: latency, which a level charges for each transfer that moves anything there; and what layers receive of
which only some devices work at the innermost level, a group of its own: nothing of a tensor is shared there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.solve.counts.states import Cells, Own, all_states
from hypar.solve.edge import Costs, Indices

Numbers = NDArray[np.int8]
Counts = NDArray[np.integer[Any]]
Exponents = NDArray[Any] | Sequence[NDArray[Any]]
"""An exponent for each group."""

Ends = tuple[Exponents, Exponents]
"""For each group how often producer and consumer take each option, with options last."""

EVERYWHERE = -1
"""The class of an option with which every device has the whole tensor."""


AT_ONCE = 2**15
"""Pairs of states whose costs are computed at once, about: their arrays stay in the processor's cache."""


class Term(NamedTuple):
    """A cost of a layer: a weight, times the ways of every level at which its option is one of those with a 1; others have a 0."""

    weight: float
    options: tuple[int, ...]


class Once(NamedTuple):
    """The levels at which a transfer between two layers moves something, as a sum over levels.

    The number of those levels is a number for each option of either end, less ``shared * s``, plus ``everywhere`` times the levels at
    which both ends have the whole tensor. At these nothing is moved unless something was moved further out: then they
    count as well where ``again`` is set. Inside a group of levels they come first, which is a lower bound.

    Attributes:
        made: for each option of the producer.
        read: for each option of the consumer.
        shared: the weight of ``s``.
        everywhere: the weight of the levels at which both have the whole tensor.
        again: whether these levels move something below others that do.
        times: the number of equal transfers that it stands for.
    """

    made: tuple[int, ...]
    read: tuple[int, ...]
    shared: int
    everywhere: int
    again: bool
    times: int = 1

    def costs(self, ends: Ends, totals: Exponents, lacks: Exponents, latencies: Sequence[float]) -> Any:
        """Return the least fixed costs, given ``s`` of each group, and the part of it of options that divide in different ways."""
        found: Any = 0.0
        before: Any = False
        # Numbers of levels are small: small integers are several times as fast.
        made, read = np.array(self.made, dtype=np.int16), np.array(self.read, dtype=np.int16)
        for one, other, total, lack, latency in zip(*ends, totals, lacks, latencies, strict=True):
            together = total - lack
            sure = one @ made + other @ read - np.int16(self.shared) * total
            sure = sure + np.int16(self.everywhere) * together
            if latency:
                found = found + latency * (sure + together * before if self.again else sure)
            before = before | (sure > 0)
        return self.times * found


class Form(NamedTuple):
    """The cost of a tensor between two layers as far as it depends on which of their options meet at a level.

    Two options of one class divide the tensor in the same way. Over all levels of ``k`` ways, ``s`` is the number of levels
    at which both have it everywhere less those at which they divide it in different ways. The cost is the sum of
    ``both * k**s``, ``owned * k**-(levels of different ways)`` and ``kept * k**(levels of everywhere)``, and of terms that
    depend on one end alone.

    Attributes:
        made: the class of each option of the producer, or ``EVERYWHERE``.
        read: the same of the consumer.
        both: weight of what a device needs and has.
        owned: weight of what it needs and one owner has.
        kept: weight of what is kept between the layers.
        alone: the terms of the producer, and those of the consumer.
        staying: options of the consumer that divide the tensor but leave everywhere what is kept; ``pair_costs`` is a lower bound
            then.
        once: what is moved at a fixed cost for each level.
        idle: for producer and consumer the option that leaves devices idle at the innermost level, None for none, and the
            weight of what it receives; empty if neither has one.
    """

    made: tuple[int, ...]
    read: tuple[int, ...]
    both: float = 0.0
    owned: float = 0.0
    kept: float = 0.0
    alone: tuple[tuple[Term, ...], tuple[Term, ...]] = ((), ())
    staying: tuple[int, ...] = ()
    once: tuple[Once, ...] = ()
    idle: tuple[tuple[int | None, float], ...] = ()

    @property
    def exponents(self) -> Numbers:
        """The contribution of each pair of options to ``s``, ``[options of the producer, options of the consumer]``."""
        made, read = np.array(self.made)[:, None], np.array(self.read)[None]
        one, other = made == EVERYWHERE, read == EVERYWHERE
        same = (made == read) & ~one
        found: Numbers = (one.astype(np.int8) + other + same - 1).astype(np.int8)
        return found

    @property
    def powers(self) -> tuple[Numbers, Numbers, Numbers]:
        """The exponents of what each weight multiplies, for each pair of options."""
        s = self.exponents
        kept = np.maximum(s, 0)
        kept[np.ix_([own == EVERYWHERE for own in self.made], self.staying)] = 1
        return s, np.minimum(s, 0), kept


class Link(NamedTuple):
    """A tensor between two layers, its producer and its consumer, with its cost."""

    source: int
    target: int
    form: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class CountGraph:
    """A problem of counts.

    Attributes:
        cells: the groups of equal levels.
        offered: for each layer the options that each group offers, as indices among the layer's.
        nodes: the costs of each layer; equal ones are one object.
        links: the costs between layers.
        own: the states that each layer may take, and further costs; empty if all, at none. Equal ones are one object.
        idle: for each layer the option that leaves devices idle, or None; empty for none.
    """

    cells: Cells
    offered: tuple[tuple[tuple[int, ...], ...], ...]
    nodes: tuple[tuple[Term, ...], ...]
    links: tuple[Link, ...]
    own: tuple[Own, ...] = ()
    idle: tuple[int | None, ...] = ()

    @property
    def groups(self) -> Indices:
        """The group of each level."""
        return np.repeat(np.arange(len(self.cells.sizes)), self.cells.sizes)

    @property
    def terms(self) -> list[tuple[Term, ...]]:
        """The terms of each layer, with those of its tensors that depend on it alone."""
        found = [[*terms] for terms in self.nodes]
        for source, target, form in self.links:
            found[source] += form.alone[0]
            found[target] += form.alone[1]
        return [merged(own, self.options(node)) for node, own in enumerate(found)]

    def options(self, node: int) -> int:
        """Return the number of options of a layer."""
        return len(self.nodes[node][0].options)

    def states_of(self, node: int) -> Numbers:
        """Return all states of a layer, ``[states, groups, options]``."""
        if self.own:
            return self.own[node].states
        return all_states(self.cells.sizes, self.offered[node], self.options(node))

    def costs(self, node: int, terms: tuple[Term, ...], states: Counts) -> Costs:
        """Return the cost of a layer by some terms, with its further ones, for states ``[..., groups, options]``."""
        return node_costs(terms, states, self.cells) + (self.own[node].of(states) if self.own else 0.0)


def merged(terms: Iterable[Term], options: int) -> tuple[Term, ...]:
    """Return terms without equal ones; one of no weight if none is left."""
    weights: dict[tuple[int, ...], float] = {}
    for weight, own in terms:
        weights[own] = weights.get(own, 0.0) + weight
    found = tuple(Term(weight, own) for own, weight in weights.items() if weight)
    return found or (Term(0.0, (0,) * options),)


def node_costs(terms: tuple[Term, ...], states: Counts, cells: Cells) -> Costs:
    """Return the cost of terms for each state ``[..., cells, options]``."""
    total: Costs = np.zeros(states.shape[-3::-1])
    for weight, options in terms:
        powers = states @ np.array(options, dtype=np.int8)
        total += reduce(np.add, cells.products(cells.by_group(powers.T), weight))
    return total.T


def pair_costs(form: Form, made: Numbers, read: Numbers, cells: Cells) -> Costs:
    """Return the least cost of a tensor over all orders within the cells, for each pair of states ``[states, cells, options]``."""
    found = np.empty((len(made), len(read)))
    step = max(1, AT_ONCE // max(1, len(read)))
    for first in range(0, len(made), step):
        rows = slice(first, first + step)
        found[rows] = _met_costs(form, made[rows], read, cells)
    found += node_costs(form.alone[0], made, cells)[:, None]
    found += node_costs(form.alone[1], read, cells)
    return found


def _met_costs(form: Form, made: Numbers, read: Numbers, cells: Cells) -> Costs:
    """Return the same without the terms of one end alone.

    Let ``s`` be as large as it can be. Where options of one class meet others at d levels instead, ``s`` and the levels at which
    something is kept are d fewer; beyond some d there are as many further levels of different ways. The cost only rises or only
    falls in between, so that three values of d have the least, of each tier by itself.
    """
    classes = {*form.made, *form.read, EVERYWHERE}
    mine = {name: _of(form.made, made, name)[:, :, None] for name in classes}
    theirs = {name: _of(form.read, read, name)[:, None] for name in classes}
    whole = mine[EVERYWHERE] + (theirs[EVERYWHERE] - np.array(cells.sizes, np.int8)[:, None, None])
    equal = [np.minimum(mine[name], theirs[name]) for name in {*form.made} & {*form.read} - {EVERYWHERE}]
    s = reduce(np.add, equal, whole)
    totals = lacks = cells.by_group(s)
    if form.owned or form.kept or (form.once and cells.latencies):
        lacks = cells.by_group(np.minimum(s, 0))
    tried: list[tuple[Exponents, ...]] = [(totals, lacks, totals - lacks)]
    stays = cells.alike and bool(form.staying)
    if form.kept and (stays or len(cells.sizes) > 1):
        left, met = np.zeros_like(s), s - whole
        for name in {form.read[at] for at in form.staying} if stays else ():
            own = [at for at in form.staying if form.read[at] == name]
            staying = read[:, :, own].sum(axis=2, dtype=np.int8).T[:, None]
            free = staying - np.minimum(mine[name], staying)
            left, met = left + free, met - (staying - free)
        tried = _tried(cells, s, np.maximum(s + left, 0), met)[: 2 + stays]
    by_tier = zip(*(priced(form, own, cells) for own in tried), strict=True)
    costs: Costs = reduce(np.add, [reduce(np.minimum, of_tier) for of_tier in by_tier])
    one, other = (cells.by_group(own.swapaxes(0, 1)) for own in (made, read))
    return np.asarray(costs + further_costs(form, (one[:, :, None], other[:, None]), (totals, lacks), cells))


def _tried(cells: Cells, s: Numbers, kept: Numbers, equal: Numbers) -> list[tuple[Exponents, ...]]:
    """Return the exponents of the meetings of which one costs least: no, some, and all options that may meet others do.

    Let g be the number of levels of options that stay but do not meet their own class. Then something is
    kept everywhere at ``s + g`` levels, if any; with ``s`` smaller by d, at d fewer at least. These d are no more than the
    meetings of equal classes by options that do not stay; those beyond ``s`` make as many further levels of different ways.
    """
    every = np.minimum(kept, equal)
    some, lack = np.minimum(every, np.maximum(s, 0)), np.minimum(s, 0)
    tried = [(s, lack, kept)]
    if every.any():
        tried += [(s - some, lack, kept - some), (s - every, lack - (every - some), kept - every)]
    return [(cells.by_group(one), cells.by_group(two), cells.by_group(three)) for one, two, three in tried]


def further_costs(form: Form, ends: Ends, met: tuple[Exponents, Exponents], cells: Cells) -> Any:
    """Return the least costs of a tensor that are no products over the levels.

    Args:
        form: the tensor.
        ends: for each group how often producer and consumer take each option, with options last.
        met: ``s`` of each group, and the part of it of options that divide in different ways.
        cells: the cells.
    """
    found: Any = sum(own.costs(ends, *met, cells.latencies) for own in form.once if cells.latencies)
    for end, (option, received) in enumerate(form.idle):
        if option is not None and received:
            # A lower bound: an end that is idle needs what the other one divides, of what both share.
            other, classes = form.idle[1 - end][0], (form.made, form.read)[1 - end]
            meeting = [at for at, name in enumerate(classes) if name == EVERYWHERE or at == other]
            apart = ends[end][-1][..., option] > ends[1 - end][-1][..., meeting].sum(axis=-1)
            *_, shared = cells.products(met[0], 1.0)
            found = found + received * np.where(apart, shared, 0.0)
    return found


def priced(form: Form, met: Sequence[Exponents], cells: Cells) -> list[Costs]:
    """Return the cost of each tier, given the exponents of every group: ``s``, of it what options of different ways take, and what is kept."""
    pairs = zip((form.both, form.owned, form.kept), met, strict=True)
    each = [cells.products(powers, weight) for weight, powers in pairs if weight]
    return [reduce(np.add, of_tier) for of_tier in zip(*each, strict=True)] or [np.zeros(1)]


def _of(classes: tuple[int, ...], states: Numbers, name: int) -> Numbers:
    """Return how often each state takes an option of a class in each cell, ``[cells, states]``."""
    columns = [index for index, own in enumerate(classes) if own == name]
    return np.ascontiguousarray(states[:, :, columns].sum(axis=2, dtype=np.int8).T)
