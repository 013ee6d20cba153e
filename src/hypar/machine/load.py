"""Machines of identical devices, read from hardware files."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import (
    HardwareError,
    OptionError,
    UnknownNameError,
    Where,
    shown,
)
from hypar.files.text import read_text
from hypar.files.validation import Faults, validated
from hypar.files.yaml_file import Document, format_yaml, parse_yaml
from hypar.machine.changes import change_at, changed, require_name
from hypar.machine.machine import Machine
from hypar.machine.schema import MOST_HELD, HardwareFile, Network
from hypar.machine.tiers import Tier
from hypar.registry import data_file, load_plugin, plugin_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hypar.files.quantities import Description
    from hypar.machine.compute_models.base import ComputeModel

FIRST = ["direct", "ring"]
"""The algorithms of collectives that machines had before a file could name them."""


def load_machine(
    hardware: str | Path, changes: Mapping[str, Any] | None = None, asked: Mapping[str, Any] | None = None
) -> Machine:
    """Read a hardware file.

    Args:
        hardware: a path, or the bare name of a machine that comes with hypar.
        changes: other values, by the names of ``machine/changes.py``, as written in a file.
        asked: those of them that the machine names as changes; all if not given. A heterogeneous machine's file has others.

    Raises:
        InputError: the file or a change is invalid.
    """
    file = data_file("hardware", str(hardware))
    return machine_of(file, read_text(file), changes, asked)


def machine_of(
    file: Path,
    text: str,
    changes: Mapping[str, Any] | None = None,
    asked: Mapping[str, Any] | None = None,
) -> Machine:
    """Return the machine of a file's text, with other values; an invalid file is refused before its changes."""
    machine = _unchanged(file, text)
    every = changes or {}
    named = every if asked is None else asked
    if not every and not named:
        return machine
    return _with_changes(file, text, _Changes(repr((every, named)), every, named))


@lru_cache(maxsize=32)
def _unchanged(file: Path, text: str) -> Machine:
    """Return the machine of a file's text; equal texts share it, with all times that are cached by it."""
    return machine_in(document_of(file, text))


@lru_cache(maxsize=32)
def document_of(file: Path, text: str) -> Document:
    """Parse the text of a file; equal texts share what they say, which nobody changes."""
    return parse_yaml(text, file)


def machine_in(document: Document) -> Machine:
    """Build a machine from a parsed file."""
    file = document.file
    if not isinstance(document.data, dict):
        raise HardwareError(document.at(()), f"found {shown(document.data)}", "a mapping with a device")
    if has_groups(document):
        found = f"hardware {file.stem!r} is a heterogeneous machine"
        raise HardwareError(document.at(("groups",)), found, "a machine of identical devices")
    return _machine(file.stem, document.data, document.at, {})


@dataclass(frozen=True)
class _Changes:
    """Changes of a file, which are equal if they are written alike.

    Attributes:
        text: all of them as text.
        every: the changes.
        asked: those that the machine names.
    """

    text: str
    every: Mapping[str, Any] = field(compare=False)
    asked: Mapping[str, Any] = field(compare=False)


@lru_cache(maxsize=32)
def _with_changes(file: Path, text: str, given: _Changes) -> Machine:
    """Build a machine from a valid file and other values; equal texts and changes share it, as above."""
    document, changes = document_of(file, text), given.every
    data, places = changed(document.data, changes)

    def place(where: Where) -> str:
        return change_at(where, changes, places) or document.at(where)

    machine = _machine(document.file.stem, data, place, dict(given.asked))
    _require_effect(machine, changes, places)
    return machine


