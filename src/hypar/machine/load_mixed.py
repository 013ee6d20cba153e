"""From a hardware file of groups to a mixed machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import HardwareError, InputError, OptionError, UnknownNameError, Where, shown
from hypar.files.validation import validated
from hypar.files.yaml_file import Document, read_yaml
from hypar.machine.load import has_groups, load_machine, machine_in
from hypar.machine.mixed import MixedMachine, Side
from hypar.machine.schema import MOST_GROUPS, MOST_HELD, GroupEntry, MixedFile, group_name
from hypar.registry import data_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hypar.machine.machine import Machine

WHOLE = "all"
"""The group of all devices."""


def load_hardware(hardware: str | Path, changes: Mapping[str, Any] | None = None) -> Machine | MixedMachine:
    """Read a hardware file, of like devices or of groups of unlike ones; arguments as of ``load_machine``.

    Raises:
        InputError: the file or a change is wrong.
    """
    document = read_yaml(data_file("hardware", str(hardware)))
    return _mixed_in(document, changes) if has_groups(document) else machine_in(document, changes)


def as_hardware(
    hardware: Machine | MixedMachine | str | Path, changes: Mapping[str, Any] | None = None
) -> Machine | MixedMachine:
    """A machine of either kind, whether it is one already or a file's name.

    Raises:
        InputError: the file or a change is wrong, or what is loaded already is to be changed.
    """
    if isinstance(hardware, str | Path):
        return load_hardware(hardware, changes)
    if changes:
        found = f"found a loaded machine, to be changed in {next(iter(changes))}"
        raise OptionError("hardware", found, "its name or file")
    return hardware


def load_mixed(hardware: str | Path, changes: Mapping[str, Any] | None = None) -> MixedMachine:
    """Read a hardware file of groups.

    Args:
        hardware: a path, or the bare name of a mixed machine that comes with hypar.
        changes: other values of every group of like devices, as of ``load_machine``.

    Raises:
        InputError: the file or a change is wrong, or its devices are all alike.
    """
    return _mixed_in(read_yaml(data_file("hardware", str(hardware))), changes)


def _mixed_in(document: Document, changes: Mapping[str, Any] | None = None) -> MixedMachine:
    """As ``load_mixed``, of a file that was read."""
    file = document.file
    if not has_groups(document):
        found = f"hardware {file.stem!r} has like devices"
        raise HardwareError(document.at(()), found, "a mapping with groups")
    content = validated(MixedFile, document.data, place=document.at, error=HardwareError)
    reader = _Reader(file, document.at, dict(changes or {}))
    machine = reader.mixed(file.stem, content.source, content.groups, ("groups",))
    if machine.num_devices > MOST_HELD:
        found = f"found {machine.num_devices:,} devices in all"
        raise HardwareError(document.at(("groups",)), found, f"at most {MOST_HELD:,}")
    return machine


class _Reader:
    """Reads groups, each name once."""

    def __init__(self, file: Path, place: Callable[[Where], str], changes: dict[str, Any]) -> None:
        self.file, self.place, self.changes = file, place, changes
        self.names: set[str] = {WHOLE}

    def mixed(self, name: str, source: str, entries: Sequence[GroupEntry], where: Where) -> MixedMachine:
        """Groups side by side."""
        if not 2 <= len(entries) <= MOST_GROUPS:
            raise HardwareError(self.place(where), f"found {len(entries)} groups", f"2 to {MOST_GROUPS}")
        sides = tuple(self.side(entry, source, (*where, index)) for index, entry in enumerate(entries))
        return MixedMachine(name=name, source=source, sides=sides, changes=self.changes)

    def side(self, entry: GroupEntry, source: str, where: Where) -> Side:
        """One group."""
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
            self.like(entry, where)
            if entry.groups is None
            else self.mixed(name, source, entry.groups, (*where, "groups"))
        )
        outward = entry.outward
        return Side(
            name=name,
            machine=machine,
            num_devices=machine.num_devices,
            bytes_per_s=outward.bandwidth.value,
            latency_s=outward.latency.value,
        )

    def named(self, hardware: str, where: Where) -> str:
        """The name of a group that is called as its hardware file."""
        try:
            return group_name(Path(hardware).stem)
        except ValueError as error:
            found = f"found a group named {shown(Path(hardware).stem)} as its hardware file"
            raise HardwareError(self.place(where), found, f"{error}: give it another") from None

    def like(self, entry: GroupEntry, where: Where) -> Machine:
        """Like devices, by the file that they are of."""
        named = str(entry.hardware)
        file = self.file.parent / named if named.endswith((".yaml", ".yml")) else named
        try:
            return replace(load_machine(file, {**entry.changes, **self.changes}), changes=self.changes)
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
