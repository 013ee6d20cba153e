"""Transfer times between the subgroups of a group, by the traffic of messages on the networks of a machine.

Each algorithm of a collective is a schedule of messages; each of its steps takes as long as its busiest link and its longest
path say. The algorithms and their sources are in ``hypar.machine.collectives``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from hypar.errors import HardwareError
from hypar.machine import collectives
from hypar.machine.collectives import Messages, Schedule, Step
from hypar.machine.topologies.base import Amounts, Listed, Loads, Numbers, Sets, Topology, Traffic
from hypar.sharding.conventions import COLLECTIVES
from hypar.sharding.placement import primes

MOST_MESSAGES = 2**17
"""Most messages of one level on networks on which all are listed."""

MOST_CELLS = 2**20
"""Most cells of a table of sets by devices."""

SAME = 1 + 1e-9
"""Ratio up to which two bandwidths are equal but for rounding."""

FEWER = 4
"""How many times fewer messages than devices a set must have to be listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One network of a machine.

    Attributes:
        name: the topology's name.
        topology: the wiring.
        devices: number of devices, or groups of devices, that it links.
        bytes_per_s: bandwidth of one link, each way.
        latency_s: latency of each hop.
        duplex: whether a link works in both directions at once.
        ports: number of links with which a group is part of it, shared by the devices of the group as evenly as their numbers allow; None
            for one for each device.
        collectives: names of the algorithms that reductions and gatherings over it may use.
    """

    name: str
    topology: Topology = field(hash=False)  # its fields may be lists
    devices: int
    bytes_per_s: float
    latency_s: float
    duplex: bool
    ports: int | None = None
    collectives: tuple[str, ...] = collectives.ALGORITHMS


class Line(NamedTuple):
    """Time of an algorithm: ``latency_s + bytes * seconds_per_byte``, the bytes being those that one subgroup receives."""

    latency_s: float
    seconds_per_byte: float
    algorithm: str

    def seconds(self, num_bytes: Any) -> Any:
        """Return the time of some bytes, a number or an array."""
        return num_bytes * self.seconds_per_byte + self.latency_s


Lines = tuple[Line, ...]
"""The lines that are least for some bytes, in ascending order of latency and of bandwidth."""


def least(lines: Iterable[Line]) -> Lines:
    """Return the lines that are least for some bytes, from the one for few bytes to the one for many.

    Examples:
        >>> [line.algorithm for line in least([Line(2, 1, "ring"), Line(1, 4, "tree"), Line(3, 1, "slow")])]
        ['tree', 'ring']
    """
    found: list[Line] = []
    for line in sorted(lines):
        # Of equal bandwidths, up to rounding, the one with less latency counts.
        if found and line.seconds_per_byte * SAME >= found[-1].seconds_per_byte:
            continue
        while len(found) > 1 and _crossing(found[-1], line) <= _crossing(found[-2], found[-1]):
            found.pop()
        if found and line.latency_s <= found[-1].latency_s:
            found.pop()
        found.append(line)
    return tuple(found)


def _crossing(one: Line, other: Line) -> float:
    """Return the bytes from which the second line, of more bandwidth, is less."""
    return (other.latency_s - one.latency_s) / (one.seconds_per_byte - other.seconds_per_byte)


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLink:
    """Transfer times between the subgroups of a group at one level of an array.

    Attributes:
        lines: the times of the algorithms worth using, for each collective.
        hops: links on the longest path of a message.
        mean_hops: mean number of links between a device and its counterparts; a path counts by its part of the message.
        resource: the resource that is busy during a transfer.
    """

    lines: Mapping[str, Lines]
    hops: int
    mean_hops: float
    resource: str

    def seconds(self, collective: str, subgroup_bytes: Any) -> Any:
        """Return the time until each subgroup has received its bytes, by the algorithm that is fastest for them.

        Args:
            collective: name of the collective.
            subgroup_bytes: bytes that each subgroup receives, a number or an array.
        """
        times = [line.seconds(subgroup_bytes) for line in self.lines[collective]]
        return np.minimum.reduce(times) if isinstance(subgroup_bytes, np.ndarray) else min(times)

    def line(self, collective: str, subgroup_bytes: float) -> Line:
        """Return latency, rate and name of the algorithm that is fastest for some bytes; of equal ones the first."""
        return min(self.lines[collective], key=lambda line: line.seconds(subgroup_bytes))


@lru_cache(maxsize=256)
def level_links(name: str, tiers: tuple[Tier, ...], array: tuple[int, ...]) -> tuple[LevelLink, ...]:
    """Return the links of each level of an array, both outermost first; machines of equal networks share them.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    used, held = math.prod(array), math.prod(tier.devices for tier in tiers)
    place, single = f"hardware {name!r}", min(array, default=2) < 2
    if single or used > held or held % used:
        found = f"found an array of {used} devices ({'x'.join(map(str, array))})"
        most = f"{'at most' if used > held else 'a divisor of'} {held}, all that it has"
        raise HardwareError(place, found, "two ways a level at least" if single else most)
    wide, listing = max(array, default=1), [tier.name for tier in tiers if not tier.topology.takes_sets]
    if used * (wide - 1) > MOST_MESSAGES and listing:
        found = f"found {used * (wide - 1):,} messages of a level of {wide} ways on a network {listing[0]!r}"
        raise HardwareError(place, found, f"{MOST_MESSAGES:,}, so levels of fewer ways")
    places = _places(tiers, array)
    return tuple(_Level(tiers, places, array, level).link() for level in range(len(array)))


