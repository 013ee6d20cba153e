"""The blocks of a network, each with a pivot without which it is a forest, and the search over their tables.

Two blocks meet at a node whose counts are all that they need of each other: the levels of a group may be renamed in one of
them. The table of a block has its least cost for each pair of states of pivot and port, without the costs of these two themselves. It
starts as the bound of counts. The blocks and the nodes at which they meet are a tree, on which the least bound is found; its entries are
made exact where the best path uses them, and the path is the optimum once all of its entries are exact.

*Entries.* The options of the pivot part the levels into cells. On the trees that are left, how often each node takes each option
in each cell is all that matters, as orders within a cell follow from node to node. Counts of cells come from counts that
cost little more than the bound, and are left out where what their neighbours cost beside them adds too much to it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.counts.forms import pair_costs
from hypar.solve.counts.states import ROUNDING, splits
from hypar.solve.limits import checkpoint
from hypar.solve.minsum import of_pairs
from hypar.solve.order import components

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from hypar.solve.counts.forms import Link, Numbers
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
    """A block: without its pivot it is a forest, of branches each behind the one above it, the port's first; it may meet others at both.

    ``spokes`` has for each other node the links to the pivot.
    """

    nodes: tuple[int, ...]
    pivot: int
    port: int
    spokes: dict[int, tuple[int, ...]]
    branches: tuple[Branch, ...]

    @property
    def links(self) -> list[int]:
        """The links of the forest."""
        return [link for branch in self.branches for link in branch.links]


Links = dict[int, dict[int, tuple[int, ...]]]
"""For each node the links to each of its neighbours."""


def blocks_of(ends: Sequence[Ends], nodes: int) -> list[Block] | None:
    """Return the blocks of a graph; None if one has no pivot, or meets others at more than two nodes.

    Args:
        ends: the nodes of each link.
        nodes: the number of nodes.

    Examples:
        >>> [(block.pivot, block.port) for block in blocks_of([(0, 1), (1, 2), (0, 2), (2, 3)], 4)]
        [(2, 0), (2, 3)]
    """
    links: Links = defaultdict(dict)
    for at, (one, other) in enumerate(ends):
        links[one][other] = links[other][one] = (*links[one].get(other, ()), at)
    parts = sorted(sorted(own) for own in components([{*links[node]} for node in range(nodes)]))
    met = Counter(node for own in parts for node in own)
    blocks = [_block(own, links, [node for node in own if met[node] > 1]) for own in parts]
    found = [block for block in blocks if block is not None]
    return found if len(found) == len(blocks) else None


def _block(nodes: Sequence[int], links: Links, ports: Sequence[int]) -> Block | None:
    """Return a block with its pivot, at a port if possible."""
    near = {node: {*nodes} & {*links[node]} for node in nodes}
    pairs = sum(map(len, near.values())) // 2
    for pivot in (*reversed(ports), *nodes):
        rest = [node for node in nodes if node != pivot]
        port, *more = [node for node in ports if node != pivot] or rest[:1]
        # A forest has a pair for each node that is no root.
        inner = pairs - len(near[pivot])
        branches = () if more or inner >= len(rest) else tuple(_branches(rest, port, links))
        if branches and inner == sum(branch.above is not None for branch in branches):
            spokes = {node: links[node].get(pivot, ()) for node in rest}
            return Block(tuple(nodes), pivot, port, spokes, branches)
    return None


def _branches(nodes: Iterable[int], port: int, links: Links) -> Iterator[Branch]:
    """Yield the nodes of a spanning forest from the port on."""
    left = {*nodes}
    for root in (port, *nodes):
        todo = [Branch(root, None, ())] * (root in left)
        left.discard(root)
        while todo:
            branch = todo.pop()
            yield branch
            onward = sorted(left & {*links[branch.node]})
            left -= {*onward}
            todo += [Branch(other, branch.node, links[branch.node][other]) for other in onward]


class Placed(NamedTuple):
    """How often each other node of a block takes each option in each cell of the pivot, ``[cells, options]``, by its place among the nodes.

    ``cells`` has the group and the pivot's option of each cell.
    """

    cells: tuple[tuple[int, int], ...]
    counts: dict[int, Numbers]


class Table:
    """The table of a block, shared by equal blocks.

    Attributes:
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
        self.ends = [(self.others.index(a), self.others.index(b)) for a, b, _ in self._links(block.links)]
        states = len(relaxed.nodes[block.pivot])
        step = max(1, AT_ONCE // max([relaxed.pairs[link].size for link in block.links], default=1))
        rows = (range(first, min(first + step, states)) for first in range(0, states, step))
        self.first = np.concatenate([self.solved(own).of_last() for own in rows])
        self.costs = self.first.copy()
        self.exact = np.full(self.first.shape, len(block.nodes) == 2)
        self.tried: Counter[tuple[int, int]] = Counter()
        self.placed: dict[tuple[int, int], Placed] = {}

    def _links(self, links: Iterable[int]) -> list[Link]:
        return [self.relaxed.graph.links[link] for link in links]

    def own(self, node: int) -> Costs:
        """Return the costs of the states of a node; those of the port are left out."""
        return self.relaxed.nodes[node] * (node != self.block.port)

    def solved(self, rows: range, column: int | None = None) -> Solved:
        """Return the least sums beside some states of the pivot, each a problem; the port's own costs are left out.

        Args:
            rows: the states of the pivot.
            column: the state of the port; None for any.
        """
        relaxed, block, nodes = self.relaxed, self.block, []
        for node in self.others:
            costs = np.tile(self.own(node), (len(rows), 1))
            for link in block.spokes[node]:
                costs += relaxed.between(link, block.pivot)[rows.start : rows.stop]
            nodes.append(self._kept(node, costs, 1, column))
        pairs = []
        for at, (source, target, _) in zip(block.links, self._links(block.links), strict=True):
            costs = self._kept(source, relaxed.pairs[at][None], 1, column)
            pairs.append(self._kept(target, costs, 2, column))
        sizes = [costs.shape[1] for costs in nodes]
        return of_pairs(sizes, self.ends, self.others.index(block.port)).solve(nodes, pairs)

    def _kept(self, node: int, costs: Costs, axis: int, column: int | None) -> Costs:
        """Return costs with one state of the port alone."""
        return costs if column is None or node != self.block.port else costs.take([column], axis=axis)

    def close(self, entry: tuple[int, int], gap: float, room: float, slack: float) -> None:
        """Make an entry, of states of pivot and port, exact, or raise its bound.

        Args:
            entry: the entry.
            gap: by how much a plan may exceed the best path.
            room: by how much the entry may exceed its first bound now; four times as much each time that it was tried.
            slack: the rounding error.
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
    """Some states of a node in the cells, ``[states, cells, options]``, with the index of each among the node's states.

    Its costs are those beside the pivot, with the least of the branches behind it; ``above`` is by how much these exceed the bound of counts.
    """

    counts: Numbers
    of: Indices
    costs: Costs
    above: Costs

    def kept(self, keep: Indices | NDArray[np.bool_]) -> _Some:
        return _Some(self.counts[keep], self.of[keep], self.costs[keep], self.above[keep])


class Entry:
    """The search for one entry of a table."""

    def __init__(self, table: Table, row: int, column: int) -> None:
        """Find the cells of the pivot's state, and the least cost by counts for each state of each other node."""
        self.table, self.relaxed, self.row = table, table.relaxed, row
        state = self.relaxed.states[table.block.pivot][row]
        self.parts = tuple(zip(*[own.tolist() for own in np.nonzero(state)], strict=True))
        sizes = tuple(int(state[part]) for part in self.parts)
        self.cells = self.relaxed.graph.parted(sizes, tuple(group for group, _ in self.parts))
        self.sizes = tuple(
            tuple(int(own) for own in state[group] if own) for group in range(len(self.cells.ways))
        )
        self.pivot = np.zeros((1, len(sizes), state.shape[1]), dtype=np.int8)
        self.pivot[0, np.arange(len(sizes)), [option for _, option in self.parts]] = sizes
        solved = table.solved(range(row, row + 1), column)
        self.whole = float(solved.lowest[0])
        self.least_of = dict(zip(table.others, solved.marginals(), strict=True))
        port = np.full(len(self.relaxed.nodes[table.block.port]), np.inf)
        port[column] = self.whole
        self.least_of[table.block.port] = port

    def least(self, room: float) -> tuple[float, Placed] | None:
        """Return the least cost and the counts of every node; None if it exceeds the bound of counts by more than some room."""
        block, most, total = self.table.block, self.whole + room, 0.0
        some = {node: self._states(node, most) for node in self.table.others}
        picks: dict[int, Indices] = {}
        for node, above, links in reversed(block.branches):
            own = some[node]
            few = np.flatnonzero(self.least_of[node][own.of] + own.above <= most)
            if not few.size:
                return None
            if above is None:
                picks[node] = few[[own.costs[few].argmin()]]
                total += float(own.costs[picks[node][0]])
            else:
                picks[node] = few[self._joined(own.kept(few), some[above], above, links)]
        chosen: dict[int | None, int] = {None: 0}
        for node, above, _ in block.branches:
            chosen[node] = int(picks[node][chosen[above]])
        counts = {block.nodes.index(node): some[node].counts[chosen[node]] for node in some}
        return total, Placed(self.parts, counts)

    def _states(self, node: int, most: float) -> _Some:
        """Return the states of a node in the cells, of counts and costs within the bound."""
        least = self.least_of[node]
        few = np.flatnonzero(least <= most)
        every = [
            splits(tuple(map(tuple, state)), self.sizes) for state in self.relaxed.states[node][few].tolist()
        ]
        counts, of = np.concatenate(every), np.repeat(few, [len(own) for own in every])
        costs, excess = self.table.own(node)[of], np.zeros(len(of))
        for link in self.table.block.spokes[node]:
            here = self._pairs(link, self.table.block.pivot, self.pivot, counts)[0]
            costs += here
            excess += here - self.relaxed.between(link, self.table.block.pivot)[self.row][of]
        return _Some(counts, of, costs, excess).kept(least[of] + excess <= most)

    def _joined(self, own: _Some, theirs: _Some, above: int, links: Sequence[int]) -> Indices:
        """Add what a node costs at the least to the costs of the node above it; return its best state beside each of that one."""
        if len(own.of) * len(theirs.of) > MOST_PAIRS:
            raise TooMany
        picks, step = np.zeros(len(theirs.of), dtype=np.intp), max(1, ROWS // len(own.of))
        for first in range(0, len(picks), step):
            checkpoint()
            rows, costs, excess = slice(first, first + step), own.costs, own.above
            for link in links:
                here = self._pairs(link, above, theirs.counts[rows], own.counts)
                costs = costs + here
                excess = excess + here - self.relaxed.between(link, above)[np.ix_(theirs.of[rows], own.of)]
            picks[rows] = costs.argmin(axis=1)
            theirs.costs[rows] += costs.min(axis=1)
            theirs.above[rows] += excess.min(axis=1)
        return picks

    def _pairs(self, link: int, first: int, own: Numbers, other: Numbers) -> Costs:
        """Return the costs of pairs of states of a link, those of one of its ends first."""
        source, _, form = self.relaxed.graph.links[link]
        if source == first:
            return pair_costs(form, own, other, self.cells)
        return pair_costs(form, other, own, self.cells).T


class Path(NamedTuple):
    """The best path through the tables: the state of each node at which blocks may meet, and whether all its entries are exact."""

    states: dict[int, int]
    bound: float
    exact: bool

    def entry(self, block: Block) -> tuple[int, int]:
        """Return the entry of a block's table that it uses."""
        return self.states[block.pivot], self.states[block.port]


class Chain:
    """The tables of all blocks, which equal ones share, and the ports at which blocks may meet; ``known`` is the cost of a plan."""

    def __init__(self, relaxed: Relaxed, blocks: Sequence[Block], known: float) -> None:
        """Compute the bounds of counts."""
        self.relaxed, self.known = relaxed, known
        tables: dict[object, Table] = {}
        for block in blocks:
            key = self._key(block)
            tables[key] = tables[key] if key in tables else Table(relaxed, block)
        self.blocks = [(block, tables[self._key(block)]) for block in blocks]
        inner = {node for block in blocks for node in block.nodes if node not in {block.pivot, block.port}}
        self.ports = [node for node in range(len(relaxed.nodes)) if node not in inner]
        ends = [(self.ports.index(block.pivot), self.ports.index(block.port)) for block in blocks]
        self._search = of_pairs([len(relaxed.nodes[node]) for node in self.ports], ends)

    def _key(self, block: Block) -> object:
        """Return what the table of a block depends on."""
        place = {node: at for at, node in enumerate(block.nodes)}
        links = [link for own in block.spokes.values() for link in own] + block.links
        ends = [self.relaxed.graph.links[link] for link in links]
        shape = tuple(sorted((place[source], place[target], form) for source, target, form in ends))
        costs = tuple(id(self.relaxed.nodes[node]) for node in block.nodes)
        return costs, shape, place[block.pivot], place[block.port]

    def best(self, *, exact_only: bool = False) -> Path:
        """Return the best path through the tables, or through their exact entries alone."""
        most, tables = 2 * self.known + 1, {id(table): table for _, table in self.blocks}
        costs = {
            key: np.where(own.exact | (not exact_only), np.minimum(own.costs, most), most)[None]
            for key, own in tables.items()
        }
        nodes = [self.relaxed.nodes[node][None] for node in self.ports]
        solved = self._search.solve(nodes, [costs[id(table)] for _, table in self.blocks])
        states = dict(zip(self.ports, solved.choices(), strict=True))
        path = Path(states, float(solved.lowest[0]), exact=False)
        return path._replace(exact=not self._open(path))

    def _open(self, path: Path) -> dict[tuple[int, tuple[int, int]], Table]:
        """Return the tables of the entries of a path that are not exact."""
        every = [(table, path.entry(block)) for block, table in self.blocks]
        return {(id(table), entry): table for table, entry in every if not table.exact[entry]}

    def closing(self) -> Iterator[Path]:
        """Yield the best path after entries are made exact, until it is, or costs no less than the known plan, or there are too many."""
        while True:
            path = self.best()
            yield path
            if path.exact or path.bound >= self.known * (1 - ROUNDING):
                return
            gap = self.known - path.bound
            room = gap / max(1, len(self.blocks)) * FIRST_ROOM
            try:
                for (_, entry), table in self._open(path).items():
                    table.close(entry, gap, room, self.known * 1e-9)
            except TooMany:
                return