def _require_effect(machine: Machine, changes: Mapping[str, Any], places: Mapping[str, Where]) -> None:
    """Refuse a change of a value from which this machine derives nothing.

    Raises:
        OptionError: a change changes nothing.
    """
    shared = machine.content.assumptions.bandwidth.value == "total"
    idle = "link_bandwidth" if shared else "total_bandwidth"
    for key, place in places.items():
        if place[-1] == idle:
            found = (
                f"changes nothing, as assumption bandwidth is {machine.content.assumptions.bandwidth.value}"
            )
            other = ("total_bandwidth", "bandwidth=link") if shared else ("link_bandwidth", "bandwidth=total")
            allowed = f"{key.replace(idle, other[0])}, or {other[1]} besides"
            raise OptionError(f"change {key}={changes[key]}", found, allowed)
        if place == ("device", "buffer") and not machine.compute.buffered:
            name = machine.content.device.compute["name"]
            found = f"changes nothing, as compute model {name} derives nothing from the buffer"
            raise OptionError(f"change {key}={changes[key]}", found)


def changed_yaml(hardware: str | Path, changes: Mapping[str, Any]) -> str:
    """Return the text of a hardware file with some values changed.

    Raises:
        InputError: the file or a change is invalid.
    """
    file = data_file("hardware", str(hardware))
    text = read_text(file)
    machine_of(file, text, changes)
    return format_yaml(changed(document_of(file, text).data, changes)[0])


def has_groups(document: Document) -> bool:
    """Return whether a hardware file has groups."""
    return isinstance(document.data, dict) and "groups" in document.data