class _Places(NamedTuple):
    """Of each device its network among those of a tier that stand side by side, by what it sends on and what it receives on.

    Between the groups that a tier links, a message takes the network of the sender's number inside its group; the rest of
    the path, inside the group, goes over the tier below.

    Attributes:
        port: number of its port inside its group.
        group: number of the group of groups that it is in.
        place: its place in a network.
        shape: number of groups of groups, of ports, and of places.
    """

    port: Numbers
    group: Numbers
    place: Numbers
    shape: tuple[int, int, int]

    def listed(self, starts: Numbers, ends: Numbers) -> Listed:
        groups, ports, places = self.shape
        first = (self.group[ends] * ports + self.port[starts]) * places
        return Listed(first + self.place[starts], first + self.place[ends], groups * ports * places)

    def sets(self, sources: Numbers, targets: Numbers, *, summed: bool) -> Sets:
        """Return messages from each source of a set to each of its targets: [set, device]."""
        groups, ports, places = self.shape
        rows, found = np.arange(len(sources))[:, None], []
        for own, of, size in (sources, self.port, ports), (targets, self.group, groups):
            code = (rows * size + of[own]) * places + self.place[own]
            counts = np.bincount(code.ravel(), minlength=len(rows) * size * places)
            found.append(counts.astype(np.float64).reshape(len(rows), -1, places))
        return Sets(found[0][:, None], found[1][:, :, None], summed)


