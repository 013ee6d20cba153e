"""The problem of some widths of blocks of levels: a state of a node is how often it takes each option in each block.

A state's cost has the best order within each block, of the node and of each pair of nodes by itself: a lower bound, and
exact once every block is one level.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.coarse.spans import node_span, pair_span

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from hypar.solve.coarse.ladder import Ladder
    from hypar.solve.coarse.lattice import Run
    from hypar.solve.edge import Costs, Indices


class Spans:
    """The least costs of levels in a row, each computed once."""

    def __init__(self, ladder: Ladder) -> None:
        """Start with none."""
        self.ladder = ladder
        self._known: dict[Hashable, Costs] = {}

    def node(self, node: int, first: int, width: int) -> Costs:
        """Return the least cost of a node, ``[states above, counts]``."""
        terms, lattice = self.ladder.nodes[node], self.ladder.lattice(node)
        key = (id(terms), first, width)
        if key not in self._known:
            self._known[key] = node_span(terms, lattice, first, width)
        return self._known[key]

    def pair(self, link: int, first: int, width: int) -> Costs:
        """Return the least cost of a link, ``[counts of the source, states above of the target, its counts]``."""
        source, target, terms = self.ladder.links[link]
        ends = (self.ladder.lattice(source), self.ladder.lattice(target))
        key = (id(terms), first, width)
        if key not in self._known:
            self._known[key] = pair_span(terms, ends, first, width)
        return self._known[key]

    def cost(self, orders: Indices) -> float:
        """Return the cost of a plan, ``[nodes, levels]``."""
        only = Coarse(self, (1,) * self.ladder.levels, [order[None] for order in orders])
        return math.fsum(
            [float(costs[0]) for costs in only.nodes] + [float(costs[0, 0]) for costs in only.pairs]
        )


class Coarse:
    """The states of each node that are left.

    Attributes:
        spans: the costs of blocks.
        blocks: the number of levels of each block.
        states: for each node ``[states, blocks]``; those of equal nodes are one object if they are equal.
        nodes: their costs.
        pairs: the costs of each link, ``[states of the source, states of the target]``.
    """

    def __init__(self, spans: Spans, blocks: tuple[int, ...], states: Sequence[Indices]) -> None:
        """Compute the costs."""
        self.spans, self.ladder, self.blocks = spans, spans.ladder, blocks
        shared: dict[Hashable, Indices] = {}
        nodes = self.ladder.nodes
        # A view is an object of its own, so that unlike nodes never share one.
        self.states = [
            shared.setdefault((id(terms), own.tobytes()), own[:])
            for terms, own in zip(nodes, states, strict=True)
        ]
        above: dict[int, Indices] = {}
        costs: dict[int, Costs] = {}
        for node, own in enumerate(self.states):
            if id(own) not in above:
                above[id(own)], costs[id(own)] = self._priced(node, own)
        self.nodes = [costs[id(own)] for own in self.states]
        pairs: dict[Hashable, Costs] = {}
        self.pairs: list[Costs] = []
        for at, (source, target, terms) in enumerate(self.ladder.links):
            key = (id(terms), id(self.states[source]), id(self.states[target]))
            if key not in pairs:
                pairs[key] = self._paired(at, above[id(self.states[target])])
            self.pairs.append(pairs[key])

    @classmethod
    def coarsest(cls, ladder: Ladder, spans: Spans | None = None) -> Coarse:
        """Return the problem of one block for each run, given costs of blocks if some are known."""
        states: dict[object, Indices] = {}
        found = []
        for node, options in enumerate(ladder.options):
            if options not in states:
                lattice = ladder.lattice(node)
                firsts = np.cumsum((0, *ladder.runs[:-1]))
                sizes = [
                    len(lattice.run(first).counts[width])
                    for first, width in zip(firsts, ladder.runs, strict=True)
                ]
                states[options] = np.indices(sizes).reshape(len(sizes), -1).T.copy()
            found.append(states[options])
        return cls(spans or Spans(ladder), ladder.runs, found)

    @property
    def entries(self) -> int:
        """The entries of all tables of pairs."""
        return sum({id(costs): costs.size for costs in self.pairs}.values())

    def entries_after(self, which: Sequence[int]) -> int:
        """Return the entries of these tables after some blocks are halved."""
        sizes = self.sizes_after(which)
        tables = {
            (id(terms), id(self.states[source]), id(self.states[target])): sizes[source] * sizes[target]
            for source, target, terms in self.ladder.links
        }
        return sum(tables.values())

    @property
    def fine(self) -> bool:
        """Whether every block is one level, so that costs are exact."""
        return max(self.blocks) == 1

    @property
    def firsts(self) -> list[int]:
        """The first level of each block."""
        return [0, *np.cumsum(self.blocks)[:-1].tolist()]

    def _priced(self, node: int, states: Indices) -> tuple[Indices, Costs]:
        """Return what is above each block in each state of a node, ``[states, blocks]``, and its cost."""
        lattice = self.ladder.lattice(node)
        above, costs = np.zeros_like(states), np.zeros(len(states))
        for block, (first, width) in enumerate(zip(self.firsts, self.blocks, strict=True)):
            here = above[:, block], states[:, block]
            costs += self.spans.node(node, first, width)[here]
            if block + 1 < len(self.blocks):
                above[:, block + 1] = lattice.below(first, width)[here]
        return above, costs

    def _paired(self, link: int, above: Indices) -> Costs:
        """Return the costs of pairs of states of a link, given what is above each block in those of the target."""
        source, target, _ = self.ladder.links[link]
        made, read = self.states[source], self.states[target]
        costs = np.zeros((len(made), len(read)))
        for block, (first, width) in enumerate(zip(self.firsts, self.blocks, strict=True)):
            table = self.spans.pair(link, first, width)
            costs += table[:, above[:, block], read[:, block]][made[:, block]]
        return costs

    def kept(self, keep: Sequence[NDArray[np.bool_]]) -> Coarse:
        """Return the problem with some of the states alone."""
        found: Coarse = object.__new__(Coarse)
        found.spans, found.ladder, found.blocks = self.spans, self.ladder, self.blocks
        rows: dict[Hashable, tuple[Indices, Costs]] = {}
        found.states, found.nodes, found.pairs = [], [], []
        for own, costs, left in zip(self.states, self.nodes, keep, strict=True):
            key = (id(own), left.tobytes())
            if key not in rows:
                rows[key] = (own, costs) if left.all() else (own[left], costs[left])
            found.states.append(rows[key][0])
            found.nodes.append(rows[key][1])
        pairs: dict[Hashable, Costs] = {}
        for (source, target, _), costs in zip(self.ladder.links, self.pairs, strict=True):
            both = (id(costs), id(found.states[source]), id(found.states[target]))
            if both not in pairs:
                whole = keep[source].all() and keep[target].all()
                pairs[both] = costs if whole else costs[np.ix_(keep[source], keep[target])]
            found.pairs.append(pairs[both])
        return found

    def sizes_after(self, which: Sequence[int]) -> list[int]:
        """Return the number of states of each node after some blocks are halved."""
        known: dict[int, int] = {}
        for node, own in enumerate(self.states):
            if id(own) not in known:
                ways = [self._halves(node, block)[1][own[:, block]] for block in which]
                known[id(own)] = int(np.prod(ways, axis=0).sum()) if ways else len(own)
        return [known[id(own)] for own in self.states]

    def halved(self, which: Sequence[int]) -> Coarse:
        """Return the problem with some blocks halved, of which the outer one is the wider."""
        blocks = [
            half
            for block, width in enumerate(self.blocks)
            for half in ((width - width // 2, width // 2) if block in which else (width,))
        ]
        known: dict[int, Indices] = {}
        for node, own in enumerate(self.states):
            if id(own) not in known:
                known[id(own)] = self._parted(node, own, which)
        return Coarse(self.spans, tuple(blocks), [known[id(own)] for own in self.states])

    def _halves(self, node: int, block: int) -> tuple[Indices, Indices]:
        width = self.blocks[block]
        run: Run = self.ladder.lattice(node).run(self.firsts[block])
        return run.halves(width - width // 2, width // 2)

    def _parted(self, node: int, states: Indices, which: Sequence[int]) -> Indices:
        """Return every way to part the states of a node."""
        rows = np.arange(len(states))
        columns: list[Indices] = []
        for block in range(len(self.blocks)):
            if block not in which:
                columns.append(states[rows, block])
                continue
            pairs, sizes = self._halves(node, block)
            taken = states[rows, block]
            ways = sizes[taken]
            first = np.cumsum(ways) - ways
            repeated = np.repeat(np.arange(len(rows)), ways)
            nth = np.arange(len(repeated)) - first[repeated]
            found = pairs[(np.cumsum(sizes) - sizes)[taken[repeated]] + nth]
            rows = rows[repeated]
            columns = [column[repeated] for column in columns]
            columns += [found[:, 0], found[:, 1]]
        return np.stack(columns, axis=1)
