"""Changes of single values of a machine, by names that lead to a place in its file.

A name is a field of a network or an assumption, as ``latency`` or ``overlap``; ``word`` or ``buffer``; a part and its field, as
``memory.capacity``, ``energy.static`` and ``compute.peak``; or a network by its number and a field, as ``interconnect.0.latency``,
0 being the outermost. A network's field alone is that of the innermost network. ``outward.latency`` and ``outward.bandwidth``
are of the links between the groups of a heterogeneous machine.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from hypar.errors import OptionError, Where, suggestion
from hypar.machine.schema import MOST_NETWORKS, Assumptions, Energy, Memory, Network, Outward
from hypar.registry import load_plugin, plugin_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.files.yaml_file import Document

OUTWARD = "outward"
_OF_NETWORK = tuple(Network.model_fields)
_PARTS = {
    part: tuple(field.alias or name for name, field in model.model_fields.items())
    for part, model in (("memory", Memory), ("energy", Energy), (OUTWARD, Outward))
}
_WITHOUT = {
    "memory": "the machine's file gives no memory",
    "energy": "the machine's file gives no energies",
    OUTWARD: "the machine has no groups side by side",
}
_COMPUTE, _INTERCONNECT = "compute", "interconnect"

CHANGEABLE = (
    *_OF_NETWORK,
    *Assumptions.model_fields,
    "word",
    "buffer",
    *(f"{part}.{field}" for part, fields in _PARTS.items() for field in fields),
)
"""Names of values that may be changed without another file, but for those of ``PATTERNS``."""

PATTERNS = (f"{_COMPUTE}.FIELD", f"{_INTERCONNECT}.NUMBER.FIELD")
"""Names that depend on the machine: a field of its compute model, and a field of one of several networks."""


def change_names() -> tuple[str, ...]:
    """Return all names that a change may have on some machine."""
    fields = (field for name in plugin_names("compute_models") for field in _compute_fields(name))
    of_tiers = (
        f"{_INTERCONNECT}.{number}.{field}" for number in range(MOST_NETWORKS) for field in _OF_NETWORK
    )
    computes = dict.fromkeys(f"{_COMPUTE}.{field}" for field in fields)
    return (*CHANGEABLE, *computes, *of_tiers)


def require_name(key: str, change: str, prefix: str = "") -> None:
    """Refuse a name that no machine has.

    Args:
        key: the name.
        change: the change as it was written.
        prefix: the beginning of what is allowed.

    Raises:
        OptionError: there is no such name.
    """
    number = re.fullmatch(rf"{_INTERCONNECT}\.\d{{1,9}}\.(\w+)", key)
    if key in CHANGEABLE or (number and number[1] in _OF_NETWORK):
        return
    names = change_names()
    if key not in names:
        allowed = f"{prefix}{', '.join((*CHANGEABLE, *PATTERNS))}"
        raise OptionError(
            f"change {change!r}" if prefix else f"change {change}",
            "not a change",
            allowed,
            suggestion(key, names),
        )


class Changed(NamedTuple):
    """The content of a file with other values.

    Attributes:
        document: the file.
        data: its content, changed.
        changes: the changes, by name.
        places: the places of each in the content; of a link between groups there are several.
    """

    document: Document
    data: dict[str, Any]
    changes: Mapping[str, Any]
    places: Mapping[str, Sequence[Where]]

    def at(self, where: Where) -> str:
        """Return where a value stands, as a person writes it: in the file, or in a change."""
        if where[:2] == (_INTERCONNECT, 0) and isinstance(self.document.data[_INTERCONNECT], dict):
            where = where[:1] + where[2:]
        for key, places in self.places.items():
            if any(where[: len(place)] == place for place in places):
                return f"change {key}={self.changes[key]}"
        return self.document.at(where)


def changed(document: Document, changes: Mapping[str, Any]) -> Changed:
    """Return a file's content with other values.

    Raises:
        OptionError: a name is unknown, or the machine has no such value.
    """
    data, found = copy.deepcopy(document.data), dict[str, list[Where]]()
    for key, value in changes.items():
        places = [*_places(data, key, value)]
        twin = next((name for name, own in found.items() if places and own == places), None)
        if twin is not None:
            raise OptionError(f"change {key}={value}", f"changes the same value as {twin}", "one of them")
        found[key] = places
        for where in places:
            owner: Any = data
            for part in where[:-1]:
                owner = owner.setdefault(part, {}) if isinstance(owner, dict) else owner[part]
            sourced = isinstance(value, dict) or key.endswith("topology")
            owner[where[-1]] = value if sourced else {"value": value, "source": "as asked"}
    return Changed(document, data, changes, found)


def _places(data: dict[str, Any], key: str, value: Any) -> Iterator[Where]:
    """Yield the places of a value in a file's content."""
    change = f"change {key}={value.get('value') if isinstance(value, dict) else value}"
    part, _, field = key.rpartition(".")
    if not (part == _COMPUTE and field in _compute_fields(_compute_model(data))):
        require_name(key, f"{key}={value}")
    if part == OUTWARD and "groups" in data:
        yield from _outward(data, field)
    elif part.startswith(_INTERCONNECT) or key in _OF_NETWORK:
        yield _in_network(data, part, field, change)
    elif part == _COMPUTE:
        yield _in_compute(data, field, change)
    elif part and part not in data["device"]:
        raise OptionError(change, _WITHOUT[part])
    else:
        yield ("assumptions", key) if key in Assumptions.model_fields else ("device", *key.split("."))


def _outward(data: Any, field: str) -> Iterator[Where]:
    """Yield the places of a field of the links of all groups, those of groups of groups included."""
    groups = data.get("groups") if isinstance(data, dict) else None
    for number, entry in enumerate(groups if isinstance(groups, list) else ()):
        if isinstance(entry, dict) and isinstance(entry.get(OUTWARD), dict):
            yield "groups", number, OUTWARD, field
        yield from (("groups", number, *where) for where in _outward(entry, field))


def _in_network(data: Mapping[str, Any], part: str, field: str, change: str) -> Where:
    """Return the place of a network's field; without a number, that of the innermost network."""
    networks = data.get(_INTERCONNECT)
    if not networks:
        raise OptionError(change, "the machine is one device without a network")
    count = len(networks) if isinstance(networks, list) else 1
    number = int(part.partition(".")[2] or count - 1)
    if number >= count:
        allowed = ", ".join(map(str, range(count)))
        raise OptionError(
            change, f"the machine has {count} network{'s' * (count > 1)}", f"the number {allowed}"
        )
    return (_INTERCONNECT, number, field) if isinstance(networks, list) else (_INTERCONNECT, field)


def _in_compute(data: Mapping[str, Any], field: str, change: str) -> Where:
    """Return the place of a field of the compute model."""
    device, name = data["device"], _compute_model(data)
    if isinstance(device[_COMPUTE], str):
        device[_COMPUTE] = {"name": name}
    fields = _compute_fields(name)
    if field not in fields:
        raise OptionError(
            change, f"compute model {name} has no such field", ", ".join(fields), suggestion(field, fields)
        )
    return "device", _COMPUTE, field


def _compute_model(data: Mapping[str, Any]) -> str:
    """Return the name of the compute model of a valid file."""
    given = data["device"][_COMPUTE]
    return given if isinstance(given, str) else str(given["name"])


def _compute_fields(name: str) -> tuple[str, ...]:
    return tuple(load_plugin("compute_models", name).model_fields)
