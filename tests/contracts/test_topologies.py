"""Every topology faces the same jury: register a file and it is tested."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from pydantic import ValidationError

from hypar.machine.topologies.base import Topology, busiest
from hypar.registry import load_plugin, plugin_names

NAMES = plugin_names("topologies")
FIELDS: dict[str, tuple[dict[str, Any], ...]] = {
    "graph": (
        {"pairs": [[0, 1], [1, 2], [2, 3], [3, 0]]},
        {"pairs": [[0, 1], [1, 2], [2, 3], [1, 2]]},
        {"pairs": [[0, 1]]},
        # A cube and a 3 x 4 mesh, with many paths of one length.
        {"pairs": [[one, one ^ bit] for one in range(8) for bit in (1, 2, 4) if one < one ^ bit]},
        {
            "pairs": [
                *([4 * row + column, 4 * row + column + 1] for row in range(3) for column in range(3)),
                *([4 * row + column, 4 * row + column + 4] for row in range(2) for column in range(4)),
            ]
        },
    ),
    "h_tree": ({}, {"reduction": "in_tree"}),
    "mesh": ({}, {"rows": 1}, {"rows": 3}),
    "torus": ({"routing": "dimension_ordered"}, {"routing": "balanced"}),
}
"""Fields to try, of topologies that have some."""


def tried(name: str) -> list[Topology]:
    """A topology with each of its fields to try; none if it has fields that must be given and none to try."""
    plugin = load_plugin("topologies", name)
    try:
        return [plugin.model_validate(fields) for fields in FIELDS.get(name, ({},))]
    except ValidationError:
        return []


COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 64)
MOST_QUICK = 16
"""Most devices in the quick run, as every path between any two is followed."""
CASES = [
    pytest.param(
        topology, devices, id=f"{name} {number} {devices}", marks=[pytest.mark.slow] * (devices > MOST_QUICK)
    )
    for name in NAMES
    for number, topology in enumerate(tried(name))
    for devices in COUNTS
    if topology.fault(devices) is None
]
PRIMES = {
    1: (),
    2: (2,),
    3: (3,),
    4: (2, 2),
    6: (2, 3),
    8: (2, 2, 2),
    12: (3, 2, 2),
    16: (2,) * 4,
    64: (2,) * 6,
}


def pairs(devices: int) -> list[tuple[int, int]]:
    return [(one, other) for one in range(devices) for other in range(devices) if one != other]


@pytest.mark.parametrize("name", NAMES)
def test_a_topology_has_fields_to_try(name: str) -> None:
    assert tried(name), f"FIELDS needs fields of {name}"


def test_every_topology_takes_some_number_of_devices() -> None:
    assert {str(case.id).split()[0] for case in CASES} == set(NAMES)


@pytest.mark.parametrize(("topology", "devices"), CASES)
def test_parts_of_a_message_go_over_links_from_source_to_target(topology: Topology, devices: int) -> None:
    """Together they are the whole of it; back are as many hops as there."""
    links = topology.links(devices)
    assert all(width > 0 for width in links.values())
    assert all(one != other for one, other in links)
    assert {link[::-1]: width for link, width in links.items()} == links
    hops = {}
    for source, target in pairs(devices):
        parts, paths = zip(*topology.paths(source, target, devices), strict=True)
        for path in paths:
            assert set(path) <= set(links)
            assert (path[0][0], path[-1][1]) == (source, target)
            assert all(before[1] == after[0] for before, after in itertools.pairwise(path))
            assert len(set(path)) == len(path)
        assert min(parts) > 0
        assert math.fsum(parts) == pytest.approx(1)
        hops[source, target] = max(map(len, paths))
    assert all(hops[target, source] == longest for (source, target), longest in hops.items())


@pytest.mark.parametrize(("topology", "devices"), CASES)
def test_every_position_stands_at_a_device_of_its_own(topology: Topology, devices: int) -> None:
    factors = PRIMES[devices]
    assert sorted(topology.places(factors)) == list(range(devices))
    assert sorted(topology.places(factors[::-1])) == list(range(devices))


@pytest.mark.parametrize(("topology", "devices"), CASES)
def test_half_duplex_is_never_faster_and_at_most_twice_as_slow(topology: Topology, devices: int) -> None:
    messages = dict.fromkeys(pairs(devices), 1.0)
    full, hops = busiest(topology, messages, devices, duplex=True)
    half, same = busiest(topology, messages, devices, duplex=False)
    assert full <= half <= 2 * full * (1 + 1e-9)
    assert hops == same


@pytest.mark.parametrize(("topology", "devices"), CASES)
def test_loads_add_up(topology: Topology, devices: int) -> None:
    """Twice the messages are twice the load, and one message alone is at most one over the narrowest link."""
    messages = dict.fromkeys(pairs(devices), 1.0)
    once, _ = busiest(topology, messages, devices, duplex=True)
    twice, _ = busiest(topology, dict.fromkeys(messages, 2.0), devices, duplex=True)
    assert twice == pytest.approx(2 * once)
    for source, target in pairs(devices)[:20]:
        assert 0 < busiest(topology, {(source, target): 1.0}, devices, duplex=True)[0] <= 1 + 1e-9
