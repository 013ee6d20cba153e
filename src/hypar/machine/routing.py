"""Transfer times between the subgroups of a group, by routing messages over the networks of a machine.

Sources of the collectives' bytes and steps: Patarasuk and Yuan, Bandwidth Optimal All-reduce Algorithms for
Clusters of Workstations (JPDC 2009), for the ring; Thakur, Rabenseifner and Gropp, Optimization of Collective
Communication Operations in MPICH (IJHPCA 2005), sections 4.1 to 4.4, for pairwise exchange.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from hypar.errors import HardwareError
from hypar.machine.topologies.base import busiest
from hypar.sharding.redistribution import COLLECTIVES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hypar.machine.topologies.base import Topology


MOST_MESSAGES = 2**17
"""Most messages of one level; each is routed, which takes some seconds in all."""


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
    """

    name: str
    topology: Topology
    devices: int
    bytes_per_s: float
    latency_s: float
    duplex: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLink:
    """Transfer times between the subgroups of a group at one level of an array.

    Attributes:
        seconds_per_byte: time per byte that one subgroup receives, for each collective.
        latency_s: latency of a transfer, for each collective.
        hops: links on the path of a message.
        resource: the resource that is busy during a transfer.
    """

    seconds_per_byte: Mapping[str, float]
    latency_s: Mapping[str, float]
    hops: int
    resource: str

    def seconds(self, collective: str, subgroup_bytes: float) -> float:
        """Return the time until each subgroup has received its bytes."""
        return subgroup_bytes * self.seconds_per_byte[collective] + self.latency_s[collective]


def level_links(name: str, tiers: Sequence[Tier], array: tuple[int, ...]) -> tuple[LevelLink, ...]:
    """Return the links of each level of an array, outermost first.

    Args:
        name: the machine's name, for errors.
        tiers: its networks, outermost first.
        array: ways of each level, outermost first.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    used, held = math.prod(array), math.prod(tier.devices for tier in tiers)
    single = min(array, default=2) < 2
    if single or used > held or held % used:
        ways = "x".join(map(str, array))
        allowed = f"at most {held}" if used > held else f"a divisor of {held}"
        raise HardwareError(
            f"hardware {name!r}",
            f"found an array of {used} devices ({ways})",
            "two ways a level at least" if single else f"{allowed}, all that it has",
        )
    for wide in array:
        if used * (wide - 1) > MOST_MESSAGES:
            found = f"{used * (wide - 1):,} messages of a level of {wide} ways"
            raise HardwareError(
                f"hardware {name!r}", f"found {found}", f"{MOST_MESSAGES:,}, so levels of fewer ways"
            )
    # A smaller array has the first of several identical sections of the machine to itself.
    unused = [held // used] if used < held else []
    places = [tier.topology.places(factors) for tier, factors in by_tier(tiers, (*unused, *array))]
    return tuple(_level_link(tiers, places, array, level) for level in range(len(array)))


def _level_link(
    tiers: Sequence[Tier], places: Sequence[Sequence[int]], array: tuple[int, ...], level: int
) -> LevelLink:
    """Return the link of one level by routing messages between counterpart devices of all groups at once.

    Reductions and gatherings of k subgroups go round a ring or between all at once, whichever has more bandwidth;
    each receives the same bytes. Each step has the latency of its hops. Steps round a ring: 2(k - 1) for an
    all-reduce and k - 1 for the others; at once: 2 and 1, and 1 for both with two subgroups.
    """
    ways, inner = array[level], math.prod(array[level + 1 :])
    direct = _seconds(tiers, places, _messages(array, level, range(1, ways)))
    # Two subgroups form a ring already.
    ring = direct if ways == 2 else _seconds(tiers, places, _messages(array, level, [1]))
    rounds = 1 if ways == 2 else ways - 1
    steps = {"all_reduce": (1 if ways == 2 else 2, rounds if ways == 2 else 2 * rounds)}
    each, late = {}, {}
    for kind in COLLECTIVES:
        once, around = steps.get(kind, (1, 1 if kind == "neighbours" else rounds))
        found = {"all_to_all": [(direct, once)], "neighbours": [(ring, around)]}.get(
            kind, [(direct, once), (ring, around)]
        )
        # Take the faster for many bytes; of equals, up to rounding, the one with less latency.
        least = min(way.seconds for way, _ in found) * (1 + 1e-9)
        late[kind], each[kind] = min(
            (way.latency_s * count, way.seconds / inner) for way, count in found if way.seconds <= least
        )
    across = next(index for index, seconds in enumerate(ring.by_tier) if seconds)
    return LevelLink(
        seconds_per_byte=each, latency_s=late, hops=max(direct.hops, 1), resource=_resource(tiers, across)
    )


def _resource(tiers: Sequence[Tier], index: int) -> str:
    """Return the resource name of a tier's links; several tiers are numbered, outermost first.

    All levels of a tier share it: even messages to the far half of a tree use the links of its leaves.
    """
    return f"{tiers[index].name} links" + (f" {index + 1}" if len(tiers) > 1 else "")


def _messages(array: tuple[int, ...], level: int, steps: Sequence[int]) -> dict[tuple[int, int], float]:
    """Return each device's messages to its counterparts some subgroups away, in equal shares of one unit."""
    ways, inner = array[level], math.prod(array[level + 1 :])
    found = {}
    for outer, digit, inside in product(range(math.prod(array[:level])), range(ways), range(inner)):
        base = outer * ways * inner + inside
        for step in steps:
            found[base + digit * inner, base + (digit + step) % ways * inner] = 1 / len(steps)
    return found


