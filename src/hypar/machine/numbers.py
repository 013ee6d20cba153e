"""Every number of a machine with its unit and source, and what whole layers take on one device, as rows of data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.machine.collectives import ALGORITHMS
from hypar.machine.energy import phase_energy
from hypar.ops.nest import PHASES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypar.machine.machine import Machine
    from hypar.machine.work import LayerTime
    from hypar.network.graph import LayerGraph

Rows = list[dict[str, Any]]

_UNITS = {
    "device.energy.static": "W", "device.buffer": "B", "bandwidth": "B/s", "link_bandwidth": "B/s", "total_bandwidth": "B/s",
    "capacity": "B", "word": "B", "frequency": "Hz", "latency": "s", "peak": "FLOP/s", "fp32_peak": "FLOP/s",
    "half_efficiency_flop": "FLOP",
}  # fmt: skip
"""Units of the numbers in hardware files, by their place or the last word of it; energies are in joules."""


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


def machine_numbers(machine: Machine) -> Rows:
    """Return every value of a machine's file with its unit and source, group by group if it is heterogeneous."""
    if machine.groups:
        return [
            {**row, "what": f"{group.name}.{row['what']}"}
            for group in machine.groups
            for outward in [{"bandwidth": group.bytes_per_s, "latency": group.latency_s}]
            for row in (*_values({"outward": _sourced(outward)}), *machine_numbers(group.machine))
        ]
    content = machine.content.model_dump(mode="json", by_alias=True)
    device, networks = content["device"], content["interconnect"] or []
    name = {"value": device["compute"]["name"], "source": "compute model"}
    device["compute"] = {"name": name, **machine.compute.model_dump(mode="json")}
    for network, tier in zip(networks, machine.tiers, strict=True):
        fields = tier.topology.model_dump(mode="json", exclude_none=True)
        network["topology"] = {"name": {"value": tier.name, "source": "topology"}, **_sourced(fields)}
        if tier.collectives == ALGORITHMS:
            network["collectives"]["value"] = "all"
    content["interconnect"] = networks[0] if len(networks) == 1 else networks
    return [*_values(content)]


def _sourced(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: {"value": value, "source": "as the file says"} for key, value in fields.items()}


def _values(data: Any, where: str = "") -> Iterator[dict[str, Any]]:
    """Yield the values below a field of the file, with their places, units and sources."""
    if isinstance(data, dict) and data.keys() == {"value", "source"}:
        energy = "J" * where.startswith("device.energy.")
        unit = _UNITS.get(where) or energy or _UNITS.get(where.rpartition(".")[2], "")
        found = {"value": data["value"], "unit": "" if isinstance(data["value"], str) else unit}
        yield {"what": where, **found, "source": data["source"]}
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _values(value, f"{where}.{key}".removeprefix("."))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _values(value, f"{where}[{index}]")


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
