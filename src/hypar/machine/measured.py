"""Tables of measured times of a data-parallel step's layers and of the exchange of their gradients, as YAML or as CSV.

A machine with such times computes, and exchanges gradients if they were measured too, in these times instead of those of
its compute model and its links. Described in ``docs/overlap.md``.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from hypar.errors import HardwareError, OptionError, ProfileError, UnknownNameError, Where, field_name, shown
from hypar.files.quantities import Description, Text
from hypar.files.text import Row, read_csv
from hypar.files.validation import validated
from hypar.files.yaml_file import read_yaml
from hypar.machine.load import machine_of
from hypar.machine.step_times import LayerTimes, StepTimes
from hypar.units import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph

MOST_SECONDS = 10**9
"""The longest measured time allowed."""

MOST_LAYERS = 20_000
"""The largest number of layers, equal to a model file's."""

EXCHANGE_STEPS = ("copy_out", "accumulate", "copy_back")
"""The phases of the exchange of a layer's gradients, in order."""

_EVERY_ROW = "synchronisation"
"""The column that must be equal in every row."""

_DEVICES = """\
source: two devices whose times were all measured; the numbers of this file that are times count for nothing
device:
  word: {value: 4 B, source: float32}
  compute: {name: roofline, peak: {value: 1 TFLOP/s, source: none}, half_efficiency_flop: {value: 0, source: none}}
interconnect: {topology: ring, devices: {value: 2, source: fewest}, link_bandwidth: {value: 1 GB/s, source: none}}
assumptions: {overlap: {value: full, source: gradients are exchanged beside the backward phase}}
"""


def _time(value: Any) -> float:
    seconds = parse_quantity(value, "seconds")
    if not 0 <= seconds <= MOST_SECONDS:
        raise ValueError(f"0 s to {MOST_SECONDS:,} s")
    return seconds


Time = Annotated[float, BeforeValidator(_time)]


class MeasuredLayer(Description):
    """The measured times of a layer."""

    name: Text
    forward: Time | None = None
    backward: Time
    copy_out: Time | None = None
    accumulate: Time | None = None
    copy_back: Time | None = None

    @property
    def times(self) -> LayerTimes:
        """The same, with the steps of the exchange added up."""
        steps = [getattr(self, step) for step in EXCHANGE_STEPS]
        whole = None if None in steps else math.fsum(steps)
        return LayerTimes(self.name, self.forward or 0.0, self.backward, whole)


class OverlapTable(Description):
    """A table of measured times."""

    source: Text = "not given"
    synchronisation: Time | None = None
    layers: Annotated[list[MeasuredLayer], Field(min_length=1, max_length=MOST_LAYERS)]


def read_step_times(file: Path, layers: Sequence[str], model: str) -> StepTimes:
    """Read a table of measured times of a network's layers: CSV where the file's name ends in ``.csv``, else YAML.

    Args:
        file: the table.
        layers: names of the network's weighted layers, in its order.
        model: its name, for messages.

    Raises:
        InputError: it is missing, damaged, or invalid, has a layer that the network lacks, or the reverse.
    """
    data, where = (_from_csv if file.suffix == ".csv" else _from_yaml)(file)

    def place(field: Where) -> str:
        """Append the layer's name to the position, if the name is a text."""
        inside, index = data.get("layers"), field[1] if len(field) > 1 else None
        layer = inside[index] if isinstance(inside, list) and isinstance(index, int) else None
        name = layer.get("name") if isinstance(layer, dict) else None
        return where(field) + (f" {shown(name)}" if isinstance(name, str) else "")

    table: OverlapTable = validated(OverlapTable, data, place=place, error=ProfileError)
    measured = _checked(table, place)
    for index, name in enumerate(measured):
        if name not in layers:
            raise UnknownNameError("weighted layer", name, layers, place(("layers", index, "name")))
    for name in layers:
        if name not in measured:
            raise ProfileError(place(("layers",)), f"no layer {name!r}", f"all of {model!r}")
    times = tuple(measured[name].times for name in layers)
    return StepTimes(layers=times, sync_s=table.synchronisation or 0.0, source=file.stem)


