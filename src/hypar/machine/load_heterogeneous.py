"""Heterogeneous machines, read from hardware files of groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import HardwareError, InputError, OptionError, UnknownNameError, Where, shown
from hypar.files.text import read_text
from hypar.files.validation import validated
from hypar.machine.changes import OUTWARD, require_name, with_source
from hypar.machine.heterogeneous import DeviceGroup, HeterogeneousMachine
from hypar.machine.load import changed_yaml, document_of, has_groups, load_machine, machine_of
from hypar.machine.machine import Machine
from hypar.machine.schema import MOST_GROUPS, MOST_HELD, GroupEntry, HeterogeneousFile, group_name
from hypar.registry import data_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hypar.files.yaml_file import Document

WHOLE = "all"
"""Name of the group of all devices."""


def load_hardware(
    hardware: str | Path, changes: Mapping[str, Any] | None = None
) -> Machine | HeterogeneousMachine:
    """Read a hardware file, of identical devices or of groups; arguments as in ``load_machine``.

    Raises:
        InputError: the file or a change is invalid.
    """
    file = data_file("hardware", str(hardware))
    text = read_text(file)
    if "groups" in text and has_groups(document := document_of(file, text)):
        return _heterogeneous_in(document, changes)
    return machine_of(file, text, changes)


def as_hardware(
    hardware: Machine | HeterogeneousMachine | str | Path, changes: Mapping[str, Any] | None = None
) -> Machine | HeterogeneousMachine:
    """Return a machine of either kind, given itself or as a file's name.

    Raises:
        InputError: the file or a change is invalid, a loaded machine is to be changed, or it is no machine.
    """
    if isinstance(hardware, str | Path):
        return load_hardware(hardware, changes)
    if not isinstance(hardware, Machine | HeterogeneousMachine):
        raise OptionError("hardware", f"found {shown(hardware)}", "a machine, or the name or file of one")
    if changes:
        found = f"found a loaded machine, to be changed in {next(iter(changes))}"
        raise OptionError("hardware", found, "its name or file")
    return hardware


def load_heterogeneous(
    hardware: str | Path, changes: Mapping[str, Any] | None = None
) -> HeterogeneousMachine:
    """Read a hardware file of groups.

    Args:
        hardware: a path, or the bare name of a heterogeneous machine that comes with hypar.
        changes: changes to every group of identical devices, as in ``load_machine``.

    Raises:
        InputError: the file or a change is invalid, or the file has no groups.
    """
    file = data_file("hardware", str(hardware))
    return _heterogeneous_in(document_of(file, read_text(file)), changes)


def hardware_yaml(hardware: str | Path, changes: Mapping[str, Any] | None = None) -> str:
    """Return the text of a hardware file to start from: the file itself, or with some values changed.

    Raises:
        InputError: the file or a change is invalid, or a heterogeneous machine is to be changed.
    """
    if changes:
        return changed_yaml(hardware, changes)
    load_hardware(hardware)
    return read_text(data_file("hardware", str(hardware)))


def _heterogeneous_in(document: Document, changes: Mapping[str, Any] | None = None) -> HeterogeneousMachine:
    """Build a heterogeneous machine from a parsed file."""
    file = document.file
    if not has_groups(document):
        found = f"hardware {file.stem!r} has identical devices"
        raise HardwareError(document.at(()), found, "a mapping with groups")
    changes = dict(changes or {})
    outward = {key: value for key, value in changes.items() if key.startswith(f"{OUTWARD}.")}

    def place(where: Where) -> str:
        key = ".".join(map(str, where[where.index(OUTWARD) :][:2])) if OUTWARD in where else ""
        return f"change {key}={outward[key]}" if key in outward else document.at(where)

    data = _with_outward(document.data, outward)
    content = validated(HeterogeneousFile, data, place=place, error=HardwareError, every=True)
    reader = _Reader(file, place, changes)
    machine = reader.heterogeneous(file.stem, content.source, content.groups, ("groups",))
    if machine.num_devices > MOST_HELD:
        found = f"found {machine.num_devices:,} devices in all"
        raise HardwareError(document.at(("groups",)), found, f"at most {MOST_HELD:,}")
    return machine


def _with_outward(data: Any, outward: Mapping[str, Any]) -> Any:
    """Return a file's content with other links between all its groups."""
    for key, value in outward.items():
        require_name(key, f"{key}={value}")
    if not isinstance(data, dict) or not isinstance(data.get("groups"), list) or not outward:
        return data
    groups = [_with_outward(entry, outward) for entry in data["groups"]]
    given = {key.partition(".")[2]: with_source(value) for key, value in outward.items()}
    return {
        **data,
        "groups": [
            {**entry, OUTWARD: {**entry[OUTWARD], **given}}
            if isinstance(entry, dict) and isinstance(entry.get(OUTWARD), dict)
            else entry
            for entry in groups
        ],
    }


