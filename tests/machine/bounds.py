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
    latency = max(own.late(*ends) for ends in messages(own, collective))
    cuts = (crossing(own, inside, wide, collective, each) for inside, wide in cuts_of(own))
    return max(latency, total(own, collective, each, in_tree=in_tree), *cuts)


def messages(own: Array, collective: str) -> list[tuple[int, int]]:
    """The devices between which some data must go, in all sets."""
    ends = list(itertools.permutations(range(own.ways), 2))
    if collective == "neighbours":
        ends = [(one, (one + 1) % own.ways) for one in range(own.ways)]
    return [(devices[one], devices[other]) for devices in own.sets for one, other in ends]


def total(own: Array, collective: str, each: float, *, in_tree: bool) -> float:
    """The seconds of all bytes over the links into all devices, and of exchanges over the hops that they must go.

    Patarasuk and Yuan (2009): the devices of an all-reduce send 2 (k - 1) times its data in all, those of a
    reduce-scatter or an all-gather k - 1 times.
    """
    every = links(own)
    whole = len(own.sets) * own.ways * each
    if collective == "all_reduce" and in_tree:
        whole = len(own.sets) * own.ways * data_of(own, collective, each)
    found = whole / sum(own.capacity(link) for link in every if isinstance(link[4], int))
    if collective in {"all_to_all", "neighbours"}:
        part = each if collective == "neighbours" else each / (own.ways - 1)
        hops = sum(weight for ends in messages(own, collective) for _, weight, _ in own.links(*ends))
        found = max(found, part * hops / sum(map(own.capacity, every)))
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


Cuts = list[tuple[frozenset[int], dict[str, float]]]
CUTS: dict[tuple[str, tuple[int, ...]], Cuts] = {}
LINKS: dict[str, list[Any]] = {}


def cuts_of(own: Array) -> Cuts:
    """Sets of devices, with the bandwidth of the links into each and out of it."""
    key = (own.machine.digest, own.array)
    if key not in CUTS:
        devices = devices_at(own)
        CUTS[key] = [(inside, widths(own, devices, inside)) for inside in devices_inside(own)]
    return CUTS[key]


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


def devices_at(own: Array) -> dict[Any, set[int]]:
    """The devices of each node of each network, and those below each node of a tree; a switch has none."""
    found: dict[Any, set[int]] = defaultdict(set)
    for number, device in itertools.product(range(len(own.tiers)), range(own.count)):
        *rail, place = own.node(number, device)
        found[number, *rail, place].add(device)
        for bits in range(1, own.tiers[number].devices.bit_length()):
            found[number, *rail, (bits, place >> bits)].add(device)
    return found


def widths(own: Array, devices: dict[Any, set[int]], inside: frozenset[int]) -> dict[str, float]:
    """The bandwidth into a set of devices and out of it; ``both`` of links that serve both in turn."""
    wide = {"in": 0.0, "out": 0.0, "both": 0.0}
    for link in links(own):
        duplex, there = own.tiers[link[0]].duplex, [devices.get((*link[:3], end), set()) for end in link[3:]]
        whole = [bool(own) and own <= inside for own in there]
        # A port that devices of both sides share is on both; a node above devices is inside if all of them are.
        some = [
            one or (isinstance(end, int) and bool(own & inside))
            for end, one, own in zip(link[3:], whole, there, strict=True)
        ]
        if some[1] and not whole[0]:
            wide["in" if duplex else "both"] += own.capacity(link)
        if some[0] and not whole[1] and duplex:
            wide["out"] += own.capacity(link)
    return wide


def devices_inside(own: Array) -> Iterator[frozenset[int]]:
    """Sets of devices to cut off: single ones, and runs of rows, columns, halves and groups of each network."""
    yield from (frozenset({device}) for device in range(own.count))
    for number, tier in enumerate(own.tiers):
        rows, columns = shape(tier) if tier.name in {"torus", "mesh"} else (1, tier.devices)
        at_columns, at_rows = zip(*[(at % columns, at // columns) for at in range(tier.devices)], strict=True)
        runs = {
            frozenset(at for at, place in enumerate(places) if start <= place < end)
            for size, places in ((columns, at_columns), (rows, at_rows))
            for start, end in itertools.combinations(range(size + 1), 2)
        }
        for run in runs:
            yield frozenset(device for device in range(own.count) if own.node(number, device)[2] in run)
