"""Machines read from hardware files: of identical devices, or of groups of different ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from hypar.errors import HardwareError, InputError, OptionError, UnknownNameError, Where, shown
from hypar.files.text import read_text
from hypar.files.validation import Faults, Record, together, validated
from hypar.files.yaml_file import Document, format_yaml, parse_yaml
from hypar.machine import schema
from hypar.machine.compute_models.base import ComputeModel
from hypar.machine.links import Tier
from hypar.machine.machine import DeviceGroup, Heterogeneous, Machine
from hypar.registry import data_file, load_plugin, plugin_names
from hypar.sharding.tree import WHOLE_ARRAY


def load_machine(hardware: Machine | str | Path, changes: Mapping[str, Any] | None = None) -> Machine:
    """Read a hardware file, of identical devices or of groups of different ones.

    Args:
        hardware: a path, or the bare name of a machine that comes with hypar; a loaded machine is returned as it is.
        changes: other values, by the names of ``machine/schema.py``, as written in a file; of every group, if it has groups.

    Raises:
        InputError: the file or a change is invalid, a loaded machine is to be changed, or it is no machine.
    """
    if isinstance(hardware, str | Path):
        file = data_file("hardware", str(hardware))
        return machine_of(file, read_text(file), changes)
    if not isinstance(hardware, Machine):
        raise OptionError("hardware", f"found {shown(hardware)}", "a machine, or the name or file of one")
    if changes:
        found = f"found a loaded machine, to be changed in {next(iter(changes))}"
        raise OptionError("hardware", found, "its name or file")
    return hardware


def machine_of(file: Path, text: str, changes: Mapping[str, Any] | None = None) -> Machine:
    """Return the machine of a file's text, with other values; an invalid file is refused before its changes."""
    document, changes = _document(file, text), dict(changes or {})
    if "groups" in document.data:
        return _Groups(document, changes).machine()
    return _identical(file, text, _Changes(changes))


def hardware_yaml(hardware: str | Path, changes: Mapping[str, Any]) -> str:
    """Return the text of a hardware file to start from: the file itself, or with some values changed.

    Raises:
        InputError: the file or a change is invalid, or a heterogeneous machine is to be changed.
    """
    file = data_file("hardware", str(hardware))
    text = read_text(file)
    machine_of(file, text, changes)
    document = _document(file, text)
    if not changes:
        return text
    _require_identical(document)
    return format_yaml(schema.Changed(document, changes).data)


def parse_change(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``, the value as in a hardware file.

    Raises:
        OptionError: the name is unknown, or the value missing.
    """
    name, equals, written = text.partition("=")
    schema.require_name(name if equals else "", text, "NAME=VALUE with one of ")
    return name, parse_yaml(written or "''", Path(f"change {name}")).data


@lru_cache(maxsize=32)
def _document(file: Path, text: str) -> Document:
    """Parse the text of a file; equal texts share what they say, which nobody changes."""
    document = parse_yaml(text, file)
    if not isinstance(document.data, dict):
        raise HardwareError(document.at(()), f"found {shown(document.data)}", "a mapping with a device")
    return document


def _require_identical(document: Document) -> None:
    if "groups" in document.data:
        found = f"hardware {document.file.stem!r} is a heterogeneous machine"
        raise HardwareError(document.at(("groups",)), found, "a machine of identical devices")


class _Changes(dict[str, Any]):
    """Changes of a file, which are equal if they are written alike."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(repr(self))

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)


@lru_cache(maxsize=64)
def _identical(file: Path, text: str, changes: _Changes) -> Machine:
    """Build a machine of identical devices; equal texts and changes share it, with all times that are cached by it."""
    document = _document(file, text)
    _require_identical(document)
    if changes:
        _identical(file, text, _Changes())
    given = schema.Changed(document, changes)
    networks, place = given.data.get("interconnect"), given.at
    data = {**given.data, "interconnect": [networks]} if isinstance(networks, dict) else given.data
    content, compute = _content(data, place)
    number = len(content.interconnect or ())
    tiers = tuple(_tier(content, index, place) for index in range(number))
    devices = math.prod(tier.devices for tier in tiers)
    _require_number(devices, place(("interconnect", number - 1, "devices")))
    machine = Machine(
        name=file.stem,
        source=content.source,
        changes=dict(changes),
        content=content,
        compute=compute.beside(content.device),
        tiers=tiers,
    )
    _require_effect(machine, given)
    return machine


