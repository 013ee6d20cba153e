"""A mixed machine: groups of unlike devices, each a machine of like devices or mixed again."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from hypar.machine.machine import Machine


@dataclass(frozen=True, eq=False, kw_only=True)
class Side:
    """One group of a mixed machine, seen from the groups beside it.

    Attributes:
        name: unique in the whole machine.
        machine: its devices.
        num_devices: how many of them are used; all but in a smaller array.
        bytes_per_s: what each of its devices receives at from the groups beside.
        latency_s: what a transfer from them takes besides.
    """

    name: str
    machine: Machine | MixedMachine
    num_devices: int
    bytes_per_s: float
    latency_s: float

    @property
    def flop_per_s(self) -> float:
        """Floating-point operations a second of the devices that are used, large work."""
        if isinstance(self.machine, MixedMachine):
            return sum(side.flop_per_s for side in self.machine.sides)
        return self.num_devices * self.machine.flop_per_s

    @property
    def memory_bytes(self) -> float:
        """The largest memory of a device; without limit where a file does not say."""
        if isinstance(self.machine, MixedMachine):
            return max(side.memory_bytes for side in self.machine.sides)
        return math.inf if self.machine.memory_bytes is None else self.machine.memory_bytes

    def using(self, arrays: Mapping[str, Sequence[int]]) -> Side:
        """The same with the devices of some arrays; as of ``MixedMachine.using``."""
        if isinstance(self.machine, MixedMachine):
            machine = self.machine.using(arrays)
            return replace(self, machine=machine, num_devices=machine.num_devices)
        return replace(self, num_devices=math.prod(arrays[self.name]))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class MixedMachine:
    """Groups of unlike devices.

    Attributes:
        name: the file's name without its ending, or that of the group.
        source: where it is published.
        sides: its groups, two at least.
        changes: what was changed against the file, in every group.
    """

    name: str
    source: str
    sides: tuple[Side, ...]
    changes: Mapping[str, Any]

    @property
    def num_devices(self) -> int:
        """Devices of all groups that are used."""
        return sum(side.num_devices for side in self.sides)

    @cached_property
    def digest(self) -> str:
        """A hash of all that the machine is, sources excepted."""
        parts = [(side.name, side.machine.digest, side.bytes_per_s, side.latency_s) for side in self.sides]
        return f"sha256:{hashlib.sha256(repr(parts).encode()).hexdigest()}"

    def like(self, depth: int = 1) -> Iterator[tuple[str, Machine, int]]:
        """Every group of like devices: its name, its devices, and how many splits lie above it."""
        for side in self.sides:
            if isinstance(side.machine, MixedMachine):
                yield from side.machine.like(depth + 1)
            else:
                yield side.name, side.machine, depth

    def using(self, arrays: Mapping[str, Sequence[int]]) -> MixedMachine:
        """The same with no more devices than some arrays have.

        Args:
            arrays: for each group of like devices, by its name, the ways of its levels.
        """
        return replace(self, sides=tuple(side.using(arrays) for side in self.sides))

    def __repr__(self) -> str:
        """Name and groups, short enough for a prompt."""
        groups = " + ".join(f"{side.num_devices} {side.name}" for side in self.sides)
        return f"<MixedMachine {self.name}: {groups}>"
