"""A step in documents: its timeline, its seconds, bytes and joules by kind, level and layer, and its memory over time."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Figure, Note, Span, Table, Timeline
from hypar.reports.words import parts_of
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.units import amount, format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.studies.step import DeviceMemory, StepRows, StepTask
    from hypar.studies.step import Part as LayerPart

LONGEST = 10
"""The number of tasks in the table of the longest."""

NEAR = 1.5
"""A chart of memory shows the capacity if it is at most so many times the peak."""


def rows_of(plan: Plan) -> dict[str, str]:
    """Return the name of the row of a plan that each layer is in."""
    return {layer: part.title for part in parts_of(plan) for layer in part.layers}


def step_timeline(rows: StepRows, row_of: Mapping[str, str], title: str = "") -> Timeline:
    """Return when each task runs: a track for each row of layers, of several device groups for each row on each.

    Of stages there is a track for each stage, with the microbatches' numbers on their forward and backward phases, and below
    them what the stage receives.

    Args:
        rows: the step.
        row_of: the name of the row that each layer is in, as the rows of a grid.
        title: what it shows.
    """
    if rows.ran.stages is not None:
        spans = [span for number in range(len(rows.groups)) for span in _stage_spans(rows, number)]
        return Timeline(title=title, tracks=rows.groups, spans=tuple(spans))
    several = rows.groups != (WHOLE_ARRAY,)

    def track(layer: str, number: int) -> str:
        return f"{row_of[layer]} ({rows.groups[number]})" if several else row_of[layer]

    tracks = [track(layer, number) for layer in row_of for number in range(len(rows.groups))]
    spans = [
        Span(track(task.layer, number), task.start_s, task.end_s, task.kind, "", task.critical)
        for task in rows.tasks
        for number in task.lanes
        if task.seconds
    ]
    return Timeline(title=title, tracks=tuple(dict.fromkeys(tracks)), spans=tuple(spans))


def _stage_spans(rows: StepRows, number: int) -> Iterator[Span]:
    """Yield the phases of microbatches on a stage, and what it receives meanwhile."""
    track = rows.groups[number]
    own = [task for task in rows.tasks if number in task.lanes and task.seconds]
    work = sorted((task for task in own if task.kind != "communication"), key=lambda task: task.start_s)
    for (item, kind), run in groupby(work, lambda task: (task.item, _direction(task))):
        tasks = [*run]
        label = "" if item is None or kind == "update" else str(item + 1)
        yield Span(track, tasks[0].start_s, tasks[-1].end_s, kind, label)
    for task in own:
        if task.kind == "communication":
            yield Span(track, task.start_s, task.end_s, task.kind, "", critical=False)


def _direction(task: StepTask) -> str:
    return task.kind if task.kind in {"forward", "update"} else "backward"


def table_of(
    units: Mapping[str, str], rows: Iterable[Sequence[Any]], title: str = "", total: Sequence[Any] = ()
) -> Table:
    """Return a table of values in the order of its columns, which are given as the unit by the head."""
    columns = tuple(
        Column(key=head, head="" if unit == "bar" else head, unit=unit, prose=head == "source")
        for head, unit in units.items()
    )
    sums = dict(zip(units, total, strict=True)) if total else None
    return Table(columns, [dict(zip(units, row, strict=True)) for row in rows], sums, title)


def kinds_figure(score: Score) -> Figure:
    """Return the seconds of each kind of work: of the critical path where kinds overlap."""
    overlaps = score.overlapped_s or score.groups
    amounts = score.critical if overlaps else score.time
    where = "on the critical path" if overlaps else "one after the other"
    return _shares(f"Time of a step by kind of work, {where}", amounts, "seconds")


def energy_figure(score: Score) -> Figure | Note:
    """Return the joules of a step by place, or a note that they are not known."""
    if score.energy is None:
        return Note("energy", "not known: the machine's file gives none")
    return _shares("Energy of a step by place, of all devices", score.energy, "joules")


def _shares(title: str, amounts: Mapping[str, float], unit: str) -> Figure:
    """Return one stacked bar, with the number and the share of each part in the legend."""
    whole = math.fsum(amounts.values()) or 1.0
    series = {f"{kind} {amount(own, unit)}, {own / whole:.1%}": [own] for kind, own in amounts.items() if own}
    return Figure(kind="stack", title=title, x=["a step"], series=series or {"nothing": [0.0]}, unit=unit)


def levels_table(rows: StepRows) -> Table:
    """Return the bytes, the seconds on the critical path and the joules of the transfers of each level."""
    energy = rows.energy or {}
    values = (
        (
            level.name,
            level.num_bytes,
            (0.0, level.num_bytes),
            level.critical_receives_s,
            energy.get(level.name),
        )
        for level in rows.levels
    )
    units = {"level": "text", "received": "bytes", "bar": "bar", "time": "seconds", "energy": "joules"}
    return table_of(units, values, "What devices receive, by level from the outermost")


def layers_table(rows: StepRows, row_of: Mapping[str, str]) -> Table:
    """Return the bytes, the seconds on the critical path, the joules and the memory of each row of layers."""
    parts, energy = {part.name: part for part in rows.layers}, rows.energy
    staged = rows.ran.stages is not None

    def row(name: str, layers: Sequence[str]) -> tuple[Any, ...]:
        received, computes, receives, weights, kept = (
            math.fsum(own)
            for own in zip(
                *((*_spent(parts[layer]), *rows.layer_memory[layer]) for layer in layers), strict=True
            )
        )
        joules = None if energy is None else math.fsum(energy[layer] for layer in layers)
        spent = computes + receives, (computes, receives)
        return name, received, *spent, joules, weights, None if staged else kept

    units = {"layer": "text", "received": "bytes", "time": "seconds", "bar": "bar", "energy": "joules",
             "weights, gradients, state": "bytes", "activations kept": "bytes"}  # fmt: skip
    grouped = {name: [layer for layer in row_of if row_of[layer] == name] for name in row_of.values()}
    name, *sums = row("all layers", [*row_of])
    return table_of(units, [row(*own) for own in grouped.items()], total=(name, *sums[:2], None, *sums[3:]))


def _spent(part: LayerPart) -> tuple[float, float, float]:
    return part.num_bytes, part.critical_computes_s, part.critical_receives_s


def longest_table(rows: StepRows) -> Table:
    """Return the longest tasks."""
    tasks = sorted(rows.tasks, key=lambda task: (-task.seconds, task.start_s))[:LONGEST]
    units = {
        "task": "text",
        "on": "text",
        "starts": "seconds",
        "takes": "seconds",
        "receives": "bytes",
        "critical": "text",
    }
    return table_of(
        units,
        (
            (
                task.name,
                task.resource,
                task.start_s,
                task.seconds,
                task.num_bytes,
                "yes" if task.critical else "no",
            )
            for task in tasks
        ),
    )


def memory_parts(rows: StepRows) -> Iterator[Figure | Note | Table]:
    """Yield the peak of a device of each group against its capacity, the bytes over the step, and the items of the peak."""
    score = rows.ran.score
    for held in rows.memory:
        name = "a device" if held.group == WHOLE_ARRAY else f"a device of {held.group}"
        peak, capacity = math.fsum(held.held.values()), held.capacity_bytes
        of = "; the machine's file gives no capacity"
        if capacity:
            fits = "fits" if peak <= capacity else "does not fit"
            of = f", {peak / capacity:.1%} of {format_bytes(capacity)}: {fits}"
        yield Note("peak", f"{name} holds {format_bytes(peak)}{of}")
        if held.course:
            yield _over_time(held, name, peak, score.time_s)
    units = {"item": "text", "held": "bytes"}
    title = f"What {'the fullest' if score.groups else 'each'} device holds at its peak"
    yield table_of(units, score.memory.items(), title, ("together", score.memory_bytes))


def _over_time(memory: DeviceMemory, name: str, peak: float, end: float) -> Figure:
    """Return the bytes over the step as a line that stays level between changes."""
    times, held, last = list[float](), list[float](), 0.0
    for time, num_bytes in memory.course:
        times, held, last = [*times, time, time], [*held, last, num_bytes], num_bytes
    times, held = [*times[1:], end], [*held[1:], last]
    top, capacity = times[held.index(max(held))], memory.capacity_bytes
    return Figure(
        kind="area",
        title=f"Memory of {name} over a step, up to {format_bytes(peak)} at {format_seconds(top)}",
        x=times,
        series={"held all along": [memory.always_bytes] * len(times), "activations and errors": held},
        unit="bytes",
        x_unit="seconds",
        limit=capacity if capacity and capacity <= NEAR * peak else None,
    )
