"""A given graph: links between devices, written one by one; messages take the shortest paths, in equal parts."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from hypar.topologies.base import Link, Path, Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import networkx as nx

Device = Annotated[int, Field(ge=0, lt=2**20)]
Ends = Annotated[list[Device], Field(min_length=2, max_length=2)]


class Graph(Topology):
    """Pairs of devices, each linked in both directions; a pair given twice is twice as wide."""

    pairs: Annotated[list[Ends], Field(min_length=1)]

    def links(self, devices: int) -> Mapping[Link, float]:  # noqa: ARG002
        """Both directions of each pair."""
        found: dict[Link, float] = {}
        for one, other in self.pairs:
            for link in ((one, other), (other, one)):
                found[link] = found.get(link, 0.0) + 1.0
        return found

    def paths(self, source: int, target: int, devices: int) -> Sequence[Path]:  # noqa: ARG002
        """All shortest ones."""
        return _shortest(tuple(map(tuple, self.pairs)), source, target)

    def num_links(self, devices: int) -> int:  # noqa: ARG002
        """Those that are written."""
        return len(self.pairs)

    def fault(self, devices: int) -> str | None:
        """Every device is linked, and to all others over some path."""
        import networkx as nx  # noqa: PLC0415 (a tenth of a second that other topologies need not spend)

        graph = _graph(tuple(map(tuple, self.pairs)))
        beyond = max(graph) + 1
        if beyond > devices:
            return f"a link of device {beyond - 1}; allowed: 0 to {devices - 1}"
        lonely = next((device for device in range(devices) if device not in graph), None)
        if lonely is not None:
            return f"device {lonely} has no link; allowed: a path between any two devices"
        apart = set(range(1, devices)) - nx.descendants(graph, 0)
        return (
            f"no path from device 0 to device {min(apart)}; allowed: one between any two" if apart else None
        )


@lru_cache(maxsize=64)
def _graph(pairs: tuple[Any, ...]) -> nx.Graph[Any]:
    """The pairs as a graph."""
    import networkx as nx  # noqa: PLC0415 (as above)

    return nx.Graph(sorted(pairs))


@lru_cache(maxsize=4096)
def _shortest(pairs: tuple[Any, ...], source: int, target: int) -> list[Path]:
    """All shortest paths, sorted, in equal parts."""
    import networkx as nx  # noqa: PLC0415 (as above)

    found = sorted(nx.all_shortest_paths(_graph(pairs), source, target))
    return [(1 / len(found), tuple(itertools.pairwise(path))) for path in found]


plugin: type[Topology] = Graph
