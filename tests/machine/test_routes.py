"""Routes between two devices, beside what levels of two parts take."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hypar import load_machine
from hypar.machine.routes import route


@pytest.mark.parametrize(("name", "topology"), [("hmc", "h_tree"), ("hmc", "torus"), ("tpu-v3", "ring")])
def test_two_devices_are_a_level_of_two(name: str, topology: str) -> None:
    machine = load_machine(name, {"devices": 2, "topology": topology})
    (level,) = machine.links((2,))
    for ends in ((0, 1), (1, 0)):
        path = route(machine, *ends)
        for num_bytes in (1, 10**6):
            assert math.isclose(path.seconds(num_bytes), level.seconds("neighbours", num_bytes))


def test_a_way_in_one_node_is_faster_than_between_two() -> None:
    """Eight devices a node: the eighth and the ninth are the last and the first of two."""
    machine = load_machine("h100-8x")
    inside, across = route(machine, 6, 7), route(machine, 7, 8)
    # Sources in the machine's file: NVLink 450 GB/s and two hops of 0.5 us; InfiniBand 400 Gb/s and two of 1 us.
    assert inside == (1 / 450e9, 1e-6, True)
    assert across.seconds_per_byte == pytest.approx(1 / 50e9)
    assert across.latency_s == pytest.approx(3e-6)
    assert route(machine, 8, 16).latency_s == pytest.approx(2e-6)


def test_nothing_takes_no_time_and_arrays_are_taken() -> None:
    path = route(load_machine("h100-8x"), 0, 1)
    assert path.seconds(0) == 0
    assert path.seconds(np.array([0.0, 450e9])).tolist() == [0, 1 + 1e-6]


def test_a_way_of_half_duplex_carries_one_message_at_a_time() -> None:
    assert not route(load_machine("hmc", {"duplex": "half"}), 0, 1).duplex
