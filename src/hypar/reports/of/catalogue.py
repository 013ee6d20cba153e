"""Documents of lists: machines with every value, models, strategies, measured times, and problems written for another tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import singledispatch
from operator import attrgetter
from typing import Any

from hypar.document import Column, Document, Note, Table
from hypar.errors import few
from hypar.machine.machine import Machine, machine_numbers, machine_summary
from hypar.machine.profiles import Profile
from hypar.network.graph import LayerGraph
from hypar.ops.windows import describe
from hypar.planning.resolved import follows
from hypar.planning.strategies.base import Strategy
from hypar.reports.words import grouped
from hypar.sharding.conventions import DIRECT
from hypar.studies.pieces import Exported
from hypar.units import format_bytes, format_count, format_seconds

_Own = tuple[Column, Callable[[Any], Any]]

Rows = list[dict[str, Any]]


_MACHINES = (
    Column("machine"), Column("devices", unit="whole"), Column("links", prose=True),
    Column("compute_model", "compute model"), Column("memory_bytes", "memory", "bytes"),
)  # fmt: skip
_VALUES = (
    Column("what", ""), Column("text", "value", "any", data=False),
    *(Column(key, show=False) for key in ("value", "unit")), Column("source", prose=True),
)  # fmt: skip
_PHASES = (
    *(Column(key) for key in ("group", "layer", "phase")),
    Column("time_s", "time", "seconds"), Column("communication_s", "communication", "seconds"), Column("macs", "MACs", "count"),
)  # fmt: skip
_STRATEGIES = (
    Column("strategy"), Column("space", prose=True), Column("cost"), Column("counts", "counts by"),
    Column("search"), Column("summary", prose=True),
)  # fmt: skip


def _own(key: str, of: Callable[[Any], Any] | None = None, **more: Any) -> _Own:
    """Return a column with the function that returns its value: by default the attribute of the key's name."""
    return Column(key, **more), attrgetter(key) if of is None else of