def _places(tiers: Sequence[Tier], array: tuple[int, ...]) -> list[_Places]:
    """Return the places of an array's devices in each tier, by mixed radix.

    A smaller array has the first of several identical sections of the machine to itself.
    """
    used, below = math.prod(array), math.prod(tier.devices for tier in tiers)
    factors = [prime for count in (below // used, *array) for prime in primes(count)]
    found, devices, held = [], np.arange(used), below
    for tier in tiers:
        own: list[int] = []
        while factors and math.prod(own) < tier.devices:
            own.append(factors.pop(0))
        at = tier.topology.places(own if math.prod(own) == tier.devices else primes(tier.devices))
        above, below = below, below // tier.devices
        ports = tier.ports or below
        place = np.array(at, np.int64)[devices % above // below]
        shape = held // above, ports, tier.devices
        found.append(_Places(devices % below * ports // below, devices // above, place, shape))
    return found


class _Routed(NamedTuple):
    """Messages of a byte each, on each tier: loads of its links, bytes over all links; latency and hops of the longest path."""

    busy: tuple[Amounts, ...]
    crossed: float
    latency_s: float
    hops: int


class _Level:
    """A level of an array on the networks of a machine: routes messages between counterparts of all groups at once."""

    def __init__(
        self, tiers: Sequence[Tier], places: Sequence[_Places], array: tuple[int, ...], level: int
    ) -> None:
        self.tiers, self.places = tiers, places
        self.ways, self.inner = array[level], math.prod(array[level + 1 :])
        outer = np.arange(math.prod(array[:level]))[:, None] * (self.ways * self.inner)
        self.bases = (outer + np.arange(self.inner)).reshape(-1)
        self.known: dict[object, _Routed] = {}

    def link(self) -> LevelLink:
        """Return the link of the level: for each collective the algorithms that are fastest for some bytes."""
        everyone = self.routed(collectives.among_all(self.ways))
        beside = self.routed(collectives.around(np.arange(self.ways)[None]))
        crossed = [tier for tier, busy in zip(self.tiers, everyone.busy, strict=True) if np.any(busy)]
        across = next(number for number, busy in enumerate(beside.busy) if np.any(busy))
        common = set.intersection(*({*tier.collectives} for tier in crossed))
        allowed = [name for name in collectives.ALGORITHMS if name in common]
        if len(crossed) == 1 and crossed[0].topology.adds_up:
            allowed.append("in_tree")
        named = collectives.schedules(self.grid(), self.hops, allowed)
        devices = len(self.bases) * self.ways
        return LevelLink(
            lines={kind: least(self.line(*one) for one in named[kind]) for kind in COLLECTIVES},
            hops=max(everyone.hops, 1),
            mean_hops=everyone.crossed / (devices * (self.ways - 1)),
            # All levels of a tier share it: even messages to the far half of a tree use the links of its leaves.
            resource=f"{self.tiers[across].name} links" + f" {across + 1}" * (len(self.tiers) > 1),
        )

    def line(self, algorithm: str, schedule: Schedule) -> Line:
        seconds = math.fsum(max(self.by_tier(step)) for step in schedule) / self.inner
        latency = [
            step.rounds * max(self.routed(sent, summed=step.summed).latency_s for _, sent in step.parts)
            for step in schedule
        ]
        return Line(math.fsum(latency), seconds, algorithm)

    def by_tier(self, step: Step) -> list[float]:
        """Return the seconds of the busiest link of each tier."""
        parts = [(amount, self.routed(sent, summed=step.summed).busy) for amount, sent in step.parts]
        found = []
        for number, tier in enumerate(self.tiers):
            loads = sum(amount * busy[number] for amount, busy in parts)
            worst = np.max(loads if tier.duplex else np.sum(loads, axis=0), initial=0.0)
            found.append(float(worst) / tier.bytes_per_s)
        return found

    def routed(self, sent: Messages, *, summed: bool = False) -> _Routed:
        """Return what messages of a byte each load; equal messages are routed once."""
        key = sent.key, summed
        if key not in self.known:
            parts = [self._loads(own) for own in self._traffic(sent, summed=summed)]
            latencies = (
                sum(own.hops * tier.latency_s for tier, own in zip(self.tiers, part, strict=True))
                for part in parts
            )
            self.known[key] = _Routed(
                busy=tuple(sum(own.busy for own in tier) for tier in zip(*parts, strict=True)),
                crossed=sum(own.crossed for part in parts for own in part),
                latency_s=max(float(np.max(own)) for own in latencies),
                hops=max(int(np.max(sum(own.hops for own in part))) for part in parts),
            )
        return self.known[key]

    def _traffic(self, sent: Messages, *, summed: bool) -> Iterator[list[Traffic]]:
        """Yield parts of messages in all groups, for each tier: listed if there are fewer of them than devices."""
        sets = [(self.bases[:, None, None] + side * self.inner).reshape(-1, side.shape[1]) for side in sent]
        devices, listing = len(self.places[0].place), any(not tier.topology.takes_sets for tier in self.tiers)
        if not summed and (listing or FEWER * sets[0].shape[1] * sets[1].shape[1] <= devices):
            starts, ends = np.broadcast_arrays(sets[0][:, :, None], sets[1][:, None])
            yield [own.listed(starts.ravel(), ends.ravel()) for own in self.places]
            return
        for first in range(0, len(sets[0]), step := max(1, MOST_CELLS // devices)):
            sources, targets = (side[first : first + step] for side in sets)
            yield [own.sets(sources, targets, summed=summed) for own in self.places]

    def _loads(self, sent: Sequence[Traffic]) -> list[Loads]:
        return [tier.topology.loads(own, tier.devices) for tier, own in zip(self.tiers, sent, strict=True)]

    def hops(self, sources: Numbers, targets: Numbers) -> Numbers:
        """Return the links between the first devices of subgroups."""
        starts, ends = sources * self.inner, targets * self.inner
        loads = self._loads([own.listed(starts, ends) for own in self.places])
        return np.sum([own.hops for own in loads], axis=0)  # type: ignore[no-any-return]

    def grid(self) -> Numbers:
        """Return the subgroups as a grid, by the coordinates of their first devices in all networks."""
        first = np.arange(self.ways) * self.inner
        pairs = zip(self.tiers, self.places, strict=True)
        each = [tier.topology.coordinates(own.place[first], tier.devices) for tier, own in pairs]
        return collectives.grid_of(np.stack(sum(each, ()), axis=1))
