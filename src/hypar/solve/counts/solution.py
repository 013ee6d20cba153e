"""The search by counts: a plan by columns, the bound of counts, and the blocks of the network.

*Columns:* what all layers do at one level is chosen anew, for one or two levels at once, until nothing helps. With all other levels
fixed, the levels that are chosen anew multiply known amounts, so that their optimum is an elimination over pairs of options. Only the
counts of equal columns matter, so that few pairs of levels differ. Guarantee: none; the result is an upper bound that is seldom far from
the optimum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache, reduce
from itertools import combinations_with_replacement, islice
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from hypar.solve.cost_graph import structure_of
from hypar.solve.counts.forms import CountGraph, Numbers, further_costs, priced
from hypar.solve.counts.pivots import STEPS, Chain, Relaxed, ordered
from hypar.solve.counts.states import MOST_LEVELS, ROUNDING, number_of_states
from hypar.solve.edge import Costs, Indices
from hypar.solve.limits import ENTRY_BYTES, Budget, checkpoint
from hypar.solve.minsum import MinSum, Solved, min_sum
from hypar.solve.order import blocks_of

AT_ONCE = 16
"""Sets of levels that are tried at once."""

MOST_WORK = 2**24
"""Most entries of an elimination of pairs of options; beyond it single levels are chosen anew."""

MOST_STATES = 2**16
"""Most states of a layer, of which a plan leaves few."""

WIDEST = 2 * STEPS[-1]
"""Most pairs of states of a tensor whose costs are computed for a bound alone."""


def improving(graph: CountGraph, budget: Budget, *, bounded: bool = True) -> Iterator[Found]:
    """Yield plans that are no dearer and, where they are asked for, bounds that are no lower than those before.

    Nothing if there are too many levels or states of a layer, or the network is too wide.
    """
    sizes = [number_of_states(graph.cells.sizes, own) for own in graph.offered]
    if sum(graph.cells.sizes) > MOST_LEVELS or max(sizes) > MOST_STATES:
        return
    steps = [step for step in STEPS if _entries(graph, sizes, step) * ENTRY_BYTES <= budget.limits.bytes]
    search = Columns(graph)
    if not search.widest or not budget.allows(stored=_entries(graph, sizes, STEPS[0])):
        return
    plan = greedy = search.greedy()
    relaxed = Relaxed(graph, steps[0]) if bounded else None
    bound = 0.0 if relaxed is None else max(relaxed.bound(), 0.0)
    yield _found(graph, plan, bound)
    if bound >= plan.cost * (1 - ROUNDING):
        return
    for plan in search.improving(greedy, search.widest):
        yield _found(graph, plan, bound)
    if relaxed is None:
        return
    # A good plan leaves few of many states.
    bound = max(bound, _narrowed(relaxed, plan.cost, steps))
    wide = _entries(graph, sizes, WIDEST) * ENTRY_BYTES <= budget.limits.bytes
    if wide and graph.links and not relaxed.pairs:
        # Each tensor has more pairs of states than any step takes.
        bound = max(bound, min(Relaxed(graph, WIDEST).bound(), plan.cost))
    yield _found(graph, plan, bound)
    if relaxed.complete:
        yield from _closed(relaxed, search, plan, bound)


def _narrowed(relaxed: Relaxed, known: float, steps: Sequence[int]) -> float:
    """Leave out the states that no plan of a known cost takes, step by step, and return the bound of the others, at most that cost."""
    for most in (*steps, steps[-1]):
        relaxed.narrow(known, most)
        if relaxed.complete:
            break
    bound = relaxed.bound()
    for closer in (relaxed.by_messages, relaxed.by_cliques):
        if bound < known * (1 - ROUNDING):
            bound = max(bound, closer(known))
    return min(bound, known)


def _entries(graph: CountGraph, sizes: Sequence[int], most: float) -> float:
    """Return how many entries the costs of pairs take, with up to some of a tensor; twice as many while they are computed."""
    return 2 * sum(size for _, size in {(form, min(sizes[a] * sizes[b], most)) for a, b, form in graph.links})


def _closed(relaxed: Relaxed, search: Columns, plan: Found, bound: float) -> Iterator[Found]:
    """Yield better plans and bounds by the tables of blocks; nothing if they have met, or if a block has no pivot."""
    graph, more = search.graph, bound < plan.cost * (1 - ROUNDING)
    blocks = blocks_of([link[:2] for link in graph.links]) if more else None
    if blocks is None:
        return
    chain = Chain(relaxed, blocks)
    while more:
        path = chain.best(plan.cost)
        # Exact entries alone are plans, of which the best one leaves less to be made exact.
        reached = chain.best(plan.cost, exact_only=True) if path.open else path
        if reached.bound < plan.cost * (1 - ROUNDING):
            orders = chain.orders(reached)
            plan = min(plan, Found(orders, search.cost(orders)), key=attrgetter("cost"))
        bound = max(bound, min(path.bound, plan.cost))
        yield _found(graph, plan, bound)
        more = bool(path.open) and bound < plan.cost * (1 - ROUNDING) and chain.close(path, plan.cost)


def _found(graph: CountGraph, plan: Found, bound: float) -> Found:
    """Return a plan and a bound, which is the cost if they differ by rounding alone; its levels are sorted in each group, at no cost."""
    orders = plan.orders[:, np.lexsort((*plan.orders[::-1], graph.groups))]
    return Found(orders, plan.cost, plan.cost if bound >= plan.cost * (1 - ROUNDING) else bound)


class Found(NamedTuple):
    """A plan, and how far from the optimum it may be.

    Attributes:
        orders: the option of each layer at each level, ``[layers, levels]``; levels of one group are consecutive.
        cost: its cost.
        bound: a lower bound of every plan's cost; equal to the cost if the plan is proven optimal.
    """

    orders: Indices
    cost: float
    bound: float = -math.inf


class Columns:
    """The search for columns of a graph; no option is chosen that leaves devices idle."""

    def __init__(self, graph: CountGraph) -> None:
        self.graph, self.cells, self.groups = graph, graph.cells, graph.groups
        self.alike = np.arange(len(graph.cells.sizes))[:, None] == self.groups
        self.terms, idle = graph.terms, graph.idle or (None,) * len(graph.nodes)
        self.offered = [
            tuple(tuple(option for option in at if option != own) or at for at in of)
            for of, own in zip(graph.offered, idle, strict=True)
        ]
        powers = {form: form.powers for form in dict.fromkeys(link.form for link in graph.links)}
        self.powers = [powers[link.form] for link in graph.links]

    @property
    def widest(self) -> int:
        """The most levels that can be chosen anew at once; 0 if the graph is too wide for elimination."""
        searches = ((width, self.by_width(width)) for width in (2, 1))
        return next((width for width, own in searches if own.complete and own.work <= MOST_WORK), 0)

    def by_width(self, width: int) -> MinSum:
        """Return the elimination of the choices of some levels."""
        sizes = tuple([self.graph.options(node) ** width for node in range(len(self.graph.nodes))])
        return min_sum(structure_of(sizes, tuple([link[:2] for link in self.graph.links])))

    def cost(self, orders: Indices) -> float:
        """Return the cost of a plan."""
        nodes, links = self._tables(orders, np.empty((1, 0), dtype=np.intp), ())
        return float(sum(costs.item() for costs in (*nodes, *links)))

    def greedy(self) -> Found:
        """Return a plan of each layer's first state, with every level chosen anew once, from the innermost one on."""
        orders = np.array([ordered(self.graph.states_of(node)[0]) for node in range(len(self.offered))])
        for level in reversed(range(len(self.groups))):
            orders = self.renewed(orders, [(level,)])[0]
        return Found(orders, self.cost(orders))

    def improving(self, plan: Found, width: int) -> Iterator[Found]:
        """Yield better and better plans, until no choice of some levels anew improves the last one."""
        orders, cost = plan.orders, plan.cost
        changed: set[int] = set()
        while True:
            checkpoint()
            tried = (self.renewed(orders, some) for some in self._sets(orders, width, changed))
            better, value = min(tried, key=lambda one: one[1], default=(orders, cost))
            if value < cost * (1 - ROUNDING):
                changed = {*np.flatnonzero((better != orders).any(axis=0)).tolist()}
                orders, cost = better, value
                yield Found(orders, self.cost(orders))
            elif changed:
                changed = set()
            else:
                return

    def _sets(self, orders: Indices, width: int, changed: set[int]) -> Iterator[list[tuple[int, ...]]]:
        """Yield sets of unlike levels, some at a time, of which each has the same groups, and one of the kind of those that changed, if any did."""
        kinds: dict[object, list[int]] = {}
        for level, group in enumerate(self.groups.tolist()):
            kinds.setdefault((group, orders[:, level].tobytes()), []).append(level)
        by_groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for own in combinations_with_replacement(kinds.values(), width):
            # Levels of one kind stand for themselves in turn, if there are as many.
            turns = {id(of): iter(of) for of in own}
            levels = tuple([level for of in own for level in islice(turns[id(of)], 1)])
            touched = not changed or any(level in changed for of in own for level in of)
            if touched and len(levels) == width:
                by_groups.setdefault(tuple(self.groups[list(levels)].tolist()), []).append(levels)
        for sets in by_groups.values():
            for first in range(0, len(sets), AT_ONCE):
                yield sets[first : first + AT_ONCE]

    def renewed(self, orders: Indices, sets: Sequence[tuple[int, ...]]) -> tuple[Indices, float]:
        """Return the plan of least cost with the levels of one of some sets, of the same groups each, chosen anew."""
        taken, own = np.array(sets), tuple(self.groups[list(sets[0])].tolist())
        solved = Solved(self.by_width(len(own)), *self._tables(orders, taken, own))
        best, found = int(solved.lowest.argmin()), orders.copy()
        for node, choice in enumerate(solved.choices(best)):
            found[node, taken[best]] = np.unravel_index(choice, (self.graph.options(node),) * len(own))
        return found, float(solved.lowest[best])

    def _tables(
        self, orders: Indices, taken: Indices, own: tuple[int, ...]
    ) -> tuple[list[Costs], list[Costs]]:
        """Return the costs of layers and links with some sets of levels, of the same groups each, chosen anew.

        Returns:
            For each layer ``[sets, choices]``, infinite where one is not offered; for each link ``[sets, choices of the source, of the target]``.
        """
        graph, names = self.graph, [order.tobytes() for order in orders]
        known: dict[object, Costs] = {}
        counts: dict[object, list[Numbers]] = {}
        nodes, links = [], []
        for node, (terms, offered) in enumerate(zip(self.terms, self.offered, strict=True)):
            options = graph.options(node)
            key: object = (terms, id(graph.own[node]) if graph.own else None, offered, names[node])
            if key not in known:
                one = np.eye(options, dtype=np.int8)
                counts[options, names[node]] = here = self._met(one, (orders[node],), taken, own)
                states = np.stack(np.broadcast_arrays(*here), axis=-2)
                known[key] = graph.costs(node, terms, states) + _barred(offered, own, options)
            nodes.append(known[key])
        for (source, target, form), powers in zip(graph.links, self.powers, strict=True):
            pair = (orders[source], orders[target])
            late = bool(form.idle or (form.once and self.cells.latencies))
            same = (names[source], names[target]) if late else tuple(own[pair].tobytes() for own in powers)
            key = (id(form), *same)
            if key not in known:
                weights = zip((form.both, form.owned, form.kept), powers, strict=True)
                met = [
                    self._met(power, pair, taken, own) if weight or late else [] for weight, power in weights
                ]
                costs = reduce(np.add, priced(form, met, self.cells))
                if late:
                    made, read = (counts[graph.options(end), names[end]] for end in (source, target))
                    ends = ([one[:, :, None] for one in made], [other[:, None] for other in read])
                    costs = costs + further_costs(form, ends, (met[0], met[1]), self.cells)
                sizes = [len(of) ** len(own) for of in (form.made, form.read)]
                known[key] = np.broadcast_to(costs, (len(taken), *sizes))
            links.append(known[key])
        return nodes, links

    def _met(
        self, table: Numbers, ends: tuple[Indices, ...], taken: Indices, own: Sequence[int]
    ) -> list[Numbers]:
        """Return the sum over the levels of each group of what a table has for the options of one or two layers there.

        Returns:
            ``[sets, choices of each layer, ...]``, the further axes those of the table.
        """
        here = np.einsum("gl,l...->gl...", self.alike, table[ends])
        rest = (here.sum(axis=1)[:, None] - here[:, taken].sum(axis=2)).astype(np.int8)
        picks = [_picks(options, len(own)) for options in table.shape[: len(ends)]]
        each = [(group, table[np.ix_(*pick)]) for group, *pick in zip(own, *picks, strict=True)]
        apart = (slice(None), *[None] * len(ends))
        return [
            left[apart] + sum(more for at, more in each if at == group) for group, left in enumerate(rest)
        ]


@lru_cache(maxsize=64)
def _picks(options: int, width: int) -> Indices:
    """Return the option at each of some levels, ``[levels, choices]``, of every choice of them."""
    return np.indices((options,) * width).reshape(width, options**width)


@lru_cache(maxsize=1024)
def _barred(offered: tuple[tuple[int, ...], ...], own: tuple[int, ...], options: int) -> Costs:
    """Return infinity for the choices that some group does not offer."""
    picks = zip(own, _picks(options, len(own)), strict=True)
    return np.where(np.all([np.isin(pick, offered[group]) for group, pick in picks], axis=0), 0.0, np.inf)
