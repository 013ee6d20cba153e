"""The blocks of a network, each with a pivot without which it is a forest, and the search over their tables.

Two blocks meet at a node whose counts are all that they need of each other: the levels of a group may be renamed in one of
them. The table of a block has its least cost for each pair of states of pivot and port, without the costs of these two themselves. It
starts as the bound of counts. The blocks and the nodes at which they meet are a tree, on which the least bound is found; its entries are
made exact where the best path uses them, and the path is the optimum once all of its entries are exact.

*Entries.* The options of the pivot part the levels into cells. On the trees that are left, how often each node takes each option
in each cell is all that matters, as orders within a cell follow from node to node: the least sum over these counts is exact. They come
from counts that cost little more than the bound, and are left out where what they cost beside the pivot adds too much to it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.solve.counts.forms import EVERYWHERE, pair_costs
from hypar.solve.counts.states import splits
from hypar.solve.limits import checkpoint
from hypar.solve.minsum import of_pairs
from hypar.solve.order import components

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.solve.counts.forms import Numbers
    from hypar.solve.counts.relaxed import Relaxed
    from hypar.solve.counts.states import Cells
    from hypar.solve.edge import Costs, Indices
    from hypar.solve.minsum import Ends, Solved

    Classes = tuple[tuple[int, ...], tuple[int, ...]]
    """The class of each option of an end of a tensor, and the options that stay."""

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


class Block(NamedTuple):
    """A block, which may meet others at two of its nodes: without the first, its pivot, it is a forest.

    Attributes:
        nodes: the pivot, the port, and the others, each behind the one above it in the forest.
        above: for each the place of the node above it; None for a root and for the pivot.
        links: for each the links to the node above it.
        spokes: for each the links to the pivot.
    """

    nodes: tuple[int, ...]
    above: tuple[int | None, ...]
    links: tuple[tuple[int, ...], ...]
    spokes: tuple[tuple[int, ...], ...]

    @property
    def meets(self) -> tuple[int, int]:
        """The pivot and the port."""
        return self.nodes[0], self.nodes[1]

    def entry(self, states: Mapping[int, int]) -> tuple[int, int]:
        """Return the states of both."""
        return states[self.nodes[0]], states[self.nodes[1]]


Links = dict[int, dict[int, tuple[int, ...]]]
"""For each node the links to each of its neighbours."""


def blocks_of(ends: Sequence[Ends], nodes: int) -> list[Block] | None:
    """Return the blocks of a graph; None if one has no pivot, or meets others at more than two nodes.

    Args:
        ends: the nodes of each link.
        nodes: the number of nodes.

    Examples:
        >>> [block.meets for block in blocks_of([(0, 1), (1, 2), (0, 2), (2, 3)], 4)]
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
        above = _forest(rest, port, links) if not more and inner < len(rest) else {}
        if above and inner == sum(node is not None for node in above.values()):
            order = (pivot, *above)
            return Block(
                nodes=order,
                above=(None, *[None if on is None else order.index(on) for on in above.values()]),
                links=((), *[() if on is None else links[node][on] for node, on in above.items()]),
                spokes=((), *[links[node].get(pivot, ()) for node in above]),
            )
    return None


def _forest(nodes: Sequence[int], port: int, links: Links) -> dict[int, int | None]:
    """Return the nodes of a spanning forest from the port on, each with the one above it."""
    own, found = {*nodes}, dict[int, int | None]()
    todo: list[tuple[int, int | None]] = [(node, None) for node in (*reversed(nodes), port)]
    while todo:
        node, above = todo.pop()
        if node not in found:
            found[node] = above
            todo += [(other, node) for other in sorted(own & {*links[node]} - {*found})]
    return found


