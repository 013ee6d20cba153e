"""Orders of levels that reach the cost of given counts, written down from node to node.

Inside a cell, equal classes meet first; then those who have the whole tensor meet those who divide it, as far as there are
any. Any such pairing is as good as any other.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.counts.forms import EVERYWHERE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.solve.counts.forms import CountGraph, Numbers
    from hypar.solve.counts.pivots import Block, Chain, Path, Placed
    from hypar.solve.edge import Indices


def written(chain: Chain, path: Path) -> Indices:
    """Return the option of each layer at each level, ``[layers, levels]``, of an exact path."""
    writer = _Writer(chain.relaxed.graph)
    states = chain.relaxed.states
    for turn in chain.turns:
        own = states[turn.node][path.states[turn.node]]
        if turn.above is None or turn.block is None or turn.table is None:
            writer.fill(turn.node, writer.levels, own)
        elif len(turn.block.nodes) == 2:
            links = turn.block.spokes[turn.block.port]
            writer.meet(turn.node, turn.above, links, writer.levels, own)
        else:
            writer.block(turn.block, turn.table.placed[turn.entry(path.states)], turn.above)
    return writer.orders


class _Writer:
    """The orders that are written down so far.

    Attributes:
        graph: the problem.
        levels: the levels of each group.
        orders: the option of each layer at each level.
    """

    def __init__(self, graph: CountGraph) -> None:
        self.graph = graph
        ends = np.cumsum((0, *graph.depths)).tolist()
        self.levels = [[*range(first, last)] for first, last in pairwise(ends)]
        self.orders = np.full((len(graph.nodes), ends[-1]), -1, dtype=np.intp)

    def fill(self, node: int, cells: Sequence[Sequence[int]], counts: Numbers) -> None:
        """Place the options of a node within cells, in any order."""
        for levels, own in zip(cells, counts, strict=True):
            self.orders[node, list(levels)] = np.repeat(np.arange(len(own)), own)

    def meet(
        self, node: int, other: int, links: Sequence[int], cells: Sequence[Sequence[int]], counts: Numbers
    ) -> None:
        """Place the options of a node within cells so that they meet those of another node best."""
        source, _, form = self.graph.links[links[0]]
        ends = [(form.made, ()), (form.read, form.staying)]
        mine, theirs = ends if source == node else ends[::-1]
        for levels, own in zip(cells, counts.tolist(), strict=True):
            free = []
            for level in levels:
                name = theirs[0][self.orders[other, level]]
                alike = (at for at, of in enumerate(mine[0]) if of == name != EVERYWHERE and own[at])
                option = next(alike, None)
                if option is None:
                    free.append(level)
                else:
                    self.orders[node, level] = option
                    own[option] -= 1
            # Options that stay are next to whole tensors: they meet divided ones, as far as there are any.
            free.sort(key=lambda level: _wholeness(*theirs, self.orders[other, level]))
            rest = [at for at, number in enumerate(own) for _ in range(number)]
            self.orders[node, free] = sorted(rest, key=lambda at: -_wholeness(*mine, at))

    def block(self, block: Block, placed: Placed, known: int) -> None:
        """Place the options of all nodes of a block, of which pivot or port is known."""
        counts = {node: placed.counts[at] for at, node in enumerate(block.nodes) if node != block.pivot}
        if known == block.port:
            self._pivot(block, placed, counts[known])
        pivot = self.orders[block.pivot]
        cells = [
            [level for level in self.levels[group] if pivot[level] == option]
            for group, option in placed.cells
        ]
        for branch in block.branches:
            if branch.node == known:
                continue
            if branch.above is None:
                self.fill(branch.node, cells, counts[branch.node])
            else:
                self.meet(branch.node, branch.above, branch.links, cells, counts[branch.node])

    def _pivot(self, block: Block, placed: Placed, counts: Numbers) -> None:
        """Place the options of the pivot so that the port takes each option in each cell as often as it has to."""
        free = {
            (group, option): [level for level in levels if self.orders[block.port, level] == option]
            for group, levels in enumerate(self.levels)
            for option in range(counts.shape[1])
        }
        for (group, option), own in zip(placed.cells, counts.tolist(), strict=True):
            for of_port, number in enumerate(own):
                levels = free[group, of_port]
                self.orders[block.pivot, levels[:number]] = option
                free[group, of_port] = levels[number:]


def _wholeness(classes: Sequence[int], staying: Sequence[int], option: int) -> int:
    """Return 2 for an option with the whole tensor, 1 for one that divides it but stays, and 0 for others."""
    return 2 if classes[option] == EVERYWHERE else int(option in staying)
