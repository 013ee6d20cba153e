"""An uneven split to be decided, and the costs of its options for each device group, as quadratics in the group's own share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hypar.sharding.amounts.factors import Offered
from hypar.solve.cost_graph import CostGraph, structure_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from hypar.costs.base import GroupRates
    from hypar.network.nodes import PlanGraph, PlanNode
    from hypar.sharding.amounts.above import Amount, State
    from hypar.sharding.placement import Options
    from hypar.solve.cost_graph import Structure
    from hypar.solve.solvers.base import Solver

    Array = NDArray[np.float64]

Assignment = tuple[int, ...]
"""One option for each layer."""


@dataclass(frozen=True, eq=False, kw_only=True)
class UnevenSplit:
    """An uneven split to be decided.

    Attributes:
        graph: the layers, with the sizes that the splits above leave.
        options: the options of each layer.
        rates: the rates that each group that works pays.
        slowest: whether the cost is that of the slowest group; otherwise the sum over all groups.
        solver: the solver of its cost graphs.
        entered: the state above it, by which its transfers are counted.
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

    @property
    def flop(self) -> float:
        """The floating-point operations of all layers."""
        return sum(sum(layer.nest.flop.values()) for layer in self.graph.layers)

    def tables(self, offered: Sequence[Offered]) -> tuple[list[Array], list[Array]]:
        """Return the costs of the offers of all layers and of all tensors for each group; equal ones share an array.

        Args:
            offered: for each layer its offers.

        Returns:
            For each layer ``[groups, ..., offers]``, for each tensor ``[groups, ..., of producer, of consumer]``.
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
        """Return the cost of each offer of a layer for each group: its operations, and the addition of partial results.

        Args:
            at: index of the layer.
            offered: its choices, each with the shares of the groups.

        Returns:
            ``[groups, ..., offers]``.
        """
        moved = self.entered.inside(self.graph, at, offered)
        return self._prices(moved, 1) + self.work(self.graph.layers[at], offered)

    def work(self, layer: PlanNode, offered: Offered) -> Array:
        """Return the cost of the computation of each offer of a layer for each group, ``[groups, ..., offers]``."""
        shares = np.moveaxis(offered.shares, -1, 0)
        each = shares.reshape(len(shares), math.prod(shares.shape[1:-1]), shares.shape[-1]).tolist()
        found = [
            [
                [
                    rates.computing(layer, choice, share)
                    for choice, share in zip(offered.options, row, strict=True)
                ]
                for row in rows
            ]
            for rates, rows in zip(self.rates, each, strict=True)
        ]
        return np.array(found).reshape(shares.shape)

    def tensor_costs(self, at: int, made: Offered, read: Offered) -> Array:
        """Return the cost of a tensor for each group, from producer to consumer and back.

        Args:
            at: index of the tensor.
            made: the offers of the producer.
            read: those of the consumer.

        Returns:
            ``[groups, ..., of producer, of consumer]``.
        """
        return self._prices(self.entered.between(at, made, read), 2)

    def _prices(self, amounts: Iterable[Amount], axes: int) -> Array:
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


Line = tuple[float, float]
"""A cost over a group's own share: constant and linear coefficient."""


@dataclass(frozen=True, eq=False)
class Quadratics:
    """The costs of all options of an uneven split.

    Attributes:
        split: the uneven split.
        nodes: for each layer ``[groups, 3, options]``: constant, linear and quadratic coefficients.
        edges: for each tensor ``[groups, 3, options of producer, options of consumer]``.
        rest: the cost of each group that does not depend on the options, ``[groups, 3]``.
        found: the assignments of least cost that are known, which do not depend on ``rest``.
    """

    split: UnevenSplit
    nodes: tuple[Array, ...]
    edges: tuple[Array, ...]
    rest: Array
    found: dict[tuple[float, ...], Assignment] = field(default_factory=dict)

    @classmethod
    def fixed(
        cls, split: UnevenSplit, options: Sequence[Options], nodes: Sequence[Array], edges: Sequence[Array]
    ) -> Self:
        """Return the costs of options whose shares are as they are; arrays as of ``UnevenSplit.tables``."""
        known = {id(costs): np.stack([costs, 0 * costs, 0 * costs], axis=1) for costs in (*nodes, *edges)}
        of_layers, of_tensors = (tuple([known[id(costs)] for costs in own]) for own in (nodes, edges))
        own = replace(split, options=tuple(options))
        return cls(own, of_layers, of_tensors, np.zeros((len(split.rates), 3)))

    def above(self, lines: Sequence[Line]) -> Quadratics:
        """Add to each group's cost a line over its share."""
        rest = np.zeros((len(lines), 3))
        rest[:, :2] = lines
        return replace(self, rest=rest)

    def times(self, assignment: Assignment) -> Array:
        """Return the total cost of each group, ``[groups, 3]``."""
        count = len(self.split.rates)
        picked = self._columns[:, self._structure.places(assignment)]
        every = np.concatenate([self.rest.reshape(-1, 1), picked], axis=1)
        return np.asarray(np.add.accumulate(every, axis=1)[:, -1].reshape(count, 3))

    def least(self, shares: Sequence[float], weights: Sequence[float]) -> Assignment:
        """Return the options of least weighted sum over the groups, at given shares."""
        # Weights that differ by a power of two have the same sums, bit for bit, up to that power.
        scale = math.frexp(max(weights))[1]
        own = tuple(math.ldexp(weight, -scale) for weight in weights)
        key = (*shares, *own)
        if key not in self.found:
            each = [(row, row * share, row * share * share) for row, share in zip(own, shares, strict=True)]
            summed = (np.ravel(each)[:, None] * self._columns).sum(axis=0)
            self.found[key] = self.split.solver.solve(CostGraph.laid_out(self._structure, summed)).assignment
        return self.found[key]

    @cached_property
    def _columns(self) -> Array:
        """Return the coefficients of all nodes, then of all edges beside each other, ``[groups * 3, entries]``."""
        rows = 3 * len(self.split.rates)
        return np.concatenate([array.reshape(rows, -1) for array in (*self.nodes, *self.edges)], axis=1)

    @cached_property
    def _structure(self) -> Structure:
        ends = tuple([(tensor.producer, tensor.consumer) for tensor in self.split.graph.tensors])
        return structure_of(tuple([len(own) for own in self.split.options]), ends)


def quadratics_of(split: UnevenSplit) -> Quadratics:
    """Compute the costs of all options of an uneven split at three shares of each group; equal ones share their arrays."""
    count = len(split.rates)
    shares = _samples(count)
    offered = {
        own: Offered(own, np.repeat(shares[:, None], len(own), axis=1))
        for own in dict.fromkeys(split.options)
    }
    nodes, edges = split.tables([offered[own] for own in split.options])
    distinct = {id(costs): costs for costs in (*nodes, *edges)}
    fitted = {key: _coefficients(costs, shares.T) for key, costs in distinct.items()}
    of_layers, of_tensors = (tuple([fitted[id(costs)] for costs in own]) for own in (nodes, edges))
    return Quadratics(split, of_layers, of_tensors, np.zeros((count, 3)))


def _coefficients(costs: Array, samples: Array) -> Array:
    """Return constant, linear and quadratic coefficients of costs at some shares of each group, ``[groups, 3, ...]``."""
    count, known = samples.shape
    flat = costs.reshape(count, known, math.prod(costs.shape[2:]))
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
