"""Decide an uneven split: choices and shares of the device groups, one share for each group or others for single layers.

The cost of an option for a group is a quadratic in the group's own share. Given shares, an exact solver finds the choices of
least weighted sum; given choices, the shares that minimise the time of the slowest group follow exactly. Both steps alternate
until nothing changes, from several starts. The result is a fixed point, not a proven optimum, and never worse than equal
shares, which are one of the starts. A group weighs ``1 / T_i'``, from the conditions for a minimum of ``max T_i`` over shares
that sum to 1: the slower its time grows with its share, the more work a shorter time lets it take over. Source: AccPar (HPCA
2020), whose types depend on the ratio, and the ratio on the types.

A layer may have the split's common shares, the shares that balance it by itself, or be on one device group alone, whose
weights then need no exchange. An exact solver picks for given weights of the groups, and slow groups then get larger
weights. The result is the best assignment found: never worse than the common shares.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.costs.base import GroupRates
from hypar.network.nodes import PlanGraph
from hypar.sharding.amounts.counted import Received, State
from hypar.sharding.amounts.factors import Offered, Taken
from hypar.sharding.placement import Options, dim_of
from hypar.solve.balance import balance, linear, times_at
from hypar.solve.cost_graph import CostGraph, Structure, structure_of
from hypar.solve.edge import Edge
from hypar.solve.solvers.base import Solver

Array = NDArray[np.float64]

Assignment = tuple[int, ...]
"""One option for each layer."""

Line = tuple[float, float]
"""A cost over a group's own share: constant and linear coefficient."""

MOST_TURNS = 20
"""Largest number of rounds in which choices and shares are found from each other."""

LEAST_GAIN = 1e-12
"""Relative gain below which a decision is no better, and shares are the same: equal shares stay if no others are cheaper."""

MOST_WEIGHTINGS = 24
"""Largest number of rounds in which the device groups are weighted anew."""


@dataclass(frozen=True, eq=False, kw_only=True)
class UnevenSplit:
    """An uneven split to be decided: layers with the sizes that the splits above leave, their options, and what each group pays.

    The cost is that of the ``slowest`` group, or the sum over all groups; transfers are counted by the state above, ``entered``.
    """

    graph: PlanGraph
    options: tuple[Options, ...]
    rates: tuple[GroupRates, ...]
    slowest: bool
    solver: Solver
    entered: State

    def total(self, costs: Sequence[float]) -> float:
        """Combine the costs of the device groups into that of the split."""
        return max(costs) if self.slowest else float(sum(costs))

    def tables(self, offered: Sequence[Offered]) -> tuple[list[Array], list[Array]]:
        """Return the costs of offers for each group; equal ones share an array.

        Returns:
            For each layer its sums and operations ``[2, groups, ..., offers]``, for each tensor ``[groups, ..., of producer, of consumer]``.
        """
        kept: dict[Hashable, Array] = {}
        nodes, edges, state = [], [], self.entered
        for at, (layer, own) in enumerate(zip(self.graph.layers, offered, strict=True)):
            key: Hashable = (layer.nest, state.network.sums[at], id(own))
            if key not in kept:
                kept[key] = self.layer_costs(at, own)
            nodes.append(kept[key])
        for at, tensor in enumerate(self.graph.tensors):
            pair = offered[tensor.producer], offered[tensor.consumer]
            key = (*map(id, state.tensor(at)), *map(id, pair))
            if key not in kept:
                kept[key] = self.tensor_costs(at, *pair)
            edges.append(kept[key])
        return nodes, edges

    def layer_costs(self, at: int, offered: Offered) -> Array:
        """Return the cost of each offer of a layer for each group, its partial sums and its operations, ``[2, groups, ..., offers]``."""
        layer, shares = self.graph.layers[at], np.moveaxis(offered.shares, -1, 0)
        computed = np.empty(shares.shape)
        for place, share in np.ndenumerate(shares):
            rates, choice = self.rates[place[0]], offered.options[place[-1]]
            computed[place] = rates.computing(layer, choice, float(share))
        moved = self._prices(self.entered.inside(self.graph, at, offered), 1)
        return np.stack([np.broadcast_to(moved, shares.shape), computed])

    def tensor_costs(self, at: int, made: Offered, read: Offered) -> Array:
        """Return the cost of a tensor for each group, there and back, ``[groups, ..., of producer, of consumer]``."""
        return self._prices(self.entered.between(at, made, read), 2)

    def _prices(self, amounts: Iterable[Received], axes: int) -> Array:
        """Return the cost of counted transfers for each group, whose last axes are those of offers.

        At some of several shares a group may receive nothing of a transfer that it pays for at others.
        """
        found: Any = 0.0
        for amount in amounts:
            moved = amount.elements
            price, once = (
                np.reshape([getattr(rates, name) for rates in self.rates], (-1, *[1] * (moved.ndim - 1)))
                for name in ("inside" if amount.inside else "between", "once")
            )
            several = tuple(range(1, moved.ndim - axes))
            found = found + moved * price + once * moved.any(axis=several, keepdims=True)
        return np.asarray(found)


