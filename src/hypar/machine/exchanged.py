"""Times of exchanges between any two subgroups of sets, in all groups at once, without a list of their messages.

On each network the messages of a rail leave some devices of a set, and reach some others: rails with as many devices of
the same sets at the same places are alike, and counted once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hypar.machine.loads import Routed
from hypar.machine.sets import MOST_CELLS, Sets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.collectives.steps import Exchange
    from hypar.machine.loads import Level, Numbers
    from hypar.machine.sets import Amounts
    from hypar.machine.tiers import Tier


class _Members(NamedTuple):
    """Devices of sets.

    Attributes:
        owners: the set of each.
        devices: its number in the machine.
        amounts: bytes of a message of each set.
    """

    owners: Numbers
    devices: Numbers
    amounts: Amounts


class _Crossed(NamedTuple):
    """A network on which sets exchange messages.

    Attributes:
        busiest: load of its busiest link.
        total: bytes over all of its links.
        hops: links on the longest path of each set.
    """

    busiest: float
    total: float
    hops: Numbers


def route_sets(level: Level, exchanges: Sequence[Exchange], *, summed: bool) -> Routed:
    """Return the time of exchanges that are done at the same time in every group.

    Latency and hops are those of a set's longest paths in all networks together. A message takes all of them if the set
    fills a grid over the networks.
    """
    members = _members(level, exchanges)
    crossed = [_crossed(level, number, members, summed=summed) for number in range(len(level.tiers))]
    tiers = list(zip(level.tiers, crossed, strict=True))
    by_tier = tuple(own.busiest / tier.bytes_per_s for tier, own in tiers)
    latency = sum(own.hops * tier.latency_s for tier, own in tiers)
    hops = sum(own.hops for _, own in tiers)
    return Routed(max(by_tier, default=0.0), float(np.max(latency)), by_tier, int(np.max(hops)))


def links_crossed(level: Level, exchange: Exchange) -> float:
    """Return the bytes over all links of all networks."""
    members = _members(level, [exchange])
    return sum(_crossed(level, number, members, summed=False).total for number in range(len(level.tiers)))


def _members(level: Level, exchanges: Sequence[Exchange]) -> _Members:
    """Return the devices of all sets: of each set as many as there are groups of counterparts."""
    owners, devices, amounts, count = [], [], list[float](), 0
    for exchange in exchanges:
        for members in exchange.sets:
            own = level.bases[:, None] + np.array(members) * level.inner
            devices.append(own.reshape(-1))
            owners.append(np.repeat(count + np.arange(len(own)), own.shape[1]))
            amounts += [exchange.amount] * len(own)
            count += len(own)
    return _Members(np.concatenate(owners), np.concatenate(devices), np.array(amounts))


def _crossed(level: Level, number: int, members: _Members, *, summed: bool) -> _Crossed:
    """Return the loads of one network."""
    tier, (senders, receivers) = level.tiers[number], level.rails(number, members.devices)
    place, hops = level.positions(members.devices)[number], np.zeros(len(members.amounts), np.int64)
    busiest, total, known = 0.0, 0.0, dict[tuple[bytes, ...], _Crossed]()
    if len(np.unique(place)) == 1:
        return _Crossed(0.0, 0.0, hops)
    leaving = list(_parted(senders, members.owners, place))
    for arriving in _parted(receivers, members.owners, place):
        for own in leaving:
            rows = np.intersect1d(own[0], arriving[0])
            if not len(rows):
                continue
            found = _on_rail(tier, rows, members.amounts[rows], own, arriving, known, summed=summed)
            busiest, total = max(busiest, found.busiest), total + found.total
            hops[rows] = np.maximum(hops[rows], found.hops)
    return _Crossed(busiest, total, hops)


def _parted(rails: Numbers, owners: Numbers, places: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield the owners and places of the devices of each rail."""
    order = rails.argsort(kind="stable")
    ends = np.flatnonzero(np.diff(rails[order])) + 1
    yield from zip(np.split(owners[order], ends), np.split(places[order], ends), strict=True)


def _on_rail(
    tier: Tier,
    rows: Numbers,
    amounts: Amounts,
    leaving: tuple[Numbers, Numbers],
    arriving: tuple[Numbers, Numbers],
    known: dict[tuple[bytes, ...], _Crossed],
    *,
    summed: bool,
) -> _Crossed:
    """Return the loads of one rail by some sets, which those of an equal rail may be known for."""
    busy, total = np.zeros((2, 1)), 0.0
    hops: list[Numbers] = []
    for first in range(0, len(rows), step := max(1, MOST_CELLS // tier.devices)):
        part = rows[first : first + step]
        sets = Sets(
            amounts[first : first + step], *(_table(part, own, tier.devices) for own in (leaving, arriving))
        )
        if len(part) == len(rows) and (same := known.get(key := tuple(own.tobytes() for own in sets))):
            return same
        loads = tier.topology.sets_loads(sets, tier.devices, summed=summed)
        busy, total = busy + loads.busy, total + loads.total
        hops.append(loads.hops)
    worst = float((busy if tier.duplex else busy.sum(axis=0)).max(initial=0.0))
    found = _Crossed(worst, total, np.concatenate(hops))
    if len(hops) == 1:
        known[key] = found
    return found


def _table(rows: Numbers, own: tuple[Numbers, Numbers], devices: int) -> Amounts:
    """Return how many devices of each set, of which there is a row, are at each place."""
    owners, places = own
    at = np.searchsorted(rows, owners)
    kept = at < len(rows)
    kept[kept] = rows[at[kept]] == owners[kept]
    cells = np.bincount(at[kept] * devices + places[kept], minlength=len(rows) * devices)
    return cells.reshape(len(rows), devices).astype(np.float64)
