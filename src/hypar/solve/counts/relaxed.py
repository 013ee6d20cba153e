"""The lower bound of counts: every tensor has the best order of its two layers, whatever its other tensors have.

Layers and tensors of equal costs share their arrays. States that no plan of a known cost takes are left out, by the least
cost of all others on a spanning tree; a tensor that the tree leaves out costs its own least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.solve.counts.forms import node_costs, pair_costs
from hypar.solve.counts.states import states_of
from hypar.solve.marginals import marginals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.solve.counts.forms import CountGraph, Numbers
    from hypar.solve.edge import Costs

ROUNDING = 1e-12
"""Largest rounding error of a sum, relative to it."""


class Relaxed:
    """The states of each layer that are left, their costs, and those of their pairs.

    Attributes:
        graph: the problem.
        states: for each layer its states, ``[states, groups, options]``; equal ones of equal layers are one object.
        nodes: their costs.
        pairs: for each link the costs of pairs, ``[states of the source, states of the target]``.
    """

    def __init__(self, graph: CountGraph) -> None:
        """Take all states."""
        self.graph = graph
        self._set([states_of(graph, node) for node in range(len(graph.nodes))])

    def _set(self, states: Sequence[Numbers]) -> None:
        """Compute the costs of some states; equal layers with equal states share them."""
        graph = self.graph
        known: dict[object, tuple[Numbers, Costs]] = {}
        self.states, self.nodes = [], []
        for terms, own in zip(graph.nodes, states, strict=True):
            key = (terms, own.shape, own.tobytes())
            if key not in known:
                known[key] = (own, node_costs(terms, own, graph.ways))
            self.states.append(known[key][0])
            self.nodes.append(known[key][1])
        self.pairs: list[Costs] = []
        pairs: dict[object, Costs] = {}
        for source, target, form in graph.links:
            made, read = self.states[source], self.states[target]
            pair = (form, id(made), id(read))
            if pair not in pairs:
                pairs[pair] = pair_costs(form, made, read, graph.cells)
            self.pairs.append(pairs[pair])

    def narrow(self, known: float) -> None:
        """Leave out the states that no plan of a known cost takes."""
        for far in (False, True):
            least = self._marginals(far=far)
            most = known * (1 + ROUNDING)
            self._set([own[costs <= most] for own, costs in zip(self.states, least, strict=True)])

    def bound(self) -> float:
        """Return a lower bound of all plans."""
        return float(self._marginals(far=False)[0].min())

    def between(self, link: int, first: int) -> Costs:
        """Return the costs of pairs of a link, one of its ends first."""
        return self.pairs[link] if self.graph.links[link].source == first else self.pairs[link].T

    def _marginals(self, *, far: bool) -> list[Costs]:
        ends = [(link.source, link.target) for link in self.graph.links]
        return marginals(self.nodes, ends, self.pairs, far=far)
