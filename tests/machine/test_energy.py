"""Energy of a phase by component, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from hypar import load_machine
from hypar.machine.energy import COMPONENTS, phase_energy
from hypar.ops.dims import CUTTABLE
from hypar.ops.families.contract import Linear
from hypar.ops.nest import PHASES

WHOLE = (1,) * len(CUTTABLE)
FC = Linear(out_features=300).nest(8, ({"channels": 200},))


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


def test_a_file_without_energies_gives_none() -> None:
    machine = load_machine("p100-4x4")
    time = machine.layer_time(FC, WHOLE, 2)
    assert set(phase_energy(machine, time, "forward").values()) == {0.0}
