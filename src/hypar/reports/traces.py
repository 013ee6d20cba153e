"""Traces of a step for Perfetto: a track for each layer, and in a second process one for each resource.

Perfetto colours a slice by its name alone, so slices are named by their phase, and transfers ``receives``.

Source: Trace Event Format (Google, 2016), complete events ``X`` and metadata events ``M``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypar.reports.formats.base import grid, level_names
from hypar.schedule.totals import level_name
from hypar.sharding.tree import WHOLE_ARRAY
from hypar.studies.report.tasks import lane_names, step_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hypar.planning.replay import ScoredStep
    from hypar.studies.report.tasks import StepTask

WORK, RESOURCES = 1, 2
"""The numbers of the two processes."""

Track = tuple[str, list["StepTask"]]
"""The name of a track, and its tasks, none of which overlap."""


def step_trace(ran: ScoredStep) -> str:
    """Return the JSON of a step that was run, in microseconds."""
    tasks = step_tasks(ran)
    choices = _choices(ran)
    work = [*_work_tracks(ran, tasks)]
    by_resource: dict[str, list[StepTask]] = {}
    for task in tasks:
        by_resource.setdefault(task.resource, []).append(task)
    events = [
        *_process(WORK, "layers", work, choices),
        *_process(RESOURCES, "resources", [*by_resource.items()], choices),
    ]
    lines = ",\n".join(json.dumps(event) for event in events)
    return f'{{"displayTimeUnit": "ms", "traceEvents": [\n{lines}\n]}}\n'


def _choices(ran: ScoredStep) -> dict[str, str]:
    """Return each layer's choices in words, level by level."""
    names = level_names(ran.plan)
    return {
        layer: ", ".join(f"{name} {word}" for name, word in zip(names, words, strict=True))
        for layer, words, _, _ in grid(ran.plan)
    }


def _work_tracks(ran: ScoredStep, tasks: Sequence[StepTask]) -> Iterator[Track]:
    """Yield the tracks of layers in their order, one for each group of devices or stage that works on them."""
    lanes = lane_names(ran)
    places: dict[tuple[str, int], list[StepTask]] = {
        (layer, number): [] for layer in ran.plan.layers for number in range(len(lanes))
    }
    for task in tasks:
        for number in task.lanes:
            places[task.layer, number].append(task)
    for (name, number), own in places.items():
        for track in _apart(own):
            yield name if lanes == (WHOLE_ARRAY,) else f"{name} ({lanes[number]})", track


def _apart(tasks: Sequence[StepTask]) -> list[list[StepTask]]:
    """Divide tasks into as few lists as there are tasks at once, so that none in a list overlap."""
    found: list[list[StepTask]] = []
    for task in sorted(tasks, key=lambda task: (task.start_s, task.end_s)):
        free = next((track for track in found if track[-1].end_s <= task.start_s), None)
        if free is None:
            found.append([task])
        else:
            free.append(task)
    return found


def _process(
    number: int, name: str, tracks: Sequence[Track], choices: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield the names of a process and of its tracks, and its slices."""
    named = {"ph": "M", "pid": number, "name": "process_name", "args": {"name": name}}
    yield named
    yield {**named, "name": "process_sort_index", "args": {"sort_index": number}}
    for track, (title, tasks) in enumerate(tracks):
        place = {"pid": number, "tid": track}
        yield {"ph": "M", **place, "name": "thread_name", "args": {"name": title}}
        yield {"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": track}}
        for task in tasks:
            yield {
                "ph": "X",
                **place,
                "name": slice_name(task),
                "cat": task.kind,
                "ts": task.start_s * 1e6,
                "dur": task.seconds * 1e6,
                "args": _arguments(task, choices),
            }


def slice_name(task: StepTask) -> str:
    """Return the name of a slice, which decides its colour."""
    return "receives" if task.kind == "communication" else task.kind


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
