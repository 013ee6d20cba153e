"""Links on the way of messages at each level of an array: the energy of a word on a link is multiplied by them."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING

from hypar.machine.collectives.steps import Exchange
from hypar.machine.exchanged import links_crossed
from hypar.machine.routing import MOST_MESSAGES, places_of, wired_level

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hypar.machine.machine import Machine


def level_hops(machine: Machine, array: tuple[int, ...]) -> tuple[float, ...]:
    """Return the mean number of links between a device and its counterparts, for each level of an array.

    Raises:
        HardwareError: the array does not fit the machine.
    """
    machine.links(array)
    found = _every_hops(machine, machine.whole(array))
    return found if machine.staged is None else (*found[: machine.staged[0]], *found[machine.staged[0] + 1 :])


def stage_hops(machine: Machine, array: tuple[int, ...], ways: int) -> float:
    """Return the same between stages that have an array each; arguments as in ``Machine.stage_level``."""
    machine.stage_link(array, ways)
    whole, level = machine.stage_level(array, ways)
    return _every_hops(machine, whole)[level]


@lru_cache(maxsize=256)
def _every_hops(machine: Machine, array: tuple[int, ...]) -> tuple[float, ...]:
    """Return the hops of each level of an array that has the level of the stages."""
    devices, places = math.prod(array), places_of(machine.tiers, array)
    found = []
    for level, ways in enumerate(array):
        if devices * (ways - 1) > MOST_MESSAGES:
            everyone = Exchange((tuple(range(ways)),), 1.0)
            links = links_crossed(wired_level(machine.tiers, array, level), everyone)
        else:
            links = math.fsum(_links_between(machine, places, *pair) for pair in _counterparts(array, level))
        found.append(links / (devices * (ways - 1)))
    return tuple(found)


def _counterparts(array: tuple[int, ...], level: int) -> Iterator[tuple[int, int]]:
    """Yield each device with each of its counterparts in the other subgroups of its group."""
    ways, inner = array[level], math.prod(array[level + 1 :])
    for outer in range(math.prod(array[:level])):
        for inside in range(inner):
            yield from permutations(((outer * ways + digit) * inner + inside for digit in range(ways)), 2)


def _links_between(machine: Machine, places: Sequence[Sequence[int]], source: int, target: int) -> float:
    """Return the links on the way of a message in all networks, each path counted by its fraction of the message."""
    found, below = 0.0, machine.num_devices
    for tier, place in zip(machine.tiers, places, strict=True):
        above, below = below, below // tier.devices
        start, end = place[source % above // below], place[target % above // below]
        if start != end:
            paths = tier.topology.paths(start, end, tier.devices)
            found += math.fsum(fraction * len(links) for fraction, links in paths)
    return found
