"""Machines: identical devices and their networks, or groups of such machines side by side; times of given work and bytes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from hypar.document import Result
from hypar.errors import HardwareError
from hypar.machine.collectives import ALGORITHMS
from hypar.machine.compute_models.base import ComputeModel, Work, passing
from hypar.machine.links import LevelLink, Line, Tier, level_links
from hypar.machine.schema import HardwareFile
from hypar.machine.work import Degrees, LayerTime, StepTimes, fullest_share, local_shape, phase_work, slower
from hypar.ops.nest import PHASES, Nest
from hypar.sharding.tree import WHOLE_ARRAY

DIGEST = ".2"
"""The end of a machine's digest: the number of what is hashed, another one where fields were added."""

OUTWARD = " outward links"
"""The resource of a group that receives from the groups beside it, behind its name."""


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
    """Identical devices and the networks that link them, or groups of different ones, each a machine again.

    Attributes:
        name: the file's name without its ending, or the group's.
        source: the publication.
        changes: values changed from the file, in every group.
        groups: groups side by side, at least two; empty if all devices are identical.
        content: the content of the file of identical devices.
        compute: their compute model.
        tiers: their networks, outermost first.
        measured: measured times of a network's layers in data parallelism; they replace those of the compute model, and
            those of the links where the exchange of gradients was measured too.
        outside: number of the levels of an array outside the stages, if these are the devices of a stage.
        stages: ways of the level of the stages, which the arrays of a stage leave out; 0 if they leave none out.
    """

    _document: ClassVar[str] = "catalogue"

    name: str
    source: str
    changes: Mapping[str, Any]
    groups: tuple[DeviceGroup, ...] = ()
    content: HardwareFile
    compute: ComputeModel
    tiers: tuple[Tier, ...]
    measured: StepTimes | None = None
    outside: int = 0
    stages: int = 0

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
        groups = tuple(group.using(arrays) for group in self.groups)
        return replace(self, groups=groups) if groups else self

    def of_stage(self, outside: int, ways: Callable[[str, Machine], int], name: str = WHOLE_ARRAY) -> Machine:
        """Return the machine as the devices of a stage see it, some of whose splits and levels are outside the stages.

        ``ways`` returns those of the stages in each group of identical devices, a level of their whole arrays.
        """
        if not self.groups:
            return _of_stage(self, outside, ways(name, self)) if outside > 0 else self
        groups = [
            replace(own, machine=own.machine.of_stage(outside - 1, ways, own.name)) for own in self.groups
        ]
        return replace(self, groups=tuple(groups))

    # Assumptions

    @property
    def overlap(self) -> bool:
        """Whether transfers run beside computation."""
        return self.content.assumptions.overlap.value == "full"

    @property
    def independent(self) -> bool:
        """Whether chunks of gradients do not delay each other, while the latency of each stalls the devices."""
        return self.content.assumptions.exchange.value == "independent"

    def fits(self, num_bytes: float) -> bool:
        """Return whether a device's memory holds some bytes; True if its capacity is not given."""
        return self.memory_bytes is None or num_bytes <= self.memory_bytes

    # Work of one of identical devices

    def flop_per_s(self, element_bytes: int) -> float:
        """Return the floating-point operations per second of one device, for large work on numbers of some bytes."""
        assumed, compute = self.content.assumptions, self.compute.of_format(element_bytes)
        return compute.flop_per_s(assumed.units_per_device.value) * assumed.efficiency.value

    def times(self, nest: Nest) -> bool:
        """Return whether the computation of a layer, with the ops behind it, takes time."""
        return nest.multiplies or (self.counts_unweighted and bool(nest.behind))

    @property
    def memory_bytes(self) -> float | None:
        """Capacity of a device's memory without what a framework keeps for itself; None if the file gives none."""
        memory, kept = self.content.device.memory, self.content.assumptions.reserve
        return None if memory is None else memory.capacity.value - (0.0 if kept is None else kept.value)

    def memory_seconds(self, num_bytes: float) -> float:
        """Return the time to move bytes between a device and its memory; 0 if no bandwidth is given."""
        memory = self.content.device.memory
        return 0.0 if memory is None else num_bytes / memory.bandwidth.value

    def layer_time(
        self, nest: Nest, degrees: tuple[int, ...], element_bytes: int, operand: int = 0, layer: str = ""
    ) -> LayerTime:
        """Return the times of a layer's phases on one device, given the degree of each of ``Nest.counted``.

        A product with a weight computes with numbers of ``operand`` bytes, 0 for those of an element. A layer that is named takes the measured
        times, if there are any; work and memory are the compute model's.

        Raises:
            ProfileError: the layer was not measured, or is not cut in the batch alone.
        """
        time = _layer_time(self, nest, degrees, element_bytes, operand)
        if self.measured is None or not layer:
            return time
        cut = [dim for dim, degree in zip(nest.counted, degrees, strict=True) if degree > 1]
        return replace(time, seconds=self.measured.phases(layer, cut))

    def timed(self, nest: Nest, degrees: Degrees, element_bytes: int, operand: int = 0) -> LayerTime:
        """Return ``layer_time`` anew, for numbers or arrays of degrees if the compute model takes arrays."""
        shape, assumed = local_shape(nest, degrees), self.content.assumptions
        compute = self.compute.of_format((operand if nest.weight else 0) or element_bytes)
        efficiency = assumed.efficiency if nest.weight else assumed.attention_efficiency or assumed.efficiency
        units = assumed.units_per_device.value
        work = {phase: phase_work(nest, shape, phase, compute, units) for phase in PHASES}
        if not nest.sends and assumed.unweighted.value == "counted":
            # Nobody computes the error of the network's input.
            work["backward"] = Work(seconds=0.0, accesses=passing(0.0), mapping={}, skipped=1.0)
        # Accesses are counted for an even share; those of the fullest device grow in proportion to its words.
        shares = {tensor: fullest_share(nest, degrees, tensor) for tensor in nest.names}
        fullest = {tensor: nest.elements(tensor) * share for tensor, share in shares.items()}
        uneven = sum(fullest.values()) / sum(shape.words.values())
        seconds = {
            phase: slower(
                slower(done.seconds / efficiency.value, done.buffer_seconds),
                self.memory_seconds(done.accesses["memory"] * uneven * element_bytes),
            )
            for phase, done in work.items()
        }
        if nest.others:
            # Both errors of a product of activations come before any layer that reads them.
            seconds["backward"] = seconds["backward"] + seconds["gradient"]
            seconds["gradient"] = seconds["gradient"] * 0
        if self.counts_unweighted:
            for phase in ("forward", "backward"):
                more, words = self._unweighted(nest, degrees, phase, element_bytes)
                seconds[phase] = seconds[phase] + more
                accesses = {place: own + passing(words)[place] for place, own in work[phase].accesses.items()}
                work[phase] = replace(work[phase], accesses=accesses)
        return LayerTime(seconds=seconds, work=work, macs=shape.macs, words=shape.words, fullest=fullest)

    def _unweighted(self, nest: Nest, degrees: Degrees, phase: str, element_bytes: int) -> tuple[Any, Any]:
        """Return seconds and words in memory of a phase of the layer besides its products, and of the ops behind it.

        Each op takes the longer of its words at the memory's bandwidth and its operations at the full speed of the device.
        """
        seconds = moved = 0.0
        for own in nest.behind:
            share = nest.elements("output") * fullest_share(nest, degrees, "output", own.contracted)
            elements = own.forward if phase == "forward" else own.backward
            words = elements + own.mask_bytes / element_bytes
            computing = own.flop / self.flop_per_s(element_bytes) if words else 0.0
            seconds = seconds + share * max(self.memory_seconds(words * element_bytes), computing)
            moved = moved + share * words
        return seconds, moved

    @property
    def counts_unweighted(self) -> bool:
        """Whether ops without a weight take time, which measured times of layers leave no room for."""
        return self.content.assumptions.unweighted.value == "counted" and self.measured is None

    # Links of identical devices

    def links(self, array: tuple[int, ...], *, shared: bool = True) -> tuple[LevelLink, ...]:
        """Return the links of each level of an array, both outermost first.

        Devices share the ports of their group, or have it to themselves in turn. Raises ``HardwareError`` if the array does not fit.
        """
        return _links(self, array, shared=shared)[0]

    def stage_link(self, array: tuple[int, ...], ways: int) -> LevelLink:
        """Return the link between stages that have an array each.

        The stages have some ways outside all levels of it, if this is not the machine of a stage. Raises ``HardwareError`` if it does not fit.
        """
        return _links(self, array, ways, shared=True)[1][0]


