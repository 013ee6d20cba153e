"""The problem of counts of a network: costs under ``moved`` and ``fused`` where every level multiplies what is moved.

Levels at which an element costs the same are a tier; a step's time on a machine has a term for each. What its counts leave out makes a plan
cost more than they say: the order of levels in a tier, by latency, idle devices, and cuts of height and width that save computation.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import accumulate, cycle, pairwise, product
from typing import NamedTuple

import numpy as np

from hypar.costs.base import Cost, Time, measured
from hypar.costs.graphs.offered import Dims, Offered, Powers, UncountableError, exponents, offered
from hypar.costs.graphs.pricing import prices_of
from hypar.network.nodes import Kept, PlanGraph, PlanNode, saved_by
from hypar.network.training import AS_USUAL
from hypar.ops.nest import PHASES, Nest
from hypar.sharding.amounts.factors import computing, elements_of
from hypar.sharding.amounts.transfers import Between, Part, Sums, names_at, network_of
from hypar.sharding.dims import BATCH
from hypar.sharding.placement import COPIES, IDLE, TINY, WHOLE_LAYER, Level, Options, choice_of, grid
from hypar.sharding.space import Sizes, runs
from hypar.solve.counts.forms import EVERYWHERE, CountGraph, Form, Link, Numbers, Once, Term, merged
from hypar.solve.counts.states import Cells, Own, Tier, all_states, number_of_states
from hypar.solve.edge import Costs, Indices

ROUNDING = 1e-12
"""Largest difference of equal weights, relative to them."""

_equal = partial(math.isclose, rel_tol=ROUNDING)

MOST_DEVICES = 2**28
"""Most devices of which a share of a tensor is more than what counts as nothing."""

MOST_STATES = 2**16
"""Most states of a layer whose costs are computed."""


class Counted(NamedTuple):
    """A network as a problem of counts.

    Attributes:
        graph: the problem.
        offers: what each layer may divide, in the order of its options.
        columns: for each level of the array its place in a plan, in which the levels of a group are next to each other.
        ways: the ways of each level.
        sizes: for each layer the dims that all levels might divide too far; empty if no layer has any.
    """

    graph: CountGraph
    offers: tuple[Offered, ...]
    columns: tuple[int, ...]
    ways: tuple[int, ...]
    sizes: tuple[Sizes, ...]

    def choices(self, orders: Indices) -> tuple[Options, ...] | None:
        """Return the choices of each layer, outermost first, of a plan ``[layers, levels]``; None if they cannot run."""
        every = zip(self.offers, orders[:, self.columns].tolist(), strict=True)
        named = [tuple([own.dims[option] for option in order]) for own, order in every]
        instead = self._instead(named)
        found = []
        for node, own in enumerate(named):
            turned = tuple([other if dim == BATCH else dim for dim, other in zip(own, instead, strict=True)])
            running = next((dims for dims in (turned, own) if self._runs(node, dims)), None)
            if running is None:
                return None
            found.append(tuple(map(choice_of, running, self.ways)))
        return tuple(found)

    def _instead(self, named: Sequence[Dims]) -> list[str]:
        """Return what the batch stands for at each level: itself as far as it goes, where most layers divide it, then height and width in turn."""
        samples = min((size for sizes in self.sizes for dim, size in sizes if dim == BATCH), default=math.inf)
        turns = cycle(dict.fromkeys(dim for own in self.offers for dim in own.replaced) or (BATCH,))
        often = [sum(dim == BATCH for dim in column) for column in zip(*named, strict=True)]
        found, shards = [BATCH] * len(often), 1
        for level in sorted(range(len(often)), key=lambda level: -often[level]):
            within = shards * self.ways[level] <= samples
            shards *= self.ways[level] if within else 1
            found[level] = BATCH if within else next(turns)
        return found

    def _runs(self, node: int, dims: Dims) -> bool:
        """Return whether a layer may divide a dim at each level, into no more shards than it has elements."""
        sizes = self.sizes[node] if self.sizes else ()
        chosen = [*map(choice_of, dims, self.ways)]
        own = self.offers[node]
        return runs(sizes, chosen) and {*own.dims, *own.replaced}.issuperset(dims)


def counted(
    cost: Cost,
    graph: PlanGraph,
    levels: Sequence[Level],
    options: Sequence[tuple[Options, ...]],
    sizes: tuple[Sizes, ...] = (),
    times: tuple[Sequence[int], Sequence[int]] | None = None,
    *,
    rough: bool = False,
) -> Counted:
    """Return the problem of counts of a network.

    Args:
        cost: the cost of a plan.
        graph: the layers that are cut.
        levels: the levels, outermost first.
        options: for each layer, its options at each level.
        sizes: for each layer the dims that all levels might divide too far; empty if no layer has any.
        times: how many equal layers each stands for, and each tensor, those of a weight last; None for one.
        rough: whether all collectives of a level may count as its dearest one.

    Raises:
        UncountableError: it is none.
    """
    network = network_of(graph, cost.convention)
    offers = offered(graph, network, levels, options)
    dims = tuple(own.dims for own in offers)
    prices, elements, once = _charged(cost, levels, rough=rough)
    kinds = [*zip((level.ways for level in levels), once, *[own.levels for own in offers], strict=True)]
    groups, tiers = _tiered(elements, kinds, late=any(once))
    latencies = tuple(once[group[0]] for group in groups) if any(once) else ()
    ways = tuple(levels[group[0]].ways for group in groups)
    cells = Cells(tuple(map(len, groups)), tuple(range(len(groups))), ways, tiers, latencies)
    near = {tensor.producer for tensor in graph.tensors if tensor.consumer == tensor.producer + 1}
    of_layers, of_tensors = times or ((1,) * len(graph.layers), (1,) * len(network.tensors))
    layers = zip(graph.layers, network.sums, dims, of_layers, strict=True)
    terms = [
        _added(layer.nest, own, of, count * prices[0], cost.prices.of(at, near=at in near))
        for at, (layer, own, of, count) in enumerate(layers)
    ]
    links = []
    every = zip(network.tensors, network.between, network.parts, of_tensors, strict=True)
    for tensor, between, parts, count in every:
        ends = (dims[tensor.producer], dims[tensor.consumer])
        of = cost.prices.of(tensor.producer, near=tensor.consumer == tensor.producer + 1)
        charged = _charged_parts(parts, tuple(count * price for price in of))
        form = _form_of(between, charged, ends, prices, late=count * bool(latencies))
        links.append(Link(tensor.producer, tensor.consumer, form))
    problem = CountGraph(
        cells=cells,
        offered=tuple(
            tuple(tuple(own.dims.index(dim) for dim in own.levels[group[0]]) for group in groups)
            for own in offers
        ),
        nodes=tuple(merged(own, len(of)) for own, of in zip(terms, dims, strict=True)),
        links=tuple(links),
        idle=tuple(own.index(IDLE) if IDLE in own else None for own in dims),
    )
    if sizes or cost.counts_work or latencies:
        further = _further(cost, levels[-1], problem, graph, offers, terms, of_layers, sizes)
        problem = replace(problem, own=further)
    order = [level for group in groups for level in group]
    columns = tuple(map(order.index, range(len(levels))))
    return Counted(problem, tuple(offers), columns, tuple(level.ways for level in levels), sizes)


def _states(problem: CountGraph, node: int, layer: PlanNode, own: Offered, sizes: Sizes) -> Numbers:
    """Return the states that divide no dim of a layer too far, the batch as far as it, height and width together.

    Copies are taken only where a level has too many ways for any dim.

    Raises:
        UncountableError: the layer has too many states, or none.
    """
    if number_of_states(problem.cells.sizes, problem.offered[node]) > MOST_STATES:
        raise UncountableError
    states, ways, most = problem.states_of(node), problem.cells.ways, dict(sizes)
    if not sizes:
        return states
    copied, image = COPIES in own.dims, [most.get(dim, math.inf) for dim in (BATCH, *own.replaced)]
    if own.replaced and len({*ways}) == 1:
        logs = (int(math.log(size + TINY, ways[0])) if size < math.inf else size for size in image)
        image = [ways[0] ** log for log in logs]
    elif own.replaced and copied:
        raise UncountableError
    most[BATCH] = math.prod(image)
    limits = np.array([most.get(dim, math.inf) for dim in own.dims])
    products = np.prod(np.array(ways, dtype=np.float64)[:, None] ** states, axis=1)
    within = (products <= limits).all(axis=1)
    for group, options in enumerate(problem.offered[node] if copied and layer.nest.multiplies else ()):
        others = [option for option in options if own.dims[option] != COPIES]
        more = products[:, others] * ways[group] <= limits[others]
        within &= (states[:, group, own.dims.index(COPIES)] == 0) | ~more.any(axis=1)
    if not within.any():
        raise UncountableError
    return np.asarray(states[within])


@lru_cache(maxsize=4096)
def _charged_parts(parts: tuple[Part, ...], prices: tuple[float, ...]) -> tuple[Part, ...]:
    """Return transfers with the elements of each phase times its price."""
    of = dict(zip(PHASES, prices, strict=True))
    return tuple(
        part._replace(
            changes=tuple(own._replace(elements=own.elements * of[part.phase]) for own in part.changes)
        )
        for part in parts
    )


@lru_cache(maxsize=4096)
def _added(
    nest: Nest, sums: Sums, dims: Dims, price: float, phases: tuple[float, float, float]
) -> tuple[Term, ...]:
    """Return the terms of adding up partial sums inside a layer, twice what all but one device have, at a price of each phase."""
    if not (nest.multiplies or nest.view):
        return ()
    found: list[Term] = []
    forward, backward, gradient = phases
    of = {"output": forward, "weight": gradient}
    partial = computing(nest.unsized, tuple([choice_of(dim, 2) for dim in dims]), 2)[..., 1] > 0
    amounts = elements_of(nest, sums)[:, 0].tolist()
    for tensor, elements, own in zip(nest.names, amounts, partial.tolist(), strict=True):
        weight = 2 * elements * price * of.get(tensor, backward)
        powers = tuple(map(int, own))
        found += [Term(weight, powers), Term(-weight, (0,) * len(dims))]
    return tuple(found)


@lru_cache(maxsize=4096)
def _form_of(
    between: Between,
    parts: tuple[Part, ...],
    dims: tuple[Dims, Dims],
    prices: tuple[float, float],
    *,
    late: int,
) -> Form:
    """Return the form of a tensor's transfers, which may stand for ``late`` equal ones with fixed costs, at prices inside layers and between.

    Raises ``UncountableError`` if a factor depends on both of its ends in another way.
    """
    powers, names = exponents(between, dims), zip(*names_at(between), strict=True)
    numbers = [{dim: at for at, dim in enumerate((*own, IDLE))} for own in names]
    made, read = (
        tuple([own.get(dim, EVERYWHERE) for dim in of]) for own, of in zip(numbers, dims, strict=True)
    )
    weights: dict[str, float] = defaultdict(float)
    for part in parts:
        for size, gets, has, _ in part.changes:
            weights[gets] += size * prices[not part.inside]
            weights[has] -= size * prices[not part.inside]
    # Options of the consumer to which sums do not go straight, though they divide the tensor: groups.
    everywhere = powers["kept"][np.array(made) == EVERYWHERE].any(axis=0)
    staying = tuple(at for at, own in enumerate(read) if everywhere[at] and own != EVERYWHERE)
    shape = Form(made, read, staying=staying)
    ends: tuple[list[Term], list[Term]] = ([], [])
    amounts = [0.0, 0.0, 0.0]
    for name in [name for name, weight in weights.items() if weight]:
        own, weight = powers[name], weights[name]
        if (own == own[:, :1]).all():
            ends[0].append(Term(weight, tuple(own[:, 0].tolist())))
        elif (own == own[0]).all():
            ends[1].append(Term(weight, tuple(own[0].tolist())))
        else:
            kinds = [(own == expected).all() for expected in shape.powers]
            if not any(kinds):
                raise UncountableError
            amounts[kinds.index(True)] += weight
    both, owned, kept = amounts
    if both > 0 or owned > 0 or kept < 0 or both + kept > 0:
        raise UncountableError
    return shape._replace(
        both=both,
        owned=owned,
        kept=kept,
        alone=(merged(ends[0], len(made)), merged(ends[1], len(read))),
        staying=staying if kept else (),
        once=tuple([own._replace(times=late) for own in _once(parts, powers, shape)]) if late else (),
        idle=_idle(parts, dims, both),
    )


def _idle(
    parts: tuple[Part, ...], dims: tuple[Dims, Dims], both: float
) -> tuple[tuple[int | None, float], ...]:
    """Return what devices receive of which some are idle; empty for forms of which that is not counted."""
    made, read = (own.index(IDLE) if IDLE in own else None for own in dims)
    backward, forward = (
        sum(own.elements for part in parts if part.forward == way for own in part.changes if own.has == has)
        for way, has in ((False, "back"), (True, "both"))
    )
    if (made, read) == (None, None) or both != -(forward + backward):
        return ()
    return (made, backward), (read, forward)


def _once(parts: tuple[Part, ...], powers: Powers, form: Form) -> tuple[Once, ...]:
    """Return the transfers whose fixed costs counts bound from below; the others are left out.

    Best meetings have the most of what both ends share, and the fewest levels at which both have the whole tensor. They have
    the least fixed costs as well if another level less of what is shared costs at least as much as a level of the whole
    tensor at both ends.
    """
    every = [own for part in parts if (own := _once_of(part, powers, form)) is not None]
    if sum(own.everywhere for own in every) < 0:
        every = [own for own in every if own.everywhere >= 0]
    shared, everywhere = (sum(getattr(own, name) for own in every) for name in ("shared", "everywhere"))
    if shared < everywhere:
        every = [own for own in every if own.shared >= own.everywhere]
    elif shared < everywhere + sum(own.again for own in every):
        every = [own._replace(again=False) for own in every]
    return tuple(every)


def _once_of(part: Part, powers: Powers, form: Form) -> Once | None:
    """Return a transfer; None if it has another form, or moves nothing at any level."""
    changes = [(powers[own.gets], powers[own.has]) for own in part.changes if own.elements]
    sure = np.any([more > less for more, less in changes], axis=0)
    if not sure.any() or any((more < np.maximum(less, 0)).any() for more, less in changes):
        return None
    # A level that moves nothing by itself does below others that do.
    again = np.any([(more == less) & (more > 0) for more, less in changes], axis=0) & ~sure
    whole = (np.array(form.made) == EVERYWHERE)[:, None] & (np.array(form.read) == EVERYWHERE)
    for shared, everywhere in product((1, 0), (0, 1, -1)):
        rest = sure + shared * form.exponents - everywhere * whole
        made, read = rest[:, 0], rest[0] - rest[0, 0]
        if (rest == made[:, None] + read).all():
            after = bool(again[whole].all())
            return Once(tuple(made.tolist()), tuple(read.tolist()), shared, everywhere, after)
    return None


def _charged(
    cost: Cost, levels: Sequence[Level], *, rough: bool
) -> tuple[tuple[float, float], Sequence[float], Sequence[float]]:
    """Return the cost of an element inside layers and between two, which weights multiply, and what each level charges.

    That is the cost of an element that any device receives, and of a transfer, if all devices receive at the same time.

    Raises:
        UncountableError: a level charges no number for each element, or devices are too many.
    """
    rates = [cost.rates(level) for level in levels]
    price, *others = {*map(prices_of, rates)}
    if price and not others:
        return price, [1.0] * len(levels), [0.0] * len(levels)
    charged = []
    for level, (inside, between) in zip(levels, rates, strict=True):
        each, once = inside.lines[0]
        even = all(_equal(own, of[0]) for of in (each, once) for own in of) and len(inside.lines) == 1
        if inside != between or not (inside.together and (even or rough)):
            raise UncountableError
        charged.append((max(each) / (level.groups * level.ways), max(once)))
    elements, latencies = zip(*charged, strict=True)
    if any(latencies) and math.prod(level.ways for level in levels) > MOST_DEVICES:
        raise UncountableError
    return (1.0, 1.0), elements, latencies


def _tiered(
    elements: Sequence[float], kinds: Sequence[object], *, late: bool
) -> tuple[Sequence[Sequence[int]], tuple[Tier, ...]]:
    """Return the levels of each group, outermost tier first, and the tiers; kinds are what levels of a group have in common.

    Raises:
        UncountableError: inner levels are dearer than outer ones.
    """
    numbers = [*accumulate((not _equal(one, other) for one, other in pairwise(elements)), initial=0)]
    # What costs latency at a level may depend on what moves further out, so that no group lies around another.
    runs = accumulate((late and one != other for one, other in pairwise(kinds)), initial=0)
    groups: dict[tuple[int, int, object], list[int]] = {}
    for level, kind in enumerate(zip(numbers, runs, kinds, strict=True)):
        groups.setdefault(kind, []).append(level)
    ends = accumulate(Counter(number for number, *_ in groups).values())
    starts = [elements[numbers.index(number)] for number in dict.fromkeys(numbers)]
    lower = [one - other for one, other in pairwise([*starts, 0.0])]
    if min(lower) < 0:
        raise UncountableError
    return [*groups.values()], tuple(map(Tier, ends, lower))


def _further(
    cost: Cost,
    innermost: Level,
    problem: CountGraph,
    graph: PlanGraph,
    offers: Sequence[Offered],
    terms: Sequence[tuple[Term, ...]],
    times: Sequence[int],
    sizes: Sequence[Sizes],
) -> tuple[Own, ...]:
    """Return the states of layers, with costs that are no products: computation, and the latency of sums; equal ones are one object.

    Raises:
        UncountableError: a layer has too many states.
    """
    level = Level(index=0, array=(math.prod(innermost.array),), element_bytes=innermost.element_bytes)
    known: dict[object, Own] = {}
    found, first = [], cost.at(cost.prices.first)
    again = cost.training.recompute if isinstance(cost, Time) else AS_USUAL.recompute
    saved = saved_by(graph, again) if cost.prices.saved else ((),) * len(graph.layers)
    sizes = sizes or ((),) * len(graph.layers)
    each = zip(graph.layers, offers, problem.offered, terms, times, saved, sizes, strict=True)
    for at, (layer, own, in_groups, inside, count, kept, most) in enumerate(each):
        by = cost if at else first
        key = (layer.nest, measured(cost, layer), own, in_groups, inside, by.prices, count, kept, most)
        if key not in known:
            states = _states(problem, at, layer, own, most)
            costs = _work(by, level, layer, own, problem, states, kept) + np.zeros(len(states))
            sent = sum((np.array(powers) for weight, powers in inside if weight > 0), np.zeros(len(own.dims)))
            latencies = problem.cells.latencies if layer.weighted or layer.rest else ()
            late = zip(latencies, states.swapaxes(0, 1), strict=False)
            costs = costs + sum((latency * (counts @ sent) for latency, counts in late), 0.0)
            known[key] = Own(states=states, costs=count * costs)
        found.append(known[key])
    return tuple(found)


def _work(
    cost: Cost, level: Level, layer: PlanNode, own: Offered, problem: CountGraph, states: Numbers, kept: Kept
) -> Costs | float:
    """Return the least cost of the work and the bytes on a device, with any part of the batch's cuts in height and width."""
    if not cost.counts_work:
        return 0.0
    count = len(own.dims)
    alike, every, options, which = _states_of(
        (*own.dims, *own.replaced), problem.cells.sizes, problem.cells.ways
    )
    found = cost.compute(level, layer, options, WHOLE_LAYER)
    each = np.zeros(len(options)) if found is None else found[0]
    if isinstance(cost, Time) and (cost.prices.byte or cost.prices.saved):
        each = each + cost.held(level, layer.nest, options, kept)
    costs = each[which]
    counts = every[:, :, :count].copy()
    if own.replaced:
        counts[:, :, own.dims.index(BATCH)] += every[:, :, count:].sum(axis=2, dtype=np.int8)
    cheapest = np.argsort(costs, kind="stable")
    return Own(states=counts[cheapest], costs=costs[cheapest]).of(alike @ states)


@lru_cache(maxsize=256)
def _states_of(
    names: tuple[str, ...], cells: tuple[int, ...], ways: tuple[int, ...]
) -> tuple[Numbers, Numbers, Options, Indices]:
    """Return which of the numbers of ways each cell has, the states over these, their different choices, and that of each state."""
    sizes = np.unique(ways)
    alike = (sizes[:, None] == np.array(ways)).astype(np.int8)
    depths = tuple((alike @ np.array(cells)).tolist())
    every = all_states(depths, (tuple(range(len(names))),) * len(sizes), len(names))
    degrees = np.prod(sizes[:, None] ** every.astype(np.int64), axis=1)
    named = [at for at, dim in enumerate(names) if dim not in {COPIES, IDLE}]
    rows, which = np.unique(degrees[:, named], axis=0, return_inverse=True)
    options = tuple(grid(dict(zip([names[at] for at in named], row, strict=True))) for row in rows.tolist())
    return alike, every, options, which.reshape(-1)
