"""Times that no schedule of a collective can be below, from the links between sets of devices and from distances."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.machine.simulator import Array, paths, shape


def bound(own: Array, collective: str, received: float, *, in_tree: bool = False) -> float:
    """Seconds that a collective takes at least: for the links of a cut, of all devices, and for the longest way.

    Args:
        own: the devices.
        collective: its name.
        received: bytes that each subgroup receives.
        in_tree: whether nodes of the network add up messages.
    """
    each = received / own.inner
    cuts = (crossing(own, inside, wide, collective, each) for inside, wide in cuts_of(own))
    return max(latency(own, collective), total(own, collective, each, in_tree=in_tree), *cuts)


def latency(own: Array, collective: str) -> float:
    """The latency of the longest way that some data must go."""
    pairs = list(itertools.permutations(range(own.ways), 2))
    if collective == "neighbours":
        pairs = [(one, (one + 1) % own.ways) for one in range(own.ways)]
    return max(own.late(devices[one], devices[other]) for devices in own.sets for one, other in pairs)


def total(own: Array, collective: str, each: float, *, in_tree: bool) -> float:
    """The seconds of all bytes over the links into all devices, and of exchanges over the hops that they must go.

    Patarasuk and Yuan (2009): the devices of an all-reduce send 2 (k - 1) times its data in all, those of a
    reduce-scatter or an all-gather k - 1 times.
    """
    into: dict[int, float] = defaultdict(float)
    hops = 0.0
    for link in links(own):
        if isinstance(link[4], int):
            into[link[0]] += own.capacity(link)
    whole = len(own.sets) * own.ways * each
    if collective == "all_reduce" and in_tree:
        whole = len(own.sets) * own.ways * data_of(own, collective, each)
    found = whole / sum(into.values())
    if collective in {"all_to_all", "neighbours"}:
        pairs = list(itertools.permutations(range(own.ways), 2))
        part = each / (own.ways - 1)
        if collective == "neighbours":
            pairs, part = [(one, (one + 1) % own.ways) for one in range(own.ways)], each
        for devices in own.sets:
            for one, other in pairs:
                hops += part * sum(weight for _, weight, _ in own.links(devices[one], devices[other]))
        found = max(found, hops / sum(own.capacity(link) for link in links(own)))
    return found


def data_of(own: Array, collective: str, each: float) -> float:
    """The bytes of the data of a set of devices, of which each receives some bytes."""
    times = 2 if collective == "all_reduce" else 1
    return each * own.ways / (times * (own.ways - 1))


def crossing(
    own: Array, inside: frozenset[int], wide: dict[str, float], collective: str, each: float
) -> float:
    into = out = 0.0
    for devices in own.sets:
        within = [device in inside for device in devices]
        count, rest = sum(within), own.ways - sum(within)
        if not (count and rest):
            continue
        data = data_of(own, collective, each)
        ahead = [(within[one], within[(one + 1) % own.ways]) for one in range(own.ways)]
        both = {
            "all_reduce": (data, data),
            "all_gather": (data / own.ways * rest, data / own.ways * count),
            "reduce_scatter": (data / own.ways * count, data / own.ways * rest),
            "all_to_all": (each / (own.ways - 1) * count * rest,) * 2,
            "neighbours": (each * ahead.count((False, True)), each * ahead.count((True, False))),
        }[collective]
        into, out = into + both[0], out + both[1]
    if wide["both"]:
        return (into + out) / sum(wide.values())
    return max(into / wide["in"], out / wide["out"]) if wide["in"] else 0.0


def cuts_of(own: Array) -> list[tuple[frozenset[int], dict[str, float]]]:
    """Sets of devices, with the bandwidth of the links into each and out of it."""
    key = (own.machine.digest, own.array)
    if key not in CUTS:
        CUTS[key] = [(inside, widths(own, inside)) for inside in devices_inside(own)]
    return CUTS[key]


def widths(own: Array, inside: frozenset[int]) -> dict[str, float]:
    """The bandwidth into a set of devices and out of it; ``both`` of links that serve both in turn."""
    wide = {"in": 0.0, "out": 0.0, "both": 0.0}
    sides: dict[Any, float] = {}
    for link in links(own):
        duplex = own.tiers[link[0]].duplex
        for end in link[3:]:
            if (*link[:3], end) not in sides:
                sides[*link[:3], end] = side(own, link, end, inside)
        start, end = (sides[*link[:3], end] for end in link[3:])
        # A port that devices of both sides share is on both.
        if end != 0 and start != 1:
            wide["in" if duplex else "both"] += own.capacity(link)
        if start != 0 and end != 1 and duplex:
            wide["out"] += own.capacity(link)
    return wide


CUTS: dict[tuple[str, tuple[int, ...]], list[tuple[frozenset[int], dict[str, float]]]] = {}
LINKS: dict[str, list[Any]] = {}


def links(own: Array) -> list[Any]:
    """All links of the machine, each direction on its own."""
    if own.machine.digest not in LINKS:
        found: dict[Any, None] = {}
        for number, tier in enumerate(own.tiers):
            below = math.prod(other.devices for other in own.tiers[number + 1 :])
            rails = itertools.product(range(own.count // (below * tier.devices)), range(tier.ports or below))
            for rail, ends in itertools.product(rails, itertools.permutations(range(tier.devices), 2)):
                for _, nodes in paths(tier, *ends):
                    found |= {(number, *rail, *link): None for link in itertools.pairwise(nodes)}
        LINKS[own.machine.digest] = list(found)
    return LINKS[own.machine.digest]


def side(own: Array, link: Any, end: Any, inside: frozenset[int]) -> float:
    """1 for a node of the devices inside, 0 for one of the others, a half for one of both."""
    number, group, port = link[:3]
    if isinstance(end, int):
        at = [device for device in range(own.count) if own.node(number, device) == (group, port, end)]
    elif end == "switch":
        return 0
    else:
        bits, start = end
        at = [
            device
            for device in range(own.count)
            if own.node(number, device)[:2] == (group, port) and own.node(number, device)[2] >> bits == start
        ]
        return int(all(device in inside for device in at))
    among = sum(device in inside for device in at)
    return 1 if among == len(at) else 0.5 if among else 0


def devices_inside(own: Array) -> Iterator[frozenset[int]]:
    """Sets of devices to cut off: single ones, and runs of rows, columns, halves and groups of each network."""
    devices = range(own.count)
    yield from (frozenset({device}) for device in devices)
    for number, tier in enumerate(own.tiers):
        runs: set[frozenset[int]] = set()
        if tier.name in {"torus", "mesh"}:
            rows, columns = shape(tier)
            for start, end in itertools.combinations(range(columns + 1), 2):
                runs.add(frozenset(at for at in range(tier.devices) if start <= at % columns < end))
            for start, end in itertools.combinations(range(rows + 1), 2):
                runs.add(frozenset(at for at in range(tier.devices) if start <= at // columns < end))
        else:
            runs |= {
                frozenset(range(start, end))
                for start, end in itertools.combinations(range(tier.devices + 1), 2)
            }
        for run in runs:
            yield frozenset(device for device in devices if own.node(number, device)[2] in run)