@dataclass(frozen=True, eq=False)
class Quadratics:
    """The costs of all options of an uneven split as constant, linear and quadratic coefficients of each group's share.

    Those of layers are ``nodes``, ``[groups, 3, options]`` each, those of tensors ``edges``, ``[groups, 3, options of producer,
    options of consumer]``; ``rest`` does not depend on the options.
    """

    split: UnevenSplit
    nodes: tuple[Array, ...]
    edges: tuple[Array, ...]
    rest: tuple[Line, ...] = ()

    def times(self, assignment: Assignment) -> Array:
        """Return the total cost of each group, ``[groups, 3]``."""
        picked = self._columns[:, self._structure.places(assignment)].reshape(len(self.split.rates), 3, -1)
        picked[:, :2, 0] += self.rest or 0.0
        return np.asarray(picked.cumsum(axis=2)[:, :, -1])

    def problem(self, shares: Sequence[float], weights: Sequence[float]) -> CostGraph:
        """Return the cost graph of the weighted sum over the groups, at given shares."""
        each = [(row, row * share, row * share * share) for row, share in zip(weights, shares, strict=True)]
        parts = np.split((np.ravel(each)[:, None] * self._columns).sum(axis=0), self._structure.starts[1:])
        known, arrays = dict[int, Array](), (*self.nodes, *self.edges)
        costs = [
            known.setdefault(id(own), part.reshape(own.shape[2:]))
            for own, part in zip(arrays, parts, strict=True)
        ]
        edges = zip(self._structure.links, costs[len(self.nodes) :], strict=True)
        return CostGraph(costs[: len(self.nodes)], [Edge.dense(*link[:2], own) for link, own in edges])

    def least(self, shares: Sequence[float], weights: Sequence[float]) -> Assignment:
        """Return the options of least weighted sum over the groups, at given shares."""
        return self.split.solver.solve(self.problem(shares, weights)).assignment

    @cached_property
    def _columns(self) -> Array:
        """Return the coefficients of all nodes, then of all edges beside each other, ``[groups * 3, entries]``."""
        rows = 3 * len(self.split.rates)
        return np.concatenate([array.reshape(rows, -1) for array in (*self.nodes, *self.edges)], axis=1)

    @cached_property
    def _structure(self) -> Structure:
        ends = tuple([(tensor.producer, tensor.consumer) for tensor in self.split.graph.tensors])
        return structure_of(tuple([node.shape[-1] for node in self.nodes]), ends)


def quadratics_of(split: UnevenSplit) -> Quadratics:
    """Compute the costs of all options of an uneven split at three shares of each group; equal ones share their arrays."""
    shares = _samples(len(split.rates))
    offered = {own: Offered(own, np.repeat(shares[:, None], len(own), axis=1)) for own in {*split.options}}
    return _fitted(split, [offered[own] for own in split.options], shares.T)


def fixed(split: UnevenSplit, offers: Sequence[tuple[Taken, ...]]) -> Quadratics:
    """Return the costs of options for each layer, each of which has shares of its own, so that they are constants."""
    each = {own: Offered.of(own) for own in dict.fromkeys(offers)}
    known = {own: offered._replace(shares=offered.shares[None]) for own, offered in each.items()}
    return _fitted(split, [known[own] for own in offers], np.ones((len(split.rates), 1)))


