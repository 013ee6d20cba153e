"""Separators (articulation points): nodes whose removal disconnects a graph.

Source: Hopcroft and Tarjan, Algorithm 447: Efficient algorithms for graph manipulation, Communications of the
ACM 16, 1973. Cost: linear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def separators(neighbours: Sequence[set[int]]) -> set[int]:
    """Return the nodes whose removal disconnects some of the others.

    Examples:
        >>> sorted(separators([{1}, {0, 2, 3}, {1, 3}, {1, 2}]))
        [1]
    """
    found: set[int] = set()
    depth: dict[int, int] = {}
    for root in range(len(neighbours)):
        if root not in depth:
            found |= _below(root, neighbours, depth)
    return found


def _below(root: int, neighbours: Sequence[set[int]], depth: dict[int, int]) -> set[int]:
    """Return the separators of one component by depth-first search from a node; record every node's depth."""
    found: set[int] = set()
    lowest = {root: 0}
    depth[root] = 0
    branches = 0
    path: list[tuple[int, Iterator[int]]] = [(root, iter(sorted(neighbours[root])))]
    while path:
        node, others = path[-1]
        child = next(others, None)
        if child is None:
            path.pop()
            above = path[-1][0] if path else root
            lowest[above] = min(lowest[above], lowest[node])
            if above == root:
                branches += node != root
            elif lowest[node] >= depth[above]:
                found.add(above)
        elif child in depth:
            lowest[node] = min(lowest[node], depth[child])
        else:
            lowest[child] = depth[child] = depth[node] + 1
            path.append((child, iter(sorted(neighbours[child]))))
    return found | {root} if branches > 1 else found
