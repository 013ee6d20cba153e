"""Schema of hardware files."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from hypar.files.quantities import (
    AsNumber,
    Bytes,
    BytesPerSecond,
    Count,
    Description,
    Joules,
    Part,
    Seconds,
    Sourced,
    Text,
    Watts,
)
from hypar.machine.collectives import ALGORITHMS

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


class Memory(Description):
    """Memory of a device."""

    capacity: Sourced[Bytes]
    bandwidth: Sourced[BytesPerSecond]


class Energy(Description):
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


class Device(Description):
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


class Network(Description):
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


def _list(given: Any) -> Any:
    if not isinstance(given, list):
        raise ValueError("a mapping with topology, or a list of them")  # noqa: TRY004 (pydantic's own protocol)
    return given


Networks = Annotated[list[Network], Field(min_length=1, max_length=MOST_NETWORKS), BeforeValidator(_list)]


class Assumptions(Description):
    """Named choices that the publication of a machine leaves open, as ``docs/hardware.md`` describes them."""

    units_per_device: Sourced[Count] = Sourced(value=1, source="one unit a device")
    efficiency: Sourced[Part] = Sourced(value=1.0, source="as the compute model says")
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


class Outward(Description):
    """Link of each device of a group to the groups beside its own."""

    bandwidth: Sourced[BytesPerSecond]
    latency: Sourced[Seconds] = Sourced(value=0.0, source="not given: none is counted")


def group_name(name: str) -> str:
    """Check the name of a group.

    Raises:
        ValueError: the name is not allowed.
    """
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", name) is None:
        raise ValueError("a name of letters, digits, ., _ and -, at most 40 of them")
    return name


class GroupEntry(Description):
    """One group of a heterogeneous machine: identical devices by their hardware file, or further groups."""

    name: Annotated[str, AfterValidator(group_name)] | None = None
    hardware: Text | None = None
    changes: dict[str, Any] = Field(default={})
    groups: list[GroupEntry] | None = None
    outward: Outward


class HeterogeneousFile(Description):
    """File of a heterogeneous machine: groups of different devices."""

    source: Text
    groups: list[GroupEntry]


class HardwareFile(Description):
    """File of a machine of identical devices."""

    source: Text
    device: Device
    interconnect: Networks | None = None
    assumptions: Assumptions = Assumptions()
