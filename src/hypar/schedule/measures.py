"""What can be measured of a pipeline that has run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypar.schedule.pipeline import STEPS
from hypar.timeline import Timeline

if TYPE_CHECKING:
    from hypar.schedule.orders import Work
    from hypar.schedule.pipeline import Lowered


def ran(lowered: Lowered, timeline: Timeline) -> list[list[Work]]:
    """The work of each stage, in the order in which it was done."""
    found: dict[int, list[Work]] = {}
    for index in sorted(range(len(timeline.tasks)), key=timeline.starts.__getitem__):
        _, stage, work = lowered.origins[index]
        if work is not None:
            found.setdefault(stage, []).append(work)
    return [found[stage] for stage in sorted(found)]


def step_ends(timeline: Timeline) -> list[float]:
    """When each step ended."""
    return [end for end, task in zip(timeline.ends, timeline.tasks, strict=True) if task.resource == STEPS]


def full_step(lowered: Lowered, timeline: Timeline) -> Timeline:
    """The first step in which every stage has its full work, from 0: one mini-batch is through."""
    counts: dict[int, int] = {}
    for step, _, work in lowered.origins:
        counts[step] = counts.get(step, 0) + (work is not None)
    most = max(counts, key=counts.__getitem__)
    began = [0.0, *step_ends(timeline)][most]
    kept = [index for index, (step, stage, _) in enumerate(lowered.origins) if step == most and stage >= 0]
    place: dict[int | None, int] = {index: new for new, index in enumerate(kept)}
    return Timeline(
        tasks=tuple(timeline.tasks[index] for index in kept),
        starts=tuple(timeline.starts[index] - began for index in kept),
        ends=tuple(timeline.ends[index] - began for index in kept),
        held_by=tuple(place.get(timeline.held_by[index]) for index in kept),
    )
