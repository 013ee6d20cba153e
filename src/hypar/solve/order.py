"""The elimination order of a cost graph and the size of each step's table, computed without any costs; the blocks of a graph.

Order: min-fill: the next node is the one whose elimination joins the fewest pairs of unjoined neighbours. Ties go to
the least work, then to the lowest index. Trees and series-parallel graphs need no table over more than two nodes.

The order is found quickly on any graph: pairs of neighbours are counted only for nodes of few neighbours, a node is
ranked again only after its neighbours or their edges change, and the order ends with the first table of more entries
than any solver may hold or compute.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from operator import itemgetter
from typing import Any, NamedTuple

from hypar.solve.cost_graph import Structure
from hypar.solve.edge import entries_computed

Scope = tuple[int, ...]

Ends = tuple[int, int]
"""The two nodes of a link."""

MOST_COUNTED = 48
"""Most neighbours whose pairs are counted; beyond it, all pairs count as unjoined."""

MOST_ENTRIES = 2**34
"""Work of a step that ends the order, in table entries: no solver may compute more."""


class Step(NamedTuple):
    """The elimination of one node.

    Attributes:
        node: the node.
        scope: its neighbours at that time, in rising order.
        tables: what is added up, by numbers: the nodes come first, then the links, then what each step leaves.
        axes: for each table the places of its nodes among the node, which is the first, and its neighbours.
        lower: the places of tables that other steps leave, and these steps.
        over: the place of the neighbour whose edge is minimised digit by digit; None if no edge can be.
        entries: number of entries of what it leaves.
        summed: number of entries of the sum before the minimum, digit by digit if possible.
        work: number of table entries computed.
    """

    node: int
    scope: Scope
    tables: list[int]
    axes: tuple[Scope, ...]
    lower: list[tuple[int, int]]
    over: int | None
    entries: int
    summed: int
    work: int


def ordered(structure: Structure, last: Scope = ()) -> list[Step]:
    """Return the steps, up to the first of too many entries; nodes of one choice are no neighbours.

    The nodes of ``last`` leave last, in their order.

    Examples:
        >>> from hypar.solve.cost_graph import structure_of
        >>> steps = ordered(structure_of((2,) * 4, ((0, 1), (0, 2), (1, 3), (2, 3))))
        >>> [(step.node, step.scope) for step in steps]
        [(0, (1, 2)), (1, (2, 3)), (2, (3,)), (3, ())]
    """
    sizes = structure.sizes
    scopes: list[Scope] = [(node,) for node in range(len(sizes))]
    scopes += [tuple(end for end in link[:2] if sizes[end] > 1) or link[:1] for link in structure.links]
    touching: list[list[int]] = [[] for _ in sizes]
    for table, own in enumerate(scopes):
        for node in own:
            touching[node].append(table)
    found: list[Step] = []
    for node, scope in _order(structure, last):
        found.append(_step(structure, node, scope, {table: scopes[table] for table in touching[node]}))
        if found[-1].work > MOST_ENTRIES:
            break
        for other in scope:
            left = [table for table in touching[other] if node not in scopes[table]]
            touching[other] = [*left, len(scopes)]
        scopes.append(scope)
    return found


def _order(structure: Structure, last: Scope) -> Iterator[tuple[int, Scope]]:
    """Yield the nodes in min-fill order, each with its neighbours at that time."""
    near = _neighbours(structure)
    weights = [math.log2(size) for size in structure.sizes]

    def rank(node: int) -> tuple[float, float, int]:
        around = near[node]
        if node in last:
            return math.inf, last.index(node), node
        if len(around) > MOST_COUNTED:
            return math.comb(len(around), 2), math.inf, node
        fill = sum(b not in near[a] for a, b in combinations(around, 2))
        work = math.fsum([weights[node], *[weights[other] for other in around]])
        return fill, work, node

    ranks = {node: rank(node) for node in range(len(near))}
    queue = list(ranks.values())
    heapq.heapify(queue)
    while queue:
        entry = heapq.heappop(queue)
        node = entry[-1]
        if ranks.get(node) != entry:
            continue
        del ranks[node]
        scope = near[node]
        yield node, tuple(sorted(scope))
        joined = [(a, b) for a, b in combinations(scope, 2) if b not in near[a]]
        for a in scope:
            near[a].discard(node)
        for a, b in joined:
            near[a].add(b)
            near[b].add(a)
        for other in scope.union(*(near[a] & near[b] for a, b in joined)):
            if ranks[other] != (new := rank(other)):
                ranks[other] = new
                heapq.heappush(queue, new)


def _neighbours(structure: Structure) -> list[set[int]]:
    """Return the nodes that share an edge with each node, where both have more than one choice."""
    found: list[set[int]] = [set() for _ in structure.sizes]
    for source, target, *_ in structure.links:
        if structure.sizes[source] > 1 < structure.sizes[target]:
            found[source].add(target)
            found[target].add(source)
    return found


def _step(structure: Structure, node: int, scope: Scope, tables: Mapping[int, Scope]) -> Step:
    """Return a step with its sizes; minimised over is the neighbour of most digits outside every larger table."""
    sizes, names, first = structure.sizes, (node, *scope), len(structure.sizes) + len(structure.links)
    axes, numbers = zip(
        *sorted((tuple(map(names.index, own)), at) for at, own in tables.items()), strict=True
    )
    lower = [(place, at - first) for place, at in enumerate(numbers) if at >= first]
    table = math.prod(sizes[near] for near in scope)
    wide = {other for own in tables.values() if len(own) > 2 for other in own}
    beside = {
        other: _digits(structure, (node, other), [at for at, own in tables.items() if other in own])
        for other in scope
        if other not in wide
    }
    over = max(beside, key=lambda other: len(beside[other][0]), default=node)
    others = table // (sizes[over] if beside else 1)
    work = others * (sizes[node] + (entries_computed(*beside[over]) if beside else 0))
    place = names.index(over) or None
    return Step(node, scope, [*numbers], axes, lower, place, table, others * sizes[node], work)


def _digits(structure: Structure, ends: Scope, tables: Sequence[int]) -> tuple[Scope, Scope]:
    """Return the digits of the sum of the tables of two nodes: those of all links, or one each of whole matrices."""
    sizes, first = structure.sizes, len(structure.sizes)
    links = {structure.links[at - first] if at - first < len(structure.links) else None for at in tables}
    link = links.pop()
    return ((sizes[ends[0]],), (sizes[ends[1]],)) if link is None or links else link[2:]


class Block(NamedTuple):
    """A block, which may meet others at two of its nodes: without the first, its pivot, it is a forest.

    Attributes:
        nodes: the pivot, the port, and the others, each behind its only neighbour before it in the forest.
        links: its links by their numbers, each with the places of its ends.
    """

    nodes: tuple[int, ...]
    links: tuple[tuple[int, Ends], ...]

    @property
    def meets(self) -> tuple[int, int]:
        """The pivot and the port."""
        return self.nodes[0], self.nodes[1]

    def entry(self, states: Mapping[int, int]) -> tuple[int, int]:
        """Return the states of both."""
        return states[self.nodes[0]], states[self.nodes[1]]


def blocks_of(ends: Sequence[Ends]) -> list[Block] | None:
    """Return the blocks of a graph of some links; None if one has no pivot, or meets others at more than two nodes.

    Examples:
        >>> [block.meets for block in blocks_of([(0, 1), (1, 2), (0, 2), (2, 3)])]
        [(2, 0), (2, 3)]
    """
    import networkx as nx  # noqa: PLC0415 (a tenth of a second that only a search of blocks need spend)

    graph = nx.Graph(ends)
    components: Any = nx.biconnected_components(graph)
    parts, ports = sorted(map(sorted, components)), {*nx.articulation_points(graph)}
    near = {node: {*around} for node, around in graph.adjacency()}
    orders = [_from_pivot(own, [node for node in own if node in ports], near) for own in parts]
    return [_block(own, ends) for own in orders] if all(orders) else None


def _block(nodes: Sequence[int], ends: Sequence[Ends]) -> Block:
    places = {node: at for at, node in enumerate(nodes)}
    inside = [(link, own) for link, own in enumerate(ends) if places.keys() >= {*own}]
    links = [(link, (places[one], places[other])) for link, (one, other) in inside]
    return Block(tuple(nodes), tuple(sorted(links, key=itemgetter(1))))


def _from_pivot(nodes: Sequence[int], ports: Sequence[int], near: Mapping[int, set[int]]) -> list[int]:
    """Return the nodes of a block, its pivot first, at a port if possible, the others from the other port on; none if it has no pivot."""
    for pivot in (*reversed(ports), *nodes):
        rest = {*nodes} - {pivot}
        port, *more = [node for node in ports if node != pivot] or [min(rest)]
        # A block is connected without any node of it, so that it is a tree then if it has a link less than nodes.
        if not more and sum(len(near[node] & rest) for node in rest) == 2 * (len(rest) - 1):
            found, todo = [pivot], [port]
            while todo:
                found.append(todo.pop())
                todo += sorted(near[found[-1]] & rest - {*found})
            return found
    return []
