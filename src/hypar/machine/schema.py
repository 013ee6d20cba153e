"""Schema of hardware files, and changes of single values, by names that lead to a place in a file.

A name is a field of a network or an assumption, as ``latency`` or ``overlap``; ``word`` or ``buffer``; a part and its field, as
``memory.capacity``, ``energy.static`` and ``compute.peak``; or a network by its number and a field, as ``interconnect.0.latency``,
0 being the outermost. A network's field alone is that of the innermost network. ``outward.latency`` and ``outward.bandwidth``
are of the links between the groups of a heterogeneous machine.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from hypar.errors import OptionError, Where, suggestion
from hypar.files.validation import (
    AsNumber,
    Bytes,
    BytesPerSecond,
    Count,
    Joules,
    Part,
    Record,
    Seconds,
    Sourced,
    Text,
    Watts,
    only,
)
from hypar.files.yaml_file import Document
from hypar.machine.collectives import ALGORITHMS
from hypar.registry import load_plugin, plugin_names

MOST_GROUPS = 8
"""Most groups side by side."""

MOST_NETWORKS = 4
"""Most networks of a machine, one inside the other."""

MOST_HELD = 2**14
"""Most devices of a machine."""


def _named(value: Any) -> Any:
    """Read a name alone as a plug-in without further fields."""
    if not isinstance(value, str | dict):
        raise ValueError("a name, or a mapping with name and fields")  # noqa: TRY004 (pydantic's own protocol)
    return {"name": value} if isinstance(value, str) else value


Plugin = Annotated[dict[str, Any], BeforeValidator(_named)]
"""A plug-in's ``name`` and its fields."""


class Memory(Record):
    """Memory of a device."""

    capacity: Sourced[Bytes]
    bandwidth: Sourced[BytesPerSecond]


class Energy(Record):
    """Energy of one operation, of one access to a word, of a word over one link, and power of a unit at rest.

    What is left out counts as zero.
    """

    multiply: Sourced[Joules]
    add: Sourced[Joules]
    register_access: Annotated[Sourced[Joules] | None, Field(alias="register")] = None
    array: Sourced[Joules] | None = None
    buffer: Sourced[Joules]
    memory: Sourced[Joules]
    link: Sourced[Joules] | None = None
    static: Sourced[Watts] | None = None


class Device(Record):
    """One accelerator; a file with energies or a buffer gives the word that they are for."""

    word: Sourced[Bytes] = Sourced(value=4.0, source="not given: no energies and no buffer depend on it")
    compute: Plugin
    buffer: Sourced[Bytes] | None = None
    memory: Memory | None = None
    energy: Energy | None = None


def _algorithms(names: Any) -> Any:
    """Check the names of algorithms and put them in order; ``all`` stands for all of them."""
    if names == "all":
        return list(ALGORITHMS)
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not texts or not names or len({*names}) < len(names) or not {*names} <= {*ALGORITHMS}:
        raise ValueError(f"all, or a list of some of {', '.join(ALGORITHMS)}, each once")
    return [name for name in ALGORITHMS if name in names]


class Network(Record):
    """Network of devices, or of groups, of which then every device has its own link outward unless they share ``ports``."""

    topology: Plugin
    devices: Sourced[Annotated[int, Field(ge=1, le=MOST_HELD)]]
    link_bandwidth: Sourced[BytesPerSecond] | None = None
    total_bandwidth: Sourced[BytesPerSecond] | None = None
    latency: Sourced[Seconds] = Sourced(value=0.0, source="not given: none is counted")
    ports: Sourced[Count] | None = None
    collectives: Sourced[Annotated[list[str], BeforeValidator(_algorithms)]] = Sourced(
        value=list(ALGORITHMS), source="not given: the fastest for the bytes at hand"
    )


_LISTED = only(
    lambda given: isinstance(given, list), "a mapping with topology, or a list of them", BeforeValidator
)
Networks = Annotated[list[Network], Field(min_length=1, max_length=MOST_NETWORKS), _LISTED]


