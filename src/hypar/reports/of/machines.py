"""Documents of machines: all that come with hypar, one in full, and how layers are mapped to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Table
from hypar.machine.collectives.schedules import SETS
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.network.training import PHASES
from hypar.studies.step import phase_of
from hypar.units import amount, format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hypar.machine.heterogeneous import DeviceGroup
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph

Rows = list[dict[str, Any]]

_MACHINES = (
    Column(key="machine"),
    Column(key="devices", unit="whole"),
    Column(key="links", prose=True),
    Column(key="compute_model", head="compute model"),
    Column(key="memory_bytes", head="memory", unit="bytes"),
    Column(key="source", show=False),
)
_VALUES = (
    Column(key="name", head="", data=False),
    Column(key="what", show=False),
    Column(key="text", head="value", unit="any", data=False),
    Column(key="value", show=False),
    Column(key="unit", show=False),
    Column(key="source", prose=True),
)


def machines_data(machines: Iterable[Machine | HeterogeneousMachine]) -> Rows:
    """Return the size and the source of each machine; for a heterogeneous one, a list of its groups' entries."""
    return [_entry(machine) for machine in machines]


def _entry(machine: Machine | HeterogeneousMachine) -> dict[str, Any]:
    """Return the entry of a machine, of a heterogeneous one with its groups."""
    named = {"hardware": machine.name, "devices": machine.num_devices}
    if isinstance(machine, HeterogeneousMachine):
        groups = [
            {
                "group": group.name,
                "outward_bytes_per_s": group.bytes_per_s,
                "outward_latency_s": group.latency_s,
                **_entry(group.machine),
            }
            for group in machine.groups
        ]
        return {**named, "source": machine.source, "groups": groups}
    return {
        **named,
        "topology": [tier.name for tier in machine.tiers],
        "compute_model": machine.content.device.compute["name"],
        "memory_bytes": machine.memory_bytes,
        "link_bytes_per_s": [tier.bytes_per_s for tier in machine.tiers],
        "source": machine.content.source,
    }


def machines_document(machines: Iterable[Machine | HeterogeneousMachine]) -> Document:
    """Return one row for each machine, and one below it for each group of a heterogeneous machine."""
    rows = [row for entry in machines_data(machines) for row in _machine_rows(entry, "")]
    return Document(title="", parts=(Table(_MACHINES, rows),))


def _machine_rows(entry: dict[str, Any], indent: str) -> Iterator[dict[str, Any]]:
    """Yield the row of a machine and, below it, the rows of its groups."""
    row = entry | {"machine": f"{indent}{entry.get('group', entry['hardware'])}"}
    if "groups" in entry:
        yield row | {"links": f"{len(entry['groups'])} groups", "compute_model": "-"}
        for group in entry["groups"]:
            yield from _machine_rows(group, f"{indent}  ")
    else:
        yield row | {"links": _links(entry) or "-"}


def _links(entry: dict[str, Any]) -> str:
    tiers = zip(entry["topology"], entry["link_bytes_per_s"], strict=True)
    return ", ".join(f"{topology} {format_bytes(rate)}/s" for topology, rate in tiers)


def document_of(machine: Machine | HeterogeneousMachine) -> Document:
    """Return every value of a machine's file below its place in the file, with its unit and source."""
    places: dict[str, Rows] = {}
    for row in machine_data(machine):
        places.setdefault(row["what"].rpartition(".")[0], []).append(row)
    rows = []
    for place, own in places.items():
        rows.append({"name": place})
        for row in own:
            name = f"  {row['what'].rpartition('.')[2]}"
            rows.append({"name": name, "text": value_text(row["value"], row["unit"]), **row})
    entry = _entry(machine)
    parts = [f"{machine.num_devices} devices" if machine.num_devices > 1 else "1 device"]
    if "groups" in entry:
        parts.append(f"groups {', '.join(group['group'] for group in entry['groups'])}")
    else:
        held = entry["memory_bytes"]
        parts += [
            f"{entry['compute_model']}{'' if held is None else f' with {format_bytes(held)}'}",
            _links(entry),
        ]
    title = f"{machine.name}: {', '.join(filter(None, parts))}"
    return Document(title=title, about=entry["source"], parts=(Table(_VALUES, rows),))


