"""How long transfers take on each topology, against forms derived by hand.

All are seconds for each byte that one part of a group receives. A part has ``inner`` devices, each of which
sends its share, one over ``inner`` of the bytes, to its like in another part.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from hypar.machine.load import load_machine
from hypar.machine.topologies.base import busiest
from hypar.machine.topologies.graph import Graph
from hypar.machine.topologies.ring import Ring
from hypar.machine.topologies.torus import Torus

if TYPE_CHECKING:
    from hypar.machine.routing import LevelLink

LINK = 200e6
"""Bytes a second of one link: 1600 Mb/s."""

BINARY = [(2,), (2, 2), (2, 2, 2), (2, 2, 2, 2)]


def links(topology: Any, array: tuple[int, ...], **changes: Any) -> tuple[LevelLink, ...]:
    """The levels of a machine of just these devices, each link with its own bandwidth."""
    asked = {"topology": topology, "devices": math.prod(array), "bandwidth": "link", **changes}
    return load_machine("hmc", asked).links(array)


def per_byte(
    topology: Any, array: tuple[int, ...], collective: str = "all_reduce", **changes: Any
) -> list[float]:
    """Seconds a byte at each level, in units of a byte over one link."""
    return [level.seconds_per_byte[collective] * LINK for level in links(topology, array, **changes)]


def around(devices: int) -> dict[str, Any]:
    """A ring, as a graph."""
    return {"name": "graph", "pairs": [[device, (device + 1) % devices] for device in range(devices)]}


# H-tree


@pytest.mark.parametrize("array", BINARY)
@pytest.mark.parametrize("collective", ["all_reduce", "all_to_all", "neighbours"])
def test_a_link_of_an_h_tree_is_as_wide_as_the_part_below_it(array: tuple[int, ...], collective: str) -> None:
    """A part of ``inner`` leaves has a link as wide as ``inner`` of them."""
    inner = [math.prod(array[level + 1 :]) for level in range(len(array))]
    assert per_byte("h_tree", array, collective) == pytest.approx([1 / leaves for leaves in inner])


def test_a_message_goes_up_the_h_tree_and_down_again() -> None:
    assert [level.hops for level in links("h_tree", (2, 2, 2, 2))] == [8, 6, 4, 2]


def test_levels_share_the_links_of_a_network() -> None:
    """Messages to the far side of a tree leave over the links of its leaves too."""
    for topology in ("h_tree", "torus"):
        assert [level.resource for level in links(topology, (2, 2))] == [f"{topology} links"] * 2


def test_four_ways_of_an_h_tree_are_bound_by_its_upper_links() -> None:
    """Each leaf sends a third to each other: two thirds of two leaves cross a link as wide as two."""
    assert per_byte("h_tree", (4,), "all_to_all") == pytest.approx([1])


# Ring


@pytest.mark.parametrize("array", BINARY)
def test_two_parts_of_a_ring_meet_at_one_link(array: tuple[int, ...]) -> None:
    """The middle link carries what all ``inner`` devices of a part send: as slow as a link, at every level."""
    assert per_byte("ring", array) == pytest.approx([1] * len(array))


@pytest.mark.parametrize("ways", [4, 7, 8, 9, 16])
def test_a_ring_all_reduces_at_the_bandwidth_of_a_link(ways: int) -> None:
    """Round it each device sends to its neighbour only, 2 (k-1) times; at once each message goes at most half round."""
    assert per_byte("ring", (ways,)) == pytest.approx([1])
    level = links("ring", (ways,), latency="1 us")[0]
    # At once where that has the same bandwidth.
    steps = 2 * (ways // 2) if ways in {4, 7} else 2 * (ways - 1)
    assert level.line("all_reduce", 1e12).latency_s == pytest.approx(steps * 1e-6)
    assert level.line("all_gather", 1e12).latency_s == pytest.approx(steps / 2 * 1e-6)


@pytest.mark.parametrize(("ways", "load"), [(3, 1 / 2), (5, 3 / 4)])
def test_small_odd_rings_are_faster_all_at_once(ways: int, load: float) -> None:
    """A part to each other device, the shorter way: half of the distances 1 to (k-1)/2 go each way round."""
    assert per_byte("ring", (ways,)) == per_byte("ring", (ways,), "all_to_all") == pytest.approx([load])


@pytest.mark.parametrize("ways", [4, 8, 16])
def test_an_all_to_all_on_a_ring_goes_over_many_links(ways: int) -> None:
    """A device sends 1/(k-1) to each other; upward go distances 1 to k/2, which sum to (k/2)(k/2+1)/2."""
    half = ways // 2
    assert per_byte("ring", (ways,), "all_to_all") == pytest.approx([half * (half + 1) / 2 / (ways - 1)])


def test_neighbours_on_a_ring_are_one_hop_away() -> None:
    level = links("ring", (8,), latency="1 us")[0]
    assert level.seconds_per_byte["neighbours"] * LINK == pytest.approx(1)
    assert level.line("neighbours", 1).latency_s == pytest.approx(1e-6)


# Torus


def test_a_balanced_torus_uses_both_ways_round() -> None:
    """4 x 4: at H1 and H2 the like device is two columns or rows away, half of the bytes each way round.

    Then every link along rows carries 1, of 8 devices' shares: 1/8. Below, the like device is a neighbour.
    """
    assert per_byte({"name": "torus", "routing": "balanced"}, (2, 2, 2, 2)) == pytest.approx(
        [1 / 8, 1 / 4, 1 / 2, 1]
    )


def test_dimension_ordered_routing_is_twice_as_slow_at_the_outer_levels() -> None:
    """All go up, two hops: every link carries 2, and the links down none."""
    torus = {"name": "torus", "routing": "dimension_ordered"}
    assert per_byte(torus, (2, 2, 2, 2)) == pytest.approx([1 / 4, 1 / 2, 1 / 2, 1])
    # Without duplex a link has its bandwidth for both directions: the links down are of no use then.
    halved = per_byte({"name": "torus", "routing": "balanced"}, (2, 2, 2, 2), duplex="half")
    assert halved == pytest.approx([1 / 4, 1 / 2, 1, 2])
    assert per_byte(torus, (2, 2, 2, 2), duplex="half") == pytest.approx([1 / 4, 1 / 2, 1, 2])


def test_hops_on_a_torus() -> None:
    assert [level.hops for level in links("torus", (2, 2, 2, 2))] == [2, 2, 1, 1]
    assert [level.hops for level in links("torus", (16,))] == [4]


def test_positions_divide_the_longer_side_of_a_torus() -> None:
    """As an H-tree is laid out: columns first, then rows, in turn."""
    assert list(Torus().places((2, 2))) == [0, 2, 1, 3]
    assert list(Torus().places((2, 2, 2, 2))) == [0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15]


def test_a_torus_goes_round_the_end() -> None:
    """4 x 4: from 0 to 15 one hop along the row, one along the column."""
    assert Torus().paths(0, 15, 16) == [(1.0, ((0, 3), (3, 15)))]
    ordered = Torus(routing="dimension_ordered")
    assert ordered.paths(0, 10, 16) == [(1.0, ((0, 1), (1, 2), (2, 6), (6, 10)))]
    assert [part for part, _ in Torus().paths(0, 10, 16)] == [0.25] * 4


@pytest.mark.parametrize(
    ("devices", "count"), [(1, 0), (2, 1), (4, 4), (6, 9), (7, 7), (8, 12), (9, 18), (16, 32), (64, 128)]
)
def test_links_of_a_torus(devices: int, count: int) -> None:
    """Two a device, but for sides of one, which have none, and sides of two, which have one."""
    assert Torus().num_links(devices) == count


# Switch, fully connected


@pytest.mark.parametrize("array", [*BINARY, (4,), (4, 2), (2, 8)])
@pytest.mark.parametrize("collective", ["all_reduce", "all_to_all", "neighbours"])
def test_a_switch_never_blocks(array: tuple[int, ...], collective: str) -> None:
    """Every device has its own link, which its own share goes over."""
    inner = [math.prod(array[level + 1 :]) for level in range(len(array))]
    assert per_byte("switch", array, collective) == pytest.approx([1 / devices for devices in inner])
    assert {level.hops for level in links("switch", array)} == {2}


@pytest.mark.parametrize("array", [(2,), (4,), (8,), (4, 2), (2, 2, 2)])
def test_fully_connected_devices_use_a_link_to_each_other_part(array: tuple[int, ...]) -> None:
    """A device sends one over k-1 of its share to each of k-1 others."""
    found = per_byte("fully_connected", array)
    assert found == pytest.approx(
        [1 / (ways - 1) / math.prod(array[level + 1 :]) for level, ways in enumerate(array)]
    )
    # A neighbour is behind one link only.
    inner = [math.prod(array[level + 1 :]) for level in range(len(array))]
    assert per_byte("fully_connected", array, "neighbours") == pytest.approx(
        [1 / devices for devices in inner]
    )
    assert {level.hops for level in links("fully_connected", array)} == {1}


# Graph


@pytest.mark.parametrize("devices", [3, 5, 7, 9])
def test_a_graph_that_is_a_ring_equals_it(devices: int) -> None:
    """An odd ring has no two ways of one length."""
    array = (devices,)
    assert links(around(devices), array)[0].seconds_per_byte == pytest.approx(
        links("ring", array)[0].seconds_per_byte
    )
    graph = Graph(pairs=around(devices)["pairs"])
    for source in range(devices):
        for target in range(devices):
            if source != target:
                assert list(graph.paths(source, target, devices)) == Ring().paths(source, target, devices)


def test_a_graph_takes_both_ways_round_where_they_are_equal() -> None:
    """Of a ring of four in two halves each link carries half of what one way round would."""
    assert per_byte(around(4), (2, 2))[0] == pytest.approx(per_byte("ring", (2, 2))[0] / 2)


def test_a_pair_given_twice_is_twice_as_wide() -> None:
    line = [[0, 1], [1, 2], [2, 3]]
    wider = [*line, [1, 2]]
    assert per_byte({"name": "graph", "pairs": line}, (2, 2)) == pytest.approx([1, 1])
    assert per_byte({"name": "graph", "pairs": wider}, (2, 2)) == pytest.approx([1 / 2, 1])
    assert busiest(Graph(pairs=line), {(1, 2): 1.0}, 4, duplex=True) == (1.0, 1)
    assert busiest(Graph(pairs=wider), {(1, 2): 1.0}, 4, duplex=True) == (0.5, 1)


def test_the_many_paths_of_a_mesh_share_a_message_evenly() -> None:
    """From corner to corner of a mesh of 3 x 3 there are six; two of them over the link at the corner's row."""
    pairs = [[3 * row + column, 3 * row + column + 1] for row in range(3) for column in range(2)]
    pairs += [[3 * row + column, 3 * row + column + 3] for row in range(2) for column in range(3)]
    loads: dict[Any, float] = {}
    for part, path in Graph(pairs=pairs).paths(0, 8, 9):
        for link in path:
            loads[link] = loads.get(link, 0) + part
    expected = {
        (0, 1): 3, (0, 3): 3, (1, 2): 1, (1, 4): 2, (3, 4): 2, (3, 6): 1,
        (2, 5): 1, (4, 5): 2, (4, 7): 2, (6, 7): 1, (5, 8): 3, (7, 8): 3,
    }  # fmt: skip
    assert loads == pytest.approx({link: count / 6 for link, count in expected.items()})


