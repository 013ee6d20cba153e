"""Pipelines of single devices: a short name for plans in stages whose layers are not cut."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hypar.errors import HardwareError, OptionError
from hypar.planning.planner import plan_model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hypar.machine.heterogeneous import HeterogeneousMachine
    from hypar.machine.machine import Machine
    from hypar.network.graph import LayerGraph
    from hypar.plan.plan import Plan
    from hypar.plan.score import Score

STAGES, SCHEDULE = 4, "layer-block"
"""The number of stages and their schedule if none are requested."""


def pipeline_model(
    model: LayerGraph | str | Path,
    *,
    stages: int | None = None,
    starts: str | Sequence[str] | None = None,
    batch: int | None = None,
    schedule: str = SCHEDULE,
    microbatches: int | None = None,
    parts: int | None = None,
    balance: str | None = None,
    hardware: Machine | HeterogeneousMachine | str | Path | None = None,
    optimizer: str = "sgd",
    convention: str | None = None,
) -> Plan:
    """Plan a network in stages of consecutive layers, one device each: ``plan_model`` with ``stages`` and ``levels=0``.

    Args:
        model: a network, the path of a model file, or a bare name as ``vgg16``.
        stages: number of stages; 4 if neither they nor starts are given.
        starts: names of the stages' first layers instead of the best partition, as ``conv1,conv3,fc1``.
        batch: samples in a mini-batch, if not the model's own number.
        schedule: ``layer-block``, ``gpipe``, ``1f1b`` or ``interleaved``.
        microbatches: microbatches in a mini-batch; by default as many as stages, or the next smaller divisor of it.
        parts: number of parts of the network that each stage works for, in schedule ``interleaved``; 2 if not given.
        balance: quantity to minimise in the costliest stage: ``time``, as by default, ``memory``, ``traffic`` or ``macs``.
        hardware: a machine, the path of a hardware file, or a bare name; it is needed.
        optimizer: ``sgd``, ``momentum`` or ``adam``.
        convention: how bytes between stages are counted; ``moved`` if not given.

    Raises:
        InputError: the request cannot be met, or no stages fit a device's memory.
        TableLimitError: the network has too many layers for a search over all partitions.

    Examples:
        >>> plan = pipeline_model("vgg-f", starts="conv1,conv2,conv3,fc6", batch=32, hardware="p100-4x4")
        >>> [(stage.in_flight, stage.staleness) for stage in plan.stages.stages]
        [(8, 7), (6, 5), (4, 3), (2, 1)]
    """
    return plan_model(
        model,
        levels=0,
        stages=STAGES if stages is None and starts is None else stages,
        starts=starts,
        batch=batch,
        schedule=schedule,
        microbatches=microbatches,
        parts=parts,
        balance=balance,
        hardware=hardware,
        optimizer=optimizer,
        convention=convention,
    )


def data_parallel_score(
    plan: Plan, graph: LayerGraph, machine: Machine | HeterogeneousMachine
) -> Score | None:
    """Return the score of data parallelism on as many devices as stages, each with a mini-batch of its own.

    Args:
        plan: a plan in stages of one device each.
        graph: the network.
        machine: the machine.

    Returns:
        The score, or None for one device, and if the machine has no such array.
    """
    devices = plan.num_devices
    if devices == 1 or plan.score is None:
        return None
    with suppress(HardwareError, OptionError):
        return plan_model(
            graph,
            batch=devices * plan.model.batch,
            array=[devices],
            strategy="dp",
            hardware=machine,
            optimizer=plan.score.optimizer,
            convention=plan.score.convention,
        ).score
    return None
