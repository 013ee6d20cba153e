"""Links on the way of a message at each level of an array, against distances counted by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hypar import load_machine


def mean_hops(machine: Any, array: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(link.mean_hops for link in machine.links(array))


def hops(topology: Any, array: tuple[int, ...], devices: int | None = None) -> tuple[float, ...]:
    asked = {"topology": topology, "devices": devices or math.prod(array), "bandwidth": "link"}
    return mean_hops(load_machine("hmc", asked), array)


@pytest.mark.parametrize(
    ("topology", "array", "expected"),
    [
        ("h_tree", (2, 2, 2, 2), (8, 6, 4, 2)),
        # One counterpart is 2 links away, two are 4, four are 6, eight are 8.
        ("h_tree", (16,), ((2 + 2 * 4 + 4 * 6 + 8 * 8) / 15,)),
        ("ring", (2, 2), (2, 1)),
        ("ring", (4,), ((1 + 2 + 1) / 3,)),
        ("fully_connected", (2, 4), (1, 1)),
        ("switch", (4, 4), (2, 2)),
        # 4 x 4: opposite halves are two steps away, the halves of a half one.
        ("torus", (2, 2, 2, 2), (2, 2, 1, 1)),
        ({"name": "torus", "routing": "dimension_ordered"}, (2, 2, 2, 2), (2, 2, 1, 1)),
    ],
)
def test_hops_by_hand(topology: Any, array: tuple[int, ...], expected: tuple[float, ...]) -> None:
    assert hops(topology, array) == pytest.approx(expected)


def test_a_message_between_nodes_takes_the_network_of_both_tiers() -> None:
    """A counterpart in another node is two links away outside, and two inside if it is another device."""
    machine = load_machine("h100-8x")
    assert mean_hops(machine, (8, 8)) == pytest.approx((2, 2))
    # Of 63 others 7 are in the same node, and 7 are the same device of another node.
    assert mean_hops(machine, (64,)) == pytest.approx(((7 * 2 + 7 * 2 + 49 * 4) / 63,))
