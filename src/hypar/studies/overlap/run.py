"""The overlap study: a data-parallel plan whose gradients are exchanged in chunks."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypar.errors import HardwareError, OptionError, shown
from hypar.machine.heterogeneous import HeterogeneousMachine
from hypar.machine.load_heterogeneous import as_hardware
from hypar.machine.measured import measured_devices, read_overlap_table, with_times
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.planning.planner import plan_model
from hypar.planning.replay import run_plan
from hypar.schedule.chunks.sizes import checked_size, search_size
from hypar.studies.overlap.result import Overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hypar.machine.machine import Machine
    from hypar.plan.plan import Plan
    from hypar.schedule.chunks.sizes import SizeSearch

MOST_ASKED = 20_000
"""The largest step, range or interval of a search for a size: no network has more layers."""

MANNERS = ("best", "layers", "one", "none", "search")
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
    search_step: int | None = None,
    search_range: int | None = None,
    search_interval: int | None = None,
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
            exchange after the backward phase, ``search`` for the size that CGDP's Algorithm 1 finds, or a size.
        array: ways of each level, outermost first; all devices of the machine, a level for each of its networks,
            unless given.
        batch: samples in a mini-batch, if not the model's own number.
        changes: changes of the machine, if a file or a name is given.
        search_step: the search tries every size up to this one and then its multiples; 10 unless given.
        search_range: the number of steps past the best size after which the search ends; 5 unless given.
        search_interval: the number of training iterations with each size; 10 unless given.
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
    settings = _search_settings(
        chunks, {"step": search_step, "range": search_range, "interval": search_interval}
    )
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

    taken, search = _chosen(chunks, network, settings, lambda asked: _seconds(planned(asked)))
    return Overlap(
        ran=run_plan(planned(taken), hardware=machine, model=network),
        machine=None if hardware is None else machine,
        table=None if table is None else Path(table).stem,
        by=str(chunks),
        typical_s=_seconds(planned("one")),
        search=search,
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


def _search_settings(chunks: str | int, asked: Mapping[str, int | None]) -> dict[str, int]:
    """Return the settings of the search for a size; refuse them without a search."""
    given = {name: value for name, value in asked.items() if value is not None}
    for name, value in given.items():
        option = f"search-{name}"
        if chunks != "search":
            raise OptionError(option, f"given with chunks {shown(chunks)}", "with chunks 'search'")
        if type(value) is not int or not 1 <= value <= MOST_ASKED:
            raise OptionError(option, f"found {shown(value)}", f"a whole number from 1 to {MOST_ASKED:,}")
    return {"reach" if name == "range" else name: value for name, value in given.items()}


def _chosen(
    chunks: str | int, graph: LayerGraph, settings: Mapping[str, int], seconds: Callable[[str | int], float]
) -> tuple[str | int, SizeSearch | None]:
    """Return the chunks as a plan is asked for them, and the search that found their size.

    Sizes from the number of layers on give the chunks of size 1.

    Args:
        chunks: the chunks that are asked for.
        graph: the network.
        settings: the settings of a search.
        seconds: function from chunks to the seconds of a step.

    Raises:
        OptionError: there are no such chunks.
    """
    count = sum(layer.op.weighted for layer in graph.layers)
    if chunks == "search":
        search = search_size(lambda size: seconds(size if size < count else 1), **settings)
        return (search.size if search.size < count else 1), search
    if isinstance(chunks, str) and chunks in MANNERS:
        return ("one" if chunks == "none" else chunks), None
    return checked_size(chunks, count, MANNERS), None


def _seconds(plan: Plan) -> float:
    """Return the seconds of a plan's step."""
    return math.inf if plan.score is None else plan.score.time_s
