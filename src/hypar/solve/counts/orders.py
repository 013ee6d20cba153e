"""Orders of levels that reach the cost of given counts, written down from node to node.

Inside a cell, equal classes meet first; then those who have the whole tensor meet those who divide it, as far as there are
any. Any such pairing is as good as any other.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from hypar.solve.counts.forms import EVERYWHERE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypar.solve.counts.forms import CountGraph, Numbers
    from hypar.solve.counts.pivots import Block, Chain, Path, Placed
    from hypar.solve.edge import Indices


def written(chain: Chain, path: Path) -> Indices:
    """Return the option of each layer at each level, ``[layers, levels]``, of an exact path."""
    writer, left = _Writer(chain.relaxed.graph), [*chain.blocks]
    states = {node: chain.relaxed.states[node][state] for node, state in path.states.items()}
    for root in chain.ports:
        if not writer.has(root):
            writer.fill(root, writer.levels, states[root])
        while found := [own for own in left if writer.has(own[0].pivot) or writer.has(own[0].port)]:
            block, table = found[0]
            left.remove(found[0])
            known, other = (block.pivot, block.port)[:: 1 if writer.has(block.pivot) else -1]
            if len(block.nodes) == 2:
                writer.meet(other, known, block.spokes[block.port], writer.levels, states[other])
            else:
                writer.block(block, table.placed[path.entry(block)], known)
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

    def has(self, node: int) -> bool:
        """Return whether a node is written down."""
        return not self.orders.size or bool(self.orders[node, 0] >= 0)

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
            # The port takes each option in each cell of the pivot as often as the pivot takes its own in the port's.
            cells = [*product(range(len(self.levels)), range(counts[known].shape[1]))]
            turned = np.zeros((len(cells), self.graph.options(block.pivot)), dtype=np.int8)
            for (group, option), own in zip(placed.cells, counts[known], strict=True):
                turned[[group * len(own) + at for at in range(len(own))], option] = own
            self.fill(block.pivot, self._cells(known, cells), turned)
        found = self._cells(block.pivot, placed.cells)
        for node, above, links in block.branches:
            if node == known:
                continue
            if above is None:
                self.fill(node, found, counts[node])
            else:
                self.meet(node, above, links, found, counts[node])

    def _cells(self, node: int, parts: Iterable[tuple[int, int]]) -> list[list[int]]:
        """Return the levels of some groups at which a node takes some options."""
        return [
            [level for level in self.levels[group] if self.orders[node, level] == option]
            for group, option in parts
        ]


def _wholeness(classes: Sequence[int], staying: Sequence[int], option: int) -> int:
    """Return 2 for an option with the whole tensor, 1 for one that divides it but stays, and 0 for others."""
    return 2 if classes[option] == EVERYWHERE else int(option in staying)
