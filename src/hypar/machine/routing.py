"""Transfer times between the subgroups of a group, by routing messages over the networks of a machine.

Each algorithm of a collective is a schedule of messages; each of its steps takes as long as its busiest link and its
longest path say. The algorithms and their sources are in ``hypar.machine.collectives``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hypar.errors import HardwareError
from hypar.machine import lines
from hypar.machine.collectives import schedules
from hypar.machine.collectives.grids import grid_of
from hypar.machine.collectives.steps import listed
from hypar.machine.exchanged import route_sets
from hypar.machine.lines import Line, Lines
from hypar.machine.loads import Level, wires_of
from hypar.sharding.collectives import COLLECTIVES
from hypar.sharding.placement import primes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.collectives.steps import Exchange, Messages, Schedule, Step
    from hypar.machine.loads import Numbers, Routed, Wires
    from hypar.machine.tiers import Tier


MOST_MESSAGES = 2**17
"""Most messages of one level that are listed and routed one by one; more are counted, on networks that count them."""

MOST_WALKED = 2**21
"""Most messages in all groups of a level that are listed where the paths of each are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelLink:
    """Transfer times between the subgroups of a group at one level of an array.

    Attributes:
        lines: the times of the algorithms worth using, for each collective.
        hops: links on the path of a message.
        resource: the resource that is busy during a transfer.
    """

    lines: Mapping[str, Lines]
    hops: int
    resource: str

    def seconds(self, collective: str, subgroup_bytes: Any) -> Any:
        """Return the time until each subgroup has received its bytes, by the algorithm that is fastest for them.

        Args:
            collective: name of the collective.
            subgroup_bytes: bytes that each subgroup receives, a number or an array.
        """
        return lines.seconds(self.lines[collective], subgroup_bytes)

    def line(self, collective: str, subgroup_bytes: float) -> Line:
        """Return latency, rate and name of the algorithm that is fastest for some bytes."""
        return lines.fastest(self.lines[collective], subgroup_bytes)

    @property
    def seconds_per_byte(self) -> dict[str, float]:
        """Time per byte that one subgroup receives, of many bytes, for each collective."""
        return {kind: own[-1].seconds_per_byte for kind, own in self.lines.items()}


@lru_cache(maxsize=256)
def level_links(name: str, tiers: tuple[Tier, ...], array: tuple[int, ...]) -> tuple[LevelLink, ...]:
    """Return the links of each level of an array, outermost first; machines of equal networks share them.

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
    wide, listing = max(array, default=1), _listing(tiers)
    if used * (wide - 1) > MOST_MESSAGES and listing:
        found = f"{used * (wide - 1):,} messages of a level of {wide} ways on a network {listing[0]!r}"
        raise HardwareError(
            f"hardware {name!r}", f"found {found}", f"{MOST_MESSAGES:,}, so levels of fewer ways"
        )
    places, wires = _wired(tiers, array)
    return tuple(_level_link(tiers, Level(tiers, wires, places, array, level)) for level in range(len(array)))


def _listing(tiers: Sequence[Tier]) -> list[str]:
    """Return the names of the networks on which all messages are listed."""
    return [tier.name for tier in tiers if not tier.topology.counts_sets]


def wired_level(tiers: Sequence[Tier], array: tuple[int, ...], level: int) -> Level:
    """Return a level of an array on the networks of a machine."""
    places, wires = _wired(tiers, array)
    return Level(tiers, wires, places, array, level)


def _wired(tiers: Sequence[Tier], array: tuple[int, ...]) -> tuple[list[Numbers], list[Wires]]:
    """Return the places of an array's devices in each network, and the links of each."""
    places = [np.array(own, np.int64) for own in places_of(tiers, array)]
    return places, [wires_of(tier) for tier in tiers]


