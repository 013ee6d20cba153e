"""Base classes of topologies: what messages load on the links between devices."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from hypar.files.quantities import Description
from hypar.machine.traffic import Listed, Loads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.traffic import Amounts, Numbers, Traffic

Node = tuple[str, int] | int
Link = tuple[Node, Node]
"""A pair of nodes; devices are numbers from 0, every other node is a pair."""

Path = tuple[float, tuple[Link, ...]]
"""The fraction of a message that takes some links, and the links."""


class Topology(Description):
    """Wiring of some devices; subclasses add the fields of a hardware file."""

    takes_sets: ClassVar[bool] = True
    """Whether messages may be given as sets, without a list of them."""

    @abstractmethod
    def loads(self, sent: Traffic, devices: int) -> Loads:
        """Return what messages load.

        Args:
            sent: the messages, of several networks of this wiring; listed, unless the topology ``takes_sets``.
            devices: number of devices wired.
        """

    @abstractmethod
    def num_links(self, devices: int) -> int:
        """Return the number of links that share a total bandwidth; one counts for both directions."""

    @property
    def adds_up(self) -> bool:
        """Whether its nodes add up the messages of an all-reduce and send the sum back."""
        return False

    def places(self, factors: Sequence[int]) -> Sequence[int]:
        """Return the device at each position of the array; positions count in mixed radix.

        Args:
            factors: prime factors of the array's ways, outermost first.
        """
        return range(int(np.prod(factors, dtype=np.int64)))

    def coordinates(self, device: Numbers, devices: int) -> tuple[Numbers, ...]:  # noqa: ARG002
        """Return the coordinates of devices: one for each dimension of the network."""
        return (device,)

    def fault(self, devices: int) -> str | None:  # noqa: ARG002
        """Return why this number of devices, at least one, cannot be wired so; None if it can."""
        return None


class Wired(Topology):
    """Wiring whose links, and the paths of whose messages, are listed one by one."""

    takes_sets: ClassVar[bool] = False

    @abstractmethod
    def links(self, devices: int) -> Mapping[Link, float]:
        """Return every directed link, and the one back, with its width in bandwidths of one link."""

    @abstractmethod
    def paths(self, source: int, target: int, devices: int) -> Sequence[Path]:
        """Return the paths of a message between two devices; their fractions sum to 1."""

    def num_links(self, devices: int) -> int:
        """Return the number of pairs of linked nodes."""
        return len(self.links(devices)) // 2

    def loads(self, sent: Traffic, devices: int) -> Loads:
        """Return what listed messages load."""
        if not isinstance(sent, Listed):
            raise TypeError("sets have no paths")
        wires = _wires(type(self), self.model_dump_json(), devices)
        pairs, which = np.unique(sent.starts % devices * devices + sent.ends % devices, return_inverse=True)
        routes = [wires.route(pair) for pair in pairs.tolist()]
        counts, hops = np.array([(len(own.links), own.hops) for own in routes]).T[:, which]
        # The links of each message, in the order of the messages.
        which = np.repeat(which, counts)
        starts = np.cumsum([0, *(len(own.links) for own in routes)])
        place = starts[which] + np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        links, parts = (np.concatenate([own[number] for own in routes])[place] for number in (0, 1))
        rails, size = np.repeat(sent.starts // devices, counts), wires.widths.size
        loads = np.bincount(rails * size + links, parts, sent.places // devices * size)
        busy = (loads.reshape(-1, size) / wires.widths).reshape(-1, 2, size // 2).swapaxes(0, 1)
        return Loads(busy.reshape(2, -1), float(loads.sum()), hops)


class _Route(NamedTuple):
    """Links of all paths of a message, the part of it that takes each, and the links of its longest path."""

    links: Numbers
    parts: Amounts
    hops: int


class _Wires:
    """The links of a topology between some devices, those back behind the others, and the routes asked for so far."""

    def __init__(self, topology: Wired, devices: int) -> None:
        self.topology, self.devices = topology, devices
        widths, there = topology.links(devices), dict[Link, None]()
        for link in widths:
            if link[::-1] not in there:
                there[link] = None
        links = [*there, *(link[::-1] for link in there)]
        self.number = {link: number for number, link in enumerate(links)}
        self.widths = np.array([widths[link] for link in links])
        self.routes: dict[int, _Route] = {}

    def route(self, pair: int) -> _Route:
        if pair not in self.routes:
            source, target = divmod(pair, self.devices)
            paths = self.topology.paths(source, target, self.devices) if source != target else ()
            links = [self.number[link] for _, path in paths for link in path]
            parts = [part for part, path in paths for _ in path]
            longest = max((len(path) for _, path in paths), default=0)
            self.routes[pair] = _Route(np.array(links, np.int64), np.array(parts), longest)
        return self.routes[pair]


@lru_cache(maxsize=8)
def _wires(kind: type[Wired], fields: str, devices: int) -> _Wires:
    """Return the links of a topology given by its fields, which may be lists and are no key themselves."""
    return _Wires(kind.model_validate_json(fields), devices)