def _checked(table: OverlapTable, place: Callable[[Where], str]) -> dict[str, MeasuredLayer]:
    """Return the layers of a table by name, each of which is there once, with all its times or with those of no other."""
    found: dict[str, MeasuredLayer] = {}
    for index, layer in enumerate(table.layers):
        if found.setdefault(layer.name, layer) is not layer:
            raise ProfileError(place(("layers", index, "name")), "given twice", "each layer once")
    forward, exchange = dict[Where, float | None](), dict[Where, float | None]()
    exchange[_EVERY_ROW,] = table.synchronisation
    for index, layer in enumerate(table.layers):
        forward["layers", index, "forward"] = layer.forward
        exchange |= {("layers", index, step): getattr(layer, step) for step in EXCHANGE_STEPS}
    for fields, allowed in (
        (forward, "the times of every layer, or of none"),
        (exchange, "the whole exchange, or nothing of it"),
    ):
        missing = [where for where, seconds in fields.items() if seconds is None]
        if 0 < len(missing) < len(fields):
            raise ProfileError(place(missing[0]), f"{str(missing[0][-1])!r} is missing", allowed)
    return found


def measured_machine(file: str | Path, machine: Machine | None, graph: LayerGraph) -> Machine:
    """Return a machine that takes the measured times of a network; two devices if no machine is named.

    Raises:
        InputError: the table is damaged or is for other layers, its exchange was not measured and no machine is named, or
            the machine has device groups.
    """
    file = Path(file)
    times = read_step_times(file, [layer.name for layer in graph.layers if layer.weighted], graph.name)
    if machine is None:
        if not times.exchanges:
            found = f"no machine is named, and {file} has no times of an exchange"
            raise OptionError("hardware", found, "one, as --hardware hmc")
        machine = measured_devices(file, {})
    if machine.groups:
        found = f"the devices of hardware {machine.name!r} are heterogeneous, the times those of one of them"
        raise OptionError("profile", found, "a machine of identical devices")
    return with_times(machine, times)


def with_times(machine: Machine, times: StepTimes) -> Machine:
    """Return a machine that takes measured times in data parallelism."""
    digest = hashlib.sha256(f"{machine.digest} {times.digest}".encode()).hexdigest()
    return replace(machine, digest=f"sha256:{digest}").having(measured=times)


def whole_array(machine: Machine) -> tuple[int, ...]:
    """Return all devices of a machine, as one level for each of its networks.

    Raises:
        HardwareError: it has one device, which has no partner for an exchange.
    """
    ways = tuple(tier.devices for tier in machine.tiers if tier.devices > 1)
    if not ways:
        raise HardwareError(f"hardware {machine.name!r}", "found one device", "two, to exchange gradients")
    return ways


def measured_devices(file: Path, changes: Mapping[str, Any]) -> Machine:
    """Return two devices that overlap, for times of which all are measured.

    Args:
        file: the table, after which the machine is named.
        changes: changed assumptions.
    """
    return machine_of(file, _DEVICES, changes)


def _from_yaml(file: Path) -> tuple[dict[str, Any], Callable[[Where], str]]:
    """Return plain data, and the position of each field."""
    document = read_yaml(file)
    if not isinstance(document.data, dict):
        raise ProfileError(document.at(()), f"found {shown(document.data)}", "a mapping with layers")
    return document.data, document.at


def _from_csv(file: Path) -> tuple[dict[str, Any], Callable[[Where], str]]:
    """Return the same from one row per layer, each of which repeats the synchronisation."""
    rows = read_csv(file)
    if not rows:
        raise ProfileError(f"{file}:1", "found no rows", "one a layer")
    layers = [{key: cell for key, cell in row.cells.items() if key != _EVERY_ROW} for row in rows]

    def place(where: Where) -> str:
        """Return the position of a field; unknown columns belong to the head."""
        row = where[1] if where[:1] == ("layers",) and len(where) > 1 else None
        column = where[2:] if isinstance(row, int) else where
        known = not column or column[0] in MeasuredLayer.model_fields
        line = rows[row].line if isinstance(row, int) and known else 1
        return f"{file}:{line}" + (f": {field_name(column)}" if column else "")

    return {"layers": layers, **_same_in_every(rows, file)}, place


def _same_in_every(rows: Sequence[Row], file: Path) -> dict[str, str]:
    """Return the synchronisation, if all rows agree on it."""
    cells = [row.cells.get(_EVERY_ROW) for row in rows]
    for row, cell in zip(rows, cells, strict=True):
        if cell != cells[0]:
            wanted = f"{shown(cells[0])}, as in line {rows[0].line}"
            raise ProfileError(f"{file}:{row.line}: {_EVERY_ROW}", f"found {shown(cell)}", wanted)
    return {} if cells[0] is None else {_EVERY_ROW: cells[0]}
