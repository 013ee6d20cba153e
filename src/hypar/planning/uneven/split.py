"""An uneven split to be decided, and the cost of its choices for each device group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hypar.sharding.amounts.factors import Offered
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from hypar.costs.base import GroupRates
    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.network.nodes import PlanGraph, PlanNode
    from hypar.sharding.placement import Options
    from hypar.sharding.uneven.entered import Amount, Entered, Taken
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
    entered: Entered

    def total(self, costs: Sequence[float]) -> float:
        """Combine the costs of the device groups into that of the split."""
        return max(costs) if self.slowest else float(sum(costs))

    @property
    def flop(self) -> float:
        """The floating-point operations of all layers."""
        return sum(sum(layer.nest.flop.values()) for layer in self.graph.layers)

    def layer_costs(self, at: int, offers: Sequence[Taken]) -> Array:
        """Return the cost of each offer of a layer for each group: its operations, and the addition of partial results.

        Args:
            at: index of the layer.
            offers: its choices, each with the shares of the groups.

        Returns:
            ``[groups, offers]``.
        """
        moved = self.entered.inside(self.graph, at, Offered.of(offers))
        return self._prices(moved, (len(offers),)) + self.work(self.graph.layers[at], offers)

    def work(self, layer: PlanNode, offers: Sequence[Taken]) -> Array:
        """Return the cost of the computation of each offer of a layer for each group, ``[groups, offers]``."""
        return np.array(
            [
                [rates.computing(layer, choice, shares[group]) for choice, shares in offers]
                for group, rates in enumerate(self.rates)
            ],
            dtype=np.float64,
        )

    def tensor_costs(self, at: int, made: Sequence[Taken], read: Sequence[Taken]) -> Array:
        """Return the cost of a tensor for each group, from producer to consumer and back.

        Args:
            at: index of the tensor.
            made: the offers of the producer.
            read: those of the consumer.

        Returns:
            ``[groups, of producer, of consumer]``.
        """
        amounts = self.entered.between(self.graph, at, Offered.of(made), Offered.of(read))
        return self._prices(amounts, (len(made), len(read)))

    def _prices(self, amounts: Iterable[Amount], shape: tuple[int, ...]) -> Array:
        """Return the cost of counted transfers for each group, ``[groups, *shape]``."""
        found = np.zeros((len(self.groups), *shape))
        for amount in amounts:
            for group, (elements, rates) in enumerate(zip(amount.elements, self.rates, strict=True)):
                price = rates.inside if amount.inside else rates.between
                found[group] += elements * price + rates.once * (elements > 0)
        return found

    def least(self, nodes: Sequence[Costs], edges: Sequence[Costs]) -> Assignment:
        """Return the options of least sum; nodes are ``[options]``, edges ``[of producer, of consumer]``."""
        # Equal tensors share an array, of which a solver then computes once.
        terms = {id(costs): (costs[:, None, :],) for costs in edges}
        made = tuple(
            Edge(source=tensor.producer, target=tensor.consumer, terms=terms[id(costs)])
            for tensor, costs in zip(self.graph.tensors, edges, strict=True)
        )
        return self.solver.solve(CostGraph(nodes=tuple(nodes), edges=made)).assignment
