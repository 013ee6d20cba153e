"""Energy of an access, of one phase of a layer on a device by component, and power at rest; what phases take besides."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hypar.ops.nest import PHASES

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.machine.setting import Setting
    from hypar.machine.work import LayerTime
    from hypar.network.graph import LayerGraph

COMPONENTS = ("arithmetic", "registers", "array", "buffer", "memory", "static")


@lru_cache(maxsize=64)
def access_energies(machine: Machine) -> dict[str, float]:
    """Return the joules of an access to each place; empty if the machine's file gives no energies."""
    costs = machine.content.device.energy
    if costs is None:
        return {}
    return {
        "registers": costs.register_access.value if costs.register_access else 0.0,
        "array": costs.array.value if costs.array else 0.0,
        "buffer": costs.buffer.value,
        "memory": costs.memory.value,
    }


def byte_energies(machine: Machine) -> tuple[float, float, float | None]:
    """Return the joules of a byte that a device receives: at both ends, of a term of a sum besides, and over each link on its way.

    A term is added to a word that is read for it, where the machine counts sums. The last one is None if it is not given, all are 0
    without energies.
    """
    content = machine.content
    costs, word, assumed = content.device.energy, content.device.word.value, content.assumptions
    if costs is None:
        return 0.0, 0.0, None
    summed = 0.0 if assumed.sums.value == "free" else (costs.add.value + costs.memory.value) / word
    moved = assumed.accesses_per_word_moved.value * costs.memory.value / word
    return moved, summed, None if costs.link is None else costs.link.value / word


def power_at_rest(machine: Machine) -> float:
    """Return the watts that all units of a device draw at rest; 0 if the machine's file gives none."""
    costs = machine.content.device.energy
    units = machine.content.assumptions.units_per_device.value
    return units * costs.static.value if costs is not None and costs.static is not None else 0.0


def phase_energy(machine: Machine, time: LayerTime, phase: str) -> dict[str, float]:
    """Return the joules of each of ``COMPONENTS``; zero where the machine's file gives no energy.

    Words of the memories are those of the machine; a phase's static energy is its time by the power of all units.
    """
    found = dict.fromkeys(COMPONENTS, 0.0)
    costs = machine.content.device.energy
    if costs is None:
        return found
    found["arithmetic"] = time.done_macs(phase) * (costs.multiply.value + costs.add.value)
    for place, joules in access_energies(machine).items():
        found[place] = time.work[phase].accesses[place] * joules
    found["static"] = power_at_rest(machine) * time.seconds[phase]
    return found


def layer_energy(
    setting: Setting, time: LayerTime, microbatches: int, devices: int
) -> list[tuple[str, float]]:
    """Return the joules of a layer on some devices in all microbatches and in its update, component by component."""
    device = setting.machine.content.device
    costs, words = device.energy, setting.element_bytes / device.word.value
    if costs is None:
        return []
    weight, macs = time.words["weight"], microbatches * math.fsum(map(time.done_macs, time.work))
    updates, each = setting.update_accesses * weight, access_energies(setting.machine).items()
    return [
        ("arithmetic", devices * (macs + weight) * (costs.multiply.value + costs.add.value)),
        *((place, devices * words * microbatches * time.accesses[place] * own) for place, own in each),
        ("memory", devices * words * updates * costs.memory.value),
    ]


def whole_layers(machine: Machine, graph: LayerGraph) -> list[dict[str, Any]]:
    """Return time, energy, accesses and mapping of each phase of whole layers on one device, of each group if there are any."""
    if machine.groups:
        groups = ((name, whole_layers(own, graph)) for name, own, _ in machine.leaves())
        return [{"group": name, **row} for name, rows in groups for row in rows]
    return [
        {"layer": layer.name, "phase": phase, **phase_of(phase, time, machine)}
        for layer in graph.contracted.layers
        if machine.times(layer.nest)
        for time in [machine.layer_time(layer.nest, (1,) * len(layer.nest.counted), graph.element_bytes)]
        for phase in PHASES
    ]


def phase_of(phase: str, time: LayerTime, machine: Machine) -> dict[str, Any]:
    """Return what a phase of a layer takes on a device."""
    return {
        "time_s": time.seconds[phase],
        "macs": time.macs,
        "accesses": dict(time.work[phase].accesses),
        "mapping": dict(time.work[phase].mapping),
        "energy": phase_energy(machine, time, phase),
    }
