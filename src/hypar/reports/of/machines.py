"""Documents of machines: all that come with hypar, one in full, and how layers are mapped to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.document import Column, Document, Table
from hypar.machine.collectives.schedules import SETS
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.network.training import PHASES
from hypar.studies.step import phase_of
from hypar.units import format_bytes, format_count, format_seconds

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
_TIMES = (
    Column(key="group"),
    Column(key="layer"),
    Column(key="phase"),
    Column(key="time_s", head="time", unit="seconds"),
    Column(key="communication_s", head="communication", unit="seconds"),
    Column(key="macs", head="MACs", unit="count"),
)


def machines_data(machines: Iterable[Machine | HeterogeneousMachine]) -> Rows:
    """Return the size and the source of each machine; for a heterogeneous one, a list of its groups' entries."""
    return [_entry(machine) for machine in machines]


def _entry(machine: Machine | HeterogeneousMachine) -> dict[str, Any]:
    named = {"hardware": machine.name, "devices": machine.num_devices}
    if isinstance(machine, HeterogeneousMachine):
        groups = [
            {"group": own.name, "outward_bytes_per_s": own.bytes_per_s, "outward_latency_s": own.latency_s}
            | _entry(own.machine)
            for own in machine.groups
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
    rows = []
    for entry in machines_data(machines):
        for name, own in [
            (entry["hardware"], entry),
            *((f"  {one['group']}", one) for one in entry.get("groups", [])),
        ]:
            rows.append({"compute_model": "-", **own, "machine": name, "links": _links(own) or "-"})
    return Document(title="", parts=(Table(_MACHINES, rows),))


def _links(entry: dict[str, Any]) -> str:
    if "groups" in entry:
        return f"{len(entry['groups'])} groups"
    tiers = zip(entry["topology"], entry["link_bytes_per_s"], strict=True)
    return ", ".join(f"{topology} {format_bytes(rate)}/s" for topology, rate in tiers)


def document_of(machine: Machine | HeterogeneousMachine) -> Document:
    """Return every value of a machine's file below its place in the file, with its unit and source."""
    found, rows, above = machine_data(machine), Rows(), ""
    places = [row["what"].rpartition(".")[0] for row in found]
    for place, row in sorted(zip(places, found, strict=True), key=lambda pair: places.index(pair[0])):
        name = row["what"].rpartition(".")[2]
        rows += [{"name": place}] * (place != above)
        rows.append({"name": f"  {name}", "text": value_text(row["value"], row["unit"]), **row})
        above = place
    entry = _entry(machine)
    number, held = machine.num_devices, entry.get("memory_bytes")
    parts = [f"{number} device{'s' * (number > 1)}"]
    if "groups" in entry:
        parts.append(f"groups {', '.join(group['group'] for group in entry['groups'])}")
    else:
        memory = "" if held is None else f" with {format_bytes(held)}"
        parts += [f"{entry['compute_model']}{memory}", _links(entry)]
    title = f"{machine.name}: {', '.join(filter(None, parts))}"
    return Document(title=title, about=entry["source"], parts=(Table(_VALUES, rows),))


def machine_data(machine: Machine | HeterogeneousMachine) -> Rows:
    """Return every value of a machine's file with its unit and source, group by group if it is heterogeneous."""
    if isinstance(machine, HeterogeneousMachine):
        return [row for group in machine.groups for row in _group_data(group)]
    content = machine.content.model_dump(mode="json", by_alias=True)
    device, networks = content["device"], content["interconnect"] or []
    name = _sourced(device["compute"]["name"], "compute model")
    device["compute"] = {"name": name, **machine.compute.model_dump(mode="json")}
    for network, tier in zip(networks, machine.tiers, strict=True):
        fields = tier.topology.model_dump(mode="json", exclude_none=True).items()
        network["topology"] = {
            "name": _sourced(tier.name, "topology"),
            **{key: _sourced(value, "as the file says") for key, value in fields},
        }
        for together, names in SETS.items():
            if tier.collectives == names:
                network["collectives"]["value"] = together
    content["interconnect"] = networks[0] if len(networks) == 1 else networks
    return [
        {"what": what, "value": value, "unit": _unit(what), "source": source}
        for what, value, source in _values(content)
    ]


def _group_data(group: DeviceGroup) -> Rows:
    """Return the values of one device group, prefixed with its name."""
    outward = (("bandwidth", group.bytes_per_s, "B/s"), ("latency", group.latency_s, "s"))
    own = [
        {"what": f"outward.{what}", "value": value, "unit": unit, "source": "as the file says"}
        for what, value, unit in outward
    ]
    return [{**row, "what": f"{group.name}.{row['what']}"} for row in (*own, *machine_data(group.machine))]


def _sourced(value: Any, source: str) -> dict[str, Any]:
    return {"value": value, "source": source}


def _values(data: Any, where: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield the values below a field of the file, with their places and sources."""
    if isinstance(data, dict) and data.keys() == {"value", "source"}:
        yield where, data["value"], data["source"]
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _values(value, f"{where}.{key}".removeprefix("."))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _values(value, f"{where}[{index}]")


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
        return format_seconds(value, unit)
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
    """Return a row for each phase of a layer on a device: its times, its mapping, and the accesses that some phase has."""
    mapping = list(dict.fromkeys(name for row in rows for name in row["mapping"]))
    places = dict.fromkeys(place for row in rows for place in row["accesses"])
    accesses = [place for place in places if any(row["accesses"].get(place) for row in rows)]
    columns = (
        *_TIMES,
        *(Column(key=f"mapping.{name}", head=name, unit="any") for name in mapping),
        *(Column(key=f"accesses.{place}", head=place, unit="count") for place in accesses),
    )
    found = [
        row
        | {f"mapping.{name}": f"{value:.4g}" for name, value in row["mapping"].items()}
        | {f"accesses.{place}": row["accesses"].get(place, 0) for place in accesses}
        for row in rows
    ]
    return Document(title=title, parts=(Table(columns, found),))


plugin = document_of