def _level_link(tiers: Sequence[Tier], level: Level) -> LevelLink:
    """Return the link of one level: for each collective the algorithms that are fastest for some bytes."""
    routed = _Router(level)

    def line(algorithm: str, schedule: Schedule) -> Line:
        found = [routed(step) for step in schedule]
        seconds = math.fsum(step.seconds for step in found) / level.inner
        return Line(math.fsum(step.latency_s for step in found), seconds, algorithm)

    ways = level.ways
    fixed = schedules.exchanges(ways)
    direct, beside = routed(fixed["all_to_all"][0]), routed(fixed["neighbours"][0])
    over = [number for number, seconds in enumerate(direct.by_tier) if seconds]
    crossed = [tiers[number] for number in over]
    allowed = [name for name in schedules.ALGORITHMS if all(name in tier.collectives for tier in crossed)]
    grid = grid_of(level.coordinates())
    named = {
        **schedules.reductions(grid, fixed["all_to_all"][0], level.hops, allowed),
        **{kind: [("direct", schedule)] for kind, schedule in fixed.items()},
    }
    if len(crossed) == 1 and crossed[0].topology.adds_up:
        named["all_reduce"].append(schedules.in_network(ways))
    across = next(index for index, seconds in enumerate(beside.by_tier) if seconds)
    return LevelLink(
        lines={kind: lines.least(line(*one) for one in named[kind]) for kind in COLLECTIVES},
        hops=max(direct.hops, 1),
        resource=_resource(tiers, across),
    )


class _Router:
    """Routes the steps of a level; steps of messages between the same subgroups, all equal, are routed once."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.known: dict[object, tuple[Step, Routed]] = {}
        self.listed: dict[tuple[Exchange, ...], Messages] = {}

    def __call__(self, step: Step) -> Routed:
        """Return the time of all rounds of a step."""
        if step.exchanges and self._lists(step):
            if step.exchanges not in self.listed:
                self.listed[step.exchanges] = listed(step.exchanges)
            step = step._replace(messages=self.listed[step.exchanges], exchanges=())
        key, amount = self._key(step)
        if key not in self.known:
            self.known[key] = step, self._routed(step).scaled(1 / amount)
        found = self.known[key][1].scaled(amount * step.factor)
        return found._replace(latency_s=found.latency_s * step.rounds)

    def _lists(self, step: Step) -> bool:
        """Return whether the messages of exchanges are few enough for a list."""
        if step.summed and self.level.walks:
            return False
        sizes = (len(members) for exchange in step.exchanges for members in exchange.sets)
        count = sum(size * (size - 1) for size in sizes)
        most = MOST_WALKED if self.level.walks else MOST_MESSAGES
        return count <= MOST_MESSAGES and count * len(self.level.bases) <= most

    def _routed(self, step: Step) -> Routed:
        if step.exchanges:
            return route_sets(self.level, step.exchanges, summed=step.summed)
        return self.level.route(step.messages, summed=step.summed)

    def _key(self, step: Step) -> tuple[object, float]:
        """Return what equal steps have in common, and the amount of a message."""
        if step.exchanges:
            return (step.exchanges, step.summed), 1.0
        amounts = {*step.messages.values()}
        if len(amounts) > 1:
            return id(step.messages), 1.0
        return (frozenset(step.messages), step.summed), amounts.pop()


def _resource(tiers: Sequence[Tier], index: int) -> str:
    """Return the resource name of a tier's links; several tiers are numbered, outermost first.

    All levels of a tier share it: even messages to the far half of a tree use the links of its leaves.
    """
    return f"{tiers[index].name} links" + (f" {index + 1}" if len(tiers) > 1 else "")


def places_of(tiers: Sequence[Tier], array: tuple[int, ...]) -> list[Sequence[int]]:
    """Return for each tier its device at each position of an array, in mixed radix.

    A smaller array has the first of several identical sections of the machine to itself.
    """
    used, held = math.prod(array), math.prod(tier.devices for tier in tiers)
    unused = [held // used] if used < held else []
    return [tier.topology.places(factors) for tier, factors in _by_tier(tiers, (*unused, *array))]


def _by_tier(tiers: Sequence[Tier], ways: Sequence[int]) -> list[tuple[Tier, list[int]]]:
    """Return each tier with its prime factors of the ways, or its own if the ways do not split so."""
    factors = [prime for count in ways for prime in primes(count)]
    found = []
    for tier in tiers:
        own: list[int] = []
        while factors and math.prod(own) < tier.devices:
            own.append(factors.pop(0))
        found.append((tier, own if math.prod(own) == tier.devices else primes(tier.devices)))
    return found
