"""Heterogeneous machines: groups of different devices, each of identical devices or heterogeneous again."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from hypar.document import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from hypar.machine.machine import Machine


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceGroup:
    """One device group of a heterogeneous machine, with its link to the groups beside it.

    Attributes:
        name: unique in the whole machine.
        machine: its devices.
        num_devices: number of devices used; fewer than all only in a smaller array.
        bytes_per_s: bandwidth at which each of its devices receives from the groups beside it.
        latency_s: latency of a transfer from them.
    """

    name: str
    machine: Machine | HeterogeneousMachine
    num_devices: int
    bytes_per_s: float
    latency_s: float

    @property
    def flop_per_s(self) -> float:
        """Floating-point operations per second of the devices used, for large work."""
        if isinstance(self.machine, HeterogeneousMachine):
            return sum(group.flop_per_s for group in self.machine.groups)
        return self.num_devices * self.machine.flop_per_s

    @property
    def memory_bytes(self) -> float:
        """Largest memory of a device; infinite if a file gives none."""
        if isinstance(self.machine, HeterogeneousMachine):
            return max(group.memory_bytes for group in self.machine.groups)
        return math.inf if self.machine.memory_bytes is None else self.machine.memory_bytes

    def using(self, arrays: Mapping[str, Sequence[int]]) -> DeviceGroup:
        """Return the group with the devices of given arrays; see ``HeterogeneousMachine.using``."""
        if isinstance(self.machine, HeterogeneousMachine):
            machine = self.machine.using(arrays)
            return replace(self, machine=machine, num_devices=machine.num_devices)
        return replace(self, num_devices=math.prod(arrays[self.name]))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class HeterogeneousMachine(Result):
    """Groups of different devices.

    Attributes:
        name: the name of the file without its ending, or of the group.
        source: the publication.
        groups: its groups, at least two.
        changes: values changed from the file, in every group.
    """

    _document: ClassVar[str] = "catalogue"

    name: str
    source: str
    groups: tuple[DeviceGroup, ...]
    changes: Mapping[str, Any]

    @property
    def num_devices(self) -> int:
        """Number of devices used in all groups."""
        return sum(group.num_devices for group in self.groups)

    @cached_property
    def digest(self) -> str:
        """Hash of the machine without its sources."""
        parts = [
            (group.name, group.machine.digest, group.bytes_per_s, group.latency_s) for group in self.groups
        ]
        return f"sha256:{hashlib.sha256(repr(parts).encode()).hexdigest()}"

    @property
    def counts_unweighted(self) -> bool:
        """Whether ops without a weight take time on the devices of all groups."""
        return all(machine.counts_unweighted for _, machine, _ in self.identical())

    def identical(self, depth: int = 1) -> Iterator[tuple[str, Machine, int]]:
        """Yield name, devices and number of splits above, for every group of identical devices."""
        for group in self.groups:
            if isinstance(group.machine, HeterogeneousMachine):
                yield from group.machine.identical(depth + 1)
            else:
                yield group.name, group.machine, depth

    def splits(self, depth: int = 0) -> Iterator[tuple[HeterogeneousMachine, int]]:
        """Yield the machine itself and every group that is heterogeneous again, each with the number of splits above."""
        yield self, depth
        for group in self.groups:
            if isinstance(group.machine, HeterogeneousMachine):
                yield from group.machine.splits(depth + 1)

    @property
    def nested(self) -> bool:
        """Whether a group is heterogeneous again."""
        return any(isinstance(group.machine, HeterogeneousMachine) for group in self.groups)

    def of_stage(self, outside: int, ways: Callable[[str, Machine], int]) -> HeterogeneousMachine:
        """Return the machine as the devices of a stage see it, some of whose splits and levels are outside the stages.

        Args:
            outside: the number of these splits and levels.
            ways: returns the ways of the stages in each group of identical devices.
        """

        def inside(group: DeviceGroup) -> DeviceGroup:
            own = group.machine
            if isinstance(own, HeterogeneousMachine):
                return replace(group, machine=own.of_stage(outside - 1, ways))
            above = outside - 1
            return replace(group, machine=own.of_stage(above, ways(group.name, own))) if above > 0 else group

        return replace(self, groups=tuple(map(inside, self.groups)))

    def using(self, arrays: Mapping[str, Sequence[int]]) -> HeterogeneousMachine:
        """Return the machine with no more devices than given arrays have.

        Args:
            arrays: ways of the levels of each group of identical devices, by its name.
        """
        return replace(self, groups=tuple(group.using(arrays) for group in self.groups))

    def __repr__(self) -> str:
        """Return name and groups, short enough for a prompt."""
        groups = " + ".join(f"{group.num_devices} {group.name}" for group in self.groups)
        return f"<HeterogeneousMachine {self.name}: {groups}>"
