"""Machines: identical devices and their networks, or groups of such machines side by side; times of given work and bytes."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from hypar.document import Result
from hypar.errors import HardwareError
from hypar.machine.collectives import ALGORITHMS
from hypar.machine.links import LevelLink, Line, Tier, level_links
from hypar.sharding.tree import WHOLE_ARRAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hypar.machine.compute_models.base import ComputeModel
    from hypar.machine.schema import HardwareFile
    from hypar.machine.step_times import StepTimes
    from hypar.machine.work import Devices, LayerTime
    from hypar.ops.nest import Nest

T = TypeVar("T")

DIGEST = ".2"
"""The end of a machine's digest: the number of what is hashed, another one where fields were added."""

OUTWARD = " outward links"
"""The resource of a group that receives from the groups beside it, behind its name."""


class _OfDevices(Generic[T]):
    """A field of ``Devices`` as an attribute of their machine."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, machine: Machine, owner: type | None = None) -> T:
        if machine.devices is None:
            found = f"{self.name} asked of {len(machine.groups)} groups"
            raise HardwareError(f"hardware {machine.name!r}", found, "a machine of identical devices")
        value: T = getattr(machine.devices, self.name)
        return value


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceGroup:
    """A machine as one of several side by side, with its link to the groups beside it.

    Attributes:
        name: unique in the whole machine.
        machine: its devices.
        num_devices: number of devices used; fewer than all only in a smaller array.
        bytes_per_s: bandwidth at which each of its devices receives from the groups beside it.
        latency_s: latency of a transfer from them.
    """

    name: str
    machine: Machine
    num_devices: int
    bytes_per_s: float
    latency_s: float

    mean_hops: ClassVar[float] = 1.0

    @property
    def resource(self) -> str:
        """The resource that is busy while it receives."""
        return f"{self.name}{OUTWARD}"

    def line(self, _collective: str, _num_bytes: Any) -> Line:
        """Return the time to receive bytes from the groups beside it, which all its devices do at once, whatever the collective."""
        return Line(self.latency_s, 1 / (self.num_devices * self.bytes_per_s), "direct")

    def seconds(self, _collective: str, num_bytes: Any) -> Any:
        """Return the time until its devices have received bytes from the groups beside it."""
        return num_bytes / (self.num_devices * self.bytes_per_s) + self.latency_s

    def flop_per_s(self, element_bytes: int) -> float:
        """Return the floating-point operations per second of the devices used, for large work on numbers of some bytes."""
        inner = self.machine.groups
        each = self.num_devices * self.machine.flop_per_s(element_bytes) if not inner else 0.0
        return sum((group.flop_per_s(element_bytes) for group in inner), each)

    @property
    def memory_bytes(self) -> float:
        """Largest memory of a device; infinite if a file gives none."""
        each = [own.memory_bytes for _, own, _ in self.machine.leaves()]
        return max(math.inf if held is None else held for held in each)

    def using(self, arrays: Mapping[str, Sequence[int]]) -> DeviceGroup:
        """Return the group with the devices of given arrays; see ``Machine.using``."""
        machine = self.machine.using(arrays)
        used = machine.num_devices if machine.groups else math.prod(arrays[self.name])
        return replace(self, machine=machine, num_devices=used)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Machine(Result):
    """Identical devices, or groups of different ones, each a machine again.

    What only identical devices have, such as ``tiers`` and ``layer_time``, is that of ``Devices``; of groups it is refused.

    Attributes:
        name: the file's name without its ending, or the group's.
        source: the publication.
        changes: values changed from the file, in every group.
        devices: identical devices; None if there are groups.
        groups: groups side by side, at least two; empty if all devices are identical.
    """

    _document: ClassVar[str] = "catalogue"

    name: str
    source: str
    changes: Mapping[str, Any]
    devices: Devices | None = None
    groups: tuple[DeviceGroup, ...] = ()

    content: ClassVar[_OfDevices[HardwareFile]] = _OfDevices()
    compute: ClassVar[_OfDevices[ComputeModel]] = _OfDevices()
    tiers: ClassVar[_OfDevices[tuple[Tier, ...]]] = _OfDevices()
    staged: ClassVar[_OfDevices[tuple[int, int] | None]] = _OfDevices()
    flop_per_s: ClassVar[_OfDevices[Callable[[int], float]]] = _OfDevices()
    memory_bytes: ClassVar[_OfDevices[float | None]] = _OfDevices()
    memory_seconds: ClassVar[_OfDevices[Callable[[float], float]]] = _OfDevices()
    times: ClassVar[_OfDevices[Callable[[Nest], bool]]] = _OfDevices()
    layer_time: ClassVar[_OfDevices[Callable[..., LayerTime]]] = _OfDevices()
    timed: ClassVar[_OfDevices[Callable[..., LayerTime]]] = _OfDevices()

    @cached_property
    def digest(self) -> str:
        """A hash of every value, plug-in defaults and measured times included, but of no source, and the version of what is hashed."""
        values = [(row["what"], row["value"]) for row in machine_numbers(self)]
        text = repr((values, self.measured and self.measured.digest))
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}{DIGEST}"

    @property
    def num_devices(self) -> int:
        """Number of devices; of groups those that are used."""
        own = [group.num_devices for group in self.groups]
        return sum(own) if own else math.prod(tier.devices for tier in self.tiers)

    def __repr__(self) -> str:
        if self.groups:
            groups = " + ".join(f"{group.num_devices} {group.name}" for group in self.groups)
            return f"<Machine {self.name}: {groups}>"
        wired = ", ".join(tier.name for tier in self.tiers) or "no network"
        changes = "".join(f", {name}={value}" for name, value in self.changes.items())
        return f"<Machine {self.name}: {self.num_devices} devices, {wired}{changes}>"

    @property
    def measured(self) -> StepTimes | None:
        """Measured times of a network's layers, if all devices are identical."""
        return None if self.devices is None else self.devices.measured

    # The tree of groups

    def nodes(self, name: str = WHOLE_ARRAY, depth: int = 0) -> Iterator[tuple[str, Machine, int]]:
        """Yield name, machine and number of splits above, for this machine and every group in it, outer ones first."""
        yield name, self, depth
        for group in self.groups:
            yield from group.machine.nodes(group.name, depth + 1)

    def leaves(self) -> Iterator[tuple[str, Machine, int]]:
        """Yield the nodes that are identical devices."""
        return (node for node in self.nodes() if not node[1].groups)

    def using(self, arrays: Mapping[str, Sequence[int]]) -> Machine:
        """Return the machine with no more devices in its groups than given arrays have.

        Args:
            arrays: ways of the levels of each group of identical devices, by its name.
        """
        return (
            replace(self, groups=tuple(group.using(arrays) for group in self.groups)) if self.groups else self
        )

    def of_stage(self, outside: int, ways: Callable[[str, Machine], int], name: str = WHOLE_ARRAY) -> Machine:
        """Return the machine as the devices of a stage see it, some of whose splits and levels are outside the stages.

        Args:
            outside: the number of these splits and levels.
            ways: returns the ways of the stages in each group of identical devices, a level of their whole arrays.
            name: the group's name.
        """
        if not self.groups:
            return _of_stage(self, outside, ways(name, self)) if outside > 0 else self
        inside = [group.machine.of_stage(outside - 1, ways, group.name) for group in self.groups]
        groups = zip(self.groups, inside, strict=True)
        return replace(self, groups=tuple(replace(group, machine=machine) for group, machine in groups))

    # Assumptions

    @property
    def overlap(self) -> bool:
        """Whether transfers run beside computation."""
        return self.content.assumptions.overlap.value == "full"

    @property
    def independent(self) -> bool:
        """Whether chunks of gradients do not delay each other, while the latency of each stalls the devices."""
        return self.content.assumptions.exchange.value == "independent"

    def having(self, **fields: Any) -> Machine:
        """Return the machine with other fields of its ``Devices``."""
        assert self.devices is not None  # noqa: S101 (of identical devices)
        return replace(self, devices=replace(self.devices, **fields))

    def fits(self, num_bytes: float) -> bool:
        """Return whether a device's memory holds some bytes; True if its capacity is not given."""
        return self.memory_bytes is None or num_bytes <= self.memory_bytes

    # Links of identical devices

    def links(self, array: tuple[int, ...], *, shared: bool = True) -> tuple[LevelLink, ...]:
        """Return the links of each level of an array, outermost first.

        Args:
            array: ways of each level, outermost first.
            shared: whether devices share the ports of their group, or have it to themselves in turn.

        Raises:
            HardwareError: the array does not fit the machine.
        """
        return _links(self, array, shared=shared)[0]

    @property
    def outside(self) -> int:
        """Number of the levels outside the stages, if it is of one stage."""
        return 0 if self.staged is None else self.staged[0]

    def stage_link(self, array: tuple[int, ...], ways: int) -> LevelLink:
        """Return the link between stages that have an array each.

        Args:
            array: the array of a stage.
            ways: the ways of the stages outside all its levels, if this is not the machine of a stage.

        Raises:
            HardwareError: the array does not fit the machine.
        """
        return _links(self, array, ways, shared=True)[1][0]


