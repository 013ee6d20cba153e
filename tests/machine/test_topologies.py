"""How many links networks have, where devices stand and how far messages go, by hand."""

from typing import Any

import pytest

from hypar import load_machine
from hypar.machine.topologies.named import Mesh, Torus


def test_positions_divide_the_longer_side_of_a_torus() -> None:
    """As an H-tree is laid out: columns first, then rows, in turn."""
    assert list(Torus().places((2, 2))) == [0, 2, 1, 3]
    assert list(Torus().places((2, 2, 2, 2))) == [0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15]


@pytest.mark.parametrize(
    ("grid", "devices", "count"),
    [
        # Two a device, but for sides of one, which have none, and sides of two, which have one.
        *[(Torus(), devices, links) for devices, links in ((1, 0), (2, 1), (4, 4), (6, 9), (7, 7), (8, 12))],
        *[(Torus(), devices, links) for devices, links in ((9, 18), (16, 32), (64, 128))],
        # A mesh of 3 x 4, of one row and of six.
        *[(Mesh(), 12, 3 * 3 + 2 * 4), (Mesh(rows=1), 12, 11), (Mesh(rows=6), 12, 6 + 5 * 2)],
    ],
)
def test_links_of_a_grid(grid: Torus | Mesh, devices: int, count: int) -> None:
    assert grid.num_links(devices) == count


def test_a_shared_bandwidth_is_that_of_all_links_together() -> None:
    """25.6 Gb/s: over 16 leaves of an H-tree 1600 Mb/s each, over 32 links of a torus half, over 120 pairs."""
    ring = {"topology": "ring", "total_bandwidth": "16 Gb/s"}
    changed: list[tuple[dict[str, Any], float]] = [({}, 200e6), ({"topology": "torus"}, 100e6)]
    changed += [(ring, 2e9 / 16), ({"topology": "fully_connected"}, 3.2e9 / 120)]
    for changes, bandwidth in changed:
        (tier,) = load_machine("hmc", changes).tiers
        assert tier.bytes_per_s == pytest.approx(bandwidth)


def mean_hops(machine: Any, array: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(link.mean_hops for link in machine.links(array))