class Table:
    """The table of a block, shared by equal blocks.

    Attributes:
        first: the bound of counts, ``[states of the pivot, states of the port]``.
        costs: the best bound that is known.
        exact: whether it is the least cost.
        tried: how often an entry was asked for.
        counts: for entries that were made exact, how often each other node takes each option in each cell of the pivot.
    """

    def __init__(self, relaxed: Relaxed, block: Block) -> None:
        """Compute the bound of counts, some states of the pivot at once."""
        self.relaxed, self.block, self.others = relaxed, block, block.nodes[1:]
        # The port's own costs are left out.
        self.nodes = [relaxed.nodes[node] * (at > 0) for at, node in enumerate(self.others)]
        self.links = [link for own in block.links for link in own]
        self.ends = [
            (self.others.index(a), self.others.index(b))
            for a, b, _ in map(relaxed.graph.links.__getitem__, self.links)
        ]
        states = len(relaxed.nodes[block.nodes[0]])
        step = max(1, AT_ONCE // max([relaxed.pairs[link].costs.size for link in self.links], default=1))
        rows = (range(first, min(first + step, states)) for first in range(0, states, step))
        self.first = np.concatenate([self.solved(own).of_last() for own in rows])
        self.costs = self.first.copy()
        self.exact = np.full(self.first.shape, len(block.nodes) == 2)
        self.tried: Counter[tuple[int, int]] = Counter()
        self.counts: dict[tuple[int, int], list[Numbers]] = {}

    def solved(self, rows: range, column: int | None = None) -> Solved:
        """Return the least sums beside some states of the pivot, each a problem; the port's own costs are left out.

        Args:
            rows: the states of the pivot.
            column: the state of the port; None for any.
        """
        relaxed, (pivot, port), found = self.relaxed, self.block.meets, []

        def kept(node: int, costs: Costs, axis: int) -> Costs:
            return costs if column is None or node != port else costs.take([column], axis=axis)

        for node, own, spokes in zip(self.others, self.nodes, self.block.spokes[1:], strict=True):
            costs = np.tile(own, (len(rows), 1))
            for link in spokes:
                costs += relaxed.between(link, pivot)[rows.start : rows.stop]
            found.append(kept(node, costs, 1))
        pairs = []
        for link in self.links:
            source, target, _ = relaxed.graph.links[link]
            pairs.append(kept(target, kept(source, relaxed.pairs[link].costs[None], 1), 2))
        return of_pairs([costs.shape[1] for costs in found], self.ends, 0).solve(found, pairs)

    def orders(self, entry: tuple[int, int]) -> Indices:
        """Return the option of each node of the block at each level, ``[nodes, levels]``, for an exact entry: the pivot's are sorted in each group.

        Orders of the others follow from node to node. Inside a cell, equal classes meet first; then those who have the whole
        tensor meet those who divide it, as far as there are any. Any such pairing is as good as any other.
        """
        graph, block = self.relaxed.graph, self.block
        row, column = (self.relaxed.states[node][at] for node, at in zip(block.meets, entry, strict=True))
        found, sizes, counts = [ordered(row)], row[row > 0], self.counts.get(entry)
        above, links = block.above, block.links
        if counts is None:
            # Two nodes alone need no cells.
            sizes, counts, above, links = row.sum(axis=1), [column], (None, 0), block.spokes
        cells = np.split(np.arange(sum(graph.cells.sizes)), np.cumsum(sizes)[:-1])
        for node, on, to, own in zip(self.others, above[1:], links[1:], counts, strict=True):
            if on is None:
                found.append(ordered(own))
            else:
                source, _, form = graph.links[to[0]]
                ends = [(form.made, ()), (form.read, form.staying)]
                found.append(_met(found[on], cells, own, ends if source == node else ends[::-1]))
        return np.array(found)

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
        found, counts = self._least(entry, room + slack)
        if found <= self.first[entry] + room + slack:
            self.costs[entry], self.counts[entry] = max(self.costs[entry], found), counts
            self.exact[entry] = True
        elif room >= most:
            self.costs[entry], self.exact[entry] = np.inf, True
        else:
            self.costs[entry] = max(self.costs[entry], self.first[entry] + room)

    def _least(self, entry: tuple[int, int], room: float) -> tuple[float, list[Numbers]]:
        """Return the least cost of an entry, and the counts of every other node in the cells; infinite if it exceeds the bound of counts by more than some room."""
        (row, column), graph, pivot = entry, self.relaxed.graph, self.block.nodes[0]
        state = self.relaxed.states[pivot][row]
        groups, options = np.nonzero(state)
        sizes = state[groups, options]
        cells = graph.cells._replace(sizes=tuple(sizes.tolist()), groups=tuple(groups.tolist()))
        by_group = tuple(tuple(own[own > 0].tolist()) for own in state)
        alone = np.zeros((1, len(sizes), state.shape[1]), dtype=np.int8)
        alone[0, np.arange(len(sizes)), options] = sizes
        counts = {pivot: alone}

        solved = self.solved(range(row, row + 1), column)
        most, marginals, nodes = float(solved.lowest[0]) + room, solved.marginals(), []
        marginals[0] = np.where(
            np.arange(len(self.relaxed.nodes[self.others[0]])) == column, marginals[0], np.inf
        )
        every = zip(self.others, self.nodes, marginals, self.block.spokes[1:], strict=True)
        for node, own, least, spokes in every:
            few = np.flatnonzero(least <= most)
            states = [tuple(map(tuple, state)) for state in self.relaxed.states[node][few].tolist()]
            in_cells = [splits(of_state, by_group) for of_state in states]
            of, counts[node] = np.repeat(few, [*map(len, in_cells)]), np.concatenate(in_cells)
            costs, above = own[of], least[of]
            for link in spokes:
                here = self._costs(link, cells, pivot, counts[pivot], counts[node])[0]
                costs = costs + here
                above = above + (here - self.relaxed.between(link, pivot)[row][of])
            if not (above <= most).any():
                return np.inf, []
            counts[node] = counts[node][above <= most]
            nodes.append(costs[above <= most])
        total = 0.0
        picks: list[Indices] = []
        for place in reversed(range(1, len(self.block.nodes))):
            costs, on = nodes[place - 1], self.block.above[place]
            if on is None:
                picks.append(np.array([costs.argmin()]))
                total += float(costs.min())
            else:
                beside, pick = self._joined(place, costs, counts, cells)
                nodes[on - 1] = nodes[on - 1] + beside
                picks.append(pick)
        chosen = [0]
        for pick, on in zip(reversed(picks), self.block.above[1:], strict=True):
            chosen.append(int(pick[chosen[on or 0]]))
        return total, [counts[node][at] for node, at in zip(self.others, chosen[1:], strict=True)]

    def _joined(
        self, place: int, costs: Costs, counts: Mapping[int, Numbers], cells: Cells
    ) -> tuple[Costs, Indices]:
        """Return what a node costs at the least beside each state of the node above it, and its best state there, some rows at once."""
        node, above = self.block.nodes[place], self.block.nodes[self.block.above[place] or 0]
        rows = len(counts[above])
        if rows * costs.size > MOST_PAIRS:
            raise TooMany
        least, picks, step = np.empty(rows), np.empty(rows, np.intp), max(1, ROWS // costs.size)
        for first in range(0, rows, step):
            checkpoint()
            some, here = slice(first, first + step), costs
            for link in self.block.links[place]:
                here = here + self._costs(link, cells, above, counts[above][some], counts[node])
            least[some], picks[some] = here.min(axis=1), here.argmin(axis=1)
        return least, picks

    def _costs(self, link: int, cells: Cells, first: int, own: Numbers, other: Numbers) -> Costs:
        """Return the costs of pairs of states of a link in some cells, those of one of its ends first."""
        source, _, form = self.relaxed.graph.links[link]
        if source == first:
            return pair_costs(form, own, other, cells)
        return pair_costs(form, other, own, cells).T


def ordered(counts: Numbers) -> Indices:
    """Return the options of a node at the levels of some cells, sorted in each, from how often it takes each, ``[cells, options]``."""
    options = np.broadcast_to(np.arange(counts.shape[1]), counts.shape)
    return np.repeat(options.reshape(-1), counts.reshape(-1))


def _met(other: Indices, cells: Sequence[Indices], counts: Numbers, ends: Sequence[Classes]) -> Indices:
    """Return the options of a node at all levels so that they meet those of another node best; ``ends`` are its classes, and the other's."""
    (mine, _), (theirs, _) = ends
    found = ordered(counts)
    for levels in cells:
        left, free = found[levels].tolist(), []
        for level in levels.tolist():
            name = theirs[other[level]]
            alike = next((option for option in left if mine[option] == name != EVERYWHERE), None)
            if alike is None:
                free.append(level)
            else:
                found[level] = alike
                left.remove(alike)
        # Options that stay are next to whole tensors: they meet divided ones, as far as there are any.
        free.sort(key=lambda level: _wholeness(ends[1], int(other[level])))
        found[free] = sorted(left, key=lambda option: -_wholeness(ends[0], option))
    return found


def _wholeness(end: Classes, option: int) -> int:
    """Return 2 for an option with the whole tensor, 1 for one that divides it but stays, and 0 for others."""
    classes, staying = end
    return 2 if classes[option] == EVERYWHERE else int(option in staying)


class Path(NamedTuple):
    """The best path through the tables: the state of each node at which blocks may meet, and the tables of its entries that are not exact."""

    states: dict[int, int]
    bound: float
    open: dict[tuple[int, tuple[int, int]], Table]


class Chain:
    """The tables of all blocks, which equal ones share, and the ports at which blocks may meet."""

    def __init__(self, relaxed: Relaxed, blocks: Sequence[Block]) -> None:
        """Compute the bounds of counts."""
        self.relaxed = relaxed
        tables: dict[object, Table] = {}
        for block in blocks:
            key = self._key(block)
            tables[key] = tables[key] if key in tables else Table(relaxed, block)
        self.blocks = [(block, tables[self._key(block)]) for block in blocks]
        inner = {node for block in blocks for node in block.nodes[2:]}
        self.ports = [node for node in range(len(relaxed.nodes)) if node not in inner]
        ends = [
            (self.ports.index(pivot), self.ports.index(port)) for pivot, port in (of.meets for of in blocks)
        ]
        self._search = of_pairs([len(relaxed.nodes[node]) for node in self.ports], ends)

    def _key(self, block: Block) -> object:
        """Return what the table of a block depends on."""
        links = self.relaxed.graph.links
        forms = tuple(
            tuple((links[link].form, links[link].source == node) for link in own)
            for each in (block.spokes, block.links)
            for node, own in zip(block.nodes, each, strict=True)
        )
        return tuple(id(self.relaxed.nodes[node]) for node in block.nodes), block.above, forms

    def best(self, known: float, *, exact_only: bool = False) -> Path:
        """Return the best path through the tables, or through their exact entries alone; a plan costs ``known``."""
        most = 2 * known + 1
        costs = {
            key: np.where(own.exact | (not exact_only), np.minimum(own.costs, most), most)[None]
            for key, own in {id(table): table for _, table in self.blocks}.items()
        }
        nodes = [self.relaxed.nodes[node][None] for node in self.ports]
        solved = self._search.solve(nodes, [costs[id(table)] for _, table in self.blocks])
        states = dict(zip(self.ports, solved.choices(), strict=True))
        entries = [(table, block.entry(states)) for block, table in self.blocks]
        left = {(id(table), entry): table for table, entry in entries if not table.exact[entry]}
        return Path(states, float(solved.lowest[0]), left)

    def close(self, path: Path, known: float) -> bool:
        """Make the entries of a path exact, or raise their bounds; return whether there was time for it."""
        gap = known - path.bound
        room = gap / max(1, len(self.blocks)) * FIRST_ROOM
        try:
            for (_, entry), table in path.open.items():
                table.close(entry, gap, room, known * 1e-9)
        except TooMany:
            return False
        return True

    def orders(self, path: Path) -> Indices:
        """Return the option of each layer at each level, ``[layers, levels]``, of a path of exact entries."""
        graph, left, known = self.relaxed.graph, [*self.blocks], set[int]()
        found = np.zeros((len(graph.nodes), sum(graph.cells.sizes)), dtype=np.intp)
        for node in self.ports:
            found[node] = ordered(self.relaxed.states[node][path.states[node]])
        while left:
            block, table = next((own for own in left if known & {*own[0].meets}), left[0])
            left.remove((block, table))
            orders = table.orders(block.entry(path.states))
            # Levels of a group change places until the pivot or the port is as it is known.
            place = int(block.meets[1] in known)
            pair = (orders[place], found[block.meets[place]])
            own, other = (np.lexsort((order, graph.groups)) for order in pair)
            found[np.array(block.nodes)[:, None], other] = orders[:, own]
            known |= {*block.meets}
        return found