def _require_effect(machine: Machine, content: schema.Changed) -> None:
    """Refuse a change of a value from which this machine derives nothing."""
    kind, name = machine.content.assumptions.bandwidth.value, machine.content.device.compute["name"]
    idle = "link" if kind == "total" else "total"
    for key, (place,) in content.places.items():
        where, allowed = f"change {key}={content.changes[key]}", ""
        if place[-1] == f"{idle}_bandwidth":
            why = f"assumption bandwidth is {kind}"
            allowed = f"{key.replace(idle, kind)}, or bandwidth={idle} besides"
        elif place == ("device", "buffer") and type(machine.compute).beside is ComputeModel.beside:
            why = f"compute model {name} derives nothing from the buffer"
        else:
            continue
        raise OptionError(where, f"changes nothing, as {why}", allowed)


def _content(data: dict[str, Any], place: Callable[[Where], str]) -> tuple[schema.HardwareFile, ComputeModel]:
    """Validate a file and its compute model, and name the faults of both."""
    faults = Faults()
    content = compute = None
    with faults:
        content = validated(schema.HardwareFile, data, place=place, error=HardwareError, every=True)
    device = data.get("device")
    fields = device.get("compute") if isinstance(device, dict) else None
    if content is not None:
        fields = content.device.compute
    if isinstance(fields, dict):
        with faults:
            compute = _plugin("compute_models", fields, ("device", "compute"), place)
    if content is None or compute is None:
        raise together(faults)
    given = content.device.model_fields_set
    needing = [part for part in ("energy", "buffer") if part in given]
    if needing and "word" not in given:
        allowed = f"one, as the file gives {' and '.join(needing)}"
        raise HardwareError(place(("device",)), "'word' is missing", allowed)
    return content, compute


def _plugin(group: str, fields: dict[str, Any], where: Where, place: Callable[[Where], str]) -> Any:
    if not isinstance(fields.get("name"), str):
        found = f"found {shown(fields['name'])}" if "name" in fields else "'name' is missing"
        raise HardwareError(place((*where, "name")), found, ", ".join(plugin_names(group)))
    try:
        kind: type[Record] = load_plugin(group, fields["name"])
    except UnknownNameError as error:
        raise UnknownNameError(error.kind, error.name, error.known, place((*where, "name"))) from None
    rest = {key: value for key, value in fields.items() if key != "name"}
    how: dict[str, Any] = {"error": HardwareError, "also_allowed": ["name"], "every": True}
    return validated(kind, rest, place=lambda at: place((*where, *at)), **how)


def _tier(content: schema.HardwareFile, index: int, place: Callable[[Where], str]) -> Tier:
    where: Where = ("interconnect", index)
    assumed, (network, *inner) = content.assumptions, (content.interconnect or [])[index:]
    topology = _plugin("topologies", network.topology, (*where, "topology"), place)
    devices = network.devices.value
    fault = topology.fault(devices)
    if fault is not None:
        # The place is the change if the devices were changed, else the topology.
        asked = place((*where, "devices"))
        own = asked if asked.startswith("change ") else place((*where, "topology"))
        raise HardwareError(own, f"{network.topology['name']}: {fault}")
    kind = assumed.bandwidth.value
    given = network.total_bandwidth if kind == "total" else network.link_bandwidth
    if given is None:
        wanted = f"one, as assumption bandwidth is {kind}"
        raise HardwareError(place(where), f"'{kind}_bandwidth' is missing", wanted)
    # Every device inside a group has its own link outward, or shares a port, so that many networks run side by side.
    below = math.prod(other.devices.value for other in inner)
    beside = below if network.ports is None else network.ports.value
    if beside > below:
        found = f"found {beside} ports of a group of {below} devices"
        raise HardwareError(place((*where, "ports")), found, f"at most {below}")
    links = topology.num_links(devices) * beside if kind == "total" else 1
    return Tier(
        name=network.topology["name"],
        topology=topology,
        devices=devices,
        bytes_per_s=given.value / max(1, links),
        latency_s=network.latency.value,
        duplex=assumed.duplex.value == "full",
        ports=None if network.ports is None else beside,
        collectives=tuple(network.collectives.value),
    )


