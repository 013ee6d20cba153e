"""Listings of machines: all that come with hypar, one in full, and the mapping of layers to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.machine.collectives.schedules import SETS
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.reports.columns import Cell
from hypar.reports.listings.base import Data, make_table
from hypar.studies.layers import layers_of, phases_of
from hypar.units import format_bytes, format_count, format_joules, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.planning.replay import ScoredStep
    from hypar.reports.columns import Sheet


def machines_data(machines: Iterable[Machine | HeterogeneousMachine]) -> Data:
    """Return the size and the source of each machine; for a heterogeneous one, a list of its groups' entries."""
    return [
        _heterogeneous_entry(machine) if isinstance(machine, HeterogeneousMachine) else _entry(machine)
        for machine in machines
    ]


def _entry(machine: Machine) -> dict[str, Any]:
    """Return the entry of a machine of identical devices."""
    return {
        "hardware": machine.name,
        "devices": machine.num_devices,
        "topology": [tier.name for tier in machine.tiers],
        "compute_model": machine.content.device.compute["name"],
        "memory_bytes": machine.memory_bytes,
        "link_bytes_per_s": [tier.bytes_per_s for tier in machine.tiers],
        "source": machine.content.source,
    }


def _heterogeneous_entry(machine: HeterogeneousMachine) -> dict[str, Any]:
    """Return the entry of a heterogeneous machine with its groups."""
    return {
        "hardware": machine.name,
        "devices": machine.num_devices,
        "source": machine.source,
        "groups": [
            {
                "group": group.name,
                "outward_bytes_per_s": group.bytes_per_s,
                "outward_latency_s": group.latency_s,
                **(
                    _heterogeneous_entry(group.machine)
                    if isinstance(group.machine, HeterogeneousMachine)
                    else _entry(group.machine)
                ),
            }
            for group in machine.groups
        ],
    }


def machines_table(machines: Iterable[Machine | HeterogeneousMachine]) -> Sheet:
    """Return one row for each machine, and one below it for each group of a heterogeneous machine."""
    table = make_table(["machine", "devices", "links", "compute model", "memory"], "lrllr", prose={"links"})
    for row in machines_data(machines):
        _add_machine(table, row, "")
    return table


def _add_machine(table: Sheet, row: dict[str, Any], indent: str) -> None:
    """Add the row of a machine and, below it, the rows of its groups."""
    name, devices = f"{indent}{row.get('group', row['hardware'])}", str(row["devices"])
    if "groups" in row:
        table.add_row(name, devices, f"{len(row['groups'])} groups", "-", "-")
        for group in row["groups"]:
            _add_machine(table, group, f"{indent}  ")
        return
    tiers = zip(row["topology"], row["link_bytes_per_s"], strict=True)
    links = ", ".join(f"{topology} {format_bytes(rate)}/s" for topology, rate in tiers)
    memory = "-" if row["memory_bytes"] is None else format_bytes(row["memory_bytes"])
    table.add_row(name, devices, links or "-", row["compute_model"], memory)


def machine_data(machine: Machine | HeterogeneousMachine) -> Data:
    """Return every value of a machine's file with its unit and source, group by group if it is heterogeneous."""
    if isinstance(machine, HeterogeneousMachine):
        return [row for group in machine.groups for row in _group_data(group)]
    content = machine.content.model_dump(mode="json", by_alias=True)
    device, networks = content["device"], content["interconnect"] or []
    name = device["compute"]["name"]
    device["compute"] = {"name": _named(name, "compute model"), **machine.compute.model_dump(mode="json")}
    for network, tier in zip(networks, machine.tiers, strict=True):
        fields = {
            key: _named(value, "as the file says")
            for key, value in tier.topology.model_dump(mode="json", exclude_none=True).items()
        }
        network["topology"] = {"name": _named(tier.name, "topology"), **fields}
        for together, names in SETS.items():
            if tier.collectives == names:
                network["collectives"]["value"] = together
    content["interconnect"] = networks[0] if len(networks) == 1 else networks
    return [
        {"what": what, "value": value, "unit": _unit(what), "source": source}
        for what, value, source in _sourced(content, "")
    ]


def _group_data(group: DeviceGroup) -> Data:
    """Return the values of one device group, prefixed with its name."""
    outward = {"bandwidth": (group.bytes_per_s, "B/s"), "latency": (group.latency_s, "s")}
    own = [
        {"what": f"outward.{what}", "value": value, "unit": unit, "source": "as the file says"}
        for what, (value, unit) in outward.items()
    ]
    return [{**row, "what": f"{group.name}.{row['what']}"} for row in (*own, *machine_data(group.machine))]


