"""The lower bound of counts: every tensor has the best order of its two layers, whatever its other tensors have.

Layers and tensors of equal costs share their arrays. States that no plan of a known cost takes are left out, by the least
cost of all others on a spanning tree; a tensor that the tree leaves out costs its own least. Messages along all tensors bound what is left.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.cost_graph import CostGraph
from hypar.solve.counts.forms import pair_costs
from hypar.solve.counts.states import ROUNDING
from hypar.solve.edge import Edge
from hypar.solve.minsum import min_sum, solved
from hypar.solve.solvers.named import Messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hypar.solve.counts.forms import CountGraph, Numbers
    from hypar.solve.edge import Costs

    Kept = slice | NDArray[np.bool_]

STEPS = (2**14, 2**17, 2**20, 2**21)
"""Most pairs of states of a tensor whose costs are computed, step by step: those of few leave fewer for the others."""

MOST_WORK = 2**25
"""Most entries of the tables of an elimination."""


class Relaxed:
    """The states of each layer that are left, their costs, and those of their pairs.

    Attributes:
        graph: the problem.
        most: the most pairs of states of a tensor whose costs are computed.
        states: for each layer its states, ``[states, groups, options]``; equal ones of equal layers are one object.
        nodes: their costs.
        pairs: by link the costs of pairs of states; there are none of links with more. Equal ones are one array.
    """

    def __init__(self, graph: CountGraph, most: int) -> None:
        self.graph, self.most = graph, most
        self.states = [graph.states_of(node) for node in range(len(graph.nodes))]
        self.pairs: dict[int, Edge] = {}
        self._keep([slice(None)] * len(self.states))

    @property
    def complete(self) -> bool:
        """Whether the costs of all pairs of states are computed."""
        return len(self.pairs) == len(self.graph.links)

    def _keep(self, kept: Sequence[Kept]) -> None:
        """Leave out all but some states of each layer, and compute the costs of what is left and has none; equal layers share them."""
        graph, before = self.graph, self.pairs
        known: dict[object, tuple[Numbers, Costs]] = {}
        self.nodes: list[Costs] = []
        for node, (terms, some) in enumerate(zip(graph.nodes, kept, strict=True)):
            own = self.states[node][some]
            key = (terms, id(graph.own[node]) if graph.own else None, own.shape, own.tobytes())
            if key not in known:
                known[key] = (own, graph.costs(node, terms, own))
            self.states[node], costs = known[key]
            self.nodes.append(costs)
        found: dict[object, Costs] = {}
        self.pairs = {}
        for at, (source, target, form) in enumerate(graph.links):
            made, read = self.states[source], self.states[target]
            pair = (form, id(made), id(read))
            if pair not in found and at in before:
                found[pair] = before[at].costs[kept[source]][:, None, kept[target]]
            elif pair not in found and len(made) * len(read) <= self.most:
                found[pair] = pair_costs(form, made, read, graph.cells)[:, None]
            if pair in found:
                self.pairs[at] = Edge(source, target, (found[pair],))

    def narrow(self, known: float, most: int) -> None:
        """Leave out the states that no plan of a known cost takes; no tensor may cost less than 0 that has more than ``most`` pairs of states."""
        if most != self.most:
            self.most = most
            self._keep([slice(None)] * len(self.states))
        for far in (False, True):
            self.bound(known, self._spanning(far=far))

    def bound(self, known: float = math.inf, kept: Sequence[int] | None = None) -> float:
        """Return a lower bound of all plans, and leave out the states that none of a known cost takes.

        Args:
            known: the cost of a plan; infinite to leave out none.
            kept: the tensors whose pairs of states count, a spanning forest if not given; of the others the least of each does.
        """
        edges = [*self.pairs.values()]
        kept = self._spanning(far=False) if kept is None else kept
        lowest = {key: float(term.min()) for key, term in {id(term): term for *_, (term,) in edges}.items()}
        floor = math.fsum(lowest[id(edges[at].terms[0])] for at in {*range(len(edges))} - {*kept})
        found = solved(CostGraph(self.nodes, [edges[at] for at in kept]))
        bound = float(found.lowest[0]) + floor
        if bound <= known < math.inf:
            self._keep([costs + floor <= known * (1 + ROUNDING) for costs in found.marginals()])
        return bound

    def by_messages(self, known: float) -> float:
        """Return the lower bound of messages between all layers, which is more than that of any spanning forest."""
        bound = 0.0
        for bound in Messages(CostGraph(self.nodes, self.pairs.values())).bounds():
            if bound >= known * (1 - ROUNDING):
                break
        return bound

    def by_cliques(self, known: float) -> float:
        """Return the least of all on the cliques of an elimination, and leave out states by it; 0 if they are too large."""
        structure = CostGraph(self.nodes, self.pairs.values()).structure
        if not self.complete or min_sum(structure).work > MOST_WORK:
            return 0.0
        return self.bound(known, range(len(self.pairs)))

    def _spanning(self, *, far: bool) -> list[int]:
        """Return the pairs of a spanning forest, those of layers near each other first, or those of layers far apart."""
        tree, found, ends = np.arange(len(self.nodes)), [], [edge[:2] for edge in self.pairs.values()]
        for at in sorted(range(len(ends)), key=lambda at: abs(ends[at][0] - ends[at][1]), reverse=far):
            one, other = tree[[*ends[at]]]
            if one != other:
                tree[tree == other] = one
                found.append(at)
        return sorted(found)
