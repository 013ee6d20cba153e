"""An uneven split to be decided, and the cost of its choices for each device group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hypar.network.training import PHASES
from hypar.planning.refusals import refusal
from hypar.sharding.uneven.transfers import between, inside, work
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.costs.base import Cost, GroupRates
    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.network.contraction import ContractedGraph, CutLayer, Tensor
    from hypar.sharding.placement import Choice, Options
    from hypar.sharding.redistribution import Number
    from hypar.sharding.uneven.transfers import Amount, Shares
    from hypar.solve.edge import Costs
    from hypar.solve.solvers.base import Solver

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
    """

    graph: ContractedGraph
    options: tuple[Options, ...]
    groups: tuple[DeviceGroup, ...]
    rates: tuple[GroupRates, ...]
    slowest: bool
    solver: Solver

    def total(self, costs: Sequence[float]) -> float:
        """Combine the costs of the device groups into that of the split."""
        return max(costs) if self.slowest else float(sum(costs))

    @property
    def flop(self) -> float:
        """The floating-point operations of all layers."""
        return sum(layer.einsum.flop(phase) for layer in self.graph.layers for phase in PHASES)

    def ends(self, tensor: Tensor) -> tuple[CutLayer, CutLayer]:
        """Return the producer and the consumer of a tensor."""
        return self.graph.layers[tensor.producer], self.graph.layers[tensor.consumer]

    def layer_costs(self, layer: CutLayer, choice: Choice, shares: Shares) -> list[Number]:
        """Return the cost of a layer for each group: its operations, and the addition of partial results."""
        moved = self._paid(inside(layer, choice, shares), [rates.inside for rates in self.rates])
        flop = (work(layer, choice, share) for share in shares)
        return [cost + rates.work * own for cost, rates, own in zip(moved, self.rates, flop, strict=True)]

    def tensor_costs(
        self, tensor: Tensor, choices: tuple[Choice, Choice], shares: tuple[Shares, Shares]
    ) -> list[Number]:
        """Return the cost of a tensor for each group, from producer to consumer and back."""
        amounts = between(tensor, self.ends(tensor), choices, shares)
        return self._paid(amounts, [rates.between for rates in self.rates])

    def _paid(self, amounts: Iterable[Amount], per_element: Sequence[float]) -> list[Number]:
        """Return the cost of transfers for each group."""
        found: list[Number] = [0.0] * len(self.groups)
        for amount in amounts:
            for group, elements in enumerate(amount.elements):
                if elements.any() if isinstance(elements, np.ndarray) else elements:
                    found[group] = found[group] + elements * per_element[group] + self.rates[group].once
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


def uneven_split_of(
    graph: ContractedGraph,
    options: tuple[Options, ...],
    groups: Sequence[DeviceGroup],
    cost: Cost,
    solver: Solver,
    element_bytes: int,
) -> UnevenSplit:
    """Build an uneven split over device groups under a cost.

    Raises:
        OptionError: the cost has no rates for device groups.
    """
    return UnevenSplit(
        graph=graph,
        options=options,
        groups=tuple(groups),
        rates=tuple(_rates(cost, group, element_bytes) for group in groups),
        slowest=cost.slowest,
        solver=solver,
    )


def _rates(cost: Cost, group: DeviceGroup, element_bytes: int) -> GroupRates:
    """Return the rates that a device group pays."""
    rates = cost.group_rates(group, element_bytes)
    if rates is None:
        name = repr(type(cost).__name__.lower())
        raise refusal("a cost of identical devices", "a heterogeneous machine", cost=name)
    return rates
