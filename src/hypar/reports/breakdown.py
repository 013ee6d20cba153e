"""A step in documents: its timeline, its seconds, bytes and joules by kind, level and layer, and its memory over time."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hypar.document import Column, Figure, Note, Span, Table, Timeline
from hypar.plan.splits import WHOLE_ARRAY
from hypar.reports.words import parts_of
from hypar.units import amount, format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hypar.plan.plan import Plan
    from hypar.plan.score import Score
    from hypar.studies.step import DeviceMemory, StepRows, StepTask

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


def kinds_figure(score: Score) -> Figure:
    """Return the seconds of each kind of work: of the critical path where kinds overlap."""
    overlaps = score.overlapped_s or score.groups
    amounts = score.critical if overlaps else score.time
    where = "on the critical path" if overlaps else "one after the other"
    return _shares("a step", f"Time of a step by kind of work, {where}", amounts, "seconds")


def energy_figure(score: Score) -> Figure | Note:
    """Return the joules of a step by place, or a note that they are not known."""
    if score.energy is None:
        return Note("energy", "not known: the machine's file gives none")
    return _shares("a step", "Energy of a step by place, of all devices", score.energy, "joules")


def _shares(name: str, title: str, amounts: Mapping[str, float], unit: str) -> Figure:
    """Return one stacked bar, with the number and the share of each part in the legend."""
    whole = math.fsum(amounts.values()) or 1.0
    series = {f"{kind} {amount(own, unit)}, {own / whole:.1%}": [own] for kind, own in amounts.items() if own}
    return Figure(kind="stack", title=title, x=[name], series=series or {name: [0.0]}, unit=unit)


def levels_table(rows: StepRows) -> Table:
    """Return the bytes, the seconds on the critical path and the joules of the transfers of each level."""
    energy = rows.energy
    return Table(
        title="What devices receive, by level from the outermost",
        columns=(
            Column(key="level"),
            Column(key="received", unit="bytes"),
            Column(key="bar", head="", unit="bar"),
            Column(key="time", unit="seconds"),
            Column(key="energy", unit="joules"),
        ),
        rows=[
            {
                "level": level.name,
                "received": level.num_bytes,
                "bar": (0.0, level.num_bytes),
                "time": level.critical_receives_s,
                "energy": None if energy is None else energy[level.name],
            }
            for level in rows.levels
        ],
    )


def layers_table(rows: StepRows, row_of: Mapping[str, str]) -> Table:
    """Return the bytes, seconds, joules and memory of each row of layers."""
    parts = {part.name: part for part in rows.layers}
    names = {
        name: [layer for layer in row_of if row_of[layer] == name] for name in dict.fromkeys(row_of.values())
    }
    kept = () if rows.ran.stages else (Column(key="kept", head="activations kept", unit="bytes"),)

    def row(name: str, layers: Iterable[str]) -> dict[str, Any]:
        own = [*layers]
        spent = [math.fsum(getattr(parts[layer], key) for layer in own) for key in _SECONDS]
        memory = [rows.layer_memory[layer] for layer in own]
        return {
            "layer": name,
            "received": math.fsum(parts[layer].num_bytes for layer in own),
            "time": math.fsum(spent),
            "bar": tuple(spent),
            "energy": None if rows.energy is None else math.fsum(rows.energy[layer] for layer in own),
            "weights": math.fsum(held for held, _ in memory),
            "kept": math.fsum(held for _, held in memory),
        }

    return Table(
        columns=(
            Column(key="layer"),
            Column(key="received", unit="bytes"),
            Column(key="time", unit="seconds"),
            Column(key="bar", head="computes, receives", unit="bar"),
            Column(key="energy", unit="joules"),
            Column(key="weights", head="weights, gradients, state", unit="bytes"),
            *kept,
        ),
        rows=[row(name, layers) for name, layers in names.items()],
        total=row("all layers", row_of) | {"bar": None},
    )


_SECONDS = ("critical_computes_s", "critical_receives_s")


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
    return Table(
        columns=tuple(Column(key=key, unit=unit) for key, unit in units.items()),
        rows=[
            {
                "task": task.name,
                "on": task.resource,
                "starts": task.start_s,
                "takes": task.seconds,
                "receives": task.num_bytes,
                "critical": "yes" if task.critical else "no",
            }
            for task in tasks
        ],
    )


def memory_parts(rows: StepRows) -> Iterator[Figure | Note | Table]:
    """Yield the peak of a device of each group against its capacity, the bytes over the step, and the items of the peak."""
    for held in rows.memory:
        name = "a device" if held.group == WHOLE_ARRAY else f"a device of {held.group}"
        yield Note("peak", f"{name} holds {_against(held)}")
        if held.course:
            yield _over_time(held, name, rows.ran.score.time_s)
    score = rows.ran.score
    yield Table(
        title=f"What {'the fullest' if score.groups else 'each'} device holds at its peak",
        columns=(
            Column(key="item"),
            Column(key="held", unit="bytes"),
        ),
        rows=[{"item": item, "held": own} for item, own in score.memory.items()],
        total={"item": "together", "held": score.memory_bytes},
    )


def _against(memory: DeviceMemory) -> str:
    peak = math.fsum(memory.held.values())
    if not memory.capacity_bytes:
        return f"{format_bytes(peak)}; the machine's file gives no capacity"
    share = peak / memory.capacity_bytes
    fits = "fits" if share <= 1 else "does not fit"
    return f"{format_bytes(peak)}, {share:.1%} of {format_bytes(memory.capacity_bytes)}: {fits}"


def _over_time(memory: DeviceMemory, name: str, step_s: float) -> Figure:
    """Return the bytes over the step, in steps."""
    capacity, peak = memory.capacity_bytes, math.fsum(memory.held.values())
    times, held = _stairs(memory.course, step_s)
    top = max(memory.course, key=lambda point: point[1])
    return Figure(
        kind="area",
        title=f"Memory of {name} over a step, up to {format_bytes(peak)} at {format_seconds(top[0])}",
        x=times,
        series={"held all along": [memory.always_bytes] * len(times), "activations and errors": held},
        unit="bytes",
        x_unit="seconds",
        limit=capacity if capacity and capacity <= NEAR * peak else None,
    )


def _stairs(course: Sequence[tuple[float, float]], end: float) -> tuple[list[float], list[float]]:
    """Return a course as places and heights of a line, which stays level between changes."""
    times, held, last = list[float](), list[float](), 0.0
    for time, num_bytes in course:
        times += [time, time]
        held += [last, num_bytes]
        last = num_bytes
    return [*times[1:], end], [*held[1:], last]