class Assumptions(Record):
    """Named choices that the publication of a machine leaves open, as ``docs/hardware.md`` describes them."""

    units_per_device: Sourced[Count] = Sourced(value=1, source="one unit a device")
    efficiency: Sourced[Part] = Sourced(value=1.0, source="as the compute model says")
    attention_efficiency: Sourced[Part] | None = None
    duplex: Sourced[Literal["full", "half"]] = Sourced(value="full", source="links of two directions")
    bandwidth: Sourced[Literal["link", "total"]] = Sourced(value="link", source="each link has its own")
    accesses_per_word_moved: Sourced[Annotated[float, AsNumber, Field(ge=0, le=100)]] = Sourced(
        value=2.0, source="read by the sender, written by the receiver"
    )
    sums: Sourced[Literal["free", "counted"]] = Sourced(
        value="free", source="as in HyPar: additions outside the arrays take nothing"
    )
    overlap: Sourced[Literal["none", "full"]] = Sourced(value="none", source="one thing after another")
    exchange: Sourced[Literal["serial", "independent"]] = Sourced(
        value="serial", source="transfers over the same links wait for each other"
    )
    unweighted: Sourced[Literal["free", "counted"]] = Sourced(
        value="counted", source="every op takes the time of its words in memory"
    )
    reserve: Sourced[Bytes] | None = None


class Outward(Record):
    """Link of each device of a group to the groups beside its own."""

    bandwidth: Sourced[BytesPerSecond]
    latency: Sourced[Seconds] = Sourced(value=0.0, source="not given: none is counted")


GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
GROUPS = "a name of letters, digits, ., _ and -, at most 40 of them"
"""The names of groups, as a pattern and in words."""


class GroupEntry(Record):
    """One group of a heterogeneous machine: identical devices by their hardware file, or further groups."""

    name: Annotated[str, only(GROUP.fullmatch, GROUPS)] | None = None
    hardware: Text | None = None
    changes: dict[str, Any] = Field(default={})
    groups: list[GroupEntry] | None = None
    outward: Outward


class HeterogeneousFile(Record):
    """File of a heterogeneous machine: groups of different devices."""

    source: Text
    groups: list[GroupEntry]


class HardwareFile(Record):
    """File of a machine of identical devices."""

    source: Text
    device: Device
    interconnect: Networks | None = None
    assumptions: Assumptions = Assumptions()


# Changes

OUTWARD, _COMPUTE, _INTERCONNECT = "outward", "compute", "interconnect"
_OF_NETWORK = tuple(Network.model_fields)
_WITHOUT: dict[str, tuple[type[Record], str]] = {
    "memory": (Memory, "the machine's file gives no memory"),
    "energy": (Energy, "the machine's file gives no energies"),
    OUTWARD: (Outward, "the machine has no groups side by side"),
}
"""Parts that a machine may lack, with what is said then."""

CHANGEABLE = (
    *_OF_NETWORK,
    *Assumptions.model_fields,
    "word",
    "buffer",
    *(
        f"{part}.{own.alias or name}"
        for part, (model, _) in _WITHOUT.items()
        for name, own in model.model_fields.items()
    ),
)
"""Names of values that may be changed without another file, but for those of ``PATTERNS``."""

PATTERNS = (f"{_COMPUTE}.FIELD", f"{_INTERCONNECT}.NUMBER.FIELD")
"""Names that depend on the machine: a field of its compute model, and a field of one of several networks."""


def change_names() -> tuple[str, ...]:
    """Return all names that a change may have on some machine."""
    fields = (field for name in plugin_names("compute_models") for field in _compute_fields(name))
    computes = dict.fromkeys(f"{_COMPUTE}.{field}" for field in fields)
    numbers = range(MOST_NETWORKS)
    networks = [f"{_INTERCONNECT}.{number}.{field}" for number in numbers for field in _OF_NETWORK]
    return (*CHANGEABLE, *computes, *networks)


def require_name(key: str, change: str, prefix: str = "") -> None:
    """Raise ``OptionError`` for a name that no machine has in a change; what is allowed begins with a prefix."""
    number = re.fullmatch(rf"{_INTERCONNECT}\.\d{{1,9}}\.(\w+)", key)
    if key not in CHANGEABLE and not (number and number[1] in _OF_NETWORK) and key not in change_names():
        where, allowed = f"change {change!r}" if prefix else f"change {change}", (*CHANGEABLE, *PATTERNS)
        raise OptionError(where, "not a change", prefix + ", ".join(allowed), suggestion(key, change_names()))


