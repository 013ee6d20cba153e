"""An uneven split to be decided, and the cost of its choices for each device group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from hypar.costs.base import GroupRates
    from hypar.machine.machine import DeviceGroup
    from hypar.network.nodes import PlanGraph, PlanNode
    from hypar.sharding.amounts.above import Amount, State
    from hypar.sharding.amounts.factors import Offered
    from hypar.sharding.placement import Options
    from hypar.solve.edge import Costs
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
        groups: the device groups that work.
        rates: the rates that each group pays.
        slowest: whether the cost is that of the slowest group; otherwise the sum over all groups.
        solver: the solver of its cost graphs.
        entered: the state above it, by which its transfers are counted.
    """

    graph: PlanGraph
    options: tuple[Options, ...]
    groups: tuple[DeviceGroup, ...]
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

    def least(self, nodes: Sequence[Costs], edges: Sequence[Costs]) -> Assignment:
        """Return the options of least sum; nodes are ``[options]``, edges ``[of producer, of consumer]``."""
        # Equal tensors share an array, of which a solver then computes once.
        terms = {id(costs): (costs[:, None, :],) for costs in edges}
        made = tuple(
            Edge(source=tensor.producer, target=tensor.consumer, terms=terms[id(costs)])
            for tensor, costs in zip(self.graph.tensors, edges, strict=True)
        )
        return self.solver.solve(CostGraph(nodes=tuple(nodes), edges=made)).assignment
