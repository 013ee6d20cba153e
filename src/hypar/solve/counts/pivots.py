"""The blocks of a network, each with a pivot without which it is a forest, and the search over their tables.

Two blocks meet at a node whose counts are all that they need of each other: the levels of a group may be renamed in one of
them. The table of a block has its least cost for each pair of states of pivot and port, without the costs of these two themselves. It
starts as the bound of counts. The blocks and the nodes at which they meet are a tree, on which the least bound is found; its entries are
made exact where the best path uses them, and the path is the optimum once all of its entries are exact.

*Entries.* The options of the pivot part the levels into cells. On the trees that are left, how often each node takes each option
in each cell is all that matters, as orders within a cell follow from node to node. Counts of cells come from counts that
cost little more than the bound, and are left out where the nodes beside them cost too much more than by counts alone.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.counts.forms import pair_costs
from hypar.solve.counts.relaxed import ROUNDING, spanning
from hypar.solve.counts.states import splits
from hypar.solve.limits import checkpoint
from hypar.solve.minsum import of_pairs
from hypar.solve.order import components

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hypar.solve.counts.forms import Numbers
    from hypar.solve.counts.relaxed import Relaxed
    from hypar.solve.edge import Costs, Indices
    from hypar.solve.minsum import Ends, Solved

AT_ONCE = 2**16
"""Pairs of states that are added up at once in the bound of a table."""

ROWS, MOST_PAIRS = 2**20, 2**28
"""Pairs of states whose costs are computed at once in an entry, and most of one tensor."""

FIRST_ROOM = 0.5
"""Share of the gap for each block by which an entry may first exceed its bound; each time it exceeds that it may four times as much."""

MOST_ENTRIES = 2000
"""Most times that entries of a table are tried."""


class TooMany(Exception):  # noqa: N818 (no error: the bound stays)
    """An entry has more pairs of states than there is time for."""


class Branch(NamedTuple):
    """A node of the forest of a block; ``above`` is the node towards the root, None for a root, and ``links`` those to it."""

    node: int
    above: int | None
    links: tuple[int, ...]


class Block(NamedTuple):
    """A block.

    Attributes:
        nodes: its nodes.
        pivot: the node without which it is a forest.
        port: the other node at which it may meet other blocks.
        spokes: for each other node the links to the pivot.
        branches: the nodes of the forest, each behind the one above it; the port is the first.
    """

    nodes: tuple[int, ...]
    pivot: int
    port: int
    spokes: dict[int, tuple[int, ...]]
    branches: tuple[Branch, ...]


def blocks_of(ends: Sequence[Ends], nodes: int) -> tuple[Block, ...] | None:
    """Return the blocks of a graph; None if one has no pivot, or meets others at more than two nodes.

    Args:
        ends: the nodes of each link.
        nodes: the number of nodes.

    Examples:
        >>> [(block.pivot, block.port) for block in blocks_of([(0, 1), (1, 2), (0, 2), (2, 3)], 4)]
        [(2, 0), (2, 3)]
    """
    between: dict[frozenset[int], list[int]] = {}
    near: list[set[int]] = [set() for _ in range(nodes)]
    for at, (one, other) in enumerate(ends):
        between.setdefault(frozenset((one, other)), []).append(at)
        near[one].add(other)
        near[other].add(one)
    parts = sorted(sorted(own) for own in components(near))
    met = Counter(node for own in parts for node in own)
    blocks = []
    for own in parts:
        inside = {frozenset((node, other)) for node in own for other in near[node] & {*own}}
        links = {pair: tuple(between[pair]) for pair in inside}
        blocks.append(_block(own, links, [node for node in own if met[node] > 1]))
    return None if None in blocks else tuple(block for block in blocks if block is not None)


def _block(
    nodes: Sequence[int], links: dict[frozenset[int], tuple[int, ...]], ports: Sequence[int]
) -> Block | None:
    """Return a block with its pivot, at a port if possible."""
    for pivot in (*reversed(ports), *nodes):
        port, *more = [node for node in ports if node != pivot] or [node for node in nodes if node != pivot][
            :1
        ]
        rest = [(min(pair), max(pair)) for pair in links if pivot not in pair]
        # A forest has fewer pairs than nodes.
        if more or len(rest) > len(nodes) - 2:
            continue
        if len(spanning(max(nodes) + 1, rest, far=False)) == len(rest):
            spokes = {node: links.get(frozenset((node, pivot)), ()) for node in nodes if node != pivot}
            return Block(tuple(nodes), pivot, port, spokes, tuple(_branches(spokes, port, links)))
    return None


def _branches(
    nodes: Iterable[int], port: int, links: dict[frozenset[int], tuple[int, ...]]
) -> Iterator[Branch]:
    """Yield the nodes of a forest from the port on."""
    left = {*nodes}
    for root in (port, *nodes):
        todo = [Branch(root, None, ())] * (root in left)
        left.discard(root)
        while todo:
            branch = todo.pop()
            yield branch
            onward = [other for other in sorted(left) if frozenset((branch.node, other)) in links]
            left -= {*onward}
            todo += [Branch(other, branch.node, links[frozenset((branch.node, other))]) for other in onward]


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
        tried: how often an entry was asked for.
        placed: for entries that were made exact, the states of the other nodes in the cells of the pivot.
    """

    def __init__(self, relaxed: Relaxed, block: Block) -> None:
        """Compute the bound of counts, some states of the pivot at once."""
        self.relaxed, self.block = relaxed, block
        self.others = [branch.node for branch in block.branches]
        self.links = [link for branch in block.branches for link in branch.links]
        states = len(relaxed.nodes[block.pivot])
        step = max(1, AT_ONCE // max([relaxed.pair(link).size for link in self.links], default=1))
        rows = (range(first, min(first + step, states)) for first in range(0, states, step))
        self.first = np.concatenate([self.solved(own).of_last() for own in rows])
        self.costs = self.first.copy()
        self.exact = np.full(self.first.shape, len(block.nodes) == 2)
        self.tried: Counter[tuple[int, int]] = Counter()
        self.placed: dict[tuple[int, int], Placed] = {}

    def solved(self, rows: range, column: int | None = None) -> Solved:
        """Return the least sums beside some states of the pivot, each a problem; the port's own costs are left out.

        Args:
            rows: the states of the pivot.
            column: the state of the port; None for any.
        """
        relaxed, block, nodes = self.relaxed, self.block, []
        for node in self.others:
            costs = np.tile(relaxed.nodes[node] * (node != block.port), (len(rows), 1))
            for link in block.spokes[node]:
                costs += relaxed.between(link, block.pivot)[rows.start : rows.stop]
            nodes.append(self._kept(node, costs, 1, column))
        ends, pairs = [], []
        for link in self.links:
            source, target, _ = relaxed.graph.links[link]
            ends.append((self.others.index(source), self.others.index(target)))
            costs = self._kept(source, relaxed.pair(link)[None], 1, column)
            pairs.append(self._kept(target, costs, 2, column))
        sizes = [costs.shape[1] for costs in nodes]
        return of_pairs(sizes, ends, self.others.index(block.port)).solve(nodes, pairs)

    def _kept(self, node: int, costs: Costs, axis: int, column: int | None) -> Costs:
        """Return costs with one state of the port alone."""
        return costs if column is None or node != self.block.port else costs.take([column], axis=axis)

    def close(self, entry: tuple[int, int], gap: float, room: float, slack: float) -> None:
        """Make an entry exact, or raise its bound.

        Args:
            entry: the states of pivot and port.
            gap: by how much a plan may exceed the best path.
            room: by how much the entry may exceed its first bound now; four times as much each time that it was tried.
            slack: the rounding error.

        Raises:
            TooMany: entries were tried too often, or this one takes too long.
        """
        room *= 4 ** self.tried[entry]
        self.tried[entry] += 1
        if len(self.tried) > MOST_ENTRIES:
            raise TooMany
        # A plan through an entry that exceeds its bound by more than ``most`` costs more than the known one.
        most = gap + self.costs[entry] - self.first[entry]
        room = min(most, room)
        found = Entry(self, *entry).least(room + slack)
        if found is not None and found[0] <= self.first[entry] + room + slack:
            self.costs[entry], self.placed[entry] = max(self.costs[entry], found[0]), found[1]
            self.exact[entry] = True
        elif room >= most:
            self.costs[entry], self.exact[entry] = np.inf, True
        else:
            self.costs[entry] = max(self.costs[entry], self.first[entry] + room)


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

    def kept(self, keep: NDArray[np.bool_] | slice) -> _Some:
        return _Some(self.counts[keep], self.of[keep], self.costs[keep], self.above[keep])


class Entry:
    """The search for one entry of a table."""

    def __init__(self, table: Table, row: int, column: int) -> None:
        """Find the cells of the pivot's state, and the least cost by counts for each state of each other node."""
        self.relaxed, self.block, self.row = table.relaxed, table.block, row
        state = self.relaxed.states[self.block.pivot][row]
        self.parts = tuple(zip(*[own.tolist() for own in np.nonzero(state)], strict=True))
        sizes = tuple(int(state[part]) for part in self.parts)
        self.cells = self.relaxed.graph.parted(sizes, tuple(group for group, _ in self.parts))
        self.pivot = np.zeros((1, len(sizes), state.shape[1]), dtype=np.int8)
        self.pivot[0, np.arange(len(sizes)), [option for _, option in self.parts]] = sizes
        solved = table.solved(range(row, row + 1), column)
        self.whole = float(solved.lowest[0])
        self.least_of = dict(zip(table.others, solved.marginals(), strict=True))
        port = np.full(len(self.relaxed.nodes[self.block.port]), np.inf)
        port[column] = self.whole
        self.least_of[self.block.port] = port

    def least(self, room: float) -> tuple[float, Placed] | None:
        """Return the least cost and the counts of every node; None if it exceeds the bound of counts by more than some room.

        Raises:
            TooMany: it would take too long.
        """
        some: dict[int, _Some] = {}
        near: dict[int, list[Branch]] = {node: [] for node in self.block.spokes}
        for branch in self.block.branches:
            if branch.above is not None:
                near[branch.node].append(branch)
                near[branch.above].append(branch._replace(node=branch.above, above=branch.node))
        while len(some) < len(near):
            node = self._next(some, near)
            own = self._states(node, self.whole + room)
            for _, other, links in near[node]:
                if other is not None and other in some and len(own.of):
                    own = self._pruned(own, node, some[other], links, self.whole + room)
            if not len(own.of):
                return None
            some[node] = own
        return self._joined(some)

    def _next(self, some: dict[int, _Some], near: dict[int, list[Branch]]) -> int:
        """Return the next node: those beside the pivot come first, then those beside others."""
        left = [node for node in near if node not in some]
        beside = [node for node in left if self.block.spokes[node]]
        touching = [node for node in left if any(branch.above in some for branch in near[node])]
        return [*beside, *touching, *left][0]

    def _states(self, node: int, most: float) -> _Some:
        """Return the states of a node in the cells, of counts and costs within the bound."""
        cells, least = [*zip(self.cells.sizes, self.cells.groups, strict=True)], self.least_of[node]
        sizes = tuple(
            tuple(size for size, group in cells if group == own) for own in range(len(self.cells.ways))
        )
        few = np.flatnonzero(least <= most)
        if not few.size:
            return _Some(np.zeros((0, 0, 0), np.int8), few, np.zeros(0), np.zeros(0))
        every = [splits(tuple(map(tuple, state)), sizes) for state in self.relaxed.states[node][few].tolist()]
        counts, of = np.concatenate(every), np.repeat(few, [len(own) for own in every])
        costs, above = self.relaxed.nodes[node][of] * (node != self.block.port), np.zeros(len(of))
        for link in self.block.spokes[node]:
            here = self._pairs(link, self.block.pivot, self.pivot, counts)[0]
            costs += here
            above += here - self.relaxed.between(link, self.block.pivot)[self.row][of]
        return _Some(counts, of, costs, above).kept(least[of] + above <= most)

    def _pruned(self, own: _Some, node: int, other: _Some, links: Sequence[int], most: float) -> _Some:
        """Leave out the states that cost too much more than by counts beside the states of a neighbour."""
        above = own.above.copy()
        for rows in self._blocks(len(own.of), len(other.of)):
            excess = self._met(links, node, own.counts[rows], other.counts) + other.above
            for link in links:
                excess -= self.relaxed.between(link, node)[np.ix_(own.of[rows], other.of)]
            # The tensors of both sums differ: what a neighbour knows of was added up before this node came.
            above[rows] += excess.min(axis=1)
        return own._replace(above=above).kept(self.least_of[node][own.of] + above <= most)

    def _met(self, links: Sequence[int], first: int, own: Numbers, other: Numbers) -> Costs:
        """Return the costs of pairs of states of two nodes."""
        return reduce(np.add, [self._pairs(link, first, own, other) for link in links])

    def _pairs(self, link: int, first: int, own: Numbers, other: Numbers) -> Costs:
        """Return the costs of pairs of states of a link, those of one of its ends first."""
        source, _, form = self.relaxed.graph.links[link]
        made, read = (own, other) if source == first else (other, own)
        costs = pair_costs(form, made, read, self.cells)
        return costs if source == first else costs.T

    def _blocks(self, rows: int, columns: int) -> Iterator[slice]:
        if rows * columns > MOST_PAIRS:
            raise TooMany
        step = max(1, ROWS // max(1, columns))
        for first in range(0, rows, step):
            checkpoint()
            yield slice(first, first + step)

    def _joined(self, some: dict[int, _Some]) -> tuple[float, Placed]:
        """Return the least cost of some states of all nodes, from the leaves of the forest on; pairs are too many to be held."""
        least = {node: own.costs.copy() for node, own in some.items()}
        picks: dict[int, Indices] = {}
        for node, above, links in reversed(self.block.branches):
            if above is None:
                continue
            own, theirs = some[node], some[above]
            picks[node] = np.zeros(len(theirs.of), dtype=np.intp)
            for rows in self._blocks(len(theirs.of), len(own.of)):
                costs = self._met(links, above, theirs.counts[rows], own.counts) + least[node]
                picks[node][rows] = costs.argmin(axis=1)
                least[above][rows] += costs.min(axis=1)
        chosen: dict[int, int] = {}
        for node, above, _ in self.block.branches:
            chosen[node] = int(least[node].argmin() if above is None else picks[node][chosen[above]])
        roots = [branch.node for branch in self.block.branches if branch.above is None]
        counts = {self.block.nodes.index(node): some[node].counts[pick] for node, pick in chosen.items()}
        return sum(float(least[node].min()) for node in roots), Placed(self.parts, counts)


class Turn(NamedTuple):
    """A block on the way from a node to the next.

    Attributes:
        above: the node from which it is reached; None for a root, which has no block.
        node: the other one of pivot and port.
        table: the table of the block; None for a root.
        block: the block, of which the table may be that of an equal one.
    """

    above: int | None
    node: int
    table: Table | None = None
    block: Block | None = None

    def entry(self, states: Mapping[int, int]) -> tuple[int, int]:
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

    states: dict[int, int]
    bound: float
    exact: bool


class Chain:
    """The tables of all blocks.

    Attributes:
        relaxed: the problem.
        turns: the nodes at which blocks may meet, roots first, each with the block that leads to it.
        known: the cost of a known plan.
    """

    def __init__(self, relaxed: Relaxed, blocks: Sequence[Block], known: float) -> None:
        """Compute the bounds of counts; equal blocks share a table."""
        self.relaxed, self.known = relaxed, known
        tables: dict[object, Table] = {}
        around: dict[int, list[Turn]] = {node: [] for node in range(len(relaxed.nodes))}
        inner: set[int] = set()
        for block in blocks:
            key = self._key(block)
            if key not in tables:
                tables[key] = Table(relaxed, block)
            for one, other in ((block.pivot, block.port), (block.port, block.pivot)):
                around[one].append(Turn(one, other, tables[key], block))
            inner |= {*block.nodes} - {block.pivot, block.port}
        self.turns: list[Turn] = []
        seen: set[int] = set()
        for root in around:
            todo = [] if root in inner or root in seen else [Turn(None, root)]
            seen.add(root)
            while todo:
                self.turns.append(todo.pop())
                onward = [turn for turn in around[self.turns[-1].node] if turn.node not in seen]
                seen |= {turn.node for turn in onward}
                todo += onward
        place = {turn.node: at for at, turn in enumerate(self.turns)}
        self._behind = [turn for turn in self.turns if turn.table is not None]
        ends = [turn.entry(place) for turn in self._behind]
        self._search = of_pairs([len(relaxed.nodes[node]) for node in place], ends)

    def _key(self, block: Block) -> object:
        """Return what the table of a block depends on."""
        place = {node: at for at, node in enumerate(block.nodes)}
        links = [link for own in block.spokes.values() for link in own]
        links += [link for branch in block.branches for link in branch.links]
        ends = [self.relaxed.graph.links[link] for link in links]
        shape = tuple(sorted((place[source], place[target], form) for source, target, form in ends))
        costs = tuple(id(self.relaxed.nodes[node]) for node in block.nodes)
        return costs, shape, place[block.pivot], place[block.port]

    def best(self, *, exact_only: bool = False) -> Path:
        """Return the best path through the tables, or through their exact entries alone."""
        tables = {id(turn.table): turn.table for turn in self._behind if turn.table is not None}
        costs = {
            key: np.minimum(np.where(table.exact | (not exact_only), table.costs, np.inf), 2 * self.known + 1)
            for key, table in tables.items()
        }
        alone = {key: own[None] for key, own in costs.items()}
        nodes = [self.relaxed.nodes[turn.node][None] for turn in self.turns]
        solved = self._search.solve(nodes, [alone[id(turn.table)] for turn in self._behind])
        states = {turn.node: state for turn, state in zip(self.turns, solved.choices(), strict=True)}
        return Path(states, float(solved.lowest[0]), not self._open(states))

    def _open(self, states: Mapping[int, int]) -> dict[tuple[int, tuple[int, int]], Table]:
        """Return the tables of the entries of a path that are not exact."""
        every = [(turn.table, turn.entry(states)) for turn in self._behind if turn.table is not None]
        return {(id(table), entry): table for table, entry in every if not table.exact[entry]}

    def closing(self) -> Iterator[Path]:
        """Yield the best path after entries are made exact, until it is, or costs no less than the known plan, or there are too many."""
        while True:
            path = self.best()
            yield path
            if path.exact or path.bound >= self.known * (1 - ROUNDING):
                return
            gap = self.known - path.bound
            room = gap / max(1, len(self.turns) - 1) * FIRST_ROOM
            try:
                for (_, entry), table in self._open(path.states).items():
                    table.close(entry, gap, room, self.known * 1e-9)
            except TooMany:
                return