def test_a_large_mesh_has_few_paths_of_its_155_million() -> None:
    side = 16
    pairs = [
        [side * row + column, side * row + column + 1] for row in range(side) for column in range(side - 1)
    ]
    pairs += [
        [side * row + column, side * row + column + side] for row in range(side - 1) for column in range(side)
    ]
    paths = Graph(pairs=pairs).paths(0, side * side - 1, side * side)
    assert len(paths) <= 2 * len(pairs)
    assert math.fsum(part for part, _ in paths) == pytest.approx(1)


# Several networks


def test_a_device_of_a_node_uses_its_own_link_outward() -> None:
    """Eight nodes of eight: each GPU has 50 GB/s outward, 450 GB/s inside."""
    outer, inner = load_machine("h100-8x").links((8, 8))
    assert outer.seconds_per_byte["all_reduce"] == pytest.approx(1 / (8 * 50e9))
    assert inner.seconds_per_byte["all_reduce"] == pytest.approx(1 / 450e9)
    assert (outer.resource, inner.resource) == ("switch links 1", "switch links 2")
    assert outer.line("neighbours", 1).latency_s == pytest.approx(2 * 1e-6)
    assert inner.line("neighbours", 1).latency_s == pytest.approx(2 * 0.5e-6)


def test_a_level_over_both_networks_is_as_slow_as_the_slower() -> None:
    """Of 64 ways, 56 of the 63 others are in another node."""
    level = load_machine("h100-8x").links((64,))[0]
    assert level.seconds_per_byte["all_to_all"] == pytest.approx(56 / 63 / 50e9)
    assert level.hops == 4