_MODELS = (
    _own("model", attrgetter("name")),
    _own("weighted_layers", attrgetter("num_weighted"), head="weighted layers", unit="whole"),
    _own("parameters", attrgetter("num_parameters"), unit="count"),
    _own("macs_per_sample", lambda graph: graph.macs(), head="MACs per sample", unit="count"),
    _own("flop_per_sample", lambda graph: graph.flop(), show=False),
    _own("batch", unit="whole"), _own("dtype", show=False), _own("source", show=False),
)  # fmt: skip
_LAYERS = (
    _own("layer", attrgetter("name")), _own("op", attrgetter("op_name")),
    _own("inputs", lambda layer: [*layer.inputs], show=False),
    _own("shape", lambda layer: dict(layer.shape), show=False),
    _own("output", lambda layer: describe(layer.shape).split()[0], head="output of a sample", data=False),
    _own("parameters", attrgetter("num_parameters"), unit="count"),
    _own("macs", lambda layer: layer.macs(), head="MACs", unit="count"),
    _own("flop", lambda layer: layer.flop(), head="FLOP", unit="count"),
)  # fmt: skip
_TIMES = (
    _own("layer", lambda own: own[0]), _own("choices", lambda own: len(own[1]), unit="whole"),
    _own("fastest", lambda own: min(own[1], key=own[1].get)),
    _own("fastest_s", lambda own: min(own[1].values()), head="", unit="seconds"),
    _own("slowest", lambda own: max(own[1], key=own[1].get)),
    _own("slowest_s", lambda own: max(own[1].values()), head="", unit="seconds"),
    _own("one_device_s", lambda own: own[2], head="one device", unit="seconds"),
)  # fmt: skip
_PROBLEM = (
    _own("layer", lambda own: own[0].layer, show=False),
    _own("phase", lambda own: own[0].phase, show=False),
    _own("piece", lambda own: own[0].number, show=False),
)
_WRITTEN = (
    _own("name", lambda own: own[1].name),
    *_PROBLEM,
    _own("devices", lambda own: own[0].devices, unit="whole"),
    _own("times", lambda own: own[1].times, unit="whole"),
    _own("macs", lambda own: own[0].macs // own[1].times, head="MACs each", unit="whole"),
)
_REFUSED = (*_PROBLEM, _own("reason", lambda own: own[1]))


def _table(columns: Sequence[_Own], found: Iterable[Any]) -> Table:
    rows = [{column.key: value_of(one) for column, value_of in columns} for one in found]
    return Table(tuple(column for column, _ in columns), rows)


def models_document(graphs: Iterable[LayerGraph]) -> Document:
    """Return the size and the source of each model."""
    return Document(title="", parts=(_table(_MODELS, graphs),))


def strategies_data(named: Mapping[str, Strategy]) -> Rows:
    """Return the components of each strategy."""
    keys = {"heterogeneous_cost": "fork_cost"}  # which programs read under its former name
    parts = {name: strategy._asdict().items() for name, strategy in named.items()}
    return [{"strategy": name, **{keys.get(key, key): own for key, own in of}} for name, of in parts.items()]


def strategies_document(data: Rows) -> Document:
    """Return a row for each strategy, of its data."""
    rows = [{**row, "counts": row["convention"] if follows(row["cost"]) else DIRECT} for row in data]
    return Document(title="", parts=(Table(_STRATEGIES, rows),))


@singledispatch
def document_of(graph: Any) -> Document:
    """Return the shape and the work of each layer of a model, for one sample; or the rows of another result that is a list."""
    sizes = f"{format_count(graph.num_parameters)} parameters, {format_count(graph.macs())} MACs a sample"
    title = f"{graph.name}: {graph.num_weighted} layers with weights, {sizes}"
    about = f"batch {graph.batch}, {graph.dtype}; {graph.source}"
    return Document(title=title, about=about, parts=(_table(_LAYERS, graph.layers),))


@document_of.register(Profile)
def _of_profile(profile: Profile) -> Document:
    rows = [(layer, times, profile.of(layer, {})) for layer, times in profile.seconds.items()]
    asked = f"batch {profile.model.batch}, one level of {profile.ways} ways, on {profile.device}"
    return Document(title=f"{profile.model.name}, {asked}", parts=(_table(_TIMES, rows),))


@document_of.register(Exported)
def _of_export(found: Exported) -> Document:
    times = "how often each device computes it: for samples and groups that the format cannot express"
    notes = (Note("times", times), *(Note("left out", line) for line in left_out(found)))
    return Document(title="", parts=(_table(_WRITTEN, found.entries),), notes=notes)


def left_out(found: Exported) -> list[str]:
    """Return a line for each reason why problems were not written."""
    reasons = grouped((reason, problem.name) for problem, reason in found.refused)
    return [f"{few(own)}: {reason}" for reason, own in reasons.items()]


def export_data(found: Exported) -> dict[str, Rows]:
    """Return the problems that were written, and those that were not, each with the reason."""
    tables = {"written": _table(_WRITTEN, found.entries), "refused": _table(_REFUSED, found.refused)}
    return {name: table.records() for name, table in tables.items()}


def machines_document(entries: Rows) -> Document:
    """Return a row for each machine's entry, and below it for each group of a heterogeneous machine."""
    each = ((entry["hardware"], own) for entry in entries for own in (entry, *entry.get("groups", [])))
    named = ((f"{name} {own.get('group', '')}".rstrip(), own) for name, own in each)
    rows = [{**own, "machine": name, "links": _links(own)} for name, own in named]
    return Document(title="", parts=(Table(_MACHINES, rows),))


def _links(entry: dict[str, Any]) -> str:
    if "groups" in entry:
        return f"groups {', '.join(group['group'] for group in entry['groups'])}"
    tiers = zip(entry["topology"], entry["link_bytes_per_s"], strict=True)
    return ", ".join(f"{topology} {format_bytes(rate)}/s" for topology, rate in tiers)


@document_of.register(Machine)
def _of_machine(machine: Machine) -> Document:
    entry, number = machine_summary(machine), machine.num_devices
    parts = [f"{number} device{'s' * (number > 1)}", entry.get("compute_model", ""), _links(entry)]
    rows = [{**row, "text": _text(row["value"], row["unit"])} for row in machine_numbers(machine)]
    title = f"{machine.name}: {', '.join(filter(None, parts))}"
    return Document(title=title, about=entry["source"], parts=(Table(_VALUES, rows),))


def _text(value: Any, unit: str) -> str:
    if unit in {"J", "s"}:
        return format_seconds(value, unit)
    if unit:
        return format_bytes(value).removesuffix("B") + unit
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def times_document(rows: Rows, title: str) -> Document:
    """Return a row for each phase of a layer on a device: its times, its mapping, and the accesses that some phase has."""
    mapping = dict.fromkeys(Column(name, unit="any") for row in rows for name in row["mapping"])
    accesses = dict.fromkeys(Column(place, unit="count") for row in rows for place in row["accesses"])
    mapped = [{name: f"{value:.4g}" for name, value in row["mapping"].items()} for row in rows]
    found = [own | row["accesses"] | row for own, row in zip(mapped, rows, strict=True)]
    return Document(title=title, parts=(Table((*_PHASES, *mapping, *accesses), found),))


plugin = document_of
