"""The trace of a step for Perfetto: a track for each layer, and in a second process one for each resource.

Perfetto colours a slice by its name alone, so slices are named by their phase, and transfers ``receives``.

Source: Trace Event Format (Google, 2016), complete events ``X`` and metadata events ``M``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypar.reports.renderers import csv_text
from hypar.reports.words import cells_of, levels_of
from hypar.schedule.totals import level_name
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.studies.step import StepRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.plan.plan import Plan
    from hypar.planning.replay import ScoredStep
    from hypar.studies.step import StepTask
    from hypar.timeline import Timeline


def step_trace(ran: ScoredStep) -> str:
    """Return the JSON of a step that was run, in microseconds."""
    rows = StepRows(ran=ran)
    choices = {layer: _choices(ran.plan, layer) for layer in ran.plan.layers}
    places = {_place(layer, group): list["StepTask"]() for layer in choices for group in rows.groups}
    resources = {task.resource: list["StepTask"]() for task in rows.tasks}
    for task in rows.tasks:
        resources[task.resource].append(task)
        for lane in task.lanes:
            places[_place(task.layer, rows.groups[lane])].append(task)
    events = [*_process(1, "layers", places, choices), *_process(2, "resources", resources, choices)]
    lines = ",\n".join(json.dumps(event) for event in events)
    return f'{{"displayTimeUnit": "ms", "traceEvents": [\n{lines}\n]}}\n'


def timeline_csv(timeline: Timeline) -> str:
    """Return one line for each task: name, kind, resource, start and end in seconds."""
    rows = [
        {"task": task.name, "kind": task.kind, "resource": task.resource, "start_s": start, "end_s": end}
        for task, start, end in zip(timeline.tasks, timeline.starts, timeline.ends, strict=True)
    ]
    return csv_text(rows)


def _place(layer: str, group: str) -> str:
    return layer if group == WHOLE_ARRAY else f"{layer} ({group})"


def _choices(plan: Plan, layer: str) -> str:
    """Return a layer's choices in words, level by level."""
    cells = cells_of(plan)
    named = ((levels_of(split.group, [split.level]), cells(split, layer).text) for split in plan.splits)
    return ", ".join(f"{level} {word}" for level, word in named if word)


def _apart(tasks: Sequence[StepTask]) -> list[list[StepTask]]:
    """Divide tasks into as few lists as there are tasks at once, so that none in a list overlap."""
    found: list[list[StepTask]] = []
    for task in sorted(tasks, key=lambda task: (task.start_s, task.end_s)):
        free = next((track for track in found if track[-1].end_s <= task.start_s), None)
        if free is None:
            found.append(free := [])
        free.append(task)
    return found


def _process(
    number: int, name: str, places: Mapping[str, Sequence[StepTask]], choices: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the names of a process and of its tracks, and its slices."""
    tracks = [(title, track) for title, own in places.items() for track in _apart(own)]
    yield {"ph": "M", "pid": number, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": number, "name": "process_sort_index", "args": {"sort_index": number}}
    for at, (title, tasks) in enumerate(tracks):
        place = {"pid": number, "tid": at}
        yield {"ph": "M", **place, "name": "thread_name", "args": {"name": title}}
        yield {"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": at}}
        for task in tasks:
            name = "receives" if task.kind == "communication" else task.kind
            span = {"cat": task.kind, "ts": task.start_s * 1e6, "dur": task.seconds * 1e6}
            yield {"ph": "X", **place, "name": name, **span, "args": _arguments(task, choices)}


def _arguments(task: StepTask, choices: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a slice; those that a task has not are left out."""
    found = {
        "task": task.name,
        "layer": task.layer,
        "phase": task.phase or None,
        "level": None if task.level is None else level_name(task.level),
        "microbatch": None if task.item is None else task.item + 1,
        "choice": choices.get(task.layer),
        "bytes": task.num_bytes,
        "resource": task.resource,
        "critical": task.critical,
    }
    return {name: value for name, value in found.items() if value is not None}
