"""Division of a network into the stages of a pipeline, with the least cost of the costliest stage."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypar.errors import HardwareError, MemoryLimitError, OptionError, TableLimitError, shown
from hypar.machine.load import as_machine
from hypar.machine.setting import Setting
from hypar.network.build import load_model
from hypar.network.graph import LayerGraph
from hypar.planning.counting import require_paper
from hypar.planning.request import checked_optimizer
from hypar.schedule.pipeline_orders import SCHEDULES, checked_microbatches, checked_schedule, in_flight
from hypar.solve.partition import Partition, partition, require_entries
from hypar.studies.pipeline.costs import StageCosts, checked_balance
from hypar.studies.pipeline.run import Job, run_job
from hypar.studies.pipeline.spans import Spans, layer_sums
from hypar.studies.pipeline.starts import checked_stages, given_bounds, places
from hypar.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hypar.machine.machine import Machine
    from hypar.studies.pipeline.result import Pipeline


def pipeline_model(
    model: LayerGraph | str | Path,
    *,
    stages: int | None = None,
    starts: str | Sequence[str] | None = None,
    batch: int | None = None,
    schedule: str = "layer-block",
    microbatches: int | None = None,
    balance: str | None = None,
    hardware: Machine | str | Path | None = None,
    optimizer: str = "sgd",
    convention: str | None = None,
) -> Pipeline:
    """Divide a network into stages of consecutive layers, the costliest as cheap as possible, and run the pipeline.

    Args:
        model: a network, the path of a model file, or a bare name as ``vgg16``.
        stages: number of stages; 4 if neither they nor starts are given.
        starts: names of the stages' first layers instead of the best partition, as ``conv1,conv3,fc1``.
        batch: samples in a mini-batch, if not the model's own number.
        schedule: ``layer-block``, ``gpipe`` or ``1f1b``.
        microbatches: microbatches in a mini-batch; by default as many as stages, or the next smaller divisor of it.
        balance: ``time``, ``memory``, ``traffic`` or ``macs``; time with a machine and macs without if not given.
        hardware: a machine, the path of a hardware file, or a bare name; each stage is one device.
        optimizer: ``sgd``, ``momentum`` or ``adam``.
        convention: ``paper``, the only convention by which transfers between stages are counted.

    Raises:
        InputError: the request cannot be met, or a stage does not fit a device's memory.
        TableLimitError: the network has too many layers for a search over all partitions.

    Examples:
        >>> found = pipeline_model("vgg-f", starts="conv1,conv2,conv3,pool5", batch=32)
        >>> [stage.in_flight for stage in found.stages], [stage.staleness for stage in found.stages]
        ([8, 6, 4, 2], [7, 5, 3, 1])
    """
    require_paper(convention)
    network = model if isinstance(model, LayerGraph) else load_model(model)
    network = network if batch is None else network.with_batch(batch)
    machine = None if hardware is None else as_machine(hardware)
    bounds = None if starts is None else given_bounds(starts, network)
    if bounds is not None and balance is not None:
        raise OptionError("balance", "given together with starts", "one of the two")
    count = _count(stages, bounds, network, machine)
    microbatches = checked_microbatches(microbatches, checked_schedule(schedule), network.batch, count)
    job = _job(network, schedule, (count, microbatches), machine, checked_optimizer(optimizer))
    if bounds is not None:
        _require_fits(job, bounds)
        return run_job(job, bounds)
    by = checked_balance(balance, machine)
    best = _balanced(job, by)
    return run_job(job, best.bounds, by, best.bottleneck)


def _count(
    stages: int | None, bounds: tuple[int, ...] | None, network: LayerGraph, machine: Machine | None
) -> int:
    """Return the number of stages, as requested or as the starts imply."""
    count = len(bounds) - 1 if bounds else checked_stages(4 if stages is None else stages, network)
    if stages not in {None, count}:
        raise OptionError("stages", f"found {shown(stages)} and starts of {count}", "one of the two")
    if machine is not None and count > machine.num_devices:
        allowed = f"at most {machine.num_devices}, one a device"
        raise HardwareError(f"hardware {machine.name!r}", f"found {count} stages", allowed)
    return count


def _job(
    network: LayerGraph, schedule: str, counts: tuple[int, int], machine: Machine | None, optimizer: str
) -> Job:
    """Build the job of dividing the network into ``stages`` and running it with ``microbatches``."""
    stages, microbatches = counts
    order, size = SCHEDULES[schedule], network.element_bytes
    steps = (order.steps(stage, stages, microbatches, order.minibatches(stages)) for stage in range(stages))
    kept = tuple(in_flight(work for step in own for work in step) for own in steps)
    setting = None
    if machine is not None:
        setting = Setting(machine=machine, array=(), element_bytes=size, optimizer=optimizer)
    return Job(
        network=network,
        schedule=schedule,
        sums=layer_sums(network.with_batch(network.batch // microbatches), setting),
        costs=StageCosts(
            microbatches=microbatches,
            in_flight=kept,
            optimizer=optimizer,
            machine=machine,
            in_step=not order.flushes,
        ),
    )


def _balanced(job: Job, balance: str) -> Partition:
    """Return the best partition: indices of its first layers, and its bottleneck."""
    allowed = places(job.network)
    try:
        require_entries(len(allowed) - 1, job.stages)
    except TableLimitError as error:
        raise TableLimitError(f"{error}; try --starts", error.entries, error.limit) from None
    spans = Spans(job.sums, allowed)
    seams = (spans.sent + spans.fed_back)[0]
    best = partition(lambda stage: job.costs.fitting(balance, stage, spans), job.stages, seams)
    if best is None:
        least = partition(lambda stage: job.costs.memory(stage, spans), job.stages, seams)
        assert least is not None  # noqa: S101 (without a limit every partition is possible)
        held = f"{format_bytes(least.bottleneck)} in the fullest of {job.stages} stages at best"
        raise _too_small(job, held)
    return best._replace(bounds=tuple(allowed[place] for place in best.bounds))


def _require_fits(job: Job, bounds: Sequence[int]) -> None:
    """Refuse given starts with a stage that does not fit."""
    machine = job.costs.machine
    for stage, ends in enumerate(pairwise(bounds)):
        num_bytes = job.costs.memory(stage, job.sums.span(*ends))
        if machine is not None and not machine.fits(num_bytes):
            first = job.network.layers[ends[0]].name
            raise _too_small(job, f"{format_bytes(num_bytes)} in stage {stage + 1}, from {first!r} on")


def _too_small(job: Job, found: str) -> MemoryLimitError:
    """Return the error for a stage that does not fit a device."""
    machine = job.costs.machine
    name, memory = (machine.name, machine.memory_bytes or 0.0) if machine else ("", 0.0)
    allowed = f"{format_bytes(memory)}, the memory of a device"
    return MemoryLimitError(
        f"hardware {name!r}", f"found {found}", allowed, "try more stages or a smaller batch"
    )
