"""The table of a block: its least cost for each pair of states of pivot and port, without the costs of these two themselves.

It starts as the bound of counts, by a search on the trees that are left without the pivot. Entries are made exact one by
one, where they are asked for. Idea: the options of the pivot part the levels into cells. On the trees that are left, how often each node takes each option
in each cell is all that matters, as orders within a cell follow from node to node. Counts of cells come from counts that
cost little more than the bound, and are left out where the nodes beside them cost too much more than by counts alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.counts.forms import further_costs, node_costs, pair_costs, priced
from hypar.solve.counts.states import splits
from hypar.solve.limits import checkpoint
from hypar.solve.minsum import of_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hypar.solve.counts.blocks import Block, Branch
    from hypar.solve.counts.forms import Form, Numbers
    from hypar.solve.counts.relaxed import Relaxed
    from hypar.solve.edge import Costs, Indices
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
        return of_pairs(sizes, ends, last).solve(nodes, pairs)

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


ROWS = 2**20
"""Pairs of states whose costs are computed at once."""

MOST_PAIRS = 2**28
"""Most pairs of states of one tensor."""


class TooMany(Exception):  # noqa: N818 (no error: the bound stays)
    """An entry has more pairs of states than there is time for."""


class _Some(NamedTuple):
    """Some states of a node in the cells.

    Attributes:
        counts: how often it takes each option, ``[states, cells, options]``.
        of: the index of each among the node's states.
        costs: its cost beside the pivot.
        above: by how much the cost exceeds the bound of counts, at least.
    """

    counts: Numbers
    of: Indices
    costs: Costs
    above: Costs

    def kept(self, keep: NDArray[np.bool_]) -> _Some:
        return _Some(self.counts[keep], self.of[keep], self.costs[keep], self.above[keep])


class Entry:
    """The search for one entry of a table."""

    def __init__(self, table: Table, row: int, column: int) -> None:
        """Find the cells of the pivot's state."""
        self.table, self.relaxed, self.block = table, table.relaxed, table.block
        self.graph, self.row = table.relaxed.graph, row
        state = self.relaxed.states[self.block.pivot][row]
        self.parts = tuple(
            (int(group), int(option)) for group, option in zip(*np.nonzero(state), strict=True)
        )
        sizes = tuple(int(state[part]) for part in self.parts)
        self.cells = self.graph.parted(sizes, tuple(group for group, _ in self.parts))
        self.marginals: Marginals = table.marginals(row, column)

    def least(self, room: float) -> tuple[float, Placed] | None:
        """Return the least cost and the counts of every node; None if it exceeds the bound of counts by more than some room.

        Raises:
            TooMany: it would take too long.
        """
        most = self.marginals.whole + room
        some: dict[int, _Some] = {}
        near: dict[int, list[tuple[int, Branch]]] = {node: [] for node in self.block.spokes}
        for branch in self.block.branches:
            if branch.above is not None:
                near[branch.node].append((branch.above, branch))
                near[branch.above].append((branch.node, branch))
        while len(some) < len(near):
            node = self._next(some, near)
            own = self._states(node, most)
            for other, branch in near[node]:
                if other in some and len(own.of):
                    own = self._pruned(own, node, some[other], branch, most)
            if not len(own.of):
                return None
            some[node] = own
        return self._joined(some)

    def _next(self, some: dict[int, _Some], near: dict[int, list[tuple[int, Branch]]]) -> int:
        """Return the next node: those beside the pivot come first, then those beside others."""
        left = [node for node in near if node not in some]
        beside = [node for node in left if self.block.spokes[node]]
        touching = [node for node in left if any(other in some for other, _ in near[node])]
        return [*beside, *touching, *left][0]

    def _states(self, node: int, most: float) -> _Some:
        """Return the states of a node in the cells, of counts and costs within the bound."""
        sizes = tuple(
            tuple(
                size for size, group in zip(self.cells.sizes, self.cells.groups, strict=True) if group == own
            )
            for own in range(len(self.graph.ways))
        )
        counts, of = [], []
        for index in np.flatnonzero(self.marginals.of[node] <= most):
            state = self.relaxed.states[node][index]
            counts.append(splits(tuple(map(tuple, state.tolist())), sizes))
            of.append(np.full(len(counts[-1]), index))
        if not counts:
            return _Some(np.zeros((0, 0, 0), np.int8), np.zeros(0, np.intp), np.zeros(0), np.zeros(0))
        found, places = np.concatenate(counts), np.concatenate(of)
        own = self.relaxed.nodes[node]
        costs = np.zeros(len(places)) if node == self.block.port else own[places]
        above = np.zeros(len(places))
        for link in self.block.spokes[node]:
            here = self._beside(link, found)
            costs = costs + here
            above += here - self.relaxed.between(link, self.block.pivot)[self.row][places]
        return _Some(found, places, costs, above).kept(self.marginals.of[node][places] + above <= most)

    def _beside(self, link: int, counts: Numbers) -> Costs:
        """Return the cost of a tensor between the pivot and states of a node."""
        source, _, form = self.graph.links[link]
        powers = [own if source == self.block.pivot else own.T for own in form.powers]
        met: tuple[dict[int, Indices], ...] = ({}, {}, {})
        totals, lacks, kept = met
        for cell, (group, option) in enumerate(self.parts):
            for found, own in zip(met, powers, strict=True):
                found[group] = found.get(group, 0) + counts[:, cell].astype(np.int64) @ own[option]
        costs = priced(form, totals, lacks, self.cells, kept)
        mine, theirs = form.alone if source == self.block.pivot else form.alone[::-1]
        pivot = self.relaxed.states[self.block.pivot][self.row][None]
        if form.idle or (form.once and self.graph.latencies):
            ends = (self.graph.cells.by_group(pivot), self.cells.by_group(counts))
            of_each = ends if source == self.block.pivot else ends[::-1]
            costs = costs + further_costs(form, of_each, (totals, lacks), self.cells)
        return costs + node_costs(mine, pivot, self.graph.cells) + node_costs(theirs, counts, self.cells)

    def _pruned(self, own: _Some, node: int, other: _Some, branch: Branch, most: float) -> _Some:
        """Leave out the states that cost too much more than by counts beside the states of a neighbour."""
        least = np.full(len(own.of), np.inf)
        for first, last in self._blocks(len(own.of), len(other.of)):
            rows = slice(first, last)
            excess = np.tile(other.above, (last - first, 1))
            for link in branch.links:
                source, _, form = self.graph.links[link]
                bound = self.relaxed.between(link, node)
                excess += self._pairs(form, source == node, own.counts[rows], other.counts)
                excess -= bound[np.ix_(own.of[rows], other.of)]
            least[rows] = excess.min(axis=1)
        # The tensors of both sums differ: what a neighbour knows of was added up before this node came.
        above = own.above + least
        return own._replace(above=above).kept(self.marginals.of[node][own.of] + above <= most)

    def _pairs(self, form: Form, first: bool, own: Numbers, other: Numbers) -> Costs:
        """Return the costs of pairs of states, ``[own, other]``."""
        made, read = (own, other) if first else (other, own)
        costs = pair_costs(form, made, read, self.cells)
        return costs if first else costs.T

    def _blocks(self, rows: int, columns: int) -> Iterator[tuple[int, int]]:
        if rows * columns > MOST_PAIRS:
            raise TooMany
        step = max(1, ROWS // max(1, columns))
        for first in range(0, rows, step):
            checkpoint()
            yield first, min(rows, first + step)

    def _joined(self, some: dict[int, _Some]) -> tuple[float, Placed]:
        """Return the least cost of some states of all nodes, tree by tree."""
        least = {node: own.costs.copy() for node, own in some.items()}
        picks: dict[int, Indices] = {}
        total = 0.0
        for branch in [one for tree in self.block.trees for one in reversed(tree)]:
            if branch.above is None:
                total += float(least[branch.node].min())
                continue
            above, own = some[branch.above], some[branch.node]
            picks[branch.node] = np.zeros(len(above.of), dtype=np.intp)
            for first, last in self._blocks(len(above.of), len(own.of)):
                rows = slice(first, last)
                costs = np.tile(least[branch.node], (last - first, 1))
                for link in branch.links:
                    source, _, form = self.graph.links[link]
                    costs += self._pairs(form, source == branch.above, above.counts[rows], own.counts)
                picks[branch.node][rows] = costs.argmin(axis=1)
                least[branch.above][rows] += costs.min(axis=1)
        chosen: dict[int, int] = {}
        for branch in self.block.branches:
            of_above = None if branch.above is None else chosen[branch.above]
            costs = least[branch.node]
            chosen[branch.node] = (
                int(costs.argmin()) if of_above is None else int(picks[branch.node][of_above])
            )
        place = {node: at for at, node in enumerate(self.block.nodes)}
        counts = {place[node]: some[node].counts[index] for node, index in chosen.items()}
        return total, Placed(self.parts, counts)