def _fitted(split: UnevenSplit, offered: Sequence[Offered], samples: Array) -> Quadratics:
    """Return the coefficients of the costs of offers at some shares of each group, ``[groups, samples]``; equal ones share their arrays."""
    tables = split.tables(offered)
    every = {id(own): own.sum(axis=0) for own in tables[0]} | {id(own): own for own in tables[1]}
    fitted = {key: _coefficients(costs, samples) for key, costs in every.items()}
    nodes, edges = (tuple([fitted[id(costs)] for costs in own]) for own in tables)
    return Quadratics(split, nodes, edges)


def _coefficients(costs: Array, samples: Array) -> Array:
    """Return constant, linear and quadratic coefficients of costs at some shares of each group, ``[groups, 3, ...]``."""
    count, known = samples.shape
    flat = costs.reshape(count, known, -1)
    found = np.linalg.inv(samples[:, :, None] ** np.arange(known)) @ flat
    found = np.pad(found, ((0, 0), (0, 3 - known), (0, 0)))
    # A cost that does not bend is a line in spite of rounding.
    found[:, 2] = np.where(np.abs(found[:, 2]) > 1e-9 * np.abs(flat).max(axis=1), found[:, 2], 0.0)
    return found.reshape(count, 3, *costs.shape[2:])


def _samples(count: int) -> Array:
    """Return three sets of shares, in which every group has three different ones, ``[3, groups]``; one of a single group."""
    if count == 1:
        return np.ones((1, 1))
    if count == 2:
        return np.array([[0.25, 0.75], [0.5, 0.5], [0.75, 0.25]])
    weights = np.arange(count, 2.0 * count)
    return np.asarray(np.stack([np.roll(weights, turn) for turn in range(3)]) / weights.sum())


class Decision(NamedTuple):
    """The cost of an option for each layer of an uneven split and a share of each group that works; the best one is the least."""

    cost: float
    assignment: Assignment
    shares: tuple[float, ...]

    def repeats(self, other: Decision) -> bool:
        """Return whether it has the options of another one and, but for rounding, its shares."""
        pairs = zip(self.shares, other.shares, strict=True)
        return self.assignment == other.assignment and all(abs(own - was) <= LEAST_GAIN for own, was in pairs)


def search(
    every: Quadratics, rule: str, most: Sequence[float] | None = None, below: Sequence[Line] | None = None
) -> tuple[Decision, ...]:
    """Return the decisions of all rounds whose shares are allowed, in the order in which they were found.

    By a rule of ``SHARES``: ``linear`` is AccPar's, ``exact`` minimises the slowest group's time. Shares beyond ``most``, the largest
    of each group, are balanced within it; ``below`` has the further cost of each group as a line over its share.
    """
    every = replace(every, rest=tuple(below or ()))
    split, count = every.split, len(every.split.rates)
    even, most = (1 / count,) * count, [1.0] * count if most is None else most
    starts = _starts(every, even)
    if rule == "equal" or count == 1 or not split.slowest:
        allowed = all(share <= limit for share, limit in zip(even, most, strict=True))
        return tuple(_decided(every, start, even) for start in starts) if allowed else ()
    speeds = np.array([1 / rates.work if rates.work else 1.0 for rates in split.rates])
    starts += _starts(every, tuple((speeds / speeds.sum()).tolist()))
    seen: set[Assignment] = set()
    return tuple(turn for start in starts for turn in _turns(every, start, rule, most, seen))


def _starts(every: Quadratics, shares: tuple[float, ...]) -> list[Assignment]:
    """Return the best choices at given shares for equal weights, for weights as the shares, and for each group alone."""
    weights: list[Sequence[float]] = [(1.0,) * len(shares)]
    if every.split.slowest and len(shares) > 1:
        weights += [shares, *np.eye(len(shares)).tolist()]
    return [every.least(shares, own) for own in weights]