class Changed:
    """The content of a file with other values, and the places of each change; of a link between groups there are several."""

    def __init__(self, document: Document, changes: Mapping[str, Any]) -> None:
        """Change the content; raises ``OptionError`` if a name is unknown, or the machine has no such value."""
        self.document, self.changes = document, changes
        self.data: dict[str, Any] = copy.deepcopy(document.data)
        self.places: dict[str, list[Where]] = {}
        for key, value in changes.items():
            places = [*self._found(key, value)]
            twin = next((name for name, own in self.places.items() if places and own == places), None)
            if twin is not None:
                raise OptionError(f"change {key}={value}", f"changes the same value as {twin}", "one of them")
            self.places[key] = places
            for where in places:
                owner: Any = self.data
                for part in where[:-1]:
                    owner = owner.setdefault(part, {}) if isinstance(owner, dict) else owner[part]
                sourced = isinstance(value, dict) or key.endswith("topology")
                owner[where[-1]] = value if sourced else {"value": value, "source": "as asked"}

    def at(self, where: Where) -> str:
        """Return where a value stands, as a person writes it: in the file, or in a change."""
        if where[:2] == (_INTERCONNECT, 0) and isinstance(self.document.data[_INTERCONNECT], dict):
            where = where[:1] + where[2:]
        for key, places in self.places.items():
            if any(where[: len(place)] == place for place in places):
                return f"change {key}={self.changes[key]}"
        return self.document.at(where)

    def _found(self, key: str, value: Any) -> Iterator[Where]:
        change = f"change {key}={value.get('value') if isinstance(value, dict) else value}"
        part, _, field = key.rpartition(".")
        if part == _COMPUTE:
            yield self._in_compute(field, change)
            return
        require_name(key, f"{key}={value}")
        if part == OUTWARD and "groups" in self.data:
            yield from _outward(self.data, field)
        elif part.startswith(_INTERCONNECT) or key in _OF_NETWORK:
            yield self._in_network(part, field, change)
        elif part and part not in self.data["device"]:
            raise OptionError(change, _WITHOUT[part][1])
        else:
            yield ("assumptions", key) if key in Assumptions.model_fields else ("device", *key.split("."))

    def _in_network(self, part: str, field: str, change: str) -> Where:
        """Return the place of a network's field; without a number, that of the innermost network."""
        networks = self.data.get(_INTERCONNECT)
        if not networks:
            raise OptionError(change, "the machine is one device without a network")
        count = len(networks) if isinstance(networks, list) else 1
        number = int(part.partition(".")[2] or count - 1)
        if number >= count:
            found = f"the machine has {count} network{'s' * (count > 1)}"
            raise OptionError(change, found, f"the number {', '.join(map(str, range(count)))}")
        return (_INTERCONNECT, number, field) if isinstance(networks, list) else (_INTERCONNECT, field)

    def _in_compute(self, field: str, change: str) -> Where:
        compute = self.data["device"][_COMPUTE] = _named(self.data["device"][_COMPUTE])
        fields = _compute_fields(compute["name"])
        if field not in fields:
            require_name(f"{_COMPUTE}.{field}", change.removeprefix("change "))
            found = f"compute model {compute['name']} has no such field"
            raise OptionError(change, found, ", ".join(fields), suggestion(field, fields))
        return "device", _COMPUTE, field


def _outward(data: Any, field: str) -> Iterator[Where]:
    """Yield the places of a field of the links of all groups, those of groups of groups included."""
    groups = data.get("groups") if isinstance(data, dict) else None
    for number, entry in enumerate(groups if isinstance(groups, list) else ()):
        if isinstance(entry, dict) and isinstance(entry.get(OUTWARD), dict):
            yield "groups", number, OUTWARD, field
        yield from (("groups", number, *where) for where in _outward(entry, field))


def _compute_fields(name: str) -> tuple[str, ...]:
    return tuple(load_plugin("compute_models", name).model_fields)
