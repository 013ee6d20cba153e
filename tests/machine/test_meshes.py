"""The mesh, and the machines that are wired as meshes: every number of their files moves a step."""

from __future__ import annotations

from typing import Any

import pytest

from hypar import load_machine, plan_model, score_plan
from hypar.files.yaml_file import read_yaml
from hypar.machine.load import machine_in
from hypar.machine.topologies.base import busiest
from hypar.machine.topologies.mesh import Mesh
from hypar.registry import data_file

ARRAYS = {"simba": (6, 6), "dojo": (6, 25)}


def test_a_mesh_has_no_links_between_its_ends() -> None:
    """3 x 4: three rows of three links, two rows of four columns between them."""
    mesh = Mesh()
    assert mesh.num_links(12) == 3 * 3 + 2 * 4
    assert mesh.paths(0, 3, 12) == [(1.0, ((0, 1), (1, 2), (2, 3)))]
    assert mesh.paths(11, 0, 12) == [(1.0, ((11, 10), (10, 9), (9, 8), (8, 4), (4, 0)))]


def test_rows_may_be_given() -> None:
    line, tall = Mesh(rows=1), Mesh(rows=6)
    assert line.num_links(12) == 11
    assert tall.num_links(12) == 6 + 5 * 2
    assert tall.paths(0, 3, 12) == [(1.0, ((0, 1), (1, 3)))]
    assert line.fault(12) is None
    assert Mesh(rows=5).fault(12) == "5 rows of 12 devices; allowed: a divisor of 12"


def test_the_links_in_the_middle_bind_an_exchange_of_halves() -> None:
    """4 x 4: eight devices send to the other side over four links, two over each."""
    halves = {(device, device + 2): 1.0 for device in range(16) if device % 4 < 2}
    assert busiest(Mesh(), halves, 16, duplex=True) == (2.0, 2)
    for level, load in enumerate((2 / 8, 2 / 4, 1 / 2, 1)):
        link = load_machine("hmc", {"topology": "mesh", "bandwidth": "link"}).links((2, 2, 2, 2))[level]
        assert link.seconds_per_byte["all_to_all"] * 200e6 == pytest.approx(load)


def test_dies_of_a_tile_share_its_five_links() -> None:
    """25 dies send a fifth of their bytes each over links of 0.9 TB/s: five of them over one."""
    outer, inner = load_machine("dojo").links((6, 25))
    assert outer.resource == "mesh links 1"
    assert outer.seconds("neighbours", 25e9) >= 5 * 1e9 / 0.9e12
    assert inner.line("all_reduce", 1e9).algorithm.startswith("dimensions at once")


def numbers(data: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all numbers of a file."""
    if isinstance(data, dict) and "value" in data:
        return [where]
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [place for key, value in items for place in numbers(value, (*where, key))]


def changed(name: str, where: tuple[Any, ...], factor: float) -> Any:
    """A machine with one number of its file multiplied."""
    document = read_yaml(data_file("hardware", name))
    node: Any = document.data
    for key in where:
        node = node[key]
    number, _, unit = str(node["value"]).partition(" ")
    value = float(number) * factor
    node["value"] = f"{value!r} {unit}" if unit else int(value) if isinstance(node["value"], int) else value
    return machine_in(document)


CASES = [
    pytest.param(name, where, id=f"{name} {'.'.join(map(str, where))}")
    for name in ARRAYS
    for where in numbers(read_yaml(data_file("hardware", name)).data)
    # More or fewer devices are another array.
    if where[-1] != "devices"
]
SLOWER = {"latency", "half_efficiency_flop"}
"""Numbers whose growth takes time; that of all others but energies takes less."""


@pytest.mark.parametrize(("name", "where"), CASES)
def test_every_number_moves_time_or_energy_or_what_fits(name: str, where: tuple[Any, ...]) -> None:
    array = ARRAYS[name]
    plan = plan_model("alexnet", array=array, strategy="dp", hardware=name)
    # Efficiency is 1 at most.
    factors = (0.5, 1.25) if where[-1] == "efficiency" else (0.5, 2)
    half, double = (
        score_plan(plan, hardware=changed(name, where, factor), model="alexnet") for factor in factors
    )
    if where[-1] == "capacity":
        free = [changed(name, where, factor).fits(400e6) for factor in (0.5, 2)]
        assert free == [False, True]
        return
    times = half.time_s, double.time_s
    joules = half.energy_j or 0.0, double.energy_j or 0.0
    if where[-2:-1] == ("energy",):
        assert joules[0] < joules[1]
        assert times[0] == times[1]
    elif where[-1] == "word":
        assert joules[0] > joules[1]
    elif where[-1] in SLOWER:
        assert times[0] < times[1]
    else:
        assert times[0] > times[1]