class _Groups:
    """Reader of a file of groups, which refuses repeated names."""

    def __init__(self, document: Document, changes: dict[str, Any]) -> None:
        self.changes, self.names = changes, {WHOLE_ARRAY}
        outward = {key: value for key, value in changes.items() if key.startswith(f"{schema.OUTWARD}.")}
        self.inside = {key: value for key, value in changes.items() if key not in outward}
        self.content = schema.Changed(document, outward)

    def machine(self) -> Machine:
        given, place = self.content.data, self.content.at
        content = validated(schema.HeterogeneousFile, given, place=place, error=HardwareError, every=True)
        name = self.content.document.file.stem
        machine = self.side_by_side(name, content.source, content.groups, ("groups",))
        _require_number(machine.num_devices, place(("groups",)))
        return machine

    def side_by_side(
        self, name: str, source: str, entries: Sequence[schema.GroupEntry], where: Where
    ) -> Machine:
        if not 2 <= len(entries) <= schema.MOST_GROUPS:
            found = f"found {len(entries)} groups"
            raise HardwareError(self.content.at(where), found, f"2 to {schema.MOST_GROUPS}")
        groups = tuple(self.group(entry, source, (*where, index)) for index, entry in enumerate(entries))
        return Heterogeneous(name=name, source=source, changes=self.changes, groups=groups)

    def group(self, entry: schema.GroupEntry, source: str, where: Where) -> DeviceGroup:
        groups = entry.groups is not None
        faults = (
            (groups and entry.hardware is not None, "both 'hardware' and 'groups'", "one of them"),
            (not groups and entry.hardware is None, "neither 'hardware' nor 'groups'", "one of them"),
            (groups and entry.changes, "changes of groups", "changes where 'hardware' is named"),
            (groups and entry.name is None, "groups without a name", "a name"),
        )
        for faulty, found, allowed in faults:
            if faulty:
                raise HardwareError(self.content.at(where), f"found {found}", allowed)
        name = self.name(entry, where)
        if entry.groups is None:
            machine = self.identical(entry, where)
        else:
            machine = self.side_by_side(name, source, entry.groups, (*where, "groups"))
        used, own = machine.num_devices, entry.outward
        link = {"bytes_per_s": own.bandwidth.value, "latency_s": own.latency.value}
        return DeviceGroup(name=name, machine=machine, num_devices=used, **link)

    def name(self, entry: schema.GroupEntry, where: Where) -> str:
        """Return the name of a group, by default that of its hardware file."""
        name = entry.name or Path(str(entry.hardware)).stem
        found, allowed = f"found a second group {shown(name)}", "each group a name of its own"
        fits = schema.GROUP.fullmatch(name)
        if not fits:
            found, allowed = f"found a group named {shown(name)} as its hardware file", schema.GROUPS
            allowed += ": give it another"
        if not fits or name in self.names:
            end = "; all is the whole" * (name == WHOLE_ARRAY)
            raise HardwareError(self.content.at(where), found, allowed + end)
        self.names.add(name)
        return name

    def identical(self, entry: schema.GroupEntry, where: Where) -> Machine:
        named = str(entry.hardware)
        own = self.content.document.file.parent / named if named.endswith((".yaml", ".yml")) else named
        try:
            file = data_file("hardware", str(own))
            return _identical(file, read_text(file), _Changes(entry.changes | self.inside))
        except UnknownNameError as error:
            if error.where or error.name != named:
                raise
            place = self.content.at((*where, "hardware"))
            raise UnknownNameError(error.kind, error.name, error.known, place) from None
        except InputError as error:
            key = next((key for key in entry.changes if error.where.startswith(f"change {key}=")), None)
            if key is None or key in self.changes:
                raise
            at = self.content.at((*where, "changes", key))
            raise HardwareError(at, error.found, error.allowed, error.hint) from None


def _require_number(devices: int, where: str) -> None:
    if devices > schema.MOST_HELD:
        raise HardwareError(where, f"found {devices:,} devices in all", f"at most {schema.MOST_HELD:,}")
