"""What a machine is in short, and what whole layers take on one of its devices, as rows of data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.machine.energy import phase_energy
from hypar.ops.nest import PHASES

if TYPE_CHECKING:
    from hypar.machine.machine import Machine
    from hypar.machine.work import LayerTime
    from hypar.network.graph import LayerGraph

Rows = list[dict[str, Any]]


def machine_summary(machine: Machine) -> dict[str, Any]:
    """Return the size and the source of a machine; of a heterogeneous one with a list of its groups' entries."""
    named = {"hardware": machine.name, "devices": machine.num_devices}
    if machine.groups:
        groups = [
            {"group": own.name, "outward_bytes_per_s": own.bytes_per_s, "outward_latency_s": own.latency_s}
            | machine_summary(own.machine)
            for own in machine.groups
        ]
        return {**named, "source": machine.source, "groups": groups}
    return {
        **named,
        "topology": [tier.name for tier in machine.tiers],
        "compute_model": machine.content.device.compute["name"],
        "memory_bytes": machine.memory_bytes,
        "link_bytes_per_s": [tier.bytes_per_s for tier in machine.tiers],
        "source": machine.source,
    }


def whole_layers(machine: Machine, graph: LayerGraph) -> Rows:
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
