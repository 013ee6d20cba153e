"""Energy of one phase of a layer on a device, by component."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypar.machine.machine import LayerTime, Machine

COMPONENTS = ("arithmetic", "registers", "array", "buffer", "memory", "static")


def phase_energy(machine: Machine, time: LayerTime, phase: str) -> dict[str, float]:
    """Return the joules of each of ``COMPONENTS``; zero where the machine's file gives no energy.

    Words of the memories are those of the machine; a phase's static energy is its time by the power of all units.
    """
    found = dict.fromkeys(COMPONENTS, 0.0)
    costs = machine.content.device.energy
    if costs is None:
        return found
    done, units = time.work[phase], machine.content.assumptions.units_per_device.value
    each = {
        "registers": costs.register_access,
        "array": costs.array,
        "buffer": costs.buffer,
        "memory": costs.memory,
    }
    found["arithmetic"] = time.macs * (costs.multiply.value + costs.add.value)
    for place, energy in each.items():
        found[place] = done.accesses[place] * energy.value if energy else 0.0
    found["static"] = units * time.seconds[phase] * (costs.static.value if costs.static else 0.0)
    return found