_layer_time = lru_cache(maxsize=16384)(Machine.timed)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Heterogeneous(Machine):
    """Groups side by side, of which nobody may ask what only identical devices have."""

    content: HardwareFile = field(init=False)
    compute: ComputeModel = field(init=False)
    tiers: tuple[Tier, ...] = field(init=False)

    def __getattr__(self, name: str) -> Any:
        """Refuse a field of identical devices."""
        if name not in {"content", "compute", "tiers"}:
            raise AttributeError(name)
        found = f"{name} asked of {len(self.groups)} groups"
        raise HardwareError(f"hardware {self.name!r}", found, "a machine of identical devices")


@lru_cache(maxsize=256)
def _links(
    machine: Machine, array: tuple[int, ...], ways: int = 0, *, shared: bool
) -> tuple[tuple[LevelLink, ...], tuple[LevelLink, ...]]:
    """Return the links of each level of an array, and of the level of the stages if the whole array has one."""
    tiers = machine.tiers if shared else tuple(replace(tier, ports=None) for tier in machine.tiers)
    outside, ways = machine.outside, machine.stages or ways
    stages = (ways,) if ways else ()
    links = level_links(machine.name, tiers, (*array[:outside], *stages, *array[outside:]))
    inside = outside + len(stages)
    return links[:outside] + links[inside:], links[outside:inside]


@lru_cache(maxsize=256)
def _of_stage(machine: Machine, outside: int, ways: int) -> Machine:
    return replace(machine, outside=outside, stages=ways)


# What it is, as data

_UNITS = {
    "device.energy.static": "W", "device.buffer": "B", "bandwidth": "B/s", "link_bandwidth": "B/s", "total_bandwidth": "B/s",
    "capacity": "B", "reserve": "B", "word": "B", "frequency": "Hz", "latency": "s", "peak": "FLOP/s", "fp32_peak": "FLOP/s",
    "fp8_peak": "FLOP/s", "half_efficiency_flop": "FLOP",
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