def machine_data(machine: Machine | HeterogeneousMachine) -> Rows:
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


def _group_data(group: DeviceGroup) -> Rows:
    """Return the values of one device group, prefixed with its name."""
    outward = (("bandwidth", group.bytes_per_s, "B/s"), ("latency", group.latency_s, "s"))
    own = [
        {"what": f"outward.{what}", "value": value, "unit": unit, "source": "as the file says"}
        for what, value, unit in outward
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
    "device.energy.static": "W", "device.buffer": "B", "bandwidth": "B/s", "link_bandwidth": "B/s", "total_bandwidth": "B/s",
    "capacity": "B", "word": "B", "frequency": "Hz", "latency": "s", "peak": "FLOP/s", "half_efficiency_flop": "FLOP",
}  # fmt: skip
"""Units of the numbers in hardware files, by their place or the last word of it."""


def _unit(what: str) -> str:
    """Return the unit of a value; empty if it has none."""
    if what.startswith("assumptions."):
        return ""
    energy = "J" if what.startswith("device.energy.") else ""
    return _UNITS.get(what) or energy or _UNITS.get(what.rpartition(".")[2], "")


def value_text(value: Any, unit: str) -> str:
    """Format a value with its unit."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return ", ".join(value)
    if isinstance(value, bool | str | list) or not unit:
        return f"{value:g}" if isinstance(value, float) else str(value)
    if unit in {"J", "s"}:
        return amount(value, "joules" if unit == "J" else "seconds")
    text = format_count(value)
    return f"{text}{unit}" if text[-1].isalpha() else f"{text} {unit}"


def whole_times_data(machine: Machine | HeterogeneousMachine, graph: LayerGraph) -> Rows:
    """Return time, energy, accesses and mapping of each phase of whole layers on one device, of each group if there are any."""
    if isinstance(machine, HeterogeneousMachine):
        groups = [({"group": name}, own) for name, own, _ in machine.identical()]
    else:
        groups = [({}, machine)]
    return [
        {**group, "layer": layer.name, "phase": phase, **phase_of(phase, time, own)}
        for group, own in groups
        for layer in graph.contracted.layers
        if own.times(layer.einsum)
        for time in [own.layer_time(layer.einsum, (1,) * len(layer.einsum.counted), graph.element_bytes)]
        for phase in PHASES
    ]


def times_document(rows: Sequence[dict[str, Any]], title: str) -> Document:
    """Return a row for each phase of a layer on a device: its times, its mapping, and the accesses that some phase has.

    Args:
        rows: the rows of ``score_layers``, or those of whole layers.
        title: what they are of.
    """
    mapping = list(dict.fromkeys(name for row in rows for name in row["mapping"]))
    places = dict.fromkeys(place for row in rows for place in row["accesses"])
    accesses = [place for place in places if any(row["accesses"].get(place) for row in rows)]
    columns = (
        Column(key="group"),
        Column(key="layer"),
        Column(key="phase"),
        Column(key="time_s", head="time", unit="seconds"),
        Column(key="communication_s", head="communication", unit="seconds"),
        Column(key="macs", head="MACs", unit="count"),
        *(Column(key=f"mapping.{name}", head=name, unit="any") for name in mapping),
        *(Column(key=f"accesses.{place}", head=place, unit="count") for place in accesses),
    )
    found = [
        row
        | {f"mapping.{name}": f"{row['mapping'][name]:.4g}" for name in mapping if name in row["mapping"]}
        | {f"accesses.{place}": row["accesses"].get(place, 0) for place in accesses}
        for row in rows
    ]
    return Document(title=title, parts=(Table(columns, found),))


plugin = document_of
