"""The table of a block: its least cost for each pair of states of pivot and port, without the costs of these two themselves.

It starts as the bound of counts, by a search on the trees that are left without the pivot. Entries are made exact one by
one, where they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from hypar.solve.counts.blocks import Block, Branch
    from hypar.solve.counts.forms import Numbers
    from hypar.solve.counts.relaxed import Relaxed
    from hypar.solve.edge import Costs


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
        self._between: dict[int, Costs] = {}
        self.first = self._bound()
        self.costs = self.first.copy()
        self.exact = np.full(self.first.shape, len(block.nodes) == 2)
        self.tried: dict[tuple[int, int], int] = {}
        self.placed: dict[tuple[int, int], Placed] = {}

    def beside(self, rows: slice) -> dict[int, Costs]:
        """Return the cost of every state of the other nodes beside some states of the pivot; the port's own is left out."""
        found = {}
        number = len(range(*rows.indices(len(self.relaxed.nodes[self.block.pivot]))))
        for node, links in self.block.spokes.items():
            own = self.relaxed.nodes[node]
            costs = np.tile(np.zeros(len(own)) if node == self.block.port else own, (number, 1))
            for link in links:
                costs += self.relaxed.between(link, self.block.pivot)[rows]
            found[node] = costs
        return found

    def between(self, branch: Branch) -> Costs:
        """Return the costs of a node of a tree with the node above it, which comes first."""
        assert branch.above is not None  # noqa: S101 (asked for nodes below others)
        if branch.node not in self._between:
            every = [self.relaxed.between(link, branch.above) for link in branch.links]
            self._between[branch.node] = every[0] if len(every) == 1 else np.asarray(sum(every))
        return self._between[branch.node]

    def _bound(self) -> Costs:
        """Return the bound of counts, some states of the pivot at once."""
        sizes = {node: len(costs) for node, costs in enumerate(self.relaxed.nodes)}
        pairs = [sizes[own.node] * sizes[own.above] for own in self.block.branches if own.above is not None]
        step = max(1, AT_ONCE // max(pairs, default=1))
        states = sizes[self.block.pivot]
        found = [self._rows(slice(first, first + step)) for first in range(0, states, step)]
        return np.concatenate(found)

    def _rows(self, rows: slice) -> Costs:
        least = self.beside(rows)
        whole: Costs = np.zeros(1)
        for tree in self.block.trees:
            for branch in reversed(tree):
                if branch.above is not None:
                    costs = self.between(branch) + least[branch.node][:, None]
                    least[branch.above] += costs.min(axis=2)
                elif branch.node != self.block.port:
                    whole = whole + least[branch.node].min(axis=1)
        return least[self.block.port] + whole.reshape(-1, 1)

    def marginals(self, row: int, column: int) -> Marginals:
        """Return the least cost by counts for each state of each other node, given those of pivot and port."""
        least = {node: costs[0] for node, costs in self.beside(slice(row, row + 1)).items()}
        barred = np.full(len(least[self.block.port]), np.inf)
        barred[column] = 0.0
        least[self.block.port] += barred
        sent, roots = {}, []
        for tree in self.block.trees:
            for branch in reversed(tree):
                if branch.above is not None:
                    sent[branch.node] = (self.between(branch) + least[branch.node]).min(axis=1)
                    least[branch.above] += sent[branch.node]
                else:
                    roots.append(float(least[branch.node].min()))
        found, whole = {}, sum(roots)
        for tree, lowest in zip(self.block.trees, roots, strict=True):
            for branch in tree:
                if branch.above is not None:
                    above = least[branch.above]
                    rest = np.where(np.isfinite(above), above - sent[branch.node], np.inf)
                    least[branch.node] = least[branch.node] + (self.between(branch) + rest[:, None]).min(
                        axis=0
                    )
                found[branch.node] = least[branch.node] + (whole - lowest)
        return Marginals(whole, found)


class Marginals(NamedTuple):
    """The least costs of a block by counts.

    Attributes:
        whole: the least of all.
        of: for each node the least with each of its states.
    """

    whole: float
    of: dict[int, Costs]