def _turns(
    every: Quadratics, assignment: Assignment, rule: str, most: Sequence[float], seen: set[Assignment]
) -> Iterator[Decision]:
    """Alternate between shares and choices from one start to a fixed point, or to choices that were seen before."""
    for _ in range(MOST_TURNS):
        if assignment in seen:
            return
        seen.add(assignment)
        times = every.times(assignment)
        found = balance(times, most) if rule == "exact" else _linear(every, times)
        if found is not None and any(map(float.__gt__, found, most)):
            found = balance(times, most)
        if found is None:
            return
        yield _decided(every, assignment, found)
        # The faster the time of a group grows with its share, the smaller its weight.
        growth = [row[1] + 2 * row[2] * share for row, share in zip(times.tolist(), found, strict=True)]
        least = 1e-6 * max(map(abs, growth)) or 1.0
        assignment = every.least(found, [1 / max(slope, least) for slope in growth])


def _decided(every: Quadratics, assignment: Assignment, shares: tuple[float, ...]) -> Decision:
    return Decision(every.split.total(times_at(every.times(assignment), shares)), assignment, shares)


def _linear(every: Quadratics, times: Array) -> tuple[float, ...]:
    """Apply AccPar's rule until the transfers match the shares that it gives."""
    flop = sum(sum(layer.nest.flop.values()) for layer in every.split.graph.layers)
    computing = [flop * rates.work for rates in every.split.rates]
    shares: tuple[float, ...] = (1 / len(times),) * len(times)
    for _ in range(MOST_TURNS):
        both = times_at(times, shares)
        moved = [total - own * share for total, own, share in zip(both, computing, shares, strict=True)]
        found = linear(computing, moved)
        if found == shares:
            break
        shares = found
    return shares


def settled(split: UnevenSplit, decision: Decision) -> list[Taken]:
    """Return the choice of every layer by a decision, with the common shares."""
    picks = zip(split.options, decision.assignment, strict=True)
    return [(options[pick], decision.shares) for options, pick in picks]


def settled_costs(split: UnevenSplit, taken: Sequence[Taken]) -> tuple[Array, Array]:
    """Return the cost of each layer, with the tensors that it reads, for each group to receive and to compute, ``[groups, layers]``."""
    known = {own: Offered.of([own]) for own in dict.fromkeys(taken)}
    nodes, edges = split.tables([known[own] for own in taken])
    received, computed = np.concatenate(nodes, axis=2)
    for tensor, edge in zip(split.graph.tensors, edges, strict=True):
        received[:, tensor.consumer] += edge[:, 0, 0]
    return received, computed


def by_layer(every: Quadratics, decision: Decision) -> list[Taken]:
    """Return the best shares found for each layer over several weights of the groups, or the common ones if none are cheaper.

    The cost is that of the slowest device group; the decision has common shares.
    """
    split = every.split
    offered = [tuple(_offers(every, index, own)) for index, own in enumerate(settled(split, decision))]
    costs = fixed(split, offered)
    weights, nothing = np.ones(len(split.rates)), (0.0,) * len(split.rates)
    tried: Assignment = (0,) * len(offered)
    found: tuple[float, Assignment] = (math.inf, tried)
    for _ in range(MOST_WEIGHTINGS):
        each = costs.times(tried)[:, 0]
        cost = split.total(each.tolist())
        if cost < found[0] * (1 - LEAST_GAIN):
            found = (cost, tried)
        weights = weights * (each / each.mean()) ** 2 if each.all() else weights
        tried = costs.least(nothing, (weights / weights.sum()).tolist())
    return [offers[pick] for offers, pick in zip(offered, found[1], strict=True)]


def _offers(every: Quadratics, index: int, start: Taken) -> Iterator[Taken]:
    """Yield a layer's present choice and shares, then every option with common or balanced shares, or on one group alone."""
    alone = [*map(tuple, np.eye(len(every.split.rates)).tolist())]
    made, common = {start: None}, start[1]
    for pick, choice in enumerate(every.split.options[index]):
        own = balance(every.nodes[index][:, :, pick])
        for shares in (common, own, *alone):
            if shares is not None and (dim_of(choice) is not None or shares == common):
                made[choice, shares] = None
    yield from made
