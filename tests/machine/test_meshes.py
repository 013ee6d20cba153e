"""The mesh, and the machines that are wired as meshes: every number of their files moves a step."""

from __future__ import annotations

from hypar import load_machine
from hypar.machine.topologies.grid import Mesh


def test_a_mesh_has_no_links_between_its_ends() -> None:
    """3 x 4: three rows of three links, two rows of four columns between them."""
    mesh = Mesh()
    assert mesh.num_links(12) == 3 * 3 + 2 * 4


def test_rows_may_be_given() -> None:
    line, tall = Mesh(rows=1), Mesh(rows=6)
    assert line.num_links(12) == 11
    assert tall.num_links(12) == 6 + 5 * 2
    assert line.fault(12) is None
    assert Mesh(rows=5).fault(12) == "5 rows of 12 devices; allowed: a divisor of 12"


def test_dies_of_a_tile_share_its_five_links() -> None:
    """25 dies send a fifth of their bytes each over links of 0.9 TB/s: five of them over one."""
    outer, inner = load_machine("dojo").links((6, 25))
    assert outer.resource == "mesh links 1"
    assert outer.seconds("neighbours", 25e9) >= 5 * 1e9 / 0.9e12
    assert inner.line("all_reduce", 1e9).algorithm.startswith("dimensions at once")
