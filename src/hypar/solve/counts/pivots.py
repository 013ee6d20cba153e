"""The lower bound of counts, and the search over the tables of blocks, which have a pivot without which they are forests.

Every tensor has the best order of its two layers, whatever its other tensors have. Layers and tensors of equal costs share their
arrays. States that no plan of a known cost takes are left out, by the least cost of all others on a spanning tree; a tensor that the
tree leaves out costs its own least. Messages along all tensors bound what is left.

*Blocks.* Two blocks meet at a node whose counts are all that they need of each other: the levels of a group may be renamed in one of
them. The table of a block has its least cost for each pair of states of pivot and port, without the costs of these two themselves. It
starts as the bound of counts. The blocks and the nodes at which they meet are a tree, on which the least bound is found; its entries are
made exact where the best path uses them, and the path is the optimum once all of its entries are exact.

*Entries.* The options of the pivot part the levels into cells. On the trees that are left, how often each node takes each option
in each cell is all that matters, as orders within a cell follow from node to node: the least sum over these counts is exact. They come
from counts that cost little more than the bound, and are left out where what they cost beside the pivot adds too much to it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hypar.solve.cost_graph import CostGraph
from hypar.solve.counts.forms import EVERYWHERE, CountGraph, Numbers, pair_costs
from hypar.solve.counts.states import ROUNDING, Cells, splits
from hypar.solve.edge import Costs, Edge, Indices
from hypar.solve.minsum import Solved, min_sum, solved
from hypar.solve.order import Block, Ends
from hypar.solve.solvers.named import Messages

Kept = slice | NDArray[np.bool_]

Classes = tuple[tuple[int, ...], tuple[int, ...]]
"""The class of each option of an end of a tensor, and the options that stay."""

STEPS = (2**14, 2**17, 2**20, 2**21)
"""Most pairs of states of a tensor whose costs are computed, step by step: those of few leave fewer for the others."""

MOST_JOINED = 2**25
"""Most entries of an elimination over the states of all layers."""

MOST_PAIRS = 2**25
"""Most pairs of states of one tensor whose costs are computed in an entry."""

FIRST_ROOM = 0.5
"""Share of the gap for each block by which an entry may first exceed its bound; each time it exceeds that it may four times as much."""

MOST_ENTRIES = 2000
"""Most times that entries of a table are tried."""


class TooMany(Exception):  # noqa: N818 (no error: the bound stays)
    """An entry has more pairs of states than there is time for."""


class Relaxed:
    """The states of each layer that are left, their costs, and those of their pairs.

    Attributes:
        graph: the problem.
        most: the most pairs of states of a tensor whose costs are computed.
        states: for each layer its states, ``[states, groups, options]``; equal ones of equal layers are one object.
        nodes: their costs.
        pairs: by link the costs of pairs of states; there are none of links with more. Equal ones are one array.
    """

    def __init__(self, graph: CountGraph, most: int) -> None:
        self.graph, self.most = graph, most
        self.states = [graph.states_of(node) for node in range(len(graph.nodes))]
        self.pairs: dict[int, Edge] = {}
        self._keep([slice(None)] * len(self.states))

    @property
    def complete(self) -> bool:
        """Whether the costs of all pairs of states are computed."""
        return len(self.pairs) == len(self.graph.links)

    def _keep(self, kept: Sequence[Kept]) -> None:
        """Leave out all but some states of each layer, and compute the costs of what is left and has none; equal layers share them."""
        graph, before = self.graph, self.pairs
        known: dict[object, tuple[Numbers, Costs]] = {}
        self.nodes: list[Costs] = []
        for node, (terms, some) in enumerate(zip(graph.nodes, kept, strict=True)):
            own = self.states[node][some]
            key = (terms, id(graph.own[node]) if graph.own else None, own.shape, own.tobytes())
            if key not in known:
                known[key] = (own, graph.costs(node, terms, own))
            self.states[node], costs = known[key]
            self.nodes.append(costs)
        found: dict[object, Costs] = {}
        self.pairs = {}
        for at, (source, target, form) in enumerate(graph.links):
            made, read = self.states[source], self.states[target]
            pair = (form, id(made), id(read))
            if pair not in found and at in before:
                found[pair] = before[at].costs[kept[source]][:, None, kept[target]]
            elif pair not in found and len(made) * len(read) <= self.most:
                found[pair] = pair_costs(form, made, read, graph.cells)[:, None]
            if pair in found:
                self.pairs[at] = Edge(source, target, (found[pair],))

    def narrow(self, known: float, most: int) -> None:
        """Leave out the states that no plan of a known cost takes; no tensor may cost less than 0 that has more than ``most`` pairs of states."""
        if most != self.most:
            self.most = most
            self._keep([slice(None)] * len(self.states))
        for far in (False, True):
            self.bound(known, self._spanning(far=far))

    def bound(self, known: float = math.inf, kept: Sequence[int] | None = None) -> float:
        """Return a lower bound of all plans, and leave out the states that none of a known cost takes.

        Args:
            known: the cost of a plan; infinite to leave out none.
            kept: the tensors whose pairs of states count, a spanning forest if not given; of the others the least of each does.
        """
        edges = [*self.pairs.values()]
        kept = self._spanning(far=False) if kept is None else kept
        lowest = {key: float(term.min()) for key, term in {id(term): term for *_, (term,) in edges}.items()}
        floor = math.fsum(lowest[id(edges[at].terms[0])] for at in {*range(len(edges))} - {*kept})
        found = solved(CostGraph(self.nodes, [edges[at] for at in kept]))
        bound = float(found.lowest[0]) + floor
        if bound <= known < math.inf:
            self._keep([costs + floor <= known * (1 + ROUNDING) for costs in found.marginals()])
        return bound

    def by_messages(self, known: float) -> float:
        """Return the lower bound of messages between all layers, which is more than that of any spanning forest."""
        bound = 0.0
        for bound in Messages(CostGraph(self.nodes, self.pairs.values())).bounds():
            if bound >= known * (1 - ROUNDING):
                break
        return bound

    def by_cliques(self, known: float) -> float:
        """Return the least of all on the cliques of an elimination, and leave out states by it; 0 if they are too large."""
        structure = CostGraph(self.nodes, self.pairs.values()).structure
        if not self.complete or min_sum(structure).work > MOST_JOINED:
            return 0.0
        return self.bound(known, range(len(self.pairs)))

    def _spanning(self, *, far: bool) -> list[int]:
        """Return the pairs of a spanning forest, those of layers near each other first, or those of layers far apart."""
        tree, found, ends = np.arange(len(self.nodes)), [], [edge[:2] for edge in self.pairs.values()]
        for at in sorted(range(len(ends)), key=lambda at: abs(ends[at][0] - ends[at][1]), reverse=far):
            one, other = tree[[*ends[at]]]
            if one != other:
                tree[tree == other] = one
                found.append(at)
        return sorted(found)


class Table:
    """The table of a block, shared by equal blocks.

    Attributes:
        first: the bound of counts, ``[states of the pivot, states of the port]``.
        costs: the best bound that is known.
        exact: whether it is the least cost.
        tried: how often an entry was asked for.
        counts: for entries that were made exact, how often each node takes each option in each cell of the pivot.
    """

    def __init__(self, relaxed: Relaxed, block: Block) -> None:
        self.relaxed, self.block = relaxed, block
        self.first = self._solved([slice(None)] * len(block.nodes)).of_last_two()
        self.costs = self.first.copy()
        self.exact = np.full(self.first.shape, len(block.nodes) == 2)
        self.tried: Counter[tuple[int, int]] = Counter()
        self.counts: dict[tuple[int, int], list[Numbers]] = {}

    def _solved(self, kept: Sequence[slice]) -> Solved:
        """Return the least sums over some states of each node of the block, without the own costs of pivot and port."""
        each = enumerate(zip(self.block.nodes, kept, strict=True))
        nodes = [self.relaxed.nodes[node][some] * (at > 1) for at, (node, some) in each]
        edges = [Edge.dense(*ends, self._pairs(link, ends, kept)) for link, ends in self.block.links]
        return solved(CostGraph(nodes, edges), (1, 0))

    def orders(self, entry: tuple[int, int]) -> Indices:
        """Return the option of each node of the block at each level, ``[nodes, levels]``, for an exact entry: the pivot's are sorted in each group.

        Orders of the others follow from node to node. Inside a cell, equal classes meet first; then those who have the whole
        tensor meet those who divide it, as far as there are any. Any such pairing is as good as any other.
        """
        relaxed, graph, block = self.relaxed, self.relaxed.graph, self.block
        # Two nodes alone need no cells.
        whole = [relaxed.states[node][at] for node, at in zip(block.meets, entry, strict=True)]
        alone, *counts = self.counts.get(entry, whole)
        cells = np.split(np.arange(alone.sum()), np.cumsum(alone.sum(axis=1))[:-1])
        found = [ordered(alone)]
        for at, own in enumerate(counts, 1):
            above = [(min(ends), link) for link, ends in block.links if max(ends) == at]
            on, link = max(above, key=itemgetter(0), default=(0, 0))
            if on or len(block.nodes) == 2:
                source, _, form = graph.links[link]
                ends = [(form.made, ()), (form.read, form.staying)]
                found.append(_met(found[on], cells, own, ends if source == block.nodes[at] else ends[::-1]))
            else:
                found.append(ordered(own))
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
        """Return the least cost of an entry, and the counts of every node in the cells; infinite if it exceeds the bound of counts by more than some room."""
        relaxed, graph, block = self.relaxed, self.relaxed.graph, self.block
        kept = [*[slice(at, at + 1) for at in entry], *[slice(None)] * (len(block.nodes) - 2)]
        bounds = self._solved(kept)
        most = float(bounds.lowest[0]) + room
        (state,) = relaxed.states[block.nodes[0]][kept[0]]
        cells, alone = _parted(graph.cells, state)
        by_group = tuple(tuple(own[own > 0].tolist()) for own in state)
        counts, nodes, marginals = [alone[None]], [np.zeros(1)], bounds.marginals()
        for at, node in enumerate(block.nodes[1:], 1):
            few = np.flatnonzero(marginals[at] <= most)
            states = relaxed.states[node][kept[at]][few]
            in_cells = [splits(tuple(map(tuple, own)), by_group) for own in states.tolist()]
            of, own = np.repeat(few, [*map(len, in_cells)]), np.concatenate(in_cells)
            costs = (relaxed.nodes[node][kept[at]] * (at > 1))[of]
            above = marginals[at][of]
            for link, ends in block.links:
                if {*ends} == {0, at}:
                    pair = (counts[0], own) if ends[0] == 0 else (own, counts[0])
                    here = pair_costs(graph.links[link].form, *pair, cells).reshape(-1)
                    costs = costs + here
                    above = above + (here - self._pairs(link, ends, kept).reshape(-1)[of])
            if not (above <= most).any():
                return np.inf, []
            counts.append(own[above <= most])
            nodes.append(costs[above <= most])
        edges = []
        for link, (source, target) in block.links:
            if source and target:
                if nodes[source].size * nodes[target].size > MOST_PAIRS:
                    raise TooMany
                costs = pair_costs(graph.links[link].form, counts[source], counts[target], cells)
                edges.append(Edge.dense(source, target, costs))
        found = solved(CostGraph(nodes, edges), (*reversed(range(len(nodes))),))
        return float(found.lowest[0]), [own[pick] for own, pick in zip(counts, found.choices(), strict=True)]

    def _pairs(self, link: int, ends: Ends, kept: Sequence[slice]) -> Costs:
        return self.relaxed.pairs[link].costs[kept[ends[0]], kept[ends[1]]]


def _parted(cells: Cells, state: Numbers) -> tuple[Cells, Numbers]:
    """Return the cells into which the options of a state part the levels, and how often each has each option, ``[cells, options]``."""
    groups, options = np.nonzero(state)
    sizes = state[groups, options]
    alone = np.zeros((len(sizes), state.shape[1]), dtype=np.int8)
    alone[np.arange(len(sizes)), options] = sizes
    return cells._replace(sizes=tuple(sizes.tolist()), groups=tuple(groups.tolist())), alone


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
    """The best path through the tables: the state of each node at which blocks may meet, and its entries that are not exact."""

    states: dict[int, int]
    bound: float
    open: list[tuple[Table, tuple[int, int]]]


class Chain:
    """The tables of all blocks, which equal ones share, and the ports at which blocks may meet."""

    def __init__(self, relaxed: Relaxed, blocks: Sequence[Block]) -> None:
        self.relaxed = relaxed
        tables: dict[object, Table] = {}
        self.blocks: list[tuple[Block, Table]] = []
        for block in blocks:
            forms = tuple((relaxed.graph.links[link].form, ends) for link, ends in block.links)
            key = (tuple(id(relaxed.nodes[node]) for node in block.nodes), forms)
            if key not in tables:
                tables[key] = Table(relaxed, block)
            self.blocks.append((block, tables[key]))
        inner = {node for block in blocks for node in block.nodes[2:]}
        self.ports = [node for node in range(len(relaxed.nodes)) if node not in inner]

    def best(self, known: float, *, exact_only: bool = False) -> Path:
        """Return the best path through the tables, or through their exact entries alone; a plan costs ``known``."""
        most, at = 2 * known + 1, self.ports.index
        costs = {
            own: (np.where(own.exact | (not exact_only), np.minimum(own.costs, most), most)[:, None],)
            for own in dict.fromkeys(table for _, table in self.blocks)
        }
        edges = [Edge(at(pivot), at(port), costs[table]) for ((pivot, port, *_), _), table in self.blocks]
        found = solved(CostGraph([self.relaxed.nodes[node] for node in self.ports], edges))
        states = dict(zip(self.ports, found.choices(), strict=True))
        entries = dict.fromkeys((table, block.entry(states)) for block, table in self.blocks)
        left = [(table, entry) for table, entry in entries if not table.exact[entry]]
        return Path(states, float(found.lowest[0]), left)

    def close(self, path: Path, known: float) -> bool:
        """Make the entries of a path exact, or raise their bounds; return whether there was time for it."""
        gap = known - path.bound
        room = gap / max(1, len(self.blocks)) * FIRST_ROOM
        try:
            for table, entry in path.open:
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
