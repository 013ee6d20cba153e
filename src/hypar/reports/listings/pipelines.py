"""Listings of pipelines: their stages, and data parallelism on the same devices."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hypar.reports.listings.base import make_table
from hypar.reports.prose import Note
from hypar.schedule.pipeline import STEPS
from hypar.schedule.pipeline_orders import SCHEDULES
from hypar.sharding.conventions import PAPER
from hypar.studies.pipeline.costs import BALANCES
from hypar.studies.pipeline.starts import places
from hypar.timeline import Timeline
from hypar.units import amount, exact_number, format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from hypar.reports.columns import Sheet
    from hypar.studies.pipeline.result import DataParallel, Pipeline, Stage


def pipeline_data(found: Pipeline) -> dict[str, Any]:
    """Return a pipeline as plain data, without its timeline."""
    machine, graph = found.machine, found.graph
    capacity = None if machine is None or machine.memory_bytes is None else exact_number(machine.memory_bytes)
    unit = None if found.balance is None else BALANCES[found.balance]
    return {
        "model": {"name": graph.name, "digest": graph.digest, "batch": graph.batch},
        "schedule": found.schedule,
        "convention": PAPER,
        "microbatches": found.microbatches,
        "balance": found.balance,
        "bottleneck": None
        if found.bottleneck is None
        else {"value": exact_number(found.bottleneck), "unit": unit},
        "hardware": machine and machine.name,
        "hardware_changes": dict(machine.changes) if machine else {},
        "capacity_bytes": capacity,
        "optimizer": found.optimizer,
        "time_s": found.time_s,
        "samples_per_s": found.samples_per_s,
        "memory_bytes": found.memory_bytes,
        "stages": [
            {"stage": number, **asdict(stage), "memory_bytes": stage.memory_bytes}
            for number, stage in enumerate(found.stages, 1)
        ],
        "data_parallel": {
            **asdict(found.data_parallel),
            "memory_bytes": found.data_parallel.memory_bytes,
            "samples_per_s": found.data_parallel_samples_per_s,
        },
    }


def pipeline_table(found: Pipeline) -> Sheet:
    """Return one row for each stage."""
    times = ["busy", "idle"] if found.machine else []
    heads = ["stage", "layers", "weights", "gradients", "in flight", "activations", "received", "memory", "sends",
             "returns", "staleness", *times]  # fmt: skip
    table = make_table(heads, "llr")
    for number, stage in enumerate(found.stages, 1):
        table.add_row(str(number), _layers(stage), *_cells(stage))
    return table


def _layers(stage: Stage) -> str:
    ends = dict.fromkeys((stage.layers[0], stage.layers[-1]))
    return " to ".join(ends)


def _cells(stage: Stage) -> list[str]:
    """Return a row in the order of the heads."""
    held = stage.memory
    times = [format_seconds(time) for time in (stage.busy_s, stage.idle_s) if time is not None]
    return [
        format_bytes(held["weights"]),
        format_bytes(held["gradients"]),
        str(stage.in_flight),
        format_bytes(held["activations"]),
        format_bytes(held["received"]),
        format_bytes(stage.memory_bytes),
        format_bytes(stage.sent_bytes),
        format_bytes(stage.returned_bytes),
        str(stage.staleness),
        *times,
    ]


def pipeline_head(found: Pipeline) -> str:
    """Describe the network, the number of stages and the machine."""
    machine = found.machine
    changes = [f"{name}={value}" for name, value in machine.changes.items()] if machine else []
    place = f" on {' '.join([machine.name, *changes])}" if machine else ""
    microbatches = f", {found.microbatches} microbatches" if SCHEDULES[found.schedule].flushes else ""
    count = len(found.stages)
    return f"{found.graph.name}, batch {found.graph.batch}{microbatches}, {count} stage{'s' * (count > 1)}{place}"


def pipeline_notes(found: Pipeline) -> list[Note]:
    """Describe the schedule, the partition's optimality, the totals, and data parallelism on as many devices."""
    fullest = max(stage.memory_bytes for stage in found.stages)
    sent = sum(stage.sent_bytes + stage.returned_bytes for stage in found.stages)
    memory = f"{format_bytes(found.memory_bytes)} held in all, {format_bytes(fullest)} in the fullest stage"
    lines = [
        Note("order", f"{found.schedule}: {SCHEDULES[found.schedule].summary}"),
        Note("claim", _balance_line(found)),
        Note("memory", f"{memory} ({found.optimizer}); {format_bytes(sent)} sent a mini-batch, both ways"),
    ]
    if found.time_s is not None:
        busy = sum(stage.busy_s or 0.0 for stage in found.stages)
        fraction = busy / (len(found.stages) * found.time_s) if found.time_s else 0.0
        rate = f"{format_seconds(found.time_s)} a mini-batch{_rate(found.samples_per_s)}"
        lines.insert(0, Note("time", f"{rate}; stages busy {fraction:.1%}"))
    against = _data_parallel_line(found.data_parallel, found.data_parallel_samples_per_s)
    return [
        *lines,
        Note("against", against),
        Note("counted", "by paper: what passes a stage goes through it"),
    ]


def _balance_line(found: Pipeline) -> str:
    """State the quantity that the partition minimises."""
    if found.balance is None or found.bottleneck is None:
        return "starts as given"
    layers, count = len(places(found.graph)) - 1, len(found.stages)
    stages = "1 stage" if count == 1 else f"{count} stages"
    fit = " that fit" if found.machine and found.machine.memory_bytes is not None else ""
    least = amount(found.bottleneck, BALANCES[found.balance])
    return (
        f"balanced by {found.balance}: {least} in the costliest stage, the least of all partitions of {layers} layers"
        f" into {stages}{fit}"
    )


def _data_parallel_line(own: DataParallel, rate: float | None) -> str:
    """Describe the memory and the communication of as many devices, each with the whole network."""
    held = f"{format_bytes(own.devices * own.memory_bytes)} held in all, {format_bytes(own.memory_bytes)} on each"
    moved = f"{format_bytes(own.moved_bytes)} of communication a step{_rate(rate)}"
    devices = f"{own.devices} device{'s' * (own.devices > 1)}"
    return f"data parallelism on {devices}, a mini-batch each: {held}; {moved}"


def _rate(samples_per_s: float | None) -> str:
    return "" if samples_per_s is None else f", {format_count(samples_per_s)} samples/s"


def stages_timeline(timeline: Timeline) -> Timeline:
    """Return the timeline without the ends of steps, which take no time and belong to no stage."""
    shown = [index for index, task in enumerate(timeline.tasks) if task.resource != STEPS]
    return Timeline(
        tasks=tuple(timeline.tasks[index] for index in shown),
        starts=tuple(timeline.starts[index] for index in shown),
        ends=tuple(timeline.ends[index] for index in shown),
        held_by=(None,) * len(shown),
    )