def _named(value: Any, what: str) -> dict[str, Any]:
    return {"value": value, "source": what}


def _sourced(data: Any, where: str) -> Iterator[tuple[str, Any, str]]:
    """Yield the values below a field of the file."""
    if isinstance(data, dict) and data.keys() == {"value", "source"}:
        yield where, data["value"], data["source"]
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _sourced(value, f"{where}.{key}".removeprefix("."))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _sourced(value, f"{where}[{index}]")


_UNITS = {
    "bandwidth": "B/s", "link_bandwidth": "B/s", "total_bandwidth": "B/s", "capacity": "B", "word": "B",
    "frequency": "Hz", "latency": "s", "peak": "FLOP/s", "half_efficiency_flop": "FLOP",
}  # fmt: skip
"""Units of the numbers in hardware files, by the last word of their field."""


def _unit(what: str) -> str:
    """Return the unit of a value; empty if it has none."""
    if what == "device.energy.static":
        return "W"
    if what.startswith("device.energy."):
        return "J"
    if what == "device.buffer":
        return "B"
    return "" if what.startswith("assumptions.") else _UNITS.get(what.rpartition(".")[2], "")


def shown(value: Any, unit: str) -> str:
    """Format a value with its unit."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return ", ".join(value)
    if isinstance(value, bool | str | list) or not unit:
        return f"{value:g}" if isinstance(value, float) else str(value)
    if unit in {"J", "s"}:
        return format_joules(value) if unit == "J" else format_seconds(value)
    text = format_count(value)
    return f"{text}{unit}" if text[-1].isalpha() else f"{text} {unit}"


def machine_table(machine: Machine | HeterogeneousMachine) -> Sheet:
    """Return one row for each value, below its place in the file."""
    table = make_table(["", "value", "source"], "lrl", prose={"source"})
    places: dict[str, Data] = {}
    for row in machine_data(machine):
        places.setdefault(row["what"].rpartition(".")[0], []).append(row)
    for place, rows in places.items():
        table.add_row(Cell(place, over=True), "", "")
        for row in rows:
            name = row["what"].rpartition(".")[2]
            table.add_row(f"  {name}", shown(row["value"], row["unit"]), row["source"])
    return table


def layer_times_data(ran: ScoredStep) -> Data:
    """Return time, energy, accesses, mapping and transfers of each phase of each weighted layer's shard on a device.

    The rows of a heterogeneous machine name the group of the device.
    """
    return [row for row in layers_of(ran) if "time_s" in row]


def whole_times_data(machine: Machine | HeterogeneousMachine, graph: LayerGraph) -> Data:
    """Return the same data for whole layers on one device, of a heterogeneous machine on one of each group."""
    if isinstance(machine, HeterogeneousMachine):
        groups = [({"group": name}, own) for name, own, _ in machine.identical()]
    else:
        groups = [({}, machine)]
    return [
        {**group, **row}
        for group, own in groups
        for layer in graph.contracted.layers
        if own.times(layer.einsum)
        for time in [own.layer_time(layer.einsum, (1,) * len(layer.einsum.counted), graph.element_bytes)]
        for row in phases_of(layer.name, time, own)
    ]


def layer_times_table(ran: ScoredStep) -> Sheet:
    """Return one row for each phase of a layer's shard."""
    return _times_table(layer_times_data(ran))


def whole_times_table(machine: Machine | HeterogeneousMachine, graph: LayerGraph) -> Sheet:
    """Return one row for each phase of a whole layer."""
    return _times_table(whole_times_data(machine, graph))


def _times_table(rows: Data) -> Sheet:
    """Return times, mappings, and the accesses that are nonzero in some row."""
    mapping = list(dict.fromkeys(name for row in rows for name in row["mapping"]))
    places = dict.fromkeys(place for row in rows for place in row["accesses"])
    accesses = [place for place in places if any(row["accesses"].get(place) for row in rows)]
    sends = ["communication"] if "communication_s" in rows[0] else []
    group = ["group"] if "group" in rows[0] else []
    heads = [*group, "layer", "phase", "time", *sends, "MACs", *mapping, *accesses]
    table = make_table(heads, "l" * len(group) + "llr", keys=len(group) + 2)
    for row in rows:
        laid = [f"{row['mapping'][name]:.4g}" if name in row["mapping"] else "-" for name in mapping]
        counts = [format_count(row["accesses"].get(place, 0)) for place in accesses]
        times = [format_seconds(row["time_s"]), *(format_seconds(row["communication_s"]) for _ in sends)]
        named = [row["group"]] if group else []
        table.add_row(*named, row["layer"], row["phase"], *times, format_count(row["macs"]), *laid, *counts)
    return table
