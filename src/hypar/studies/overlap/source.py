"""Sources of a step's times: a machine, or a table of measured times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypar.errors import HardwareError, OptionError
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.load import as_machine
from hypar.studies.overlap.machine_times import machine_times, whole_array
from hypar.studies.overlap.table import read_overlap_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hypar.machine.machine import Machine
    from hypar.network.gradients import Gradients
    from hypar.network.graph import LayerGraph
    from hypar.schedule.chunks.times import StepTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of times."""

    times: StepTimes
    machine: Machine | None = None
    array: tuple[int, ...] = ()
    table: str | None = None


def measured(
    table: str | Path, graph: LayerGraph, gradients: Sequence[Gradients], given: Mapping[str, Any]
) -> Source:
    """Return the times of a table, which no option changes."""
    for name, value in given.items():
        if value is not None:
            found = "given together with a table of measured times"
            raise OptionError(name, found, "with a machine, as --hardware hmc")
    read = read_overlap_table(table)
    times = read.of([each.layer for each in gradients], graph.name)
    return Source(times=times, table=read.file.stem)


def on_machine(graph: LayerGraph, given: Mapping[str, Any]) -> Source:
    """Return the times of a machine of identical devices."""
    if given["hardware"] is None:
        wanted = "one, as --hardware hmc, or measured times, as --table times.yaml"
        raise OptionError("hardware", "no machine is named", wanted)
    if isinstance(given["hardware"], HeterogeneousMachine):
        where = f"hardware {given['hardware'].name!r}"
        raise HardwareError(where, "has heterogeneous device groups", "a machine of identical devices")
    machine, array = as_machine(given["hardware"], given["changes"]), given["array"]
    ways = whole_array(machine) if array is None else tuple(array)
    if not ways or not all(type(way) is int and way > 1 for way in ways):
        raise OptionError("array", f"found {'x'.join(map(str, ways)) or 'no level'}", "ways of 2 or more")
    return Source(times=machine_times(machine, graph, ways), machine=machine, array=ways)
