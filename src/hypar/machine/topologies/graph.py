"""Graphs: links between devices, listed one by one; messages are divided equally over the shortest paths.

There may be very many paths, so they are counted, not listed: over a link from ``u`` to ``v`` go as many shortest paths from a
source to a target as lead to ``u`` times as many as lead on from ``v``, if the link is on one at all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from hypar.machine.topologies.base import Amounts, Listed, Loads, Numbers, Topology, Traffic

Device = Annotated[int, Field(ge=0, lt=2**20)]
Ends = Annotated[list[Device], Field(min_length=2, max_length=2)]
Node = tuple[str, int] | int
"""A device by its number, or another node as a pair."""

MOST = 512
"""Most devices of which each pair has a link."""

BLOCK = 256
"""Nodes from which shortest paths are counted at the same time."""


class Wired(Topology):
    """Topology whose pairs of linked nodes are listed; every node has a link."""

    takes_sets: ClassVar[bool] = False

    @abstractmethod
    def pairs_of(self, devices: int) -> Mapping[tuple[Node, Node], float]:
        """Return each pair of linked nodes once, with the width of the link each way in bandwidths of one link."""

    def num_links(self, devices: int) -> int:
        """Return the number of pairs of linked nodes, of wider ones by their width."""
        return int(sum(self.pairs_of(devices).values()))

    def loads(self, sent: Traffic, devices: int) -> Loads:
        """Return what listed messages load."""
        if not isinstance(sent, Listed):
            raise TypeError("sets have no paths")
        graph = _graph(tuple(self.pairs_of(devices).items()), devices)
        networks = sent.places // devices
        starts, ends, rails = sent.starts % devices, sent.ends % devices, sent.starts // devices
        code, which = np.unique(starts * devices + ends, return_inverse=True)
        source, target = np.divmod(code, devices)
        parts = (graph.part(source, target, *link)[which] for link in graph.links)
        crossed = np.stack([np.bincount(rails, part, networks) for part in parts]).reshape(2, -1, networks)
        busy = (crossed / graph.widths[:, None]).reshape(2, -1)
        return Loads(busy, float(crossed.sum()), graph.distance[starts, ends])


class _Graph(NamedTuple):
    """Linked nodes, the devices first.

    Attributes:
        links: ends of each link, those back behind the others.
        widths: width of each pair, in bandwidths of one link.
        distance: links on the shortest path between any two nodes; -1 without one.
        paths: number of these paths.
    """

    links: list[tuple[int, int]]
    widths: Amounts
    distance: Numbers
    paths: Amounts

    def part(self, source: Numbers, target: Numbers, start: int, end: int) -> Amounts:
        length = self.distance[source, start] + 1 + self.distance[end, target]
        part = self.paths[source, start] * self.paths[end, target] / self.paths[source, target]
        return np.where(length == self.distance[source, target], part, 0.0)


@lru_cache(maxsize=32)
def _graph(pairs: tuple[tuple[tuple[Node, Node], float], ...], devices: int) -> _Graph:
    others = dict.fromkeys(node for pair, _ in pairs for node in pair if not isinstance(node, int))
    number = {node: at for at, node in enumerate((*range(devices), *others))}
    one_way = [(number[one], number[other]) for (one, other), _ in pairs]
    links = [*one_way, *((other, one) for one, other in one_way)]
    starts, ends = np.array(sorted(links, key=itemgetter(1)), np.int64).reshape(-1, 2).T
    first = np.searchsorted(ends, range(len(number)))
    paths = np.eye(len(number))
    distance: Numbers = np.where(paths > 0, 0, -1)
    for rows in np.array_split(range(len(number)), -(-len(number) // BLOCK)):
        border, steps = paths[rows], 0
        while border.any():
            steps += 1
            border = np.add.reduceat(border[:, starts], first, axis=1) * (distance[rows] < 0)
            distance[rows] = np.where(border > 0, steps, distance[rows])
            paths[rows] += border
    return _Graph(links, np.array([width for _, width in pairs]), distance, paths)


class Graph(Wired):
    """Pairs of devices, each linked in both directions; a pair given twice is twice as wide."""

    pairs: Annotated[list[Ends], Field(min_length=1)]

    def pairs_of(self, devices: int) -> Mapping[tuple[Node, Node], float]:  # noqa: ARG002
        """Return the pairs, each with the number of times that it is given."""
        return Counter((min(pair), max(pair)) for pair in self.pairs)

    def fault(self, devices: int) -> str | None:
        """Refuse devices without a link or a path to all others, and links to no other device."""
        most = max(map(max, self.pairs))
        if most >= devices:
            return f"a link of device {most}; allowed: 0 to {devices - 1}"
        for one, other in self.pairs:
            if one == other:
                return f"a link from device {one} to itself; allowed: two devices"
        linked = {device for pair in self.pairs for device in pair}
        alone = next((device for device in range(devices) if device not in linked), None)
        if alone is not None:
            return f"device {alone} has no link; allowed: a path between any two devices"
        apart = np.flatnonzero(_graph(tuple(self.pairs_of(devices).items()), devices).distance[0] < 0)
        between = "allowed: one between any two"
        return f"no path from device 0 to device {apart[0]}; {between}" if len(apart) else None


class FullyConnected(Topology):
    """Topology with one hop between any two devices."""

    def loads(self, sent: Traffic, devices: int) -> Loads:
        """Return what messages load."""
        there, moved = sent.pairs(devices)
        one, other = np.triu_indices(devices, 1)
        busy = np.stack([there[:, one, other], there[:, other, one]]).reshape(2, -1)
        return Loads(busy, float(there.sum()), moved)

    def num_links(self, devices: int) -> int:
        """Return the number of pairs."""
        return devices * (devices - 1) // 2

    def fault(self, devices: int) -> str | None:
        """Refuse too many devices, as links grow with their square."""
        many = f"{devices} devices; allowed: at most {MOST}, as each pair has a link"
        return many if devices > MOST else None


plugins: dict[str, type[Topology]] = {"fully_connected": FullyConnected, "graph": Graph}