class _Reader:
    """Reader of groups that refuses repeated names."""

    def __init__(self, file: Path, place: Callable[[Where], str], changes: dict[str, Any]) -> None:
        self.file, self.place, self.changes = file, place, changes
        self.inside = {key: value for key, value in changes.items() if not key.startswith(f"{OUTWARD}.")}
        self.names: set[str] = {WHOLE}

    def heterogeneous(
        self, name: str, source: str, entries: Sequence[GroupEntry], where: Where
    ) -> HeterogeneousMachine:
        """Read groups side by side."""
        if not 2 <= len(entries) <= MOST_GROUPS:
            raise HardwareError(self.place(where), f"found {len(entries)} groups", f"2 to {MOST_GROUPS}")
        groups = tuple(self.group(entry, source, (*where, index)) for index, entry in enumerate(entries))
        return HeterogeneousMachine(name=name, source=source, groups=groups, changes=self.changes)

    def group(self, entry: GroupEntry, source: str, where: Where) -> DeviceGroup:
        """Read one group."""
        if (entry.hardware is None) == (entry.groups is None):
            found = "both 'hardware' and 'groups'" if entry.hardware else "neither 'hardware' nor 'groups'"
            raise HardwareError(self.place(where), f"found {found}", "one of them")
        if entry.groups is not None and (entry.changes or entry.name is None):
            found = "changes of groups" if entry.changes else "groups without a name"
            allowed = "changes where 'hardware' is named" if entry.changes else "a name"
            raise HardwareError(self.place(where), f"found {found}", allowed)
        name = entry.name or self.named(str(entry.hardware), where)
        if name in self.names:
            allowed = "each group a name of its own" + ("; all is the whole" if name == WHOLE else "")
            raise HardwareError(self.place(where), f"found a second group {shown(name)}", allowed)
        self.names.add(name)
        machine = (
            self.identical(entry, where)
            if entry.groups is None
            else self.heterogeneous(name, source, entry.groups, (*where, "groups"))
        )
        outward = entry.outward
        return DeviceGroup(
            name=name,
            machine=machine,
            num_devices=machine.num_devices,
            bytes_per_s=outward.bandwidth.value,
            latency_s=outward.latency.value,
        )

    def named(self, hardware: str, where: Where) -> str:
        """Return the name of a group called like its hardware file."""
        try:
            return group_name(Path(hardware).stem)
        except ValueError as error:
            found = f"found a group named {shown(Path(hardware).stem)} as its hardware file"
            raise HardwareError(self.place(where), found, f"{error}: give it another") from None

    def identical(self, entry: GroupEntry, where: Where) -> Machine:
        """Read a group of identical devices from its hardware file."""
        named = str(entry.hardware)
        file = self.file.parent / named if named.endswith((".yaml", ".yml")) else named
        try:
            return load_machine(file, {**entry.changes, **self.inside}, self.changes)
        except UnknownNameError as error:
            if error.where or error.name != named:
                raise
            where = (*where, "hardware")
            raise UnknownNameError(error.kind, error.name, error.known, self.place(where)) from None
        except InputError as error:
            own = next((key for key in entry.changes if error.where.startswith(f"change {key}=")), None)
            if own is None or own in self.changes:
                raise
            raise HardwareError(
                self.place((*where, "changes", own)), error.found, error.allowed, error.hint
            ) from None