@lru_cache(maxsize=256)
def _links(
    machine: Machine, array: tuple[int, ...], ways: int = 0, *, shared: bool
) -> tuple[tuple[LevelLink, ...], tuple[LevelLink, ...]]:
    """Return the links of each level of an array, and of the level of the stages if the whole array has one."""
    tiers = machine.tiers if shared else tuple(replace(tier, ports=None) for tier in machine.tiers)
    outside, ways = machine.staged or (0, ways)
    stages = (ways,) if ways else ()
    links = level_links(machine.name, tiers, (*array[:outside], *stages, *array[outside:]))
    inside = outside + len(stages)
    return links[:outside] + links[inside:], links[outside:inside]


@lru_cache(maxsize=256)
def _of_stage(machine: Machine, outside: int, ways: int) -> Machine:
    return machine.having(staged=(outside, ways))


# What it is, as data

_UNITS = {
    "device.energy.static": "W", "device.buffer": "B", "bandwidth": "B/s", "link_bandwidth": "B/s", "total_bandwidth": "B/s",
    "capacity": "B", "reserve": "B", "word": "B", "frequency": "Hz", "latency": "s", "peak": "FLOP/s", "fp32_peak": "FLOP/s",
    "half_efficiency_flop": "FLOP",
}  # fmt: skip
"""Units of the numbers in hardware files, by their place or the last word of it; energies are in joules."""


