"""Measured times of a network's layers in files, as ``--profile`` names them, and machines that take them.

A profile, which ``hypar profile`` writes as JSON, has the seconds of each layer's shard under each choice of a level; the
cost ``deepa`` counts them in place of a machine's own computation: ``docs/profiles.md``. A step table, as YAML or CSV, has the
seconds of each layer of a data-parallel step, and of the exchange of its gradients if that was measured; a machine takes
them in place of those of its compute model and of its links: ``docs/overlap.md``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from hypar.errors import HardwareError, OptionError, ProfileError, UnknownNameError, Where, shown, suggestion
from hypar.files.text import format_json, read_csv, read_json, write
from hypar.files.validation import Record, Text, only, quantity, validated
from hypar.files.yaml_file import Document, read_yaml
from hypar.machine.load import machine_of
from hypar.machine.machine import Machine
from hypar.machine.work import LayerTimes, StepTimes
from hypar.network.graph import LayerGraph
from hypar.sharding.dims import grid_word

MOST_SECONDS = 10**9
"""The longest measured time allowed."""

MOST_LAYERS = 20_000
"""The largest number of layers, equal to a model file's."""

Seconds = Annotated[int | float, Field(ge=0, le=MOST_SECONDS)]


class ProfiledModel(Record):
    """The measured network and its mini-batch."""

    name: str
    digest: str
    batch: Annotated[int, Field(ge=1)]


class Profile(Record, populate_by_name=True):
    """Measured times of shards.

    Attributes:
        schema_: version of the format.
        name: the file's name without its ending; not part of the file.
        model: the network.
        device: the device measured.
        ways: the devices of the level whose choices were measured.
        seconds: time of the three phases of the fullest device's shard, for each layer and choice, as ``n4 c1 h2 w2``.
    """

    schema_: Literal["hypar.profile/1"] = Field(default="hypar.profile/1", alias="schema")
    name: str = Field(default="profile", exclude=True)
    model: ProfiledModel
    device: str
    ways: Annotated[int, Field(ge=1)]
    seconds: Annotated[dict[str, Annotated[dict[str, Seconds], Field(min_length=1)]], Field(min_length=1)]

    @property
    def digest(self) -> str:
        """Hash of the table's content."""
        return "sha256:" + hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the file's text."""
        return format_json(self.model_dump(mode="json", by_alias=True)) + "\n"

    def write(self, file: str | Path) -> None:
        """Write the table whole or not at all.

        Raises:
            DocumentError: the folder is missing or cannot be written to.
        """
        write(Path(file), self.to_json())

    def of(self, layer: str, degrees: dict[str, int]) -> float:
        """Return the seconds that one device takes for a layer's shard; raises ``ProfileError`` if it was not measured."""
        table, word, place = self.seconds.get(layer), grid_word(degrees), f"profile {self.name!r}: seconds"
        if table is None:
            raise ProfileError(place, f"no layer {layer!r}", hint=suggestion(layer, self.seconds))
        if word not in table:
            hint = "measure it with hypar profile, its --space as here"
            raise ProfileError(f"{place}.{layer}", f"no {word!r}", hint=hint)
        return table[word]

    def require(self, name: str, digest: str, batch: int, array: tuple[int, ...]) -> None:
        """Refuse a network, mini-batch or array other than the one measured.

        Raises:
            ProfileError: one of them differs.
        """
        place, ways = f"profile {self.name!r}", "x".join(map(str, array))
        if (name, digest) != (self.model.name, self.model.digest):
            found = f"measured {self.model.name!r}, not this {name!r}"
            raise ProfileError(f"{place}: model", found, hint="measure it with hypar profile")
        if batch != self.model.batch:
            raise ProfileError(f"{place}: model.batch", f"found {self.model.batch}", f"{batch}, as planned")
        if array != (self.ways,):
            allowed = f"one level of them; the array is {ways}"
            raise ProfileError(f"{place}: ways", f"found {self.ways}", allowed)


def read_profile(file: str | Path) -> Profile:
    """Read a profile.

    Raises:
        InputError: the file is missing, damaged, or of another schema.
    """
    path = Path(file)
    data, place = read_json(path), Document(file=path, data=None).at
    if isinstance(data, dict) and "name" in data:
        raise ProfileError(place(("name",)), f"found {shown(data['name'])}", "no such key")
    found: Profile = validated(Profile, data, place=place, error=ProfileError)
    return found.model_copy(update={"name": path.stem})


# Step tables

EXCHANGE_STEPS = ("copy_out", "accumulate", "copy_back")
"""The phases of the exchange of a layer's gradients, in order."""

_HEAD = "synchronisation"
"""What stands once in a table, and in each row of a CSV file."""


_ALLOWED = only(lambda seconds: 0 <= seconds <= MOST_SECONDS, f"0 s to {MOST_SECONDS:,} s")
Time = Annotated[float, quantity("seconds"), _ALLOWED]


class MeasuredLayer(Record):
    """The measured times of a layer."""

    name: Text
    forward: Time | None = None
    backward: Time
    copy_out: Time | None = None
    accumulate: Time | None = None
    copy_back: Time | None = None


class OverlapTable(Record):
    """A table of measured times of a step."""

    source: Text = "not given"
    synchronisation: Time | None = None
    layers: Annotated[list[MeasuredLayer], Field(min_length=1, max_length=MOST_LAYERS)]


