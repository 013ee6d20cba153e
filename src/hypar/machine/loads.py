"""Loads of the links of a machine's networks when its devices send messages at the same time."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.machine.listed import Listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hypar.machine.collectives.steps import Messages
    from hypar.machine.tiers import Tier
    from hypar.machine.topologies.base import Topology

    Numbers = NDArray[np.int64]


class Routed(NamedTuple):
    """Time of routed messages: seconds per byte that a subgroup's device receives, latency, seconds per tier, hops."""

    seconds: float
    latency_s: float
    by_tier: tuple[float, ...]
    hops: int

    def scaled(self, factor: float) -> Routed:
        """Return the time of ``factor`` times the bytes."""
        by_tier = tuple(seconds * factor for seconds in self.by_tier)
        return self._replace(seconds=self.seconds * factor, by_tier=by_tier)


class _Sent(NamedTuple):
    """Messages of one tier.

    Attributes:
        rails: the parallel network that each message takes, counted from 0.
        ends: the position of its sender times the number of positions, plus that of its receiver.
        amounts: bytes.
        sets: the set of counterparts that it belongs to.
        which: its index among the messages of all tiers.
    """

    rails: Numbers
    ends: Numbers
    amounts: NDArray[np.float64]
    sets: Numbers
    which: Numbers


MOST_KEPT = 1024
"""Largest number of devices of a network whose paths are listed, and kept for machines that differ in other numbers."""


def wires_of(tier: Tier) -> Wires:
    """Return the links of a network; networks of one topology and as many devices share them."""
    topology, devices = tier.topology, tier.devices
    if devices > MOST_KEPT:
        return Wires(topology, devices)
    return _kept_wires(type(topology), topology.model_dump_json(), devices)


class Wires:
    """The links of a topology between some devices, and the links of each path that has been asked for."""

    def __init__(self, topology: Topology, devices: int) -> None:
        """Number the links."""
        self.topology, self.devices = topology, devices
        self.walks = devices > MOST_KEPT and topology.counts_sets
        widths = topology.links(devices)
        self.number = {link: number for number, link in enumerate(widths)}
        self.widths = np.fromiter(widths.values(), np.float64, len(widths))
        self.opposite = np.fromiter(
            (self.number.get((end, start), -1) for start, end in widths), np.int64, len(widths)
        )
        self.routed: Numbers = np.zeros(0, np.int64)
        self.row: Numbers = np.zeros(0, np.int64)
        self.starts: Numbers = np.zeros(1, np.int64)
        self.links: Numbers = np.zeros(0, np.int64)
        self.parts = np.zeros(0)
        self.hops: Numbers = np.zeros(0, np.int64)

    def rows_of(self, ends: Numbers) -> Numbers:
        """Return the row of each pair of ends; routes the pairs that are new."""
        asked, which = np.unique(ends, return_inverse=True)
        new = np.setdiff1d(asked, self.routed, assume_unique=True)
        if new.size:
            self._route(new)
        return self.row[np.searchsorted(self.routed, asked)][which]

    def _route(self, pairs: Numbers) -> None:
        links: list[int] = []
        parts: list[float] = []
        counts, hops = [], []
        for pair in pairs.tolist():
            source, target = divmod(pair, self.devices)
            before, most = len(links), 0
            for part, path in self.topology.paths(source, target, self.devices):
                links += [self.number[link] for link in path]
                parts += [part] * len(path)
                most = max(most, len(path))
            counts.append(len(links) - before)
            hops.append(most)
        routed = np.concatenate([self.routed, pairs])
        row = np.concatenate([self.row, len(self.hops) + np.arange(len(pairs))])
        order = routed.argsort(kind="stable")
        self.routed, self.row = routed[order], row[order]
        self.hops = np.concatenate([self.hops, np.array(hops, np.int64)])
        self.starts = np.concatenate([self.starts, self.starts[-1] + np.cumsum(counts, dtype=np.int64)])
        self.links = np.concatenate([self.links, np.array(links, np.int64)])
        self.parts = np.concatenate([self.parts, np.array(parts)])

    def hops_between(self, one: int, other: int) -> int:
        """Return the links on the longest path of a message."""
        return max(len(path) for _, path in self.topology.paths(one, other, self.devices))

    def busiest(self, sent: _Sent, *, duplex: bool, summed: bool) -> tuple[float, Numbers]:
        """Return the load of the busiest link in units of one byte over one link, and the hops of each message.

        Args:
            sent: the messages.
            duplex: whether a link works in both directions at once.
            summed: whether messages of one set of counterparts load a link as much as the largest of them.
        """
        if not sent.ends.size:
            return 0.0, sent.ends
        if self.walks and not summed:
            starts, ends = np.divmod(sent.ends, self.devices)
            busy = self.topology.messages_loads(Listed(sent.rails, starts, ends, sent.amounts), self.devices)
            return float((busy.loads if duplex else busy.loads.sum(axis=0)).max()), busy.hops
        rows = self.rows_of(sent.ends)
        starts, counts = self.starts[rows], np.diff(self.starts)[rows]
        entry = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - starts, counts)
        key = np.repeat(sent.rails, counts) * len(self.widths) + self.links[entry]
        amounts = np.repeat(sent.amounts, counts) * self.parts[entry]
        if summed:
            sets = np.repeat(sent.sets, counts)
            _, first = np.unique(key * (int(sets.max()) + 1) + sets, return_index=True)
            key, amounts = key[first], amounts[first]
        rails = int(sent.rails.max()) + 1
        loads = np.bincount(key, amounts, rails * len(self.widths)).reshape(rails, -1)
        if not duplex:
            loads = loads + np.where(self.opposite >= 0, loads[:, self.opposite], 0.0)
        return float((loads / self.widths).max()), self.hops[rows]


