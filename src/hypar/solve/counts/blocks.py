"""The biconnected blocks of a graph, each with a pivot without which it is a forest."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypar.solve.order import components

if TYPE_CHECKING:
    from collections.abc import Sequence

Near = dict[int, set[int]]
"""The neighbours of each node."""


class Branch(NamedTuple):
    """A node of a forest.

    Attributes:
        node: the node.
        above: the node towards the root; None for a root.
        links: the links to it.
    """

    node: int
    above: int | None
    links: tuple[int, ...]


class Block(NamedTuple):
    """A block.

    Attributes:
        nodes: its nodes.
        pivot: the node without which it is a forest.
        port: the other node at which it may meet other blocks.
        spokes: for each node the links to the pivot.
        trees: the trees without the pivot, each from its root on; the port is the root of the first.
    """

    nodes: tuple[int, ...]
    pivot: int
    port: int
    spokes: dict[int, tuple[int, ...]]
    trees: tuple[tuple[Branch, ...], ...]

    @property
    def branches(self) -> list[Branch]:
        """The nodes of all trees."""
        return [branch for tree in self.trees for branch in tree]


def blocks_of(ends: Sequence[tuple[int, int]], nodes: int) -> tuple[Block, ...] | None:
    """Return the blocks of a graph; None if one has no pivot, or meets others at more than two nodes.

    Args:
        ends: the nodes of each link.
        nodes: the number of nodes.

    Examples:
        >>> [(block.pivot, block.port) for block in blocks_of([(0, 1), (1, 2), (0, 2), (2, 3)], 4)]
        [(2, 0), (2, 3)]
    """
    between: dict[tuple[int, int], list[int]] = {}
    near: list[set[int]] = [set() for _ in range(nodes)]
    for at, (one, other) in enumerate(ends):
        between.setdefault((min(one, other), max(one, other)), []).append(at)
        near[one].add(other)
        near[other].add(one)
    found = sorted(sorted(own) for own in components(near))
    met = dict.fromkeys(range(nodes), 0)
    for own in found:
        for node in own:
            met[node] += 1
    blocks = [
        _block({node: near[node] & {*own} for node in own}, between, [node for node in own if met[node] > 1])
        for own in found
    ]
    return None if None in blocks else tuple(block for block in blocks if block is not None)


def _block(near: Near, between: dict[tuple[int, int], list[int]], ports: Sequence[int]) -> Block | None:
    """Return a block with its pivot, at a port if possible."""
    own = sorted(near)
    for pivot in (*reversed(ports), *own):
        others = [node for node in ports if node != pivot]
        if len(others) > 1:
            continue
        port = others[0] if others else next(node for node in own if node != pivot)
        trees = _trees(near, between, pivot, port)
        # A forest has one edge less than nodes in each of its trees.
        edges = sum(len(near[node] - {pivot}) for node in own if node != pivot) // 2
        if edges == sum(len(tree) - 1 for tree in trees):
            spokes = {node: _links(between, node, pivot) for node in own if node != pivot}
            return Block(tuple(own), pivot, port, spokes, trees)
    return None


def _links(between: dict[tuple[int, int], list[int]], one: int, other: int) -> tuple[int, ...]:
    return tuple(between.get((min(one, other), max(one, other)), ()))


def _trees(
    near: Near, between: dict[tuple[int, int], list[int]], pivot: int, port: int
) -> tuple[tuple[Branch, ...], ...]:
    """Return the trees of a block without its pivot."""
    trees, seen = [], {pivot}
    for root in (port, *sorted(near)):
        tree: list[Branch] = []
        todo = [] if root in seen else [Branch(root, None, ())]
        seen.add(root)
        while todo:
            branch = todo.pop()
            tree.append(branch)
            for other in sorted(near[branch.node]):
                if other not in seen:
                    seen.add(other)
                    todo.append(Branch(other, branch.node, _links(between, branch.node, other)))
        if tree:
            trees.append(tuple(tree))
    return tuple(trees)
