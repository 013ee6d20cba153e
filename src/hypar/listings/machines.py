"""Machines: those that come with hypar, one in full, and how layers lie on one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypar.listings.base import Data, make_table
from hypar.ops.base import PHASES
from hypar.units import format_bytes, format_count, format_seconds
from hypar.words import CUTTABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.table import Table

    from hypar.graph import LayerGraph
    from hypar.hardware import Machine

WHOLE_ON_ONE = (1,) * len(CUTTABLE)
"""No dim is divided."""


def machines_data(machines: Iterable[Machine]) -> Data:
    """Size and source of each machine."""
    return [
        {
            "hardware": machine.name,
            "devices": machine.num_devices,
            "topology": [tier.name for tier in machine.tiers],
            "compute_model": machine.content.device.compute["name"],
            "memory_bytes": machine.memory_bytes,
            "link_bytes_per_s": [tier.bytes_per_s for tier in machine.tiers],
            "source": machine.content.source,
        }
        for machine in machines
    ]


def machines_table(machines: Iterable[Machine]) -> Table:
    """One row a machine."""
    table = make_table(["hardware", "devices", "topology", "link", "compute model", "memory"], "lrlrlr")
    for row in machines_data(machines):
        links = ", ".join(f"{format_bytes(rate)}/s" for rate in row["link_bytes_per_s"])
        memory = "-" if row["memory_bytes"] is None else format_bytes(row["memory_bytes"])
        topology = ", ".join(row["topology"]) or "-"
        table.add_row(
            row["hardware"], str(row["devices"]), topology, links or "-", row["compute_model"], memory
        )
    return table


def machine_data(machine: Machine) -> Data:
    """Every number that a machine's file gives, with its source."""
    content = machine.content.model_dump(mode="json", by_alias=True)
    compute = {"compute": machine.compute.model_dump(mode="json")}
    return [
        {"what": what, "value": value, "source": source}
        for what, value, source in _sourced({**content, "device": {**content["device"], **compute}}, "")
    ]


def _sourced(data: Any, where: str) -> Iterator[tuple[str, Any, str]]:
    """The numbers below a place."""
    if isinstance(data, dict) and data.keys() == {"value", "source"}:
        yield where, data["value"], data["source"]
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _sourced(value, f"{where}.{key}".removeprefix("."))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _sourced(value, f"{where}[{index}]")


def machine_table(machine: Machine) -> Table:
    """One row a number, in hypar's own units: bytes, seconds, joules, Hz, FLOP."""
    table = make_table(["what", "value", "source"], "lrl")
    for row in machine_data(machine):
        value = row["value"] if isinstance(row["value"], str) else f"{row['value']:.6g}"
        table.add_row(row["what"], value, row["source"])
    return table


def layer_times_data(machine: Machine, graph: LayerGraph) -> Data:
    """Time, accesses and mapping of each phase of each weighted layer on one device."""
    found: Data = []
    for layer in graph.contracted.layers:
        if layer.join:
            continue
        time = machine.layer_time(layer.einsum, WHOLE_ON_ONE, graph.element_bytes)
        found += [
            {
                "layer": layer.name,
                "phase": phase,
                "seconds": time.seconds[phase],
                "macs": time.macs,
                "accesses": dict(time.work[phase].accesses),
                "mapping": dict(time.work[phase].mapping),
            }
            for phase in PHASES
        ]
    return found


def layer_times_table(machine: Machine, graph: LayerGraph) -> Table:
    """One row a phase of a layer."""
    rows = layer_times_data(machine, graph)
    mapping = list(rows[0]["mapping"])
    accesses = [
        name for name, count in rows[0]["accesses"].items() if any(row["accesses"][name] for row in rows)
    ]
    heads = ["layer", "phase", "time", "MACs", *mapping, *accesses]
    table = make_table(heads, "llr")
    for row in rows:
        laid = [f"{row['mapping'][name]:.4g}" for name in mapping]
        counts = [format_count(row["accesses"][name]) for name in accesses]
        cells = [format_seconds(row["seconds"]), format_count(row["macs"]), *laid, *counts]
        table.add_row(row["layer"], row["phase"], *cells)
    return table
