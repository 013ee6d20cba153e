"""Running the stages of a pipeline, and the same devices by data parallelism."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from hypar.errors import HardwareError, OptionError
from hypar.machine.setting import Setting
from hypar.plan.splits import stage_name
from hypar.schedule.pipeline import full_step, lower, ran
from hypar.schedule.pipeline_orders import SCHEDULES, in_flight, staleness
from hypar.schedule.scoring import totals
from hypar.sharding.placement import cut
from hypar.studies.pipeline.result import DataParallel, Pipeline, Stage
from hypar.studies.pipeline.spans import held
from hypar.timeline import Timeline, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypar.network.graph import LayerGraph
    from hypar.schedule.pipeline_orders import Work
    from hypar.studies.pipeline.costs import StageCosts
    from hypar.studies.pipeline.spans import LayerSums, Span


ROUNDING = 1e-9
"""Of a step: less than this is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A network to be divided into stages and run.

    Attributes:
        network: the network.
        schedule: one of ``SCHEDULES``.
        sums: its layers added up, one microbatch.
        costs: what stages cost.
    """

    network: LayerGraph
    schedule: str
    sums: LayerSums
    costs: StageCosts

    @property
    def stages(self) -> int:
        """How many."""
        return len(self.costs.in_flight)


def run_job(
    job: Job, bounds: Sequence[int], balance: str | None = None, bottleneck: float | None = None
) -> Pipeline:
    """The pipeline of a partition, every number of its schedule measured on the timeline.

    Args:
        job: what to run.
        bounds: index of the first layer of each stage, and the number of layers.
        balance: what the partition is the best by; None for one that was given.
        bottleneck: cost of its costliest stage.
    """
    order, machine = SCHEDULES[job.schedule], job.costs.machine
    spans = [job.sums.span(*ends) for ends in pairwise(bounds)]
    paces = [job.costs.pace(stage, layers) for stage, layers in enumerate(spans)]
    lowered = lower(order, paces, job.costs.microbatches, order.minibatches(job.stages))
    timeline = run(lowered.tasks)
    step = full_step(lowered, timeline) if machine else None
    names = [layer.name for layer in job.network.layers]
    found = [
        _stage(job, stage, tuple(names[start:end]), (layers, works, step))
        for stage, (layers, works, (start, end)) in enumerate(
            zip(spans, ran(lowered, timeline), pairwise(bounds), strict=True)
        )
    ]
    return Pipeline(
        graph=job.network,
        schedule=job.schedule,
        microbatches=job.costs.microbatches,
        balance=balance,
        bottleneck=bottleneck,
        optimizer=job.costs.optimizer,
        machine=machine,
        stages=tuple(found),
        time_s=None if step is None else step.makespan,
        data_parallel=data_parallel(job),
        timeline=timeline,
    )


def _stage(
    job: Job, stage: int, layers: tuple[str, ...], done: tuple[Span, Sequence[Work], Timeline | None]
) -> Stage:
    """What one stage is, and was seen to do."""
    amounts, works, step = done
    parts, kept = job.costs.microbatches, in_flight(works)
    busy, idle = (None, None) if step is None else _busy_and_idle(step, stage_name(stage))
    return Stage(
        layers=layers,
        macs=parts * amounts.macs,
        memory=held(amounts, kept, job.costs.optimizer),
        in_flight=kept,
        staleness=staleness(works, parts),
        sent_bytes=parts * amounts.sent,
        returned_bytes=parts * amounts.returned,
        busy_s=busy,
        idle_s=idle,
    )


def _busy_and_idle(step: Timeline, name: str) -> tuple[float, float]:
    """Seconds that a stage worked in a step, and waited; what is left of rounding is no waiting."""
    busy = step.busy.get(name, 0.0)
    idle = step.makespan - busy
    return busy, idle if idle > ROUNDING * step.makespan else 0.0


def data_parallel(job: Job) -> DataParallel:
    """As many devices as stages, each with the whole network and a whole mini-batch of its own.

    Each keeps the outputs of all layers once; gradients are added up as hypar's algebra has it, each device
    receiving 2 (k - 1) / k of them.
    """
    whole = job.sums.span(0, len(job.network.layers))
    own = whole._replace(activations=job.costs.microbatches * whole.activations)
    return DataParallel(
        devices=job.stages,
        memory=held(own, 1, job.costs.optimizer),
        moved_bytes=2 * (job.stages - 1) * whole.gradients,
        time_s=_step_seconds(job),
    )


def _step_seconds(job: Job) -> float | None:
    """Seconds of a step in which each device takes a mini-batch; None where the machine has no such array."""
    machine, ways = job.costs.machine, job.stages
    if machine is None:
        return None
    with suppress(HardwareError, OptionError):
        nodes = job.network.with_batch(ways * job.network.batch).contracted
        chosen = () if ways == 1 else (cut("batch", ways),)
        setting = Setting(
            machine=machine,
            array=() if ways == 1 else (ways,),
            element_bytes=job.network.element_bytes,
            optimizer=job.costs.optimizer,
        )
        return totals(nodes, [chosen] * len(nodes.layers), setting).time_s
    return None