def machine_summary(machine: Machine) -> dict[str, Any]:
    """Return the size and the source of a machine; of a heterogeneous one with a list of its groups' entries."""
    named = {"hardware": machine.name, "devices": machine.num_devices}
    if machine.groups:
        groups = [
            {"group": own.name, "outward_bytes_per_s": own.bytes_per_s, "outward_latency_s": own.latency_s}
            | machine_summary(own.machine)
            for own in machine.groups
        ]
        return {**named, "source": machine.source, "groups": groups}
    return {
        **named,
        "topology": [tier.name for tier in machine.tiers],
        "compute_model": machine.content.device.compute["name"],
        "memory_bytes": machine.memory_bytes,
        "link_bytes_per_s": [tier.bytes_per_s for tier in machine.tiers],
        "source": machine.source,
    }


def machine_numbers(machine: Machine) -> list[dict[str, Any]]:
    """Return every value of a machine's file with its unit and source, group by group if it is heterogeneous."""
    if machine.groups:
        return [
            {**row, "what": f"{group.name}.{row['what']}"}
            for group in machine.groups
            for outward in [{"bandwidth": group.bytes_per_s, "latency": group.latency_s}]
            for row in (*_values({"outward": _sourced(outward)}), *machine_numbers(group.machine))
        ]
    content = machine.content.model_dump(mode="json", by_alias=True)
    device, networks = content["device"], content["interconnect"] or []
    name = {"value": device["compute"]["name"], "source": "compute model"}
    device["compute"] = {"name": name, **machine.compute.model_dump(mode="json")}
    for network, tier in zip(networks, machine.tiers, strict=True):
        fields = tier.topology.model_dump(mode="json", exclude_none=True)
        network["topology"] = {"name": {"value": tier.name, "source": "topology"}, **_sourced(fields)}
        if tier.collectives == ALGORITHMS:
            network["collectives"]["value"] = "all"
    content["interconnect"] = networks[0] if len(networks) == 1 else networks
    return [*_values(content)]


def _sourced(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: {"value": value, "source": "as the file says"} for key, value in fields.items()}


def _values(data: Any, where: str = "") -> Iterator[dict[str, Any]]:
    """Yield the values below a field of the file, with their places, units and sources."""
    if isinstance(data, dict) and data.keys() == {"value", "source"}:
        energy = "J" * where.startswith("device.energy.")
        unit = _UNITS.get(where) or energy or _UNITS.get(where.rpartition(".")[2], "")
        found = {"value": data["value"], "unit": "" if isinstance(data["value"], str) else unit}
        yield {"what": where, **found, "source": data["source"]}
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _values(value, f"{where}.{key}".removeprefix("."))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _values(value, f"{where}[{index}]")