def read_step_times(file: Path, layers: Sequence[str], model: str) -> StepTimes:
    """Read a table of measured times of a network's weighted layers, in its order: CSV where the name ends in ``.csv``, else YAML.

    Raises:
        InputError: it is missing, damaged, or invalid, has a layer that the network lacks, or the reverse.
    """
    document = _csv_document(file) if file.suffix == ".csv" else read_yaml(file)

    def place(where: Where) -> str:
        """Append the layer's name to the position, if the name is a text."""
        try:
            name = document.data["layers"][where[1]]["name"]
        except (IndexError, KeyError, TypeError):
            name = None
        return document.at(where) + (f" {shown(name)}" if isinstance(name, str) else "")

    table: OverlapTable = validated(OverlapTable, document.data, place=place, error=ProfileError)
    _require_whole(table, place)
    found: dict[str, LayerTimes] = {}
    for index, layer in enumerate(table.layers):
        if layer.name in found:
            raise ProfileError(place(("layers", index, "name")), "given twice", "each layer once")
        if layer.name not in layers:
            raise UnknownNameError("weighted layer", layer.name, layers, place(("layers", index, "name")))
        steps = [getattr(layer, step) for step in EXCHANGE_STEPS]
        exchange_s = None if None in steps else math.fsum(steps)
        found[layer.name] = LayerTimes(layer.name, layer.forward or 0.0, layer.backward, exchange_s)
    for name in layers:
        if name not in found:
            raise ProfileError(place(("layers",)), f"no layer {name!r}", f"all of {model!r}")
    times = tuple(found[name] for name in layers)
    return StepTimes(layers=times, sync_s=table.synchronisation or 0.0, source=file.stem)


def _csv_document(file: Path) -> Document:
    """Read a CSV file of a row for each layer, each of which repeats the synchronisation."""
    rows = read_csv(file)
    heads = {cells.pop(_HEAD, None): line for line, cells in reversed(rows)}
    if len(heads) > 1:
        (at, first), (line, other), *_ = sorted((line, head) for head, line in heads.items())
        allowed = f"{shown(first)}, as in line {at}"
        raise ProfileError(f"{file}:{line}: {_HEAD}", f"found {shown(other)}", allowed)
    data: dict[str, Any] = {"layers": [cells for _, cells in rows]}
    data |= {_HEAD: head for head in heads if head is not None}  # noqa: B035 (one at most)
    lines: dict[Where, int] = {("layers", index): line for index, (line, _) in enumerate(rows)}
    return Document(file=file, data=data, lines={(): 1, **lines})


def _require_whole(table: OverlapTable, place: Callable[[Where], str]) -> None:
    """Refuse the forward phase of some layers alone, and a part of the exchange."""
    for fields, allowed in (
        (("forward",), "the times of every layer, or of none"),
        (EXCHANGE_STEPS, "the whole exchange, or nothing of it"),
    ):
        given: dict[Where, float | None] = (
            {(_HEAD,): table.synchronisation} if fields == EXCHANGE_STEPS else {}
        )
        for index, layer in enumerate(table.layers):
            given |= {("layers", index, field): getattr(layer, field) for field in fields}
        missing = [where for where, seconds in given.items() if seconds is None]
        if 0 < len(missing) < len(given):
            raise ProfileError(place(missing[0]), f"{str(missing[0][-1])!r} is missing", allowed)


# Machines

_DEVICES = """\
source: two devices whose times were all measured; the numbers of this file that are times count for nothing
device:
  word: {value: 4 B, source: float32}
  compute: {name: roofline, peak: {value: 1 TFLOP/s, source: none}, half_efficiency_flop: {value: 0, source: none}}
interconnect: {topology: ring, devices: {value: 2, source: fewest}, link_bandwidth: {value: 1 GB/s, source: none}}
assumptions: {overlap: {value: full, source: gradients are exchanged beside the backward phase}}
"""


def measured_devices(file: Path, changes: Mapping[str, Any]) -> Machine:
    """Return two devices that overlap, for times of which all are measured.

    Args:
        file: the table, after which the machine is named.
        changes: changed assumptions.
    """
    return machine_of(file, _DEVICES, changes)


def measured_machine(file: str | Path, machine: Machine | None, graph: LayerGraph) -> Machine:
    """Return a machine that takes the measured times of a network; two devices if no machine is named.

    Raises:
        InputError: the table is damaged or is for other layers, its exchange was not measured and no machine is named, or
            the machine has device groups.
    """
    file = Path(file)
    times = read_step_times(file, [layer.name for layer in graph.layers if layer.weighted], graph.name)
    if machine is None and not times.exchanges:
        found = f"no machine is named, and {file} has no times of an exchange"
        raise OptionError("hardware", found, "one, as --hardware hmc")
    machine = machine or measured_devices(file, {})
    if machine.groups:
        found = f"the devices of hardware {machine.name!r} are heterogeneous, the times those of one of them"
        raise OptionError("profile", found, "a machine of identical devices")
    return replace(machine, measured=times)


def whole_array(machine: Machine) -> tuple[int, ...]:
    """Return all devices of a machine, as one level for each of its networks.

    Raises:
        HardwareError: it has one device, which has no partner for an exchange.
    """
    ways = tuple(tier.devices for tier in machine.tiers if tier.devices > 1)
    if not ways:
        raise HardwareError(f"hardware {machine.name!r}", "found one device", "two, to exchange gradients")
    return ways
