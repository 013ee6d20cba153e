"""From a hardware file to a machine."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.documents import parse_yaml, read_yaml
from hypar.errors import HardwareError, OptionError, UnknownNameError
from hypar.hardware.machine import Machine, Tier
from hypar.hardware.schema import Assumptions, HardwareFile, Network
from hypar.quoting import Where, shown
from hypar.registry import data_file, load_plugin
from hypar.validation import validated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypar.quantities import Description

_OF_NETWORK = ("topology", "devices", "link_bandwidth", "total_bandwidth", "latency")
CHANGEABLE = (*_OF_NETWORK, *Assumptions.model_fields)
"""What may be changed of a machine without another file: of several networks, in the innermost."""


def load_machine(hardware: str | Path, changes: Mapping[str, Any] | None = None) -> Machine:
    """Read a hardware file.

    Args:
        hardware: a path, or the bare name of a machine that comes with hypar.
        changes: other values for some of ``CHANGEABLE``, as the file would write them.

    Raises:
        InputError: the file or a change is wrong.
    """
    file = data_file("hardware", str(hardware))
    document = read_yaml(file)
    if not isinstance(document.data, dict):
        raise HardwareError(document.at(()), f"found {shown(document.data)}", "a mapping with a device")
    if not changes:
        return _machine(file.stem, document.data, document.at, {})
    _machine(file.stem, document.data, document.at, {})
    data = copy.deepcopy(document.data)
    for key, value in changes.items():
        _change(data, key, value)

    def place(where: Where) -> str:
        key = next((str(part) for part in reversed(where) if part in CHANGEABLE), "")
        return f"change {key}={changes.get(key)}" if key in changes else document.at(where)

    return _machine(file.stem, data, place, dict(changes))


def parse_change(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``, the value as a hardware file would have it.

    Raises:
        OptionError: no such name, or no value.
    """
    name, equals, written = text.partition("=")
    if not equals or name not in CHANGEABLE:
        raise OptionError(
            f"change {text!r}", "not a change", f"NAME=VALUE with one of {', '.join(CHANGEABLE)}"
        )
    return name, parse_yaml(written or "''", Path(f"change {name}")).data


def _change(data: dict[str, Any], key: str, value: Any) -> None:
    """Put another value into a file's content."""
    if key not in CHANGEABLE:
        raise OptionError(f"change {key}={value}", "not a change", ", ".join(CHANGEABLE))
    if key not in _OF_NETWORK:
        data.setdefault("assumptions", {})[key] = {"value": value, "source": "as asked"}
        return
    networks = data.get("interconnect")
    if not networks:
        raise OptionError(f"change {key}={value}", "the machine is one device without a network")
    network = networks[-1] if isinstance(networks, list) else networks
    network[key] = value if key == "topology" else {"value": value, "source": "as asked"}


def _machine(
    name: str, data: dict[str, Any], place: Callable[[Where], str], changes: dict[str, Any]
) -> Machine:
    """Judge a file's content, plug-ins and networks included."""
    content = validated(HardwareFile, data, place=place, error=HardwareError)
    compute = _plugin("compute_models", content.device.compute, ("device", "compute"), place)
    several = isinstance(data.get("interconnect"), list)
    tiers = tuple(
        _tier(network, content.assumptions, ("interconnect", *((index,) if several else ())), place)
        for index, network in enumerate(content.interconnect or ())
    )
    values = [content.model_dump(mode="json", exclude_defaults=False), changes]
    digest = hashlib.sha256(json.dumps(_without_sources(values), sort_keys=True).encode()).hexdigest()
    return Machine(
        name=name, digest=f"sha256:{digest}", content=content, compute=compute, tiers=tiers, changes=changes
    )


def _plugin(group: str, fields: dict[str, Any], where: Where, place: Callable[[Where], str]) -> Any:
    """The plug-in that a mapping names, with its fields."""
    if not isinstance(fields.get("name"), str):
        raise HardwareError(place(where), "'name' is missing" if "name" not in fields else "a name is a text")
    try:
        kind: type[Description] = load_plugin(group, fields["name"])
    except UnknownNameError as error:
        raise UnknownNameError(error.kind, error.name, error.known, place((*where, "name"))) from None
    rest = {key: value for key, value in fields.items() if key != "name"}
    return validated(
        kind, rest, place=lambda inner: place((*where, *inner)), error=HardwareError, also_allowed=["name"]
    )


def _tier(network: Network, assumed: Assumptions, where: Where, place: Callable[[Where], str]) -> Tier:
    """One network of a machine."""
    topology = _plugin("topologies", network.topology, (*where, "topology"), place)
    devices = network.devices.value
    fault = topology.fault(devices)
    if fault is not None:
        raise HardwareError(place((*where, "topology")), f"{network.topology['name']}: {fault}")
    shared = assumed.bandwidth.value == "total"
    key = "total_bandwidth" if shared else "link_bandwidth"
    given = network.total_bandwidth if shared else network.link_bandwidth
    if given is None:
        wanted = f"one, as assumption bandwidth is {assumed.bandwidth.value}"
        raise HardwareError(place(where), f"{key!r} is missing", wanted)
    links = topology.num_links(devices) if shared else 1
    return Tier(
        name=network.topology["name"],
        topology=topology,
        devices=devices,
        bytes_per_s=given.value / max(1, links),
        latency_s=network.latency.value if network.latency else 0.0,
        duplex=assumed.duplex.value == "full",
    )


def _without_sources(data: Any) -> Any:
    """Plain data less every ``source``: a better citation does not change a machine."""
    if isinstance(data, dict):
        return {key: _without_sources(value) for key, value in data.items() if key != "source"}
    return [_without_sources(item) for item in data] if isinstance(data, list) else data
