"""Every topology faces the same jury: register a file and it is tested."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from hypar.machine.topologies.base import Listed, Loads, Sets, Topology
from hypar.registry import load_plugin, plugin_names
from tests.machine.simulator import WALKS, width

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
    "grid": ({}, {"rows": 1}, {"rows": 3, "wrap": False}, {"rows": 2, "routing": "dimension_ordered"}),
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
    1: (), 2: (2,), 3: (3,), 4: (2, 2), 6: (2, 3), 8: (2, 2, 2), 12: (3, 2, 2), 16: (2,) * 4, 64: (2,) * 6,
}  # fmt: skip


def pairs(devices: int) -> list[tuple[int, int]]:
    return [(one, other) for one in range(devices) for other in range(devices) if one != other]


@pytest.mark.parametrize("name", NAMES)
def test_a_topology_has_fields_to_try(name: str) -> None:
    assert tried(name), f"FIELDS needs fields of {name}"


def test_every_topology_takes_some_number_of_devices() -> None:
    assert {str(case.id).split()[0] for case in CASES} == set(NAMES)


def listed(messages: list[tuple[int, int]], devices: int, networks: int = 1) -> Listed:
    starts, ends = np.array(messages, np.int64).reshape(-1, 2).T
    first = np.arange(networks).repeat(len(starts)) * devices
    return Listed(first + np.tile(starts, networks), first + np.tile(ends, networks), networks * devices)


def loaded(topology: Topology, messages: list[tuple[int, int]], devices: int) -> Loads:
    return topology.loads(listed(messages, devices), devices)


def busiest(loads: Loads, *, duplex: bool = True) -> float:
    return float((loads.busy if duplex else loads.busy.sum(axis=0)).max(initial=0.0))


@pytest.mark.parametrize(("topology", "devices"), CASES)
def test_every_position_stands_at_a_device_of_its_own(topology: Topology, devices: int) -> None:
    factors = PRIMES[devices]
    assert sorted(topology.places(factors)) == list(range(devices))
    assert sorted(topology.places(factors[::-1])) == list(range(devices))


def walked(
    topology: Topology, messages: list[tuple[int, int]], devices: int
) -> tuple[dict[Any, float], list[int]]:
    """Loads of links, and hops, of messages that walk node by node, each link in bandwidths of one link."""
    name = next(name for name in NAMES if load_plugin("topologies", name) is type(topology))
    tier: Any = SimpleNamespace(name=name, topology=topology, devices=devices)
    loads: dict[Any, float] = {}
    hops = []
    for message in messages:
        ways = WALKS[name](tier, *message)
        hops.append(max(len(nodes) - 1 for _, nodes in ways))
        for part, nodes in ways:
            for link in itertools.pairwise(nodes):
                loads[link] = loads.get(link, 0.0) + part / width(tier, link)
    return loads, hops


@pytest.mark.parametrize(("topology", "devices"), CASES)
def test_loads_are_those_of_messages_that_walk(topology: Topology, devices: int) -> None:
    """Of random messages, some of them several times: the busiest link, in one direction and in both, all links and hops."""
    draw = np.random.default_rng(devices)
    for count in (1, devices, 3 * devices):
        messages = (
            [pairs(devices)[at] for at in draw.integers(len(pairs(devices)), size=count)]
            if devices > 1
            else []
        )
        expected, hops = walked(topology, messages, devices)
        found = loaded(topology, messages, devices)
        assert found.hops.tolist() == hops
        assert sorted(found.busy[found.busy > 0].tolist()) == pytest.approx(sorted(expected.values()))
        both = [own + expected.get(link[::-1], 0.0) for link, own in expected.items()]
        assert busiest(found, duplex=False) == pytest.approx(max(both, default=0.0))


@pytest.mark.parametrize(("topology", "devices"), CASES)
def test_networks_side_by_side_are_loaded_each_alone(topology: Topology, devices: int) -> None:
    messages = pairs(devices)[: 2 * devices]
    one = loaded(topology, messages, devices)
    several = topology.loads(listed(messages, devices, 3), devices)
    assert several.crossed == pytest.approx(3 * one.crossed)
    assert several.hops.tolist() == one.hops.tolist() * 3
    assert sorted(several.busy[several.busy > 0]) == pytest.approx(sorted(np.tile(one.busy[one.busy > 0], 3)))


@pytest.mark.parametrize(("topology", "devices"), [case for case in CASES if case.values[0].takes_sets])  # type: ignore[union-attr]
def test_sets_load_links_as_their_messages_do(topology: Topology, devices: int) -> None:
    """Random sources and targets, some of them several times, in two groups by three ports."""
    draw = np.random.default_rng(devices)
    sources, targets = draw.integers(0, 3, (2, 4, 1, 3, devices))[0], draw.integers(0, 3, (4, 2, 1, devices))
    found = topology.loads(Sets(sources.astype(np.float64), targets.astype(np.float64)), devices)
    messages = [
        (network * devices + start, network * devices + end)
        for own, there in zip(sources, targets, strict=True)
        for network, (group, port) in enumerate(itertools.product(range(2), range(3)))
        for start, end in itertools.product(range(devices), repeat=2)
        for _ in range(own[0, port, start] * there[group, 0, end])
    ]
    starts, ends = np.array(messages, np.int64).reshape(-1, 2).T
    expected = topology.loads(Listed(starts, ends, 6 * devices), devices)
    assert found.busy == pytest.approx(expected.busy)
    assert found.crossed == pytest.approx(expected.crossed)
    assert found.hops.max() == expected.hops.max()
