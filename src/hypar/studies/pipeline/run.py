"""Simulation of a pipeline's stages, and of data parallelism on the same devices."""

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
"""The smallest fraction of a step that counts as time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A network to be divided into stages and run.

    Attributes:
        network: the network.
        schedule: one of ``SCHEDULES``.
        sums: running sums over its layers, for one microbatch.
        costs: the costs of stages.
    """

    network: LayerGraph
    schedule: str
    sums: LayerSums
    costs: StageCosts

    @property
    def stages(self) -> int:
        """Return the number of stages."""
        return len(self.costs.in_flight)


def run_job(
    job: Job, bounds: Sequence[int], balance: str | None = None, bottleneck: float | None = None
) -> Pipeline:
    """Run the pipeline of a partition; every number of its schedule is measured on the timeline.

    Args:
        job: the network and its schedule.
        bounds: index of the first layer of each stage, and the number of layers.
        balance: the quantity that the partition minimises; None for given starts.
        bottleneck: cost of the costliest stage.
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
    """Describe one stage, with the numbers measured on the timeline."""
    amounts, works, step = done
    microbatches, kept = job.costs.microbatches, in_flight(works)
    busy, idle = (None, None) if step is None else _busy_and_idle(step, stage_name(stage))
    return Stage(
        layers=layers,
        macs=microbatches * amounts.macs,
        memory=held(amounts, kept, job.costs.optimizer),
        in_flight=kept,
        staleness=staleness(works, microbatches),
        sent_bytes=microbatches * amounts.sent,
        returned_bytes=microbatches * amounts.returned,
        busy_s=busy,
        idle_s=idle,
    )


def _busy_and_idle(step: Timeline, name: str) -> tuple[float, float]:
    """Return the seconds that a stage worked and waited in a step; waiting within rounding is zero."""
    busy = step.busy.get(name, 0.0)
    idle = step.makespan - busy
    return busy, idle if idle > ROUNDING * step.makespan else 0.0


def data_parallel(job: Job) -> DataParallel:
    """Return data parallelism on as many devices as stages, each with the whole network and a mini-batch of its own.

    Each keeps the outputs of all layers once. Gradients are added up as in hypar's algebra, each device
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
    """Return the seconds of a step with one mini-batch per device; None if the machine has no such array."""
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
