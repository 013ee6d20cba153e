"""The elimination order of a cost graph and the size of each step's table, computed without any costs.

Order: min-fill: the next node is the one whose elimination joins the fewest pairs of unjoined neighbours. Ties go to
nodes that are no separators (nodes whose removal disconnects the graph), as those become leaves once their blocks are
folded, and equal blocks fold alike; then to the least work, then to the lowest index. Trees and series-parallel
graphs need no table over more than two nodes.

The order is found quickly on any graph: pairs of neighbours are counted only for nodes of few neighbours, a node is
ranked again only after its neighbours or their edges change, and the order ends with the first table of more entries
than any solver may hold or compute.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from functools import lru_cache
from itertools import chain, combinations
from typing import TYPE_CHECKING, NamedTuple

from hypar.solve.cost_graph import Link
from hypar.solve.edge import entries_computed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.solve.cost_graph import Structure

Scope = tuple[int, ...]

MOST_COUNTED = 48
"""Most neighbours whose pairs are counted; beyond it, all pairs count as unjoined."""

MOST_ENTRIES = 2**34
"""Work of a step that ends the order, in table entries: no solver may compute more."""


class Step(NamedTuple):
    """The elimination of one node.

    Attributes:
        node: the node.
        scope: its neighbours at that time, in rising order.
        over: the neighbour whose edge is minimised digit by digit; None if no edge can be.
        entries: number of entries in the resulting table.
        summed: number of entries in the sum before the minimum, digit by digit if possible.
        work: number of table entries computed.
    """

    node: int
    scope: Scope
    over: int | None
    entries: int
    summed: int
    work: int


class Trace(NamedTuple):
    """The elimination of all nodes.

    Attributes:
        steps: the steps in order, up to the first whose table has too many entries.
        complete: whether all nodes are eliminated.
    """

    steps: tuple[Step, ...]
    complete: bool = True

    @property
    def width(self) -> int:
        """The largest number of neighbours of a node at its elimination."""
        return max((len(step.scope) for step in self.steps), default=0)


@lru_cache(maxsize=16)
def trace(structure: Structure, last: int | None = None) -> Trace:
    """Trace the elimination of a graph without its costs.

    Args:
        structure: the graph.
        last: the node that leaves last; None for any.

    Examples:
        >>> from hypar.solve.cost_graph import Structure
        >>> pairs = [(0, 1), (0, 2), (1, 3), (2, 3)]
        >>> diamond = Structure(sizes=(2,) * 4, links=tuple(Link(a, b, (2,), (2,)) for a, b in pairs))
        >>> found = trace(diamond)
        >>> [(step.node, step.scope) for step in found.steps]
        [(0, (1, 2)), (1, (2, 3)), (2, (3,)), (3, ())]
        >>> found.width
        2
    """
    links = _merged_links(structure)
    wide: list[set[Scope]] = [set() for _ in structure.sizes]
    found: list[Step] = []
    for node, scope in _order(structure, last):
        over = _digit_by_digit(node, scope, links, wide[node])
        found.append(_step(node, scope, over, links, structure.sizes))
        if found[-1].work > MOST_ENTRIES:
            break
        for a in scope:
            wide[a] = {other for other in wide[a] if node not in other}
            if len(scope) > 2:
                wide[a].add(scope)
        if len(scope) == 2:
            links[scope] = _dense_link(scope, structure.sizes)
    return Trace(steps=tuple(found), complete=len(found) == len(structure.sizes))


def _order(structure: Structure, last: int | None) -> Iterator[tuple[int, Scope]]:
    """Yield the nodes in min-fill order, each with its neighbours at that time."""
    near = structure.neighbours()
    weights = [math.log2(size) for size in structure.sizes]
    parting = separators(near)

    def rank(node: int) -> tuple[float, bool, float, int]:
        around = near[node]
        if node == last:
            return math.inf, True, math.inf, node
        if len(around) > MOST_COUNTED:
            return math.comb(len(around), 2), node in parting, math.inf, node
        fill = sum(b not in near[a] for a, b in combinations(around, 2))
        work = math.fsum([weights[node], *[weights[other] for other in around]])
        return fill, node in parting, work, node

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


def _merged_links(structure: Structure) -> dict[Scope, Link]:
    """Return one link for each joined pair of nodes; parallel edges that differ in form become a dense one."""
    links: dict[Scope, Link] = {}
    for link in structure.links:
        pair = _pair(link.source, link.target)
        same = links.get(pair, link) == link
        links[pair] = link if same else _dense_link(pair, structure.sizes)
    return links


def _dense_link(pair: Scope, sizes: tuple[int, ...]) -> Link:
    return Link(pair[0], pair[1], (sizes[pair[0]],), (sizes[pair[1]],))


def _digit_by_digit(node: int, scope: Scope, links: Mapping[Scope, Link], wide: set[Scope]) -> int | None:
    """Return the neighbour to minimise over: the one of most digits outside every larger table."""
    named = {other for table in wide for other in table}
    open_ends = [other for other in scope if other not in named and _pair(node, other) in links]
    return max(open_ends, key=lambda other: len(links[_pair(node, other)].source_digits), default=None)


def _step(
    node: int, scope: Scope, over: int | None, links: Mapping[Scope, Link], sizes: tuple[int, ...]
) -> Step:
    """Return a step with its sizes."""
    table = math.prod(sizes[near] for near in scope)
    if over is None:
        work = table * sizes[node]
        return Step(node, scope, None, table, work, work)
    link = links[_pair(node, over)]
    entries = entries_computed(link.source_digits, link.target_digits)
    others = table // sizes[over]
    return Step(node, scope, over, table, others * sizes[node], others * (entries + sizes[node]))


def _pair(a: int, b: int) -> Scope:
    return (a, b) if a < b else (b, a)


def separators(neighbours: Sequence[set[int]]) -> set[int]:
    """Return the nodes whose removal disconnects some of the others: those of several biconnected components.

    Examples:
        >>> sorted(separators([{1}, {0, 2, 3}, {1, 3}, {1, 2}]))
        [1]
    """
    often = Counter(chain.from_iterable(components(neighbours)))
    return {node for node, count in often.items() if count > 1}


def components(neighbours: Sequence[set[int]]) -> Iterator[set[int]]:
    """Yield the nodes of each biconnected component of a graph, by depth-first search.

    Examples:
        >>> sorted(map(sorted, components([{1, 2}, {0, 2}, {0, 1, 3}, {2}])))
        [[0, 1, 2], [2, 3]]
    """
    depth: dict[int, int] = {}
    low: dict[int, int] = {}
    for root in range(len(neighbours)):
        if root in depth:
            continue
        depth[root] = low[root] = 0
        path = [(root, iter(sorted(neighbours[root])))]
        waiting: list[int] = []
        places: dict[int, int] = {}
        while path:
            node, others = path[-1]
            other = next(others, None)
            if other is None:
                path.pop()
                if path:
                    above = path[-1][0]
                    low[above] = min(low[above], low[node])
                    if low[node] >= depth[above]:
                        yield {above, *waiting[places[node] :]}
                        del waiting[places[node] :]
            elif other not in depth:
                depth[other] = low[other] = len(path)
                path.append((other, iter(sorted(neighbours[other]))))
                places[other] = len(waiting)
                waiting.append(other)
            else:
                low[node] = min(low[node], depth[other])
