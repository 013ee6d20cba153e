"""Energy of a phase by component, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from hypar import load_machine
from hypar.machine.energy import COMPONENTS, phase_energy
from hypar.network.dims import CUTTABLE
from hypar.network.ops.linear import Linear
from hypar.network.training import PHASES

WHOLE = (1,) * len(CUTTABLE)
FC = Linear(out_features=300).einsum(8, ({"channels": 200},), {"channels": 300})


def energy(phase: str, changes: dict[str, Any] | None = None) -> dict[str, float]:
    machine = load_machine("tetris", changes)
    return phase_energy(machine, machine.layer_time(FC, WHOLE, 2), phase)


@pytest.mark.parametrize("phase", PHASES)
def test_components_are_counts_times_energies(phase: str) -> None:
    machine = load_machine("tetris")
    time = machine.layer_time(FC, WHOLE, 2)
    found, counts = energy(phase), time.work[phase].accesses
    assert tuple(found) == COMPONENTS
    assert found["arithmetic"] == pytest.approx(8 * 200 * 300 * 2e-12)
    assert found["registers"] == pytest.approx(4 * 8 * 200 * 300 * 0.6e-12)
    assert found["memory"] == pytest.approx(counts["memory"] * 80e-12)
    assert found["buffer"] == pytest.approx(counts["buffer"] * 14e-12)
    assert found["array"] == pytest.approx(counts["array"] * 4e-12)
    assert found["static"] == pytest.approx(16 * 0.1 * time.seconds[phase])


@pytest.mark.parametrize(
    ("change", "component"),
    [
        ({"energy.multiply": "2 pJ", "energy.add": "2 pJ"}, "arithmetic"),
        ({"energy.register": "1.2 pJ"}, "registers"),
        ({"energy.array": "8 pJ"}, "array"),
        ({"energy.buffer": "28 pJ"}, "buffer"),
        ({"energy.memory": "160 pJ"}, "memory"),
        ({"energy.static": "200 mW"}, "static"),
    ],
)
def test_each_energy_is_reached_by_a_change_and_moves_its_component_alone(
    change: dict[str, Any], component: str
) -> None:
    before, after = energy("forward"), energy("forward", change)
    assert after[component] == pytest.approx(2 * before[component])
    assert {name: after[name] for name in after if name != component} == {
        name: before[name] for name in before if name != component
    }


def test_a_file_without_energies_gives_none() -> None:
    machine = load_machine("p100-4x4")
    time = machine.layer_time(FC, WHOLE, 2)
    assert set(phase_energy(machine, time, "forward").values()) == {0.0}
