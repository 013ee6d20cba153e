"""The overlap study: a data-parallel plan whose gradients are exchanged in chunks."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import HardwareError, OptionError
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.load_heterogeneous import as_hardware
from hypar.machine.measured import measured_devices, read_overlap_table, with_times
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.planning.planner import plan_model
from hypar.planning.replay import run_plan
from hypar.schedule.chunks.sizes import checked_size
from hypar.studies.overlap.result import Overlap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypar.machine.machine import Machine
    from hypar.plan.plan import Plan

MANNERS = ("best", "layers", "one", "none")
"""The names of chunks; all others are sizes. ``none`` is another name of ``one``."""


def overlap_model(
    model: LayerGraph | str | Path,
    *,
    hardware: Machine | HeterogeneousMachine | str | Path | None = None,
    table: str | Path | None = None,
    exchange: str | None = None,
    chunks: str | int = "best",
    array: Sequence[int] | None = None,
    batch: int | None = None,
    changes: Mapping[str, Any] | None = None,
    convention: str | None = None,
) -> Overlap:
    """Plan a network in data parallelism, with the gradients exchanged in chunks.

    The plan is the one of ``plan_model`` with ``strategy="dp"`` and the same chunks.

    Args:
        model: a network, the path of a model file, or a bare name as ``vgg16``.
        hardware: a machine, the path of a hardware file, or a bare name.
        table: a file of measured times, YAML or CSV, in place of those of the machine's compute model; in place of those
            of its links too if the exchange was measured, and then no machine is needed.
        exchange: ``serial``, over shared links, or ``independent``, as CGDP counts it: a change of the machine's
            assumption of this name.
        chunks: ``best`` for the fastest chunks found, ``layers`` for one chunk per layer, ``one`` or ``none`` for one
            exchange after the backward phase, or a size.
        array: ways of each level, outermost first; all devices of the machine, a level for each of its networks,
            unless given.
        batch: samples in a mini-batch, if not the model's own number.
        changes: changes of the machine, if a file or a name is given.
        convention: how bytes are counted, as in ``plan_model``.

    Raises:
        InputError: a file is wrong, the request cannot be met, or the array does not fit the machine.

    Examples:
        >>> found = overlap_model("alexnet", hardware="p100-4x4", changes={"overlap": "full"})
        >>> [chunk.layers for chunk in found.chunks]
        [('fc3',), ('fc2',), ('fc1', 'conv5', 'conv4'), ('conv3', 'conv2'), ('conv1',)]
    """
    network = model if isinstance(model, LayerGraph) else load_model(model)
    changes = {**(changes or {}), **({} if exchange is None else {"exchange": exchange})}
    if table is not None and batch is not None:
        raise OptionError("batch", "given together with a table of measured times", "the mini-batch measured")
    machine = _machine(network, hardware, changes, table, array)
    network = network if batch is None else network.with_batch(batch)

    @cache
    def planned(asked: str | int) -> Plan:
        ways = whole_array(machine) if array is None else array
        return plan_model(
            network, strategy="dp", hardware=machine, array=ways, chunks=asked, convention=convention
        )

    return Overlap(
        ran=run_plan(planned(_chosen(chunks, network)), hardware=machine, model=network),
        machine=None if hardware is None else machine,
        table=None if table is None else Path(table).stem,
        by=str(chunks),
        typical_s=_seconds(planned("one")),
    )


def whole_array(machine: Machine | HeterogeneousMachine) -> tuple[int, ...] | None:
    """Return all devices of a machine, as one level for each of its networks; None for a heterogeneous machine.

    Raises:
        HardwareError: it has one device, which has no partner for an exchange.
    """
    if isinstance(machine, HeterogeneousMachine):
        return None
    ways = tuple(tier.devices for tier in machine.tiers if tier.devices > 1)
    if not ways:
        raise HardwareError(f"hardware {machine.name!r}", "found one device", "two, to exchange gradients")
    return ways


def _machine(
    graph: LayerGraph,
    hardware: Machine | HeterogeneousMachine | str | Path | None,
    changes: Mapping[str, Any],
    table: str | Path | None,
    array: Sequence[int] | None,
) -> Machine | HeterogeneousMachine:
    """Return the machine, with the measured times if there is a table."""
    named = None if hardware is None else as_hardware(hardware, changes)
    if table is None:
        if named is None:
            wanted = "one, as --hardware hmc, or measured times, as --table times.yaml"
            raise OptionError("hardware", "no machine is named", wanted)
        return named
    read = read_overlap_table(table)
    times = read.of([layer.name for layer in graph.layers if layer.op.weighted], graph.name)
    if isinstance(named, HeterogeneousMachine):
        found = f"the devices of hardware {named.name!r} are heterogeneous, the times those of one of them"
        raise OptionError("table", found, "a machine of identical devices")
    if named is None:
        for name, value in {"changes": {*changes} - {"exchange"}, "array": array}.items():
            if value:
                raise OptionError(name, "no machine is named", "one, as --hardware hmc")
        if not times.exchanges:
            found = f"no machine is named, and {read.file} has no times of an exchange"
            raise OptionError("hardware", found, "one, as --hardware hmc")
        named = measured_devices(read.file, changes)
    return with_times(named, times)


def _chosen(chunks: str | int, graph: LayerGraph) -> str | int:
    """Return the chunks as a plan is asked for them.

    Raises:
        OptionError: there are no such chunks.
    """
    if isinstance(chunks, str) and chunks in MANNERS:
        return "one" if chunks == "none" else chunks
    if chunks == "search":
        hint = "CGDP's Algorithm 1 is in examples/papers/cgdp_2018.py"
        raise OptionError("chunks", "found 'search'", f"{', '.join(MANNERS)}, or a size", hint)
    return checked_size(chunks, sum(layer.op.weighted for layer in graph.layers), MANNERS)


def _seconds(plan: Plan) -> float:
    """Return the seconds of a plan's step."""
    return math.inf if plan.score is None else plan.score.time_s
