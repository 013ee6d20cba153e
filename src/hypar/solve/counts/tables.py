"""The table of a block: its least cost for each pair of states of pivot and port, without the costs of these two themselves.

It starts as the bound of counts, by a search on the trees that are left without the pivot. Entries are made exact one by
one, where they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.minsum import MinSum

if TYPE_CHECKING:
    from hypar.solve.counts.blocks import Block
    from hypar.solve.counts.forms import Numbers
    from hypar.solve.counts.relaxed import Relaxed
    from hypar.solve.edge import Costs
    from hypar.solve.minsum import Solved


AT_ONCE = 2**16
"""Pairs of states that are added up at once."""


class Placed(NamedTuple):
    """How often each node of a block takes each option in each cell of the pivot.

    Attributes:
        cells: the group and the pivot's option of each cell.
        counts: for each other node ``[cells, options]``, by its place among the block's nodes.
    """

    cells: tuple[tuple[int, int], ...]
    counts: dict[int, Numbers]


class Table:
    """The table of a block, shared by equal blocks.

    Attributes:
        relaxed: the problem.
        block: the block.
        first: the bound of counts, ``[states of the pivot, states of the port]``.
        costs: the best bound that is known.
        exact: whether it is the least cost.
        tried: how often an entry was asked for in vain.
        placed: for entries that were made exact, the states of the other nodes in the cells of the pivot.
    """

    def __init__(self, relaxed: Relaxed, block: Block) -> None:
        """Compute the bound of counts."""
        self.relaxed, self.block = relaxed, block
        self._others = [branch.node for branch in block.branches]
        self._links = [link for branch in block.branches for link in branch.links]
        self.first = self._bound()
        self.costs = self.first.copy()
        self.exact = np.full(self.first.shape, len(block.nodes) == 2)
        self.tried: dict[tuple[int, int], int] = {}
        self.placed: dict[tuple[int, int], Placed] = {}

    def _bound(self) -> Costs:
        """Return the bound of counts, some states of the pivot at once."""
        states = len(self.relaxed.nodes[self.block.pivot])
        pairs = [self.relaxed.pair(link).size for link in self._links]
        step = max(1, AT_ONCE // max(pairs, default=1))
        firsts = range(0, states, step)
        found = (self._solved(range(first, min(first + step, states))) for first in firsts)
        return np.concatenate([solved.of_last() for solved in found])

    def _solved(self, rows: range, column: int | None = None) -> Solved:
        """Return the least sums beside some states of the pivot, each a problem; the port's own costs are left out.

        Args:
            rows: the states of the pivot.
            column: the state of the port; None for any.
        """
        nodes, place = [], {node: at for at, node in enumerate(self._others)}
        for node in self._others:
            own = self.relaxed.nodes[node]
            costs = np.tile(np.zeros(len(own)) if node == self.block.port else own, (len(rows), 1))
            for link in self.block.spokes[node]:
                costs += self.relaxed.between(link, self.block.pivot)[rows.start : rows.stop]
            nodes.append(self._kept(node, costs, 1, column))
        ends, pairs = [], []
        for link in self._links:
            source, target, _ = self.relaxed.graph.links[link]
            ends.append((place[source], place[target]))
            costs = self._kept(source, self.relaxed.pair(link)[None], 1, column)
            pairs.append(self._kept(target, costs, 2, column))
        sizes, last = [costs.shape[1] for costs in nodes], place[self.block.port]
        return MinSum(sizes, ends, last).solve(nodes, pairs)

    def _kept(self, node: int, costs: Costs, axis: int, column: int | None) -> Costs:
        """Return costs with one state of the port alone."""
        return costs if column is None or node != self.block.port else costs.take([column], axis=axis)

    def marginals(self, row: int, column: int) -> Marginals:
        """Return the least cost by counts for each state of each other node, given those of pivot and port."""
        solved = self._solved(range(row, row + 1), column)
        found, whole = dict(zip(self._others, solved.marginals(), strict=True)), float(solved.lowest[0])
        found[self.block.port] = np.full(len(self.relaxed.nodes[self.block.port]), np.inf)
        found[self.block.port][column] = whole
        return Marginals(whole, found)


class Marginals(NamedTuple):
    """The least costs of a block by counts.

    Attributes:
        whole: the least of all.
        of: for each node the least with each of its states.
    """

    whole: float
    of: dict[int, Costs]