@lru_cache(maxsize=8)
def _kept_wires(kind: type[Topology], fields: str, devices: int) -> Wires:
    """Return the links of a topology given by its fields, which may be lists and are no key themselves."""
    return Wires(kind.model_validate_json(fields), devices)


class Level:
    """A level of an array on the networks of a machine: routes messages between counterparts of all groups at once."""

    def __init__(
        self,
        tiers: Sequence[Tier],
        wires: Sequence[Wires],
        places: Sequence[Numbers],
        array: tuple[int, ...],
        level: int,
    ) -> None:
        """Find the devices of a level.

        Args:
            tiers: the networks, outermost first.
            wires: their links.
            places: the device of each network at each position of it.
            array: ways of each level.
            level: the level.
        """
        self.tiers, self.wires, self.places = tiers, wires, places
        self.ways, self.inner = array[level], math.prod(array[level + 1 :])
        outer = np.arange(math.prod(array[:level]))[:, None] * (self.ways * self.inner)
        self.bases = (outer + np.arange(self.inner)).reshape(-1)

    @property
    def walks(self) -> bool:
        """Whether loads are counted on all networks without a list of the links of each path."""
        return all(wires.walks for wires in self.wires)

    def hops(self, one: int, other: int) -> int:
        """Return the number of links between the first devices of two subgroups."""
        ends = self.bases[0] + np.array([one, other]) * self.inner
        pairs = [own.tolist() for own in self.positions(ends)]
        return sum(
            wires.hops_between(*pair)
            for wires, pair in zip(self.wires, pairs, strict=True)
            if pair[0] != pair[1]
        )

    def coordinates(self) -> list[tuple[int, ...]]:
        """Return the coordinates of the first device of each subgroup, in all networks."""
        first = np.arange(self.ways) * self.inner
        found: list[tuple[int, ...]] = [()] * self.ways
        for tier, own in zip(self.tiers, self.positions(first), strict=True):
            found = [
                (*before, *tier.topology.coordinates(device, tier.devices))
                for before, device in zip(found, own.tolist(), strict=True)
            ]
        return found

    def route(self, messages: Messages, *, summed: bool) -> Routed:
        """Return the time of messages that are sent at the same time between the subgroups of every group.

        Args:
            messages: amounts from one subgroup's device to another's.
            summed: whether the nodes of the network add up the messages between counterparts.
        """
        in_tier: list[float] = []
        latency, hops = np.zeros((2, len(self.bases) * len(messages)))
        for tier, wires, sent in zip(self.tiers, self.wires, self._sent(messages, self.bases), strict=True):
            load, walked = wires.busiest(sent, duplex=tier.duplex, summed=summed)
            in_tier.append(load / tier.bytes_per_s)
            hops[sent.which] += walked
            latency[sent.which] += walked * tier.latency_s
        return Routed(max(in_tier, default=0.0), float(latency.max()), tuple(in_tier), int(hops.max()))

    def rails(self, number: int, devices: Numbers) -> tuple[Numbers, Numbers]:
        """Return of devices the parallel networks of a tier that they send on, and those that they receive on.

        Between the groups that a tier links, a message takes the rail of the sender's number inside its group; the
        rest of the path, inside the group, goes over the tier below.
        """
        below = math.prod(tier.devices for tier in self.tiers[number + 1 :])
        ports = self.tiers[number].ports or below
        above = below * self.tiers[number].devices
        return devices % below * ports // below, devices // above * ports

    def positions(self, devices: Numbers) -> list[Numbers]:
        """Return the position of devices in each network."""
        found, below = [], math.prod(tier.devices for tier in self.tiers)
        for tier, place in zip(self.tiers, self.places, strict=True):
            above, below = below, below // tier.devices
            found.append(place[devices % above // below])
        return found

    def _sent(self, messages: Messages, bases: Numbers) -> list[_Sent]:
        """Return the messages of each network: between the same devices of two subgroups, in all groups."""
        ends = np.array(list(messages), np.int64).reshape(-1, 2)
        amounts = np.tile(np.fromiter(messages.values(), np.float64, len(messages)), len(bases))
        sources, targets = ((bases[:, None] + own * self.inner).reshape(-1) for own in ends.T)
        sets = np.repeat(np.arange(len(bases)), len(ends))
        found = []
        positions = zip(self.positions(sources), self.positions(targets), strict=True)
        for number, (tier, (start, end)) in enumerate(zip(self.tiers, positions, strict=True)):
            away = np.flatnonzero(start != end)
            rails = self.rails(number, sources[away])[0] + self.rails(number, targets[away])[1]
            found.append(
                _Sent(rails, start[away] * tier.devices + end[away], amounts[away], sets[away], away)
            )
        return found
