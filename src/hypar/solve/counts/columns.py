"""A plan by columns: what all layers do at one level is chosen anew, for one or two levels at once, until nothing helps.

Idea: with all other levels fixed, the levels that are chosen anew multiply known amounts, so that their optimum is an
elimination over pairs of options. Only the counts of equal columns matter, so that few pairs of levels differ.
Guarantee: none; the result is an upper bound that is seldom far from the optimum.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from hypar.solve.counts.forms import node_costs, priced
from hypar.solve.limits import checkpoint
from hypar.solve.minsum import of_pairs

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from hypar.solve.counts.forms import CountGraph, Numbers
    from hypar.solve.edge import Costs, Indices
    from hypar.solve.minsum import MinSum

Value = TypeVar("Value", bound="Hashable")

AT_ONCE = 16
"""Sets of levels that are tried at once."""

MOST_WORK = 2**24
"""Most entries of an elimination of pairs of options; beyond it single levels are chosen anew."""

ROUNDING = 1e-12
"""Gain, relative to the cost, below which plans cost the same."""


class Plan(NamedTuple):
    """A plan.

    Attributes:
        orders: the option of each layer at each level, ``[layers, levels]``; levels of one group are consecutive.
        groups: the group of each level.
        cost: its cost.
    """

    orders: Indices
    groups: Indices
    cost: float


class Columns:
    """The search for columns of a graph.

    Attributes:
        graph: the graph.
        groups: the group of each level.
        offered: for each layer the options that each group offers, without those that leave devices idle.
    """

    def __init__(self, graph: CountGraph) -> None:
        """Find what layers and tensors depend on."""
        self.graph, self.cells = graph, graph.cells
        self.groups = np.repeat(np.arange(len(graph.ways)), graph.depths)
        self.alike = np.arange(len(graph.ways))[:, None] == self.groups
        self.sizes = [graph.options(node) for node in range(len(graph.nodes))]
        self._by_width: dict[int, MinSum] = {}
        self.terms = _shared(graph.terms)
        idle = graph.idle or (None,) * len(graph.nodes)
        self.offered = _shared(
            tuple(tuple(option for option in at if option != own) or at for at in of)
            for of, own in zip(graph.offered, idle, strict=True)
        )
        powers = {form: form.powers for form in dict.fromkeys(link.form for link in graph.links)}
        self.powers = [powers[link.form] for link in graph.links]

    @property
    def widest(self) -> int:
        """The most levels that can be chosen anew at once; 0 if the graph is too wide for elimination."""
        return next((width for width in (2, 1) if self.takes(width)), 0)

    def takes(self, width: int) -> bool:
        """Return whether some levels can be chosen anew at once."""
        own = self.by_width(width)
        return own.complete and own.work <= MOST_WORK

    def by_width(self, width: int) -> MinSum:
        """Return the elimination of the choices of some levels."""
        if width not in self._by_width:
            ends = [link[:2] for link in self.graph.links]
            self._by_width[width] = of_pairs([size**width for size in self.sizes], ends)
        return self._by_width[width]

    def greedy(self) -> Plan:
        """Return a plan level by level."""
        if self.graph.own or self.graph.tiers:
            return self._first()
        orders = np.zeros((len(self.graph.nodes), 0), dtype=np.intp)
        for level in range(len(self.groups)):
            orders = np.concatenate([orders, np.zeros((len(orders), 1), dtype=np.intp)], axis=1)
            orders = self.renewed(orders, [(level,)])[0]
        return Plan(orders, self.groups, self.graph.cost(orders, self.groups))

    def _first(self) -> Plan:
        """Return a plan of first options, with every level chosen anew once: costs of a layer may need all levels."""
        orders = np.array([[own[group][0] for group in self.groups.tolist()] for own in self.offered])
        for level in reversed(range(len(self.groups))):
            orders = self.renewed(orders, [(level,)])[0]
        return Plan(orders, self.groups, self.graph.cost(orders, self.groups))

    def improving(self, plan: Plan, width: int) -> Iterator[Plan]:
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
                yield Plan(orders, self.groups, self.graph.cost(orders, self.groups))
            elif changed:
                changed = set()
            else:
                return

    def _sets(self, orders: Indices, width: int, changed: set[int]) -> Iterator[list[tuple[int, ...]]]:
        """Yield sets of unlike levels, some at a time, of which each has the same groups.

        Args:
            orders: the plan.
            width: the levels of a set.
            changed: levels of which, or of whose kind, each set has one; none for all sets.
        """
        kinds: dict[object, list[int]] = {}
        for level, group in enumerate(self.groups.tolist()):
            kinds.setdefault((group, orders[:, level].tobytes()), []).append(level)
        by_groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for own in combinations_with_replacement(kinds.values(), width):
            # Levels of one kind stand for themselves in turn, if there are as many.
            places = [sum(other is of for other in own[:at]) for at, of in enumerate(own)]
            touched = not changed or any(level in changed for of in own for level in of)
            if touched and all(place < len(of) for place, of in zip(places, own, strict=True)):
                levels = tuple(of[place] for place, of in zip(places, own, strict=True))
                by_groups.setdefault(tuple(self.groups[list(levels)].tolist()), []).append(levels)
        for sets in by_groups.values():
            for first in range(0, len(sets), AT_ONCE):
                yield sets[first : first + AT_ONCE]

    def renewed(self, orders: Indices, sets: Sequence[tuple[int, ...]]) -> tuple[Indices, float]:
        """Return the plan of least cost with the levels of one of some sets chosen anew.

        Args:
            orders: the plan.
            sets: sets of levels; their groups are the same in each.
        """
        graph, taken, own = self.graph, np.array(sets), tuple(self.groups[list(sets[0])].tolist())
        nodes, links = self._nodes(orders, taken, own), self._links(orders, taken, own)
        solved = self.by_width(len(own)).solve(nodes, links)
        best, found = solved.best, orders.copy()
        for node, choice in enumerate(solved.choices(best)):
            found[node, taken[best]] = np.unravel_index(choice, (graph.options(node),) * len(own))
        return found, float(solved.lowest[best])

    def _nodes(self, orders: Indices, taken: Indices, own: tuple[int, ...]) -> list[Costs]:
        """Return the costs of each layer, ``[sets, choices]``; infinite ones are not offered."""
        graph, found = self.graph, []
        done: dict[object, Costs] = {}
        for node, (terms, order) in enumerate(zip(self.terms, orders, strict=True)):
            further = graph.own_of(node)
            key = (id(terms), id(further), id(self.offered[node]), order.tobytes())
            if key not in done:
                counts = self._counts(node, order, taken, own)
                costs = node_costs(terms, counts.reshape(-1, *counts.shape[2:]), self.cells)
                costs = costs.reshape(counts.shape[:2])
                done[key] = costs if further is None else costs + further.of(counts)
                done[key] = done[key] + _barred(self.offered[node], own, graph.options(node))
            found.append(done[key])
        return found

    def _counts(self, node: int, order: Indices, taken: Indices, own: tuple[int, ...]) -> Indices:
        """Return how often a layer takes each option in each group, ``[sets, choices, groups, options]``."""
        one, more = _ones(len(self.graph.ways), self.graph.options(node), own)
        rest = one[self.groups[: len(order)], order].sum(axis=0) - one[list(own), order[taken]].sum(axis=1)
        return np.asarray(rest[:, None] + more)

    def _links(self, orders: Indices, taken: Indices, own: tuple[int, ...]) -> list[Costs]:
        """Return the costs of each link, ``[sets, choices of the source, choices of the target]``."""
        graph, names = self.graph, [order.tobytes() for order in orders]
        late = np.array(graph.latencies)[self.groups[: orders.shape[1]]] if graph.latencies else None
        known: dict[object, Costs] = {}
        done: dict[object, Costs] = {}
        found = []
        for (source, target, form), powers in zip(graph.links, self.powers, strict=True):
            ends = (id(form), names[source], names[target])
            if ends not in known:
                pair = (orders[source], orders[target])
                key = ends if late is not None else (form, *[power[pair].tobytes() for power in powers])
                if key not in done:
                    met = [
                        self._met(power, pair, taken, own) if weight else {}
                        for weight, power in zip(form.weights, powers, strict=True)
                    ]
                    costs = reduce(np.add, priced(form, met, self.cells))
                    shape = (len(taken), *[len(of) ** len(own) for of in (form.made, form.read)])
                    done[key] = np.broadcast_to(costs, shape)
                    if late is not None and form.once:
                        fixed, each = late * form.sure[pair], [late[at] * form.sure for at in taken[0]]
                        done[key] = done[key] + _crossed(fixed.sum() - fixed[taken].sum(axis=1), each)
                known[ends] = done[key]
            found.append(known[ends])
        return found

    def _met(
        self, power: Numbers, pair: tuple[Indices, Indices], taken: Indices, own: Sequence[int]
    ) -> dict[int, Numbers]:
        """Return the exponent of each group, ``[sets, choices of the source, choices of the target]`` where it has a level of a set."""
        here = power[pair] * self.alike[:, : len(pair[0])]
        rest = (here.sum(axis=1)[:, None] - here[:, taken].sum(axis=2)).astype(np.int8)
        return {
            group: _crossed(left, [power * (at == group) for at in own if group in own])
            for group, left in enumerate(rest)
        }


@lru_cache(maxsize=256)
def _ones(groups: int, options: int, own: tuple[int, ...]) -> tuple[Numbers, Numbers]:
    """Return the counts of a level with an option, ``[groups, options, groups, options]``, and those of every choice of levels of some groups."""
    one = np.eye(groups * options, dtype=np.int8).reshape(groups, options, groups, options)
    picks = np.indices((options,) * len(own)).reshape(len(own), -1)
    return one, np.asarray(sum(one[group, pick] for group, pick in zip(own, picks, strict=True)))


def _shared(values: Iterable[Value]) -> list[Value]:
    """Return values of which equal ones are one object."""
    known: dict[Value, Value] = {}
    return [known.setdefault(value, value) for value in values]


def _crossed(rest: NDArray[Any], each: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the sums over all levels of each set, given those of the others and what each choice of its own ones adds."""
    found = rest[:, None, None]
    for more in each:
        total = found[:, :, None, :, None] + more[:, None]
        found = total.reshape(len(rest), found.shape[1] * len(more), -1)
    return found


@lru_cache(maxsize=1024)
def _barred(offered: tuple[tuple[int, ...], ...], own: tuple[int, ...], options: int) -> Costs:
    """Return infinity for the choices that some group does not offer."""
    total: Costs = np.ones(1)
    for group in own:
        one = np.zeros(options)
        one[list(offered[group])] = 1.0
        total = np.asarray(np.kron(total, one), dtype=np.float64)
    return np.where(total > 0, 0.0, np.inf)