class _Routed(NamedTuple):
    """Time of routed messages: seconds per byte that a device sends, latency, seconds per tier, hops."""

    seconds: float
    latency_s: float
    by_tier: tuple[float, ...]
    hops: int


def _seconds(
    tiers: Sequence[Tier], places: Sequence[Sequence[int]], messages: Mapping[tuple[int, int], float]
) -> _Routed:
    """Return the time of messages that are all sent at the same time.

    Between the groups that a tier links, each device uses the link of its own number inside the group; the rest of
    the path, inside the group, goes over the tier below.
    """
    below = math.prod(tier.devices for tier in tiers)
    latency, in_tier, all_hops = 0.0, [], 0
    for tier, place in zip(tiers, places, strict=True):
        above, below = below, below // tier.devices
        rails: dict[tuple[int, int], dict[tuple[int, int], float]] = {}
        for (source, target), amount in messages.items():
            start, end = place[source % above // below], place[target % above // below]
            if start != end:
                rail = rails.setdefault((target // above, source % below), {})
                rail[start, end] = rail.get((start, end), 0.0) + amount
        load, hops = _busiest_rail(tier, rails.values())
        in_tier.append(load / tier.bytes_per_s)
        latency, all_hops = latency + hops * tier.latency_s, all_hops + hops
    return _Routed(max(in_tier, default=0.0), latency, tuple(in_tier), all_hops)


def _busiest_rail(tier: Tier, rails: Iterable[Mapping[tuple[int, int], float]]) -> tuple[float, int]:
    """Return the largest load and hops of parallel networks; those with equal messages are routed once."""
    distinct = {tuple(sorted(rail.items())): rail for rail in rails}
    capacity = tier.topology.links(tier.devices) if distinct else {}
    routed = [
        busiest(tier.topology, rail, tier.devices, duplex=tier.duplex, capacity=capacity)
        for rail in distinct.values()
    ]
    return max((load for load, _ in routed), default=0.0), max((hops for _, hops in routed), default=0)


def by_tier(tiers: Sequence[Tier], ways: Sequence[int]) -> list[tuple[Tier, list[int]]]:
    """Return each tier with its prime factors of the ways, or its own if the ways do not split so."""
    factors = [prime for count in ways for prime in primes(count)]
    found = []
    for tier in tiers:
        own: list[int] = []
        while factors and math.prod(own) < tier.devices:
            own.append(factors.pop(0))
        found.append((tier, own if math.prod(own) == tier.devices else primes(tier.devices)))
    return found


def primes(number: int) -> list[int]:
    """Return the prime factors in ascending order; an empty list for 1."""
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found
