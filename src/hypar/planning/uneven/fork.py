"""A fork to be decided, and what its choices cost each side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hypar.errors import OptionError
from hypar.network.training import PHASES
from hypar.sharding.uneven.transfers import between, inside, work
from hypar.solve.cost_graph import CostGraph
from hypar.solve.edge import Edge

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.costs.base import Cost, SideRates
    from hypar.machine.mixed import Side
    from hypar.network.contraction import ContractedGraph, CutLayer, Tensor
    from hypar.sharding.placement import Choice, Options
    from hypar.sharding.redistribution import Number
    from hypar.sharding.uneven.transfers import Amount, Shares
    from hypar.solve.edge import Costs
    from hypar.solve.solvers.base import Solver

Assignment = tuple[int, ...]
"""An option of each layer."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Fork:
    """A fork to be decided.

    Attributes:
        graph: the layers, as large as the splits above leave them.
        options: what each may do.
        sides: the sides that work.
        rates: what each of them pays.
        slowest: whether the fork costs what its slowest side does; else what all do together.
        solver: what solves its cost graphs.
    """

    graph: ContractedGraph
    options: tuple[Options, ...]
    sides: tuple[Side, ...]
    rates: tuple[SideRates, ...]
    slowest: bool
    solver: Solver

    def total(self, costs: Sequence[float]) -> float:
        """What the fork costs, from what its sides do."""
        return max(costs) if self.slowest else float(sum(costs))

    @property
    def flop(self) -> float:
        """Floating-point operations of all layers."""
        return sum(layer.einsum.flop(phase) for layer in self.graph.layers for phase in PHASES)

    def ends(self, tensor: Tensor) -> tuple[CutLayer, CutLayer]:
        """Producer and consumer of a tensor."""
        return self.graph.layers[tensor.producer], self.graph.layers[tensor.consumer]

    def layer_costs(self, layer: CutLayer, choice: Choice, shares: Shares) -> list[Number]:
        """What a layer costs each side: its operations, and what they add up."""
        moved = self._paid(inside(layer, choice, shares), [rates.inside for rates in self.rates])
        flop = (work(layer, choice, share) for share in shares)
        return [cost + rates.work * own for cost, rates, own in zip(moved, self.rates, flop, strict=True)]

    def tensor_costs(
        self, tensor: Tensor, choices: tuple[Choice, Choice], shares: tuple[Shares, Shares]
    ) -> list[Number]:
        """What a tensor costs each side, from producer to consumer and back."""
        amounts = between(tensor, self.ends(tensor), choices, shares)
        return self._paid(amounts, [rates.between for rates in self.rates])

    def _paid(self, amounts: Iterable[Amount], per_element: Sequence[float]) -> list[Number]:
        """What each side pays for some transfers."""
        found: list[Number] = [0.0] * len(self.sides)
        for amount in amounts:
            for side, elements in enumerate(amount.elements):
                if elements.any() if isinstance(elements, np.ndarray) else elements:
                    found[side] = found[side] + elements * per_element[side] + self.rates[side].once
        return found

    def least(self, nodes: Sequence[Costs], edges: Sequence[Costs]) -> Assignment:
        """The options of least sum: ``[options]`` of each layer, ``[of producer, of consumer]`` of each tensor."""
        made = tuple(
            Edge.dense(tensor.producer, tensor.consumer, costs)
            for tensor, costs in zip(self.graph.tensors, edges, strict=True)
        )
        return self.solver.solve(CostGraph(nodes=tuple(nodes), edges=made)).assignment


def fork_of(
    graph: ContractedGraph,
    options: tuple[Options, ...],
    sides: Sequence[Side],
    cost: Cost,
    solver: Solver,
    element_bytes: int,
) -> Fork:
    """A fork of some sides under a cost.

    Raises:
        OptionError: the cost is for like devices alone.
    """
    return Fork(
        graph=graph,
        options=options,
        sides=tuple(sides),
        rates=tuple(_rates(cost, side, element_bytes) for side in sides),
        slowest=cost.slowest,
        solver=solver,
    )


def _rates(cost: Cost, side: Side, element_bytes: int) -> SideRates:
    """What a side pays."""
    rates = cost.side_rates(side, element_bytes)
    if rates is None:
        name = type(cost).__name__.lower()
        raise OptionError(
            f"cost {name!r}", "it is for like devices alone", "accpar or volume on unlike groups"
        )
    return rates