def parse_change(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``, the value as in a hardware file.

    Raises:
        OptionError: the name is unknown, or the value missing.
    """
    name, equals, written = text.partition("=")
    require_name(name if equals else "", text, "NAME=VALUE with one of ")
    return name, parse_yaml(written or "''", Path(f"change {name}")).data


def _machine(
    name: str, data: dict[str, Any], place: Callable[[Where], str], changes: dict[str, Any]
) -> Machine:
    """Validate a file's content, plug-ins and networks included, and build the machine."""
    data, place = _listed(data, place)
    content, compute = _content(data, place)
    tiers = tuple(
        _tier(network, content, index, place) for index, network in enumerate(content.interconnect or ())
    )
    held = math.prod(tier.devices for tier in tiers)
    if held > MOST_HELD:
        raise HardwareError(
            place(("interconnect", len(tiers) - 1, "devices")),
            f"found {held:,} devices in all",
            f"at most {MOST_HELD:,}",
        )
    buffer, word = content.device.buffer, content.device.word.value
    return Machine(
        name=name,
        digest=_digest(content, compute, tiers),
        content=content,
        compute=compute.beside(None if buffer is None else buffer.value / word, _costs(content)),
        tiers=tiers,
        changes=changes,
    )


def _costs(content: HardwareFile) -> tuple[float, float]:
    """Return the energy of a word from the buffer and of one from the array's network; 1 and 0 if none are known."""
    given = content.device.energy
    if given is None or not given.buffer.value:
        return 1.0, 0.0
    return given.buffer.value, 0.0 if given.array is None else given.array.value


def _content(data: dict[str, Any], place: Callable[[Where], str]) -> tuple[HardwareFile, ComputeModel]:
    """Validate a file and its compute model, and name the faults of both."""
    faults = Faults()
    content = compute = None
    with faults:
        content = validated(HardwareFile, data, place=place, error=HardwareError, every=True)
    device = data.get("device")
    fields = device.get("compute") if isinstance(device, dict) else None
    if content is not None or isinstance(fields, dict):
        own = content.device.compute if content is not None else dict(fields or {})
        with faults:
            compute = _plugin("compute_models", own, ("device", "compute"), place)
    if content is None or compute is None:
        raise faults.error()
    given = content.device.model_fields_set
    needing = [part for part in ("energy", "buffer") if part in given]
    if needing and "word" not in given:
        raise HardwareError(
            place(("device",)), "'word' is missing", f"one, as the file gives {' and '.join(needing)}"
        )
    return content, compute


def _listed(data: dict[str, Any], place: Callable[[Where], str]) -> tuple[dict[str, Any], Any]:
    """Return a single network as a list of one, with places still named as in the file."""
    network = data.get("interconnect")
    if isinstance(network, list) or network is None:
        return data, place
    if not isinstance(network, dict):
        raise HardwareError(
            place(("interconnect",)), f"found {shown(network)}", "a mapping with topology, or a list of them"
        )

    def unlisted(where: Where) -> str:
        return place(where[:1] + where[2:] if where[:2] == ("interconnect", 0) else where)

    return {**data, "interconnect": [network]}, unlisted


def _digest(content: HardwareFile, compute: ComputeModel, tiers: Sequence[Tier]) -> str:
    """Return a hash of a machine's values, plug-in defaults included, however the file writes them."""
    named = {"device": {"compute"}, "interconnect": {"__all__": {"topology"}}}
    values: list[Any] = [
        content.model_dump(mode="json", exclude=named),  # type: ignore[arg-type]
        [content.device.compute["name"], compute.model_dump(mode="json")],
        [[tier.name, tier.topology.model_dump(mode="json")] for tier in tiers],
    ]
    # A machine without what was added later keeps the hash that stored plans have of it.
    if values[1][1].get("zeros", {}).get("value") == "kept":
        del values[1][1]["zeros"]
    energy, assumed = values[0]["device"]["energy"] or {}, values[0]["assumptions"]
    for absent in [key for key in ("link", "static") if key in energy and energy[key] is None]:
        del energy[absent]
    for later, default in (("sums", "free"), ("exchange", "serial"), ("unweighted", "free")):
        if assumed[later]["value"] == default:
            del assumed[later]
    for network in values[0]["interconnect"] or ():
        if network["ports"] is None:
            del network["ports"]
        if network["collectives"]["value"] == FIRST:
            del network["collectives"]
    for _, fields in values[2]:
        if fields.get("reduction") == "at_leaves":
            del fields["reduction"]
    text = json.dumps(_without_sources(values), sort_keys=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _plugin(group: str, fields: dict[str, Any], where: Where, place: Callable[[Where], str]) -> Any:
    """Return the plug-in that a mapping names, with its fields."""
    if not isinstance(fields.get("name"), str):
        found = f"found {shown(fields['name'])}" if "name" in fields else "'name' is missing"
        raise HardwareError(place((*where, "name")), found, ", ".join(plugin_names(group)))
    try:
        kind: type[Description] = load_plugin(group, fields["name"])
    except UnknownNameError as error:
        raise UnknownNameError(error.kind, error.name, error.known, place((*where, "name"))) from None
    rest = {key: value for key, value in fields.items() if key != "name"}
    return validated(
        kind,
        rest,
        place=lambda inner: place((*where, *inner)),
        error=HardwareError,
        also_allowed=["name"],
        every=True,
    )


def _tier(network: Network, content: HardwareFile, index: int, place: Callable[[Where], str]) -> Tier:
    """Build one network of a machine."""
    where: Where = ("interconnect", index)
    assumed, inner = content.assumptions, (content.interconnect or [])[index + 1 :]
    topology = _plugin("topologies", network.topology, (*where, "topology"), place)
    devices = network.devices.value
    fault = topology.fault(devices)
    if fault is not None:
        # The place is the change if the devices were changed, else the topology.
        asked = place((*where, "devices"))
        own = asked if asked.startswith("change ") else place((*where, "topology"))
        raise HardwareError(own, f"{network.topology['name']}: {fault}")
    shared = assumed.bandwidth.value == "total"
    key = "total_bandwidth" if shared else "link_bandwidth"
    given = network.total_bandwidth if shared else network.link_bandwidth
    if given is None:
        wanted = f"one, as assumption bandwidth is {assumed.bandwidth.value}"
        raise HardwareError(place(where), f"{key!r} is missing", wanted)
    # Every device inside a group has its own link outward, or shares a port, so that many networks run side by side.
    below = math.prod(other.devices.value for other in inner)
    beside = below if network.ports is None else network.ports.value
    if beside > below:
        found = f"found {beside} ports of a group of {below} devices"
        raise HardwareError(place((*where, "ports")), found, f"at most {below}")
    links = topology.num_links(devices) * beside if shared else 1
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


def _without_sources(data: Any) -> Any:
    """Return plain data without any ``source``: a better citation does not change a machine."""
    if isinstance(data, dict):
        return {key: _without_sources(value) for key, value in data.items() if key != "source"}
    return [_without_sources(item) for item in data] if isinstance(data, list) else data
