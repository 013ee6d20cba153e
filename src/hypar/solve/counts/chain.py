"""The search over the blocks of a network, with tables that are made exact where the best path uses them.

Two blocks meet at a node whose counts are all that they need of each other: the levels of a group may be renamed in one of
them. The blocks and the nodes at which they meet are a tree, on which the least bound is found; its path is the optimum
once all of its entries are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.counts.entries import Entry, Table, TooMany
from hypar.solve.minsum import of_pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.solve.counts.blocks import Block
    from hypar.solve.counts.relaxed import Relaxed

ROUNDING = 1e-12
"""Largest rounding error of a sum, relative to it."""

FIRST_ROOM = 0.5
"""Share of the gap for each block by which an entry may first exceed its bound; each time it exceeds that it may four times as much."""

MOST_ENTRIES = 2000
"""Most entries that are made exact."""


class Turn(NamedTuple):
    """A block on the way from a node to the next.

    Attributes:
        above: the node from which it is reached; None for a root, which has no block.
        node: the other one of pivot and port.
        block: the block.
        table: its table.
    """

    above: int | None
    node: int
    block: Block | None = None
    table: Table | None = None

    def entry(self, states: Sequence[int]) -> tuple[int, int]:
        """Return the entry of the table that some states use."""
        assert self.block is not None  # noqa: S101 (no root)
        return states[self.block.pivot], states[self.block.port]


class Path(NamedTuple):
    """The best path through the tables.

    Attributes:
        states: the state of each node at which blocks may meet.
        bound: its cost by the tables.
        exact: whether all entries on it are exact.
    """

    states: list[int]
    bound: float
    exact: bool


class Chain:
    """The tables of all blocks.

    Attributes:
        turns: the nodes at which blocks may meet, roots first, each with the block that leads to it.
        known: the cost of a known plan.
    """

    def __init__(self, relaxed: Relaxed, blocks: Sequence[Block], known: float) -> None:
        """Compute the bounds of counts; equal blocks share a table."""
        self.relaxed, self.known = relaxed, known
        tables: dict[object, Table] = {}
        around: dict[int, list[tuple[int, Block, Table]]] = {node: [] for node in range(len(relaxed.nodes))}
        inner: set[int] = set()
        for block in blocks:
            key = self._key(block)
            if key not in tables:
                tables[key] = Table(relaxed, block)
            around[block.pivot].append((block.port, block, tables[key]))
            around[block.port].append((block.pivot, block, tables[key]))
            inner |= {*block.nodes} - {block.pivot, block.port}
        self.turns: list[Turn] = []
        seen: set[int] = set()
        for root in around:
            todo = [] if root in inner or root in seen else [Turn(None, root)]
            seen.add(root)
            while todo:
                turn = todo.pop()
                self.turns.append(turn)
                for other, block, table in around[turn.node]:
                    if other not in seen:
                        seen.add(other)
                        todo.append(Turn(turn.node, other, block, table))
        place = {turn.node: at for at, turn in enumerate(self.turns)}
        ends = [
            (place[turn.block.pivot], place[turn.block.port]) for turn in self.turns if turn.block is not None
        ]
        self._search = of_pairs([len(relaxed.nodes[node]) for node in place], ends)

    def _key(self, block: Block) -> object:
        """Return what the table of a block depends on."""
        place = {node: at for at, node in enumerate(block.nodes)}
        links = [link for own in block.spokes.values() for link in own]
        links += [link for branch in block.branches for link in branch.links]
        ends = [self.relaxed.graph.links[link] for link in links]
        shape = tuple((place[source], place[target], form) for source, target, form in ends)
        costs = tuple(id(self.relaxed.nodes[node]) for node in block.nodes)
        return costs, tuple(sorted(shape)), place[block.pivot], place[block.port]

    def best(self, *, exact_only: bool = False) -> Path:
        """Return the best path through the tables, or through their exact entries alone."""
        barred, pairs = 2 * self.known + 1, []
        for turn in self.turns:
            if turn.table is not None:
                costs = (
                    np.where(turn.table.exact, turn.table.costs, np.inf) if exact_only else turn.table.costs
                )
                pairs.append(np.minimum(costs, barred)[None])
        place = [turn.node for turn in self.turns]
        solved = self._search.solve([self.relaxed.nodes[node][None] for node in place], pairs)
        states = [0] * len(self.relaxed.nodes)
        for node, state in zip(place, solved.choices(), strict=True):
            states[node] = state
        exact = all(turn.table.exact[turn.entry(states)] for turn in self.turns if turn.table is not None)
        return Path(states, float(solved.lowest[0]), bool(exact))

    def closing(self) -> Iterator[Path]:
        """Yield the best path after entries are made exact, until it is, or costs no less than the known plan, or there are too many."""
        while True:
            path = self.best()
            yield path
            if path.exact or path.bound >= self.known * (1 - ROUNDING):
                return
            open_entries = {}
            for turn in self.turns:
                if turn.table is not None and not turn.table.exact[turn.entry(path.states)]:
                    open_entries[id(turn.table), turn.entry(path.states)] = turn.table
            try:
                for (_, entry), table in open_entries.items():
                    self._raise(table, entry, self.known - path.bound)
            except TooMany:
                return

    def _raise(self, table: Table, entry: tuple[int, int], gap: float) -> None:
        """Make an entry exact, or raise its bound."""
        tried = table.tried.get(entry, 0)
        table.tried[entry] = tried + 1
        if sum(len(own) for own in (table.tried,)) > MOST_ENTRIES:
            raise TooMany
        # A plan through an entry that exceeds its bound by more than ``most`` costs more than the known one.
        most = gap + table.costs[entry] - table.first[entry]
        room = min(most, gap / max(1, len(self.turns) - 1) * FIRST_ROOM * 4**tried)
        slack = self.known * 1e-9
        found = Entry(table, *entry).least(room + slack)
        if found is not None and found[0] <= table.first[entry] + room + slack:
            table.costs[entry] = max(table.costs[entry], found[0])
            table.placed[entry] = found[1]
            table.exact[entry] = True
        elif room >= most:
            table.costs[entry] = np.inf
            table.exact[entry] = True
        else:
            table.costs[entry] = max(table.costs[entry], table.first[entry] + room)