def test_a_smaller_array_has_a_part_of_the_machine_to_itself() -> None:
    machine = load_machine("hmc")
    whole, part = machine.links((2, 2, 2, 2))[2:], machine.links((2, 2))
    assert [level.seconds_per_byte for level in part] == [level.seconds_per_byte for level in whole]


# Bandwidth


def test_a_shared_bandwidth_is_that_of_all_links_together() -> None:
    """25.6 Gb/s: over 16 leaves of an H-tree 1600 Mb/s each, over 32 links of a torus half of it."""
    tree, torus = load_machine("hmc"), load_machine("hmc", {"topology": "torus"})
    assert tree.tiers[0].bytes_per_s == pytest.approx(LINK)
    assert torus.tiers[0].bytes_per_s == pytest.approx(LINK / 2)
    ring = load_machine("hmc", {"topology": "ring", "total_bandwidth": "16 Gb/s"})
    assert ring.tiers[0].bytes_per_s == pytest.approx(2e9 / 16)
    full = load_machine("hmc", {"topology": "fully_connected"})
    assert full.tiers[0].bytes_per_s == pytest.approx(3.2e9 / 120)


def test_seconds_of_a_transfer() -> None:
    level = links("ring", (4,), latency="1 us")[0]
    assert level.seconds("all_gather", 1e6) == pytest.approx(1e6 / LINK + 2e-6)


def test_machines_of_equal_networks_share_their_links() -> None:
    """Whatever else differs; a graph's pairs are a list."""
    pairs = [[0, 1], [1, 2], [2, 3], [3, 0]]
    for topology in ("torus", {"name": "graph", "pairs": pairs}):
        once, again = (links(topology, (2, 2), overlap=overlap) for overlap in ("none", "full"))
        assert once is again
        assert links(topology, (2, 2), latency="3 us") != once
    assert links({"name": "graph", "pairs": pairs[:3]}, (2, 2)) != once
