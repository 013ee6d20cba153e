"""The blocks of a network, each with a pivot without which it is a forest, as a tree from the outer ones on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import networkx as nx

from hypar.studies.certificates.record import Block
from hypar.studies.certificates.verify import Turn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.studies.certificates.problem import Problem


class _Ends(NamedTuple):
    """A block's layers, its pivot and its port."""

    nodes: frozenset[int]
    pivot: int
    port: int


def turns_of(problem: Problem) -> list[Turn] | None:
    """Return each layer at which blocks may meet with the next one, outer ones first; None if a block has no pivot."""
    graph = nx.Graph([*problem.links])
    cuts = {*nx.articulation_points(graph)}
    meet: nx.Graph[int] = nx.Graph()
    every = cast("Iterator[set[int]]", nx.biconnected_components(graph))
    for nodes in sorted(sorted(own) for own in every):
        found = _ends(graph, nodes, cuts)
        if found is None:
            return None
        meet.add_edge(found.pivot, found.port, ends=found)
    turns = []
    for part in sorted(nx.connected_components(meet), key=min):
        for after, layer in nx.bfs_edges(meet, min(part)):
            turns.append(_turn(problem, graph, meet.edges[after, layer]["ends"], layer, after))
    return turns[::-1]


def _ends(graph: nx.Graph[int], nodes: list[int], cuts: set[int]) -> _Ends | None:
    """Return pivot and port of a block, at layers where it meets others if possible; None if there are none."""
    ports = [node for node in nodes if node in cuts]
    for pivot in (*reversed(ports), *nodes):
        others = [node for node in ports if node != pivot]
        rest = [node for node in nodes if node != pivot]
        if len(others) <= 1 and nx.is_forest(graph.subgraph(rest)):
            return _Ends(frozenset(nodes), pivot, (others or rest)[0])
    return None


def _turn(problem: Problem, graph: nx.Graph[int], ends: _Ends, layer: int, after: int) -> Turn:
    """Return a layer with the next one and the block between them."""
    names = problem.names
    if len(ends.nodes) == 2:
        return Turn(names[layer], names[after])
    inner: list[list[str | None]] = [
        [names[node], None if of is None else names[of]]
        for node, of in _outer_first(graph.subgraph(ends.nodes - {ends.pivot}), ends.port)
    ]
    return Turn(names[layer], names[after], Block(pivot=names[ends.pivot], inner=inner, raised=[]))


def _outer_first(forest: nx.Graph[int], port: int) -> Iterator[tuple[int, int | None]]:
    """Yield the nodes of a forest but the port with the next one towards the root, outer ones first."""
    for part in nx.connected_components(forest):
        root = port if port in part else min(part)
        for above, node in reversed([*nx.bfs_edges(forest, root)]):
            yield node, above
        if root != port:
            yield root, None
