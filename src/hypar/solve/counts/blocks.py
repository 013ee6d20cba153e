"""The biconnected blocks of a graph, each with a pivot without which it is a forest."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import networkx as nx


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
    import networkx as nx  # noqa: PLC0415 (a tenth of a second that a plan need not spend)

    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(ends)
    between: dict[tuple[int, int], list[int]] = {}
    for at, (one, other) in enumerate(ends):
        between.setdefault((min(one, other), max(one, other)), []).append(at)
    every = cast("Iterable[Iterable[int]]", nx.biconnected_components(graph))
    found = sorted(sorted(own) for own in every)
    met = dict.fromkeys(range(nodes), 0)
    for own in found:
        for node in own:
            met[node] += 1
    blocks = [_block(graph.subgraph(own), between, [node for node in own if met[node] > 1]) for own in found]
    return None if None in blocks else tuple(block for block in blocks if block is not None)


def _block(
    graph: nx.Graph[int], between: dict[tuple[int, int], list[int]], ports: Sequence[int]
) -> Block | None:
    """Return a block with its pivot, at a port if possible."""
    own = sorted(graph)
    for pivot in (*reversed(ports), *own):
        others = [node for node in ports if node != pivot]
        if len(others) > 1 or not _forest(graph.edges, pivot):
            continue
        port = others[0] if others else next(node for node in own if node != pivot)
        spokes = {node: _links(between, node, pivot) for node in own if node != pivot}
        return Block(tuple(own), pivot, port, spokes, _trees(graph, between, pivot, port))
    return None


def _forest(edges: Iterable[tuple[int, int]], pivot: int) -> bool:
    import networkx as nx  # noqa: PLC0415 (as above)

    rest: nx.Graph[int] = nx.Graph()
    rest.add_edges_from(edge for edge in edges if pivot not in edge)
    return len(rest) == 0 or nx.is_forest(rest)


def _links(between: dict[tuple[int, int], list[int]], one: int, other: int) -> tuple[int, ...]:
    return tuple(between.get((min(one, other), max(one, other)), ()))


def _trees(
    graph: nx.Graph[int], between: dict[tuple[int, int], list[int]], pivot: int, port: int
) -> tuple[tuple[Branch, ...], ...]:
    """Return the trees of a block without its pivot."""
    trees, seen = [], {pivot}
    for root in (port, *sorted(graph)):
        tree: list[Branch] = []
        todo = [] if root in seen else [Branch(root, None, ())]
        seen.add(root)
        while todo:
            branch = todo.pop()
            tree.append(branch)
            for other in sorted(graph[branch.node]):
                if other not in seen:
                    seen.add(other)
                    todo.append(Branch(other, branch.node, _links(between, branch.node, other)))
        if tree:
            trees.append(tuple(tree))
    return tuple(trees)
