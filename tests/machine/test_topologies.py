"""How long transfers take on each topology, against forms derived by hand.

All are seconds for each byte that one part of a group receives. A part has ``inner`` devices, each of which
sends its share, one over ``inner`` of the bytes, to its like in another part.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hypar.machine.load import load_machine
from hypar.machine.topologies.graph import Graph
from hypar.machine.topologies.grid import Torus
from hypar.machine.traffic import Listed

if TYPE_CHECKING:
    from hypar.machine.links import LevelLink

LINK = 200e6
"""Bytes a second of one link: 1600 Mb/s."""

BINARY = [(2,), (2, 2), (2, 2, 2), (2, 2, 2, 2)]


def links(topology: Any, array: tuple[int, ...], **changes: Any) -> tuple[LevelLink, ...]:
    """The levels of a machine of just these devices, each link with its own bandwidth."""
    asked = {"topology": topology, "devices": math.prod(array), "bandwidth": "link", **changes}
    links: tuple[LevelLink, ...] = load_machine("hmc", asked).links(array)
    return links


def per_byte(
    topology: Any, array: tuple[int, ...], collective: str = "all_reduce", **changes: Any
) -> list[float]:
    """Seconds a byte at each level, in units of a byte over one link."""
    return [
        level.lines[collective][-1].seconds_per_byte * LINK for level in links(topology, array, **changes)
    ]


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


def test_levels_share_the_links_of_a_network() -> None:
    """Messages to the far side of a tree leave over the links of its leaves too."""
    for topology in ("h_tree", "torus"):
        assert [level.resource for level in links(topology, (2, 2))] == [f"{topology} links"] * 2


# Ring


@pytest.mark.parametrize("ways", [4, 7, 8, 9, 16])
def test_a_ring_all_reduces_at_the_bandwidth_of_a_link(ways: int) -> None:
    """Round it each device sends to its neighbour only, 2 (k-1) times; at once each message goes at most half round."""
    assert per_byte("ring", (ways,)) == pytest.approx([1])
    level = links("ring", (ways,), latency="1 us")[0]
    # At once where that has the same bandwidth.
    steps = 2 * (ways // 2) if ways in {4, 7} else 2 * (ways - 1)
    assert level.line("all_reduce", 1e12).latency_s == pytest.approx(steps * 1e-6)
    assert level.line("all_gather", 1e12).latency_s == pytest.approx(steps / 2 * 1e-6)


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


def test_positions_divide_the_longer_side_of_a_torus() -> None:
    """As an H-tree is laid out: columns first, then rows, in turn."""
    assert list(Torus().places((2, 2))) == [0, 2, 1, 3]
    assert list(Torus().places((2, 2, 2, 2))) == [0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15]


@pytest.mark.parametrize(
    ("devices", "count"), [(1, 0), (2, 1), (4, 4), (6, 9), (7, 7), (8, 12), (9, 18), (16, 32), (64, 128)]
)
def test_links_of_a_torus(devices: int, count: int) -> None:
    """Two a device, but for sides of one, which have none, and sides of two, which have one."""
    assert Torus().num_links(devices) == count


# Switch, fully connected


# Graph


@pytest.mark.parametrize("devices", [3, 5, 7, 9])
def test_a_graph_that_is_a_ring_equals_it(devices: int) -> None:
    """An odd ring has no two ways of one length."""
    graph, ring = (
        [own[-1].seconds_per_byte for own in links(topology, (devices,))[0].lines.values()]
        for topology in (around(devices), "ring")
    )
    assert graph == pytest.approx(ring)


def test_a_pair_given_twice_is_twice_as_wide() -> None:
    line = [[0, 1], [1, 2], [2, 3]]
    wider = [*line, [1, 2]]
    assert per_byte({"name": "graph", "pairs": line}, (2, 2)) == pytest.approx([1, 1])
    assert per_byte({"name": "graph", "pairs": wider}, (2, 2)) == pytest.approx([1 / 2, 1])


def test_the_many_paths_of_a_mesh_share_a_message_evenly() -> None:
    """From corner to corner of a mesh of 3 x 3 there are six; two of them over the link at the corner's row."""
    pairs = [[3 * row + column, 3 * row + column + 1] for row in range(3) for column in range(2)]
    pairs += [[3 * row + column, 3 * row + column + 3] for row in range(2) for column in range(3)]
    found = Graph(pairs=pairs).loads(Listed(np.array([0]), np.array([8]), 9), 9)
    expected = {
        (0, 1): 3, (0, 3): 3, (1, 2): 1, (1, 4): 2, (3, 4): 2, (3, 6): 1,
        (2, 5): 1, (4, 5): 2, (4, 7): 2, (6, 7): 1, (5, 8): 3, (7, 8): 3,
    }  # fmt: skip
    assert found.busy[0].tolist() == pytest.approx([expected[min(pair), max(pair)] / 6 for pair in pairs])
    assert not found.busy[1].any()


# Several networks


def test_a_device_of_a_node_uses_its_own_link_outward() -> None:
    """Eight nodes of eight: each GPU has 50 GB/s outward, 450 GB/s inside."""
    outer, inner = load_machine("h100-8x").links((8, 8))
    assert outer.lines["all_reduce"][-1].seconds_per_byte == pytest.approx(1 / (8 * 50e9))
    assert inner.lines["all_reduce"][-1].seconds_per_byte == pytest.approx(1 / 450e9)
    assert (outer.resource, inner.resource) == ("switch links 1", "switch links 2")
    assert outer.line("neighbours", 1).latency_s == pytest.approx(2 * 1e-6)
    assert inner.line("neighbours", 1).latency_s == pytest.approx(2 * 0.5e-6)


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
